package simulate

import (
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/floodweir/weir"
)

// claim finds the charge for a decision that a client got.
func (r *recorder) claim(q *request, d weir.Decision) {
	if d.Granted == 0 {
		return
	}
	for i := len(r.charges) - 1; i >= 0; i-- {
		c := r.charges[i]
		if !c.used && c.ok && c.node == q.node && c.n == d.Granted && c.at == d.At.UnixMicro() && c.limit.Equal(d.Limit) &&
			(c.verb == weir.Take || c.verb == weir.TakeUpTo) && (len(q.rs) == 0 || slices.ContainsFunc(q.rs, func(s weir.Request) bool { return s.Key == c.key })) {
			c.used = true
			return
		}
	}
	r.violate("replies: request %d of node %d was admitted (%s), but the store decided no such request", q.id, q.node, decisionText(d))
}

// atMost returns what a limit admits in a span, by the table of docs/guarantees.md.
func atMost(l weir.Limit, d time.Duration) int64 {
	n := int64(d / max(1, l.Period()))
	switch c := l.Config().(type) {
	case weir.TokenBucket:
		return c.Burst + int64(float64(d)/float64(c.Period)*float64(c.Count)+1e-6)
	case weir.LeakyBucket:
		return c.Burst + 1 + int64(float64(d)/float64(c.Period)*float64(c.Count)+1e-6)
	case weir.SlidingLog:
		return c.Count * (n + 1)
	}
	return l.Capacity() * (n + 2)
}

func boundOf(l weir.Limit) func(time.Duration) int64 {
	return func(d time.Duration) int64 { return atMost(l, d) }
}

// spend is an admission for the bounds.
type spend struct {
	when time.Duration
	n    int64
}

// exceeds returns the first span in which spends are more than a bound, plus allowances in it.
func exceeds(bound func(time.Duration) int64, all []spend, more []allowance) (from, to time.Duration, n, most int64, bad bool) {
	for i := range all {
		n = 0
		for j := i; j < len(all); j++ {
			n += all[j].n
			most = bound(all[j].when - all[i].when)
			if n <= most {
				continue
			}
			for _, a := range more {
				if a.to >= all[i].when && a.from <= all[j].when {
					most += a.n
				}
			}
			if n > most {
				return all[i].when, all[j].when, n, most, true
			}
		}
	}
	return 0, 0, 0, 0, false
}

// checkBounds checks oracle 2, for the history of the servers and for that of each former
// primary.
func (r *recorder) checkBounds() {
	for side := range len(r.splits) + 1 {
		byState := map[string][]*charge{}
		for _, c := range r.charges {
			if !c.limit.IsConcurrency() && r.on(side, c.side, c.when) {
				name := r.nameOf(c.key, c.limit)
				byState[name] = append(byState[name], c)
			}
		}
		for _, name := range slices.Sorted(maps.Keys(byState)) {
			if q := r.quotas[name]; q != nil {
				r.checkQuota(q, side, byState[name])
			} else {
				r.checkState(name, side, byState[name])
			}
		}
	}
}

// on reports whether what happened on one side of a split, or before it, is in the history of a
// side.
func (r *recorder) on(side, of int, when time.Duration) bool {
	return of == side || side > 0 && of == 0 && when <= r.splits[side-1]
}

func (r *recorder) checkState(name string, side int, cs []*charge) {
	l := cs[0].limit
	more := slices.Concat(r.justified[name], r.jumps(name, l, side))
	all, back := r.spends(cs)
	if from, to, n, most, bad := exceeds(boundOf(l), all, append(more, back...)); bad {
		r.violate("bound: %s admits %d from %v to %v, want at most %d (side %d)", name, n, from, to, most, side)
	}
}

// spends returns what charges admitted for good. Charges that were returned do not count. A
// return gives back whole tokens, although a bucket may have refilled a part of them
// meanwhile. So it adds to a span that contains it. A reservation returns at an unknown time
// until its deadline.
func (r *recorder) spends(cs []*charge) (all []spend, more []allowance) {
	returned := int64(0)
	for i := len(cs) - 1; i >= 0; i-- {
		switch c := cs[i]; {
		case c.n < 0:
			returned -= c.n
			more = append(more, allowance{c.when, c.when, -c.n})
		case c.verb == weir.Reserve:
			to := c.when + c.ttl
			if r.stepped {
				to = time.Hour
			}
			more = append(more, allowance{c.when, to, c.n})
		case c.verb == weir.Take || c.verb == weir.TakeUpTo:
			back := min(returned, c.n)
			returned -= back
			if c.n > back {
				all = append(all, spend{c.when, c.n - back})
			}
		}
	}
	slices.Reverse(all)
	return all, more
}

// checkOnce checks oracles 4 and 5, by the keys that one request uses.
func (l *workload) checkOnce() {
	r := l.record
	type total struct{ charges, charged, returned int64 }
	totals := map[string]*total{}
	for _, c := range r.charges {
		if !strings.HasPrefix(c.key, "once") {
			continue
		}
		t := totals[c.key]
		if t == nil {
			t = &total{}
			totals[c.key] = t
		}
		if c.n > 0 {
			t.charges++
			t.charged += c.n
		} else {
			t.returned -= c.n
		}
	}
	for _, key := range slices.Sorted(maps.Keys(totals)) {
		t := totals[key]
		if t.charges > 1 {
			r.violate("once: the request of %s was charged %d times", key, t.charges)
		}
		if t.returned > t.charged {
			r.violate("once: %d tokens of %s were returned, and %d charged", t.returned, key, t.charged)
		}
	}
	for _, q := range l.done {
		if q.kind != "batch" || q.canceled {
			continue
		}
		calm := l.faults.calm(q.node, q.begun, q.ended)
		for i, s := range q.rs {
			if !strings.HasPrefix(s.Key, "once") {
				continue
			}
			left := int64(0)
			if t := totals[s.Key]; t != nil {
				left = t.charged - t.returned
			}
			switch {
			case q.err == nil && q.ok && left != s.N:
				r.violate("all or none: request %d is admitted, and %d of %d tokens of %s are charged", q.id, left, s.N, s.Key)
			case q.err == nil && !q.ok && left != 0 && calm:
				r.violate("all or none: request %d is denied without a fault, and %d tokens of %s (%d) stay charged", q.id, left, s.Key, i)
			}
		}
	}
}
