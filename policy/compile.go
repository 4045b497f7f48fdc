package policy

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/floodweir/weir"
	"github.com/floodweir/weir/internal/bounds"
	"github.com/floodweir/weir/internal/fault"
	"github.com/floodweir/weir/policy/internal/spelling"
)

// compile checks p.config field by field and sets the derived fields.
func (p *Policy) compile(f *faults) {
	p.compileName(f)
	p.compileMatch(f, "match.")
	p.except = compileExceptions(f, p.config.Except)
	p.compileKey(f)
	c := &p.config
	checkFixed(f, "", c.Limits, c.Block, c.Unlimited)
	if c.Zone != "" && (c.Block || c.Unlimited) {
		f.Add("nginx.zone", fault.Quote(c.Zone), "want limits with it: a policy that blocks or admits all requests has no state to share")
	}
	if c.Cost < 1 {
		f.Add("cost", fmt.Sprint(c.Cost), "want at least 1 token")
	}
	p.compileLimits(f, "limits", c.Limits)
	p.checkCount(f)
	c.OnDenied.check(f)
	switch c.OnStoreError {
	case Open, Closed, Local:
	default:
		f.Add("on_store_error", fault.Quote(string(c.OnStoreError)), "want open, closed or local")
	}
	p.checkMode(f)
	c.checkShares(f)
	if c.Carry > weir.CarryReset {
		f.Add("carry", fmt.Sprint(c.Carry), "want one of the carries, such as weir.CarryProportional")
	}
	if len(c.Tenants) > 0 {
		p.tenants = compileTenants(p, f)
		return
	}
	if c.Weighted {
		f.Add("surplus", "weighted", "want it only with tenants")
	}
	p.compileOverrides(f)
}

func (p *Policy) compileName(f *faults) {
	const want = "want 1 to 64 letters a to z, digits, '.', '_' and '-', with a letter or digit first"
	if name := p.config.Name; !isName(name) {
		f.Add("name", fault.Quote(name), want)
	}
	if zone := p.config.Zone; zone != "" && !isName(zone) {
		f.Add("nginx.zone", fault.Quote(zone), want)
	}
}

func isName(name string) bool {
	ok := name != "" && len(name) <= 64
	for i := 0; i < len(name) && ok; i++ {
		c := name[i]
		alnum := c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9'
		ok = alnum || i > 0 && (c == '.' || c == '_' || c == '-')
	}
	return ok
}

// methodFault returns the accepted values if no request has a method, and otherwise "".
func methodFault(method string) string {
	upper := strings.ToUpper(method)
	switch {
	case strings.Trim(method, "*") == "" && method != "":
		return "want methods by name; leave methods out for any"
	case method != "" && method[0] == '!' && spelling.IsToken(method[1:]):
		return fmt.Sprintf("want methods to match; for all others the condition request.method != %q", upper[1:])
	case !spelling.IsToken(method), strings.Contains(method, "*"):
		return "want a method such as GET"
	}
	m := strings.ToUpper(fault.Meant(method, strings.Fields(strings.ToLower(standardMethods))))
	if m != "" && m != upper && !slices.Contains(otherMethods, upper) {
		return fmt.Sprintf("want a method that HTTP defines, did you mean %s?", m)
	}
	return ""
}

// otherMethods are methods in use that resemble standardMethods.
var otherMethods = strings.Fields("BATCH BIND COPY FETCH LINK LIST LOCK MOVE PURGE QUERY REPORT SEARCH TRACK UNLINK UNLOCK")

