package policy

import (
	"fmt"
	"net/netip"
	"slices"

	"github.com/floodweir/weir/internal/fault"
	"github.com/floodweir/weir/policy/internal/spelling"
)

// An Exception selects requests to which a policy, or a whole Set, does not apply. Every list that
// is not empty must match, and one is not empty. Elements are those of a Match, compared more
// strictly: every variant of a path must match, and a header must have one value only.
type Exception struct {
	Paths   []string
	Methods []string
	Hosts   []string
	Headers map[string][]string

	// IPs are prefixes of the client's address. An unknown address matches none.
	IPs []netip.Prefix

	// Preflight, if set, selects only CORS preflight requests: OPTIONS with the headers Origin and
	// Access-Control-Request-Method. It counts as a list.
	Preflight bool
}

// An exception is a compiled Exception.
type exception struct {
	match     *Policy // only the fields that compileMatch sets
	ips       []netip.Prefix
	preflight bool
}

// compileExceptions checks exceptions and compiles them.
func compileExceptions(f *faults, es []Exception) []exception {
	var xs []exception
	for i, e := range es {
		field := fmt.Sprintf("except[%d]", i)
		x := exception{preflight: e.Preflight, match: &Policy{config: Config{Match: Match{Paths: e.Paths, Methods: e.Methods, Hosts: e.Hosts, Headers: e.Headers}}}}
		x.match.compileMatch(f, field+".")
		if len(e.Paths)+len(e.Methods)+len(e.Hosts)+len(e.Headers)+len(e.IPs) == 0 && !e.Preflight {
			f.Add(field, "", "want paths, methods, hosts, ips, headers or preflight")
		}
		for j, ip := range e.IPs {
			if !ip.IsValid() || ip.Addr().Is4In6() {
				f.Add(fmt.Sprintf("%s.ips[%d]", field, j), fault.Quote(ip.String()), "want a prefix such as 10.0.0.0/8 or 2001:db8::/32")
			}
			x.ips = append(x.ips, ip.Masked())
		}
		xs = append(xs, x)
	}
	return xs
}

// exempt reports whether one of xs matches a request.
func exempt(xs []exception, s *source) bool {
	for i := range xs {
		if xs[i].matches(s) {
			return true
		}
	}
	return false
}

func (x *exception) matches(s *source) bool {
	p := x.match
	if len(p.methods) > 0 && !p.matchMethod(s.a.Method()) || len(p.hosts) > 0 && !p.matchHost(s.host) {
		return false
	}
	if x.preflight && !isPreflight(s.a) {
		return false
	}
	if len(x.ips) > 0 {
		ip := s.a.ClientIP().Unmap().WithZone("")
		if !slices.ContainsFunc(x.ips, func(n netip.Prefix) bool { return n.Contains(ip) }) {
			return false
		}
	}
	for i := range p.headers {
		value := single(s.a.Header(p.headers[i].name))
		if value == "" || !p.headers[i].matches([]string{value}) {
			return false
		}
	}
	if len(p.routes) == 0 {
		return true
	}
	for i := range s.paths.N { // servers that differ about the path must all serve an exempt one
		matched := false
		for j := range p.routes {
			matched = matched || p.routes[j].Matches(s.paths.At(i))
		}
		if !matched {
			return false
		}
	}
	return s.paths.N > 0
}

// isPreflight reports whether a browser asks with a request whether it may send another one.
func isPreflight(a Attributes) bool {
	return a.Method() == "OPTIONS" && single(a.Header("Origin")) != "" && single(a.Header("Access-Control-Request-Method")) != ""
}

// Exempt returns s without the requests that one of es selects: no policy applies to them. An error
// wraps an *Error for each invalid field.
func (s *Set) Exempt(es ...Exception) (*Set, error) {
	f := &faults{}
	t := *s
	t.exceptions, t.except = slices.Concat(s.exceptions, es), slices.Concat(s.except, compileExceptions(f, es))
	if len(f.Errs) > 0 {
		return nil, f.Errs
	}
	return &t, nil
}

// Exceptions returns the arguments of Exempt. The caller must not modify them.
func (s *Set) Exceptions() []Exception { return s.exceptions }

// Unmatched returns the names of policies that apply to no request, because an exception covers their
// match. It compares lists with the lists of one exception, so it does not find all of them.
func (s *Set) Unmatched() []string {
	var names []string
	for _, p := range s.policies {
		covers := func(x exception) bool { return x.covers(p) }
		if slices.ContainsFunc(s.except, covers) || slices.ContainsFunc(p.except, covers) {
			names = append(names, p.Name())
		}
	}
	return names
}

// covers reports whether the lists of x match all that those of p match.
func (x *exception) covers(p *Policy) bool {
	if m := x.match; len(x.ips)+len(m.headers) > 0 || x.preflight ||
		len(m.methods) > 0 && len(p.methods) == 0 || len(m.hosts) > 0 && len(p.hosts) == 0 {
		return false
	}
	routes := p.routes
	if len(routes) == 0 {
		routes = []spelling.Path{spelling.AnyPath()}
	}
	return coverEach(x.match.methods, p.methods, func(a, b *string) bool { return *a == *b || *a == "GET" && *b == "HEAD" }) &&
		coverEach(x.match.hosts, p.hosts, (*spelling.Host).Covers) && coverEach(x.match.routes, routes, (*spelling.Path).Covers)
}

// coverEach reports whether some element of all covers each of some, or there is none in all.
func coverEach[T any](all, some []T, covers func(a, b *T) bool) bool {
	for i := range some {
		if len(all) > 0 && !slices.ContainsFunc(all, func(a T) bool { return covers(&a, &some[i]) }) {
			return false
		}
	}
	return true
}
