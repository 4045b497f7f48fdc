package policy

import (
	"slices"

	"github.com/floodweir/weir"
)

// maxFormer is how many former versions of a policy are remembered.
const maxFormer = 4

// Following is s as the successor of old: a key of a policy that both have, under one
// name in one zone if any and with equal key parts, carries over what it owes under
// limits that changed, as Config.Carry says (see weir.Request.From). Limits are paired
// in order after those that kept their state (see weir.Limit.Spec). What old itself
// followed is remembered up to four sets back, of which those that gave the policy the
// same limits count as one. A concurrency limit carries nothing over: its slots end by
// themselves, and what is charged to another would not. An old of nil is no predecessor.
func (s *Set) WithPrevious(old *Set) *Set {
	t := &Set{policies: s.policies}
	t.join(old)
	return t
}

// A past is what used to govern the keys of a policy.
type past struct {
	former []*Policy      // newest first; no two have the same limits, nor those of the policy
	lines  [][]weir.Limit // for each limit of the policy, those it follows; nil if it follows none
}

// follow makes m the successor of old, which is nil if there is none.
func (m *member) follow(old *member) {
	c := &m.config
	if old == nil || m.bucket != old.bucket || c.Carry == weir.CarryReset || !slices.EqualFunc(m.parts, old.parts, sameBucket) {
		return
	}
	for _, p := range append([]*Policy{old.Policy}, old.former...) {
		same := func(q *Policy) bool { return q.sameLimits(p) }
		if len(m.former) < maxFormer && !same(m.Policy) && !slices.ContainsFunc(m.former, same) {
			m.former = append(m.former, p)
		}
	}
	if len(m.former) > 0 {
		m.lines = lines(c.Limits, func(i int) []weir.Limit { return m.former[i].config.Limits }, len(m.former))
	}
}

// sameBucket reports whether two parts give a request the same value.
func sameBucket(a, b part) bool {
	return a.Source == b.Source && a.v6 == b.v6 && (a.Source == ClientIP || a.String() == b.String())
}

// sameLimits reports whether p and o give every key the same limits.
func (p *Policy) sameLimits(o *Policy) bool {
	same := func(a, b []weir.Limit) bool { return slices.EqualFunc(a, b, weir.Limit.Equal) }
	return p == o || same(p.config.Limits, o.config.Limits) && p.sameOverrides(o, same)
}

// from is, for each of the limits of a key, those it follows; nil if none follows
// any. ruled tells that an override gives the limits.
func (h *past) from(limits []weir.Limit, ruled bool, key string, parts []byte, s *source) [][]weir.Limit {
	var former [maxFormer][]weir.Limit
	changed := false
	for i, p := range h.former {
		l, r := p.limits(key, parts, s)
		former[i], ruled = l, ruled || r
		changed = changed || !slices.EqualFunc(l, limits, weir.Limit.Equal)
	}
	switch {
	case !ruled:
		return h.lines
	case !changed:
		return nil
	}
	return lines(limits, func(i int) []weir.Limit { return former[i] }, len(h.former))
}

// lines is, for each of limits, the limits that it follows, newest first, if the key
// had former(0) before, former(1) before that and so on, n times; nil if none follows
// any. What governs the key now is followed by nothing, and nothing twice.
func lines(limits []weir.Limit, former func(int) []weir.Limit, n int) [][]weir.Limit {
	var lines [][]weir.Limit
	at := make([]int, len(limits)) // where the line of each limit has got to
	for i := range at {
		at[i] = i
	}
	seen, newer := limits, limits
	for i := range n {
		older := former(i)
		to := pair(newer, older)
		for j := range at {
			if at[j] >= 0 {
				at[j] = to[at[j]]
			}
			if at[j] < 0 || has(seen, older[at[j]]) {
				continue
			}
			if lines == nil {
				lines = make([][]weir.Limit, len(limits))
			}
			lines[j] = append(lines[j], older[at[j]])
			seen = append(seen[:len(seen):len(seen)], older[at[j]])
		}
		newer = older
	}
	return lines
}

// pair is, for each of newer, the index of the one of older that it follows, or -1:
// the one of its state or else, in order, the next that has the state of none.
func pair(newer, older []weir.Limit) []int {
	to, next := make([]int, len(newer)), 0
	for i, l := range newer {
		to[i] = ofState(older, l)
	}
	for i, l := range newer {
		if to[i] >= 0 || isConcurrency(l) {
			continue
		}
		for next < len(older) && (isConcurrency(older[next]) || has(newer, older[next])) {
			next++
		}
		if next == len(older) {
			break
		}
		to[i] = next
		next++
	}
	return to
}

// ofState is the index of the first of limits that has its state in common with l, or -1.
func ofState(limits []weir.Limit, l weir.Limit) int {
	return slices.IndexFunc(limits, func(o weir.Limit) bool { return o.Spec().State == l.Spec().State })
}

func has(limits []weir.Limit, l weir.Limit) bool { return ofState(limits, l) >= 0 }

func isConcurrency(l weir.Limit) bool { return l.IsConcurrency() }
