package model

import (
	"cmp"
	"fmt"
	"maps"
	"slices"

	"github.com/floodweir/weir"
	"github.com/floodweir/weir/internal/algo"
)

// A reservation is n tokens charged at an instant, to be settled before its deadline. A
// settled one stays until then, so that a repeated request changes nothing.
type reservation struct {
	n, at, deadline int64
	settled         bool
	actual          int64 // what it was settled at
	place           algo.Place
	limit           weir.Limit
}

// expire gives back the tokens of reservations whose deadline has passed, as of the
// deadline. So the result does not depend on when this is done.
func (e *entry) expire(now int64) {
	type due struct {
		id string
		reservation
	}
	var over []due
	for id, h := range e.reservations {
		if now >= h.deadline {
			over = append(over, due{id, h})
		}
	}
	slices.SortFunc(over, func(a, b due) int {
		return cmp.Or(cmp.Compare(a.deadline, b.deadline), cmp.Compare(a.id, b.id))
	})
	for _, d := range over {
		delete(e.reservations, d.id)
		if !d.settled && e.state.Until() > d.deadline { // a state as if never used has them already
			e.giveBack(d.reservation)
		}
	}
}

// giveBack returns the tokens of a reservation as of its deadline. Those of a tenant go to it,
// unless its parent has changed.
func (e *entry) giveBack(h reservation) {
	ask := algo.Ask{Op: algo.Return, Place: h.place, Now: h.deadline, N: h.n, At: h.at}
	if t, ok := e.state.(*tenants); ok {
		child := t.child
		defer func() { t.child = child }()
		t.child = -1
		if of, ok := NewState(h.limit).(*tenants); ok && of.sameParent(t) {
			t.child = of.child
		}
	}
	e.state.Do(ask)
}

// idOf returns the id of the reservation of r among those of its state.
func idOf(r weir.Request) string { return r.Limit.Spec().Scope + r.ID }

// await corrects the waits of a result for the reservations that return by themselves. On a
// copy of e, it asks again at each deadline.
func (e *entry) await(res *algo.Result, r weir.Request, now int64) {
	var deadlines []int64
	for _, h := range e.reservations {
		if !h.settled {
			deadlines = append(deadlines, h.deadline)
		}
	}
	slices.Sort(deadlines)
	ask := algo.Ask{Op: algo.Peek, N: r.N}
	if r.Verb == weir.TakeUpTo {
		ask.N = 1
	}
	c := &entry{limit: e.limit, state: e.state.Clone(), reservations: maps.Clone(e.reservations)}
	waits := !res.OK && res.Retry != algo.Never
	for _, at := range deadlines {
		if waits = waits && at < now+res.Retry; !waits && at >= now+res.Reset {
			return
		}
		c.expire(at)
		res.Reset = max(at, c.state.Until()) - now
		if ask.Now = at; waits {
			res.Retry = at - now + c.state.Clone().Do(ask).Retry
		}
	}
}

// reserve takes r.N tokens under an id. A second request with the id changes nothing.
// The slots of a concurrency limit keep their own leases.
func (e *entry) reserve(r weir.Request, now int64) algo.Result {
	if slots, ok := e.state.(*slots); ok {
		return slots.hold(r.ID, r.N, now, r.TTL.Microseconds())
	}
	if h, ok := e.reservations[idOf(r)]; ok {
		res := e.peek(now)
		res.Granted = h.n
		return res
	}
	res := e.state.Do(algo.Ask{Op: algo.Take, Now: now, N: r.N})
	if res.OK {
		e.reservations[idOf(r)] = reservation{n: r.N, at: now, deadline: now + ceilMicros(r.TTL), place: res.Place, limit: r.Limit}
	}
	return res
}

// settle settles a reservation at actual tokens, the first time. It grants the tokens
// that the reservation was settled at.
func (e *entry) settle(id string, actual, now int64) (algo.Result, error) {
	if slots, ok := e.state.(*slots); ok {
		return slots.release(id, now)
	}
	h, ok := e.reservations[id]
	if !ok {
		return algo.Result{}, fmt.Errorf("%w: %w", weir.ErrNoReservation, errNoReservation)
	}
	var res algo.Result
	switch {
	case h.settled || actual == h.n || actual < h.n && e.state.Until() <= now:
		res = e.peek(now) // a state as if never used has them already
	case actual < h.n:
		res = e.state.Do(algo.Ask{Op: algo.Return, Now: now, N: h.n - actual, At: h.at, Place: h.place})
	default:
		res = e.state.Do(algo.Ask{Op: algo.Charge, Now: now, N: actual - h.n})
	}
	if !h.settled {
		h.settled, h.actual = true, actual
		e.reservations[id] = h
	}
	res.Granted, res.Place = h.actual, algo.Own
	return res, nil
}

// peek returns the current result.
func (e *entry) peek(now int64) algo.Result {
	return e.state.Do(algo.Ask{Op: algo.Peek, Now: now})
}
