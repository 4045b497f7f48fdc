package policy

import (
	"fmt"
	"strings"

	"github.com/floodweir/weir/internal/bounds"
	"github.com/floodweir/weir/internal/fault"
)

// checkMost returns an error if it finds a request that matches more limits of enforced
// policies than a store decides together. For each host and each path of a policy it looks at
// one request that the policy matches. So it does not find every such request: two policies
// may match one that neither of them names. Package enforce refuses those.
func (s *Set) checkMost() fault.Errors {
	seen := map[example]int{} // limits of policies without headers and condition
	for _, m := range s.active {
		if !m.always() {
			continue
		}
		for i := range max(1, len(m.hosts), len(m.routes)) {
			e := m.example(i)
			known, ok := seen[e]
			if ok && (m.plain() || m.config.Zone == "" && known+len(m.config.Limits) <= bounds.MaxBatch) {
				continue
			}
			by, limits := s.most(m, e)
			if m.plain() {
				seen[e] = limits
			} else if m.config.Zone == "" {
				seen[e] = limits - len(m.config.Limits)
			}
			if by != nil {
				f := &faults{Policy: by.Name()}
				f.Add("limits", fmt.Sprintf("%d limits with those of other policies for %s", limits, fault.Printable(e.String())),
					"want at most %d for a request in all enforced policies, which a store decides together", bounds.MaxBatch)
				return f.Errs
			}
		}
	}
	return nil
}

// always reports whether m is enforced for every key.
func (m *member) always() bool { return m.config.Mode == Enforce && m.config.Percent == 100 }

// plain reports whether m matches by its lists of hosts, paths and methods alone.
func (m *member) plain() bool {
	return len(m.headers) == 0 && len(m.except) == 0 && m.config.Match.Where == nil
}

// An example is a request that a policy matches, apart from its headers and condition.
type example struct{ method, host, path string }

func (e *example) String() string { return strings.TrimSpace(e.method + " " + e.host + e.path) }

// example returns a request of the i-th host and path of m, or of the last ones.
func (m *member) example(i int) example {
	e := example{method: "GET", path: "/"}
	if len(m.methods) > 0 {
		e.method = m.methods[0]
	}
	if n := len(m.hosts); n > 0 {
		h := m.hosts[min(i, n-1)]
		if e.host = h.Name; h.Below {
			e.host = "x." + h.Name
		}
	}
	if n := len(m.routes); n > 0 {
		segments, _ := m.routes[min(i, n-1)].Segments()
		e.path = ""
		for _, s := range segments {
			if s == "" {
				s = "x"
			}
			e.path += "/" + s
		}
	}
	return e
}

// most returns the policy with which the limits of the enforced policies that match e are
// too many, and their number. Only plain policies and m are counted.
func (s *Set) most(m *member, e example) (by *member, limits int) {
	src := source{host: e.host}
	src.paths.Read(e.path)
	zones := map[string]bool{}
	for _, i := range s.candidates(nil, &src, e.method) {
		o := s.active[i]
		switch {
		case !o.always(), o != m && !o.plain(),
			len(o.methods) > 0 && !o.matchMethod(e.method), len(o.hosts) > 0 && !o.matchHost(e.host), len(o.routes) > 0 && !o.matchPath(&src),
			zones[o.bucket]:
			continue
		}
		zones[o.bucket] = true
		if limits += len(o.config.Limits); limits > bounds.MaxBatch && by == nil {
			by = o
		}
	}
	return by, limits
}
