package model

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/floodweir/weir"
	"github.com/floodweir/weir/internal/algo"
)

// A hold is a reservation: n tokens charged at an instant, to be settled before
// its deadline. A settled one is remembered until then, so that asking again
// changes nothing.
type hold struct {
	n, at, deadline int64
	settled         bool
	actual          int64 // what it was settled at
}

// expire gives the tokens of reservations back whose deadline has come, each at
// its deadline: whenever that is noticed, nobody can tell.
func (e *entry) expire(now int64) {
	type due struct {
		id string
		hold
	}
	var over []due
	for id, h := range e.holds {
		if now >= h.deadline {
			over = append(over, due{id, h})
		}
	}
	slices.SortFunc(over, func(a, b due) int {
		return cmp.Or(cmp.Compare(a.deadline, b.deadline), cmp.Compare(a.id, b.id))
	})
	for _, d := range over {
		delete(e.holds, d.id)
		if !d.settled && e.state.Until() > d.deadline { // as never used, it has all already
			e.state.Do(algo.Ask{Op: algo.Return, Now: d.deadline, N: d.n, At: d.at})
		}
	}
}

// reserve takes r.N tokens under an id; again with the same id it only answers.
// The slots of a concurrency limit have lives of their own.
func (e *entry) reserve(r weir.Request, now int64) algo.Result {
	if slots, ok := e.state.(*slots); ok {
		return slots.hold(r.ID, r.N, now, r.TTL.Microseconds())
	}
	if h, ok := e.holds[r.ID]; ok {
		res := e.peek(now)
		res.Granted = h.n
		return res
	}
	res := e.state.Do(algo.Ask{Op: algo.Take, Now: now, N: r.N})
	if res.OK {
		e.holds[r.ID] = hold{n: r.N, at: now, deadline: now + ceilMicros(r.TTL)}
	}
	return res
}

// settle settles a reservation at actual tokens, the first time it is asked to.
// Its result says how many tokens the reservation came to.
func (e *entry) settle(id string, actual, now int64) (algo.Result, error) {
	if slots, ok := e.state.(*slots); ok {
		return slots.release(id, now)
	}
	h, ok := e.holds[id]
	if !ok {
		return algo.Result{}, fmt.Errorf("%w: %w", weir.ErrNoReservation, errNoReservation)
	}
	var res algo.Result
	switch {
	case h.settled || actual == h.n || actual < h.n && e.state.Until() <= now:
		res = e.peek(now) // as never used, it has all already
	case actual < h.n:
		res = e.state.Do(algo.Ask{Op: algo.Return, Now: now, N: h.n - actual, At: h.at})
	default:
		res = e.state.Do(algo.Ask{Op: algo.Charge, Now: now, N: actual - h.n})
	}
	if !h.settled {
		h.settled, h.actual = true, actual
		e.holds[id] = h
	}
	res.Granted = h.actual
	return res, nil
}

// peek is how things stand.
func (e *entry) peek(now int64) algo.Result {
	return e.state.Do(algo.Ask{Op: algo.Peek, Now: now})
}
