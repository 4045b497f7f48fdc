package memstore

import (
	"cmp"
	"iter"
	"slices"

	"github.com/floodweir/weir"
	"github.com/floodweir/weir/internal/algo"
	"github.com/floodweir/weir/memstore/internal/reservation"
)

// open returns the open reservations of a state in order of their deadlines. It requires mu.
func (sh *shard) open(state uint64) iter.Seq[algo.Due] {
	return func(yield func(algo.Due) bool) {
		for h := range sh.reservations.Open(state) {
			if !yield(sh.due(h)) {
				return
			}
		}
	}
}

// due returns an open reservation that the shard has.
func (sh *shard) due(h *reservation.Record) algo.Due {
	return due(h, sh.wide.limits.list[h.Limit].limit)
}

func due(h *reservation.Record, limit weir.Limit) algo.Due {
	return algo.Due{Deadline: h.Deadline, At: h.At, N: h.N, Place: algo.Place(h.Place), Rule: limit.Spec().Rule}
}

// openAfter returns the open reservations of c as the pending writes of t leave them.
func openAfter(t *txn, c *cell) iter.Seq[algo.Due] {
	if !slices.ContainsFunc(t.pending, func(n pendingWrite) bool { return n.State == c.hash }) {
		return c.sh.open(c.hash)
	}
	var all []algo.Due
	known, wiped := map[reservation.Name]bool{}, false
	for i := len(t.pending) - 1; i >= 0 && !wiped; i-- {
		switch n := &t.pending[i]; {
		case n.State != c.hash || known[n.Name]:
		case n.kind == forgotten:
			wiped = true
		default:
			known[n.Name] = true
			if !n.Settled {
				all = append(all, due(&n.Record, n.limit))
			}
		}
	}
	if !wiped {
		for h := range c.sh.reservations.Open(c.hash) {
			if !known[h.Name] {
				all = append(all, c.sh.due(h))
			}
		}
	}
	slices.SortStableFunc(all, func(a, b algo.Due) int { return cmp.Compare(a.Deadline, b.Deadline) })
	return slices.Values(all)
}

// await corrects t.res, the result of r, for the open reservations of c.
func await(t *txn, c *cell, r *weir.Request) {
	a := algo.Ask{Op: algo.Peek, Now: t.now, N: r.N}
	if r.Verb == weir.TakeUpTo {
		a.Op = algo.TakeUpTo
	}
	t.res = algo.Await(c.rule, c.words, a, t.res, openAfter(t, c), nil)
}
