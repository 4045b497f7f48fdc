package policy

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/floodweir/weir"
	"github.com/floodweir/weir/internal/fault"
)

// checkZone adds the errors of p in a zone after the policies others.
func (p *Policy) checkZone(f *faults, others []*Policy) {
	if len(others) == 0 {
		return
	}
	zone, first := fault.Quote(p.config.Zone), others[0]
	if mine, its := keyText(p), keyText(first); mine != its {
		f.Add("nginx.zone", zone, "want one key in a zone: here it is %s, in policy %s it is %s", fault.Printable(mine), fault.Quote(first.Name()), fault.Printable(its))
	}
	if mine, its := states(p), states(first); mine != its {
		f.Add("nginx.zone", zone, "want one rate in a zone: here it is %s, in policy %s it is %s", mine, fault.Quote(first.Name()), its)
	}
	if named, its := isNamed(p), isNamed(first); named != its {
		f.Add("carry", fmt.Sprint(p.config.Carry), "want usage in every policy of a zone, or in none: policy %s differs, and a key would have two states", fault.Quote(first.Name()))
	}
	if !p.sameStates(first) {
		f.Add("overrides", count(len(p.config.Overrides), "override"), "want the same overrides in a zone, of the same rates: policy %s has others, and a key would have two states", fault.Quote(first.Name()))
	}
	if p.config.Mode == Off {
		return
	}
	for _, o := range others {
		if o.config.Mode != Off && len(o.except) == 0 && o.config.Match.covers(&p.config.Match) {
			f.Add("nginx.zone", zone, "want a narrower match before a wider one: a request counts once in a zone, and policy %s is asked about every one that this is about",
				fault.Quote(o.Name()))
			return
		}
	}
}

// keyText returns the key of p as text.
func keyText(p *Policy) string {
	var texts []string
	for _, part := range p.parts {
		texts = append(texts, part.String())
	}
	return strings.Join(texts, ", ")
}

// states returns the states of the limits of p as text.
func states(p *Policy) string {
	var texts []string
	for _, l := range p.config.Limits {
		texts = append(texts, zoneState(l))
	}
	return strings.Join(texts, ", ")
}

// zoneState returns the state of l, or the limit if the state has a name: in a zone, all policies
// have one rate.
func zoneState(l weir.Limit) string {
	if l.Spec().Named {
		return l.String()
	}
	return l.Spec().State
}

// isNamed reports whether the states of p, apart from slots, have names.
func isNamed(p *Policy) bool {
	return slices.ContainsFunc(p.config.Limits, func(l weir.Limit) bool { return l.Spec().Named && !isConcurrency(l) })
}

// sameStates reports whether the overrides of p and o give every key limits with the same
// states.
func (p *Policy) sameStates(o *Policy) bool {
	return p.sameOverrides(o, func(a, b []weir.Limit) bool {
		return slices.EqualFunc(a, b, func(l, m weir.Limit) bool { return zoneState(l) == zoneState(m) })
	})
}

// covers reports whether m matches every request that o matches. It compares lists and
// texts, so it may return false for a match that covers.
func (m *Match) covers(o *Match) bool {
	in := func(mine, its []string) bool { return len(mine) == 0 || slices.Equal(mine, its) }
	where := m.Where == nil || o.Where != nil && m.Where.String() == o.Where.String()
	return where && in(m.Methods, o.Methods) && in(m.Hosts, o.Hosts) && in(m.Paths, o.Paths) &&
		(len(m.Headers) == 0 || maps.EqualFunc(m.Headers, o.Headers, slices.Equal))
}
