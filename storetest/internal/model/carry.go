package model

import (
	"maps"
	"math/big"
	"slices"

	"github.com/floodweir/weir"
	"github.com/floodweir/weir/internal/algo"
)

// carry carries the state under a former limit over to e, if e is as if never used. It
// returns a function that undoes that.
func (m *Model) carry(e *entry, r weir.Request, now int64) (undo func()) {
	if e.state.Until() > now || len(e.reservations) > 0 {
		return func() {}
	}
	for _, limit := range r.From {
		if limit.IsZero() || limit.Spec().State == r.Limit.Spec().State || m.keys[name{r.Key, limit.Spec().State}] == nil {
			continue
		}
		old := m.entry(r.Key, limit, now)
		if old.state.Until() <= now {
			continue
		}
		n := name{r.Key, limit.Spec().State}
		before := e.state.Clone()
		delete(m.keys, n)
		if r.Carry != weir.CarryReset {
			e.reservations = maps.Clone(old.reservations)
			for id, h := range e.reservations {
				h.place, h.limit = algo.Own, r.Limit
				e.reservations[id] = h
			}
		}
		undo := func() { m.keys[n], e.state, e.reservations = old, before, map[string]reservation{} }
		if r.Carry == weir.CarryUsage {
			e.state = migrated(old.state.Clone(), limit.Capacity(), r.Limit, now)
			withoutCredit(e.state)
			return undo
		}
		left := carried(r.Carry, old.peek(now).Balance, limit.Capacity(), r.Limit.Capacity())
		owed := r.Limit.Capacity() - left
		e.state = NewState(r.Limit)
		if p, ok := e.state.(*primed); ok {
			p.carried(now, owed)
		} else if owed > 0 {
			e.state.Do(algo.Ask{Op: algo.Charge, Now: now, N: owed})
		}
		return undo
	}
	return func() {}
}

// holder returns the entry that has the reservation or slot of r: e, or that of a former limit.
func (m *Model) holder(e *entry, r weir.Request, now int64) *entry {
	if e.holds(idOf(r), now) {
		return e
	}
	for _, limit := range r.From {
		if limit.IsConcurrency() != r.Limit.IsConcurrency() || limit.Spec().State == r.Limit.Spec().State || m.keys[name{r.Key, limit.Spec().State}] == nil {
			continue
		}
		if old := m.entry(r.Key, limit, now); old.holds(idOf(r), now) {
			return old
		}
	}
	return e
}

func (e *entry) holds(id string, now int64) bool {
	if s, ok := e.state.(*slots); ok {
		return slices.ContainsFunc(s.inside, func(x slot) bool { return x.id == id && x.end > now })
	}
	_, ok := e.reservations[id]
	return ok
}

// withoutCredit drops what a change of limit rounded up: one change is worth no word.
func withoutCredit(s State) {
	if p, ok := s.(*primed); ok {
		s = p.inner
	}
	if b := bucketOf(s); b != nil {
		b.credit = new(big.Int)
	} else if w, ok := s.(*warmup); ok {
		w.credit = new(big.Int)
	}
}

// carried returns how many tokens are left under the new capacity, if b of the old one
// were left.
func carried(c weir.Carry, b, before, after int64) int64 {
	switch c {
	case weir.CarryAsIs:
		return min(b, after)
	case weir.CarryAdditive:
		return min(after, b+max(0, after-before))
	case weir.CarryReset:
		return after
	}
	share := new(big.Int).Mul(big.NewInt(b), big.NewInt(after))
	return max(-2*algo.MaxCount, floorDiv(share, big.NewInt(before))) // no debt counts for more
}
