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
// part of the rate. What a tenant does not use is surplus, which is lent to the others: first
// come, first served, or by weight. All tenants of a parent are limits of one key and share its
// state.
//
// Remaining counts requests of one token. A larger request takes all its tokens from one place:
// the tenant's own bucket, its credit or the pool. RetryAfter is when the own bucket suffices.
// The state keeps its tokens when tenants, weights and rates change. Tokens of a reservation go
// back to the place that they are from; if tenants have changed since, they become surplus.
type TenantBucket struct {
	Count  int64
	Period time.Duration

	// Burst is the most tokens given at once to all tenants; Count if zero.
	Burst int64

	// Weighted divides surplus by weight among the tenants that borrow. Each has a credit of at
	// most its Burst, so all bursts together are at most half of the parent's. Otherwise
	// surplus is first come, first served.
	Weighted bool

	// Tenants are all tenants, from 1 to 1,000. Their bursts together are at most Burst.
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
	child := slices.IndexFunc(c.Tenants, func(t Tenant) bool { return t.Name == c.Tenant })
	if child < 0 && len(c.Tenants) > 0 {
		return nil, invalid("tenant", strconv.Quote(c.Tenant), "the name of one of the tenants")
	}
	p, err := c.parent()
	if err != nil {
		return nil, err
	}
	return p.spec(child)
}

// Limits returns the limits of all Tenants, in their order. The field Tenant is ignored. An
// error wraps ErrInvalid. It takes much less time and memory than NewLimit for each tenant.
func (c TenantBucket) Limits() ([]Limit, error) {
	p, err := c.parent()
	if err != nil {
		return nil, err
	}
	limits := make([]Limit, len(c.Tenants))
	for i := range limits {
		s, err := p.spec(i)
		if err != nil {
			return nil, err
		}
		limits[i] = s.limit()
	}
	return limits, nil
}

const tenantsWord = " tenants " // before the list

// A tenantParent has what the limits of all tenants have in common.
type tenantParent struct {
	config TenantBucket
	rule   *algo.Tenants
	list   string // of the tenants, as text
	hash   uint64 // of list
}

func (c TenantBucket) parent() (*tenantParent, error) {
	if c.Burst == 0 {
		c.Burst = c.Count
	}
	period, err := micros("period", c.Period)
	if err != nil {
		return nil, err
	}
	c.Tenants = slices.Clone(c.Tenants)
	list := make([]string, len(c.Tenants))
	children := make([]algo.Tenant, len(c.Tenants))
	seen := map[string]bool{}
	for i, t := range c.Tenants {
		if t.Name == "" || seen[t.Name] {
			return nil, invalid(fmt.Sprintf("tenants[%d].name", i), strconv.Quote(t.Name), "a name that no other tenant has")
		}
		seen[t.Name] = true
		list[i] = fmt.Sprintf("%s:%d:%d", url.QueryEscape(t.Name), t.Weight, t.Burst)
		children[i] = algo.Tenant{ID: int64(fingerprint(t.Name)>>12) | 1, Weight: t.Weight, Burst: t.Burst}
	}
	p := &tenantParent{config: c, list: strings.Join(list, ",")}
	if p.rule, err = algo.NewTenants(c.Count, period, c.Burst, children, c.Weighted); err != nil {
		return nil, fmt.Errorf("weir: limit: %w: %w", ErrInvalid, err)
	}
	p.hash = fingerprint(p.list)
	return p, nil
}

// spec returns the spec of the tenant with an index.
func (p *tenantParent) spec(i int) (*spec, error) {
	c := p.config
	c.Tenant = c.Tenants[i].Name
	text := fmt.Sprintf(" burst %d", c.Burst) + option(" weighted", c.Weighted) + " tenant " + url.QueryEscape(c.Tenant) + tenantsWord
	s, _, err := rateSpec(c, tenantBucket, c.Count, c.Period, text)
	if err != nil {
		return nil, err
	}
	s.State = tenantBucket // one for all tenants of a key, whatever the list
	s.Scope = c.Tenant + "\x00"
	s.tail, s.ID = p.list, fingerprint(fmt.Sprint(s.text, p.hash))
	s.Rule = p.rule.Child(i)
	return s, nil
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
