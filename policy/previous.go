package policy

import (
	"slices"

	"github.com/floodweir/weir"
)

// maxPrevious is the number of previous versions of a policy that are kept.
const maxPrevious = 4

// WithPrevious returns s as the successor of old, which may be nil. A policy of both sets is one
// with the same name, zone and key parts. Its keys carry over the debt of limits whose state has
// another name, as Config.Carry selects (see weir.Request.From). Limits with the same state are
// paired first, the others in order. Up to four previous sets count; sets that have the same
// states for the policy count as one. Concurrency limits are not carried over: their slots end
// by themselves. The adjustments of old end, those of s stay (see WithAdjustments).
func (s *Set) WithPrevious(old *Set) *Set {
	t := &Set{policies: s.policies, exceptions: s.exceptions, except: s.except}
	if old != nil && slices.Equal(s.members, old.members) { // they differ in adjustments and exceptions only
		*t = *s
	} else {
		t.join(old)
		t.adjusted = s.adjusted
	}
	if old != nil && len(old.adjusted) > 0 {
		t.adjusted = make(map[string]*adjusted, len(s.adjusted))
		for key, a := range s.adjusted {
			copied := *a
			t.adjusted[key] = &copied
		}
		t.endAdjustments(old)
	}
	return t
}

// A history has the previous limits of a policy.
type history struct {
	previous []*Policy      // newest first, with different limits
	chains   [][]weir.Limit // for each limit of the policy, the limits that it follows
}

// inherit makes m the successor of old, which may be nil.
func (m *member) inherit(old *member) {
	c := &m.config
	if !m.follows(old) {
		return
	}
	for _, p := range append([]*Policy{old.Policy}, old.previous...) {
		if c.Carry == weir.CarryReset && !m.sameLimits(p, weir.Limit.Equal) {
			continue
		}
		same := func(q *Policy) bool { return q.sameLimits(p, sameState) }
		if len(m.previous) < maxPrevious && !same(m.Policy) && !slices.ContainsFunc(m.previous, same) {
			m.previous = append(m.previous, p)
		}
	}
	if len(m.previous) > 0 {
		m.chains = chains(c.Limits, func(i int) []weir.Limit { return m.previous[i].config.Limits }, len(m.previous))
	}
}

// follows reports whether m and old, which may be nil, give a key the same name.
func (m *member) follows(old *member) bool {
	return old != nil && m.tenants == nil && old.tenants == nil && m.bucket == old.bucket && slices.EqualFunc(m.parts, old.parts, sameBucket)
}

// sameBucket reports whether two parts give a request the same value.
func sameBucket(a, b part) bool {
	return a.Source == b.Source && a.v6 == b.v6 && (a.Source == ClientIP || a.String() == b.String())
}

// sameLimits reports whether p and o have the same limits for every key.
func (p *Policy) sameLimits(o *Policy, same func(a, b weir.Limit) bool) bool {
	all := func(a, b []weir.Limit) bool { return slices.EqualFunc(a, b, same) }
	return p == o || all(p.config.Limits, o.config.Limits) && p.sameOverrides(o, all)
}

// from returns, for each limit of a key, the limits that it follows, or nil if none follows
// any. If overridden is set, limits are those of an override.
func (h *history) from(limits []weir.Limit, overridden bool, key string, parts []byte, s *source) [][]weir.Limit {
	var previous [maxPrevious][]weir.Limit
	changed := false
	for i, p := range h.previous {
		l, r := p.limits(key, parts, s)
		previous[i], overridden = l, overridden || r != nil
		changed = changed || !slices.EqualFunc(l, limits, sameState)
	}
	switch {
	case !overridden:
		return h.chains
	case !changed:
		return nil
	}
	return chains(limits, func(i int) []weir.Limit { return previous[i] }, len(h.previous))
}

// chains returns, for each of limits, the limits that it follows, newest first; nil if none
// follows any. previous(0) has the last limits of the key, previous(1) those before, up to
// n; a list without limits is left out. A current limit is not followed, and no limit is followed twice.
func chains(limits []weir.Limit, previous func(int) []weir.Limit, n int) [][]weir.Limit {
	var chains [][]weir.Limit
	at := make([]int, len(limits)) // the position in the chain of each limit
	for i := range at {
		at[i] = i
	}
	seen, newer := limits, limits
	for i := range n {
		older := previous(i)
		if len(older) == 0 { // blocked or unlimited: the states of before stay
			continue
		}
		to := pair(newer, older)
		for j := range at {
			if at[j] >= 0 {
				at[j] = to[at[j]]
			}
			if at[j] < 0 || has(seen, older[at[j]]) {
				continue
			}
			if chains == nil {
				chains = make([][]weir.Limit, len(limits))
			}
			chains[j] = append(chains[j], older[at[j]])
			seen = append(seen[:len(seen):len(seen)], older[at[j]])
		}
		newer = older
	}
	return chains
}

// pair returns, for each of newer, the index of the limit of older that it follows, or -1.
// That is the limit with the same state, or else an equal one, or else the next one in order.
func pair(newer, older []weir.Limit) []int {
	to, taken := make([]int, len(newer)), make([]bool, len(older))
	for i := range to {
		to[i] = -1
	}
	for _, follows := range []func(l, o weir.Limit) bool{
		sameState,
		func(l, o weir.Limit) bool { return !isConcurrency(l) && l.Equal(o) },
		func(l, o weir.Limit) bool { return !isConcurrency(l) && !isConcurrency(o) },
	} {
		for i, l := range newer {
			for j, o := range older {
				if to[i] < 0 && !taken[j] && follows(l, o) {
					to[i], taken[j] = j, true
				}
			}
		}
	}
	return to
}

// ofState returns the index of the first of limits with the same state as l, or -1.
func ofState(limits []weir.Limit, l weir.Limit) int {
	return slices.IndexFunc(limits, func(o weir.Limit) bool { return sameState(o, l) })
}

// sameState reports whether two limits of a key share one state.
func sameState(l, m weir.Limit) bool { return l.Spec().State == m.Spec().State }

func has(limits []weir.Limit, l weir.Limit) bool { return ofState(limits, l) >= 0 }

func isConcurrency(l weir.Limit) bool { return l.IsConcurrency() }
