package policy

import (
	"maps"
	"slices"
	"strings"

	"github.com/floodweir/weir/internal/outline"
)

// Outline describes p to Weir's compiler for nginx. The caller must not modify the result.
func (p *Policy) Outline() outline.Policy {
	o := outline.Policy{Exact: maps.Clone(p.overrides)}
	for _, m := range p.methods {
		o.Methods = append(o.Methods, m)
		if m == "GET" {
			o.Methods = append(o.Methods, "HEAD")
		}
	}
	o.Methods = sortedSet(o.Methods)
	for _, h := range p.hosts {
		o.Hosts = append(o.Hosts, outline.Host(h))
	}
	for _, r := range p.routes {
		segments, rest := r.Segments()
		o.Paths = append(o.Paths, outline.Path{Pattern: r.Pattern, Segments: segments, Rest: rest})
	}
	for _, h := range p.headers {
		o.Headers = append(o.Headers, outline.Header{Name: h.name, Values: h.values})
	}
	for i := range p.parts {
		o.Key = append(o.Key, p.parts[i].outline(p))
	}
	for _, w := range p.wildcards {
		x := outline.Wildcard{Override: w.override}
		for _, f := range w.fit {
			x.Fit = append(x.Fit, outline.Fit(f))
		}
		o.Wildcards = append(o.Wildcards, x)
	}
	return o
}

func (k *part) outline(p *Policy) outline.Part {
	o := outline.Part{Name: k.Name}
	switch k.Source {
	case ClientIP:
		o.Name, o.Bits = "", k.v6
	case Claim:
		o.Name, o.Header, o.Bearer = k.claim.Name, k.claim.Header, k.claim.Bearer
	case Method:
		o.Methods = sortedSet(append(strings.Fields(standardMethods), p.methods...))
	}
	return o
}

// sortedSet sorts s and removes duplicates.
func sortedSet(s []string) []string {
	slices.Sort(s)
	return slices.Compact(s)
}
