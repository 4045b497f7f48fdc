package policy

import (
	"fmt"
	"slices"
	"strings"

	"github.com/floodweir/weir"
	"github.com/floodweir/weir/internal/fault"
)

// maxTenants is the largest number of tenants of a policy.
const maxTenants = 1000

// A Tenant gets a part of the limit of a policy. See Config.Tenants.
type Tenant struct {
	// Key has the values of the tenant, as Override.Key. The keys that match are one tenant.
	Key []string

	// Weight is the tenant's part of the rate: Weight of the sum of all weights.
	Weight int64

	// Burst is the most tokens of its own that the tenant gets at once.
	Burst int64

	// Ceil, if it is not zero, is a second limit of the tenant, which bounds what it gets with
	// borrowed tokens.
	Ceil weir.Limit
}

// tenants has the compiled Config.Tenants of a policy.
type tenants struct {
	limits [][]weir.Limit
	rest   int // the tenant of all keys without one of their own; -1 if there is none
}

// compileTenants checks Config.Tenants, and returns the limits of each tenant. It is nil after an
// error.
func compileTenants(p *Policy, f *faults) *tenants {
	c, made := &p.config, &tenants{rest: -1}
	all := c.Tenants
	if len(all) > maxTenants {
		f.Add("tenants", count(len(all), "tenant"), "want at most %d", maxTenants)
		return nil
	}
	parent, ok := tenantParent(c.Limits, f)
	checkWithTenants(c, f)
	parent.Weighted = c.Weighted
	most, of := parent.Burst, "the burst"
	if parent.Weighted {
		most, of = most/2, "half of the burst"
	}
	p.overrides = map[string]int{}
	children, bursts, weights := make([]weir.Tenant, len(all)), int64(0), int64(0)
	places := map[string]int{}
	for i, t := range all {
		field := fmt.Sprintf("tenants[%d]", i)
		if t.Weight < 1 || t.Weight > 1_000_000 {
			f.Add(field+".weight", fmt.Sprint(t.Weight), "want 1 to 1000000")
			ok = false
		}
		if t.Burst < c.Cost || ok && t.Burst > most-bursts {
			f.Add(field+".burst", fmt.Sprint(t.Burst), "want at least %d, the cost of a request, and at most %d in all tenants, %s of the limit", c.Cost, most, of)
			ok = false
		}
		bursts += t.Burst
		weights += t.Weight
		if !t.Ceil.IsZero() {
			p.compileLimits(f, field+".ceil", []weir.Limit{t.Ceil})
			if t.Ceil.IsConcurrency() {
				f.Add(field+".ceil", fault.Quote(t.Ceil.String()), "want a rate such as 800/s")
			}
		}
		ok = made.key(p, f, field, i, places) && ok
		children[i] = weir.Tenant{Name: tenantName(t.Key), Weight: t.Weight, Burst: t.Burst}
	}
	if made.rest < 0 && ok {
		f.Add("tenants", count(len(all), "tenant"), `want one with the key "*", which is that of all keys without a tenant of their own`)
		return nil
	}
	if !ok {
		return nil
	}
	parent.Tenants = children
	limits, err := parent.Limits()
	if err != nil {
		_, want, _ := strings.Cut(err.Error(), weir.ErrInvalid.Error()+": ")
		f.Add("tenants", count(len(all), "tenant"), "%s", want)
		return nil
	}
	for i, t := range all {
		made.limits = append(made.limits, limits[i:i+1:i+1])
		if !t.Ceil.IsZero() {
			least := float64(parent.Count) / parent.Period.Seconds() * float64(t.Weight) / float64(weights)
			if rate := float64(t.Ceil.Count()) / t.Ceil.Period().Seconds(); rate < least*(1-1e-9) && !t.Ceil.IsConcurrency() {
				f.Add(fmt.Sprintf("tenants[%d].ceil", i), fault.Quote(t.Ceil.String()), "want at least %.6g/s, the guaranteed minimum of the tenant", least)
			}
			made.limits[i] = append(made.limits[i], t.Ceil.Named("ceil "+children[i].Name))
		}
	}
	return made
}

// tenantParent returns the limit that the tenants divide.
func tenantParent(limits []weir.Limit, f *faults) (weir.TenantBucket, bool) {
	const want = "want one smooth token bucket such as 1000/s burst 1000, which the tenants divide"
	if len(limits) != 1 {
		f.Add("limits", count(len(limits), "limit"), "%s", want)
		return weir.TenantBucket{}, false
	}
	b, ok := limits[0].Config().(weir.TokenBucket)
	if !ok || b.Interval || b.Initial != nil || b.Warmup != 0 {
		f.Add("limits[0]", fault.Quote(limits[0].String()), "%s", want)
		return weir.TenantBucket{}, false
	}
	return weir.TenantBucket{Count: b.Count, Period: b.Period, Burst: b.Burst}, true
}

// checkWithTenants adds an error for each field that excludes tenants.
func checkWithTenants(c *Config, f *faults) {
	refuse := func(set bool, field, want string) {
		if set {
			f.Add(field, "", "%s with tenants", want)
		}
	}
	refuse(len(c.Overrides) > 0, "overrides", "want none")
	refuse(len(c.Candidate) > 0, "candidate", "want none")
	refuse(c.Zone != "", "nginx.zone", "want none")
	refuse(c.Carry != weir.CarryUsage, "carry", "want usage")
	refuse(c.Settle.Meter != nil, "budget", "want none: the limit of a budget has levels of its own")
}

// key adds the key of tenant i to those by which p finds it.
func (t *tenants) key(p *Policy, f *faults, field string, i int, places map[string]int) bool {
	key := p.config.Tenants[i].Key
	if len(p.parts) == 0 {
		return false // the missing key is reported already
	}
	if len(key) != len(p.parts) {
		f.Add(field+".key", count(len(key), "value"), "want %d, one for every part of the policy's key", len(p.parts))
		return false
	}
	if !slices.ContainsFunc(key, func(k string) bool { return k != "*" }) {
		if t.rest >= 0 {
			f.Add(field+".key", fault.Quote(strings.Join(key, ", ")), "want every key once: it is that of tenants[%d] already", t.rest)
			return false
		}
		t.rest = i
		return true
	}
	w, at, want := p.override(Override{Key: key})
	if want != "" {
		f.Add(fmt.Sprintf("%s.key[%d]", field, at), fault.Quote(key[at]), "%s", want)
		return false
	}
	if j, ok := places[w.text]; ok {
		f.Add(field+".key", fault.Quote(strings.Join(key, ", ")), "want every key once: it is that of tenants[%d] already", j)
		return false
	}
	places[w.text], w.override = i, i
	if w.fit == nil {
		p.overrides[w.text] = i
	} else {
		p.wildcards = append(p.wildcards, w)
	}
	return true
}

// tenantName returns the name of a tenant with a key.
func tenantName(key []string) string {
	if len(key) == 1 && key[0] != "" {
		return key[0]
	}
	var b []byte
	for _, k := range key {
		b = appendValue(b, k)
	}
	return string(b)
}
