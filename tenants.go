package weir

import (
	"fmt"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/floodweir/weir/internal/algo"
)

// A TenantBucket is the limit of one tenant of a parent. The parent admits Burst at once and then
// Count per Period. Each tenant has a guaranteed minimum: its Burst at once, and its weight's
// part of the rate. What a tenant does not use is lent to the others, first come, first served.
// All tenants of a parent are limits of one key and share its state.
//
// Remaining counts requests of one token. A larger request takes all its tokens from one place,
// the tenant's own bucket or what is lent. RetryAfter is when the own bucket suffices. The state
// keeps its tokens when tenants, weights and rates change. It has no reservations.
type TenantBucket struct {
	Count  int64
	Period time.Duration

	// Burst is the most tokens given at once to all tenants; Count if zero.
	Burst int64

	// Tenants are all tenants, from 1 to 256. Their bursts together are at most Burst.
	Tenants []Tenant

	// Tenant is the name of the tenant whose limit this is.
	Tenant string
}

// A Tenant is a child of a TenantBucket.
type Tenant struct {
	// Name identifies the tenant, also when the others change.
	Name string

	// Weight is the tenant's part of the rate: Weight of the sum of all weights.
	Weight int64

	// Burst is the most tokens of its own that the tenant gets at once; never lent.
	Burst int64
}

func (c TenantBucket) compile() (*spec, error) {
	if c.Burst == 0 {
		c.Burst = c.Count
	}
	c.Tenants = slices.Clone(c.Tenants)
	list := make([]string, len(c.Tenants))
	children := make([]algo.Tenant, len(c.Tenants))
	child := -1
	for i, t := range c.Tenants {
		if t.Name == "" || slices.ContainsFunc(c.Tenants[:i], func(o Tenant) bool { return o.Name == t.Name }) {
			return nil, invalid(fmt.Sprintf("tenants[%d].name", i), strconv.Quote(t.Name), "a name that no other tenant has")
		}
		if t.Name == c.Tenant {
			child = i
		}
		list[i] = fmt.Sprintf("%s:%d:%d", url.QueryEscape(t.Name), t.Weight, t.Burst)
		children[i] = algo.Tenant{ID: int64(fingerprint(t.Name)>>12) | 1, Weight: t.Weight, Burst: t.Burst}
	}
	if child < 0 && len(list) > 0 {
		return nil, invalid("tenant", strconv.Quote(c.Tenant), "the name of one of the tenants")
	}
	text := fmt.Sprintf(" burst %d tenant %s tenants %s", c.Burst, url.QueryEscape(c.Tenant), strings.Join(list, ","))
	s, period, err := rateSpec(c, tenantBucket, c.Count, c.Period, text)
	if err != nil {
		return nil, err
	}
	s.State = tenantBucket // one for all tenants of a key, whatever the list
	return s.compiled(algo.NewTenantBucket(c.Count, period, c.Burst, children, child))
}

// parseTenants reads NAME:WEIGHT:BURST,…
func (p *parser) parseTenants(list string) (tenants []Tenant, err error) {
	for _, text := range strings.Split(list, ",") {
		part := strings.Split(text, ":")
		if len(part) != 3 {
			return nil, p.errorf("tenants: want NAME:WEIGHT:BURST, got %.40q", text)
		}
		var t Tenant
		if t.Name, err = url.QueryUnescape(part[0]); err != nil {
			return nil, p.errorf("tenants: want a name as in a URL query, got %.40q", part[0])
		}
		if t.Weight, err = p.number("weight", part[1]); err != nil {
			return nil, err
		}
		if t.Burst, err = p.number("burst", part[2]); err != nil {
			return nil, err
		}
		tenants = append(tenants, t)
	}
	return tenants, nil
}