// compileMatch compiles Match. prefix begins the fields of its errors.
func (p *Policy) compileMatch(f *faults, prefix string) {
	m := &p.config.Match
	for i, method := range m.Methods {
		if want := methodFault(method); want != "" {
			f.Add(prefix+fmt.Sprintf("methods[%d]", i), fault.Quote(method), "%s", want)
		}
		p.methods = append(p.methods, strings.ToUpper(method))
	}
	for i, host := range m.Hosts {
		h, want := spelling.ParseHost(host)
		if want != "" {
			f.Add(prefix+fmt.Sprintf("hosts[%d]", i), fault.Quote(host), "%s", want)
		}
		p.hosts = append(p.hosts, h)
	}
	for i, path := range m.Paths {
		r, want := spelling.ParsePath(path)
		if want != "" {
			f.Add(prefix+fmt.Sprintf("paths[%d]", i), fault.Quote(path), "%s", want)
		}
		p.routes = append(p.routes, r)
	}
	for _, name := range slices.Sorted(maps.Keys(m.Headers)) {
		field, values := prefix+"headers."+name, m.Headers[name]
		switch {
		case !spelling.IsToken(name):
			f.Add(field, "", "want header names as HTTP has them, such as X-Plan")
		case strings.EqualFold(name, "Host"):
			f.Add(field, "", "want hosts, which knows case and ports")
		case len(values) == 0:
			f.Add(field, "", `want at least one value, or "*" for any`)
		}
		h := headerMatch{name: canonical(name), field: name}
		for i, v := range values {
			if v == "" || v != strings.TrimSpace(v) || len(v) > maxText || spelling.HasControl(v) {
				f.Add(fmt.Sprintf("%s[%d]", field, i), fault.Quote(v), `want a value without space around it, or "*" for any`)
			} else if v[0] == '!' {
				f.Add(fmt.Sprintf("%s[%d]", field, i), fault.Quote(v), "want values to match; for all others the condition request.headers[%q] != %q", strings.ToLower(name), strings.TrimSpace(v[1:]))
			}
			h.values = append(h.values, v)
		}
		if slices.ContainsFunc(p.headers, func(o headerMatch) bool { return o.name == h.name }) {
			f.Add(field, "", "want every header once: names differ in more than case")
		}
		p.headers = append(p.headers, h)
	}
}

func (p *Policy) compileKey(f *faults) {
	c := &p.config
	if len(c.Key) == 0 {
		f.Add("key", "", "want the parts of the key, such as client.ip; const:all is one bucket for all requests")
	}
	if len(c.Key) > 16 {
		f.Add("key", count(len(c.Key), "part"), "want at most 16 parts")
	}
	for i, k := range c.Key {
		field := fmt.Sprintf("key[%d]", i)
		if want := k.fault(); want != "" {
			f.Add(field, fault.Quote(k.String()), "%s", want)
		}
		if k.Source == Path && len(c.Match.Paths) == 0 {
			f.Add(field, fault.Quote("path"), "want match.paths with it: the key holds the pattern that matched, never the path itself")
		}
		if k.Source == Host && len(c.Match.Hosts) == 0 && k.Name == "" {
			f.Add(field, fault.Quote("host"), "want match.hosts with it: a client may send any host, and each would be a bucket")
		}
		if k.Source == Header {
			k.Name = canonical(k.Name)
		}
		bits, _ := k.bits()
		c := part{KeyPart: k, field: field, v6: bits}
		if k.Source == Claim {
			c.claim = k.claim()
		}
		if j := slices.IndexFunc(p.parts, func(o part) bool { return o.String() == k.String() }); j >= 0 {
			f.Add(field, fault.Quote(k.String()), "want every part once: it is key[%d] already", j)
		}
		p.parts = append(p.parts, c)
	}
}

// checkFixed adds the errors of a policy or an override at the field at, which has limits, blocks or
// is unlimited.
func checkFixed(f *faults, at string, limits []weir.Limit, block, unlimited bool) {
	switch {
	case block && (unlimited || len(limits) > 0):
		f.Add(at+"block", "true", "want it alone, or limits without it")
	case unlimited && len(limits) > 0:
		f.Add(at+"limits", "unlimited", "want it alone, or other limits")
	case !block && !unlimited && len(limits) == 0:
		f.Add(at+"limits", "", "want at least one limit, such as 10/s burst 20")
	}
}

// compileLimits checks the limits of a policy, its candidate or an override.
func (p *Policy) compileLimits(f *faults, field string, limits []weir.Limit) {
	if len(limits) > bounds.MaxBatch {
		f.Add(field, count(len(limits), "limit"), "want at most %d, which a store decides together", bounds.MaxBatch)
		return
	}
	for i, l := range limits {
		at := fmt.Sprintf("%s[%d]", field, i)
		if l.IsZero() {
			f.Add(at, "", "want a limit made by weir.NewLimit or weir.ParseLimit, got the zero Limit")
			continue
		}
		if j := slices.IndexFunc(limits[:i], l.Equal); j >= 0 {
			f.Add(at, fault.Quote(l.String()), "want every limit once: it is %s[%d] already", field, j)
		} else if j := ofState(limits[:i], l); j >= 0 {
			f.Add(at, fault.Quote(l.String()), "want one leaky bucket of a rate: it is the bucket of %s[%d] already, and a request would count twice in it", field, j)
		}
		if _, ok := l.Config().(weir.TenantBucket); ok {
			f.Add(at, fault.Quote(l.String()), "want the limit of all tenants, such as 1000/s, and the field tenants")
		}
		if p.config.Cost > l.Capacity() {
			f.Add(at, fault.Quote(l.String()), "want a capacity of at least %d, the cost of a request: it never admits one", p.config.Cost)
		}
	}
}
