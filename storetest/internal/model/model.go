package model

import (
	"context"
	"errors"
	"maps"
	"sync"
	"time"

	"github.com/floodweir/weir"
	"github.com/floodweir/weir/internal/algo"
	"github.com/floodweir/weir/internal/bounds"
)

// A Model is a [weir.Store] that decides slowly and plainly. Its clock is what
// SetNow says. It is safe for concurrent use.
type Model struct {
	mu     sync.Mutex
	now    int64 // what the clock shows
	latest int64 // the largest instant at which anything was decided
	keys   map[name]*entry
}

// A name names a state. Limits share one if they are leaky buckets of one rate.
type name struct{ key, state string }

// An entry is the state of one name.
type entry struct {
	limit        weir.Limit
	state        State
	reservations map[string]reservation
}

// New makes a Model whose clock shows now, in µs.
func New(now int64) *Model {
	return &Model{now: now, keys: map[name]*entry{}}
}

// SetNow sets the clock, in µs. A Model whose clock goes back decides at the
// latest instant that it has seen until the clock is there again.
func (m *Model) SetNow(us int64) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.now = us
}

// Latest is the largest instant at which anything was decided.
func (m *Model) Latest() int64 {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.latest
}

// Do implements [weir.Store].
func (m *Model) Do(_ context.Context, r weir.Request) (weir.Decision, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if err := r.Validate(); err != nil {
		return weir.Decision{}, err
	}
	now := m.clock()
	m.applyCarryOver(r, now)
	return m.decide(r, now)
}

// DoAll implements [weir.Store]: it keeps a copy of everything, decides one
// request after the other, and puts the copy back unless all were OK.
func (m *Model) DoAll(_ context.Context, rs []weir.Request, ds []weir.Decision) (bool, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if err := bounds.Check("model", weir.ErrInvalid, rs, len(ds)); err != nil {
		return false, err
	}
	now, all := m.clock(), true
	untouched := m.copy()
	for _, r := range rs {
		m.applyCarryOver(r, now)
	}
	uncharged := m.copy()
	for i, r := range rs {
		d, err := m.decide(r, now)
		if err != nil {
			m.keys = untouched
			return false, err
		}
		ds[i] = d
		all = all && d.OK
	}
	if !all {
		m.keys = uncharged
	}
	return all, nil
}

// applyCarryOver makes the changes that precede a decision and stay even if it is a
// denial. The state under a former limit is carried over, and a key with initial tokens
// is no longer new.
func (m *Model) applyCarryOver(r weir.Request, now int64) {
	if r.Verb == weir.Commit || r.Verb == weir.Cancel || readOnly(r) {
		return
	}
	e := m.entry(r.Key, r.Limit, now)
	m.carry(e, r, now)
	if p, ok := e.state.(*primed); ok && r.N > 0 && r.Verb != weir.Peek && p.Until() <= now {
		p.first(now)
	}
}

// clock reads the clock once per call; it never goes back.
func (m *Model) clock() int64 {
	m.latest = max(m.latest, m.now)
	return m.latest
}

// copy returns a deep copy of all entries.
func (m *Model) copy() map[name]*entry {
	all := make(map[name]*entry, len(m.keys))
	for k, e := range m.keys {
		all[k] = &entry{e.limit, e.state.Clone(), maps.Clone(e.reservations)}
	}
	return all
}

// entry returns the entry of key under limit, after its expired reservations.
func (m *Model) entry(key string, limit weir.Limit, now int64) *entry {
	e := m.stored(key, limit, now)
	e.under(limit, now)
	return e
}

// stored returns the entry of key under the limit that it has.
func (m *Model) stored(key string, limit weir.Limit, now int64) *entry {
	n := name{key, limit.Spec().State}
	e := m.keys[n]
	if e == nil {
		e = &entry{limit: limit, state: NewState(limit), reservations: map[string]reservation{}}
		m.keys[n] = e
	}
	e.expire(now)
	return e
}

// under brings e under a limit.
func (e *entry) under(limit weir.Limit, now int64) {
	if !e.limit.Equal(limit) {
		e.limit, e.state = limit, migrated(e.state, e.limit.Capacity(), limit, now)
	}
}

// decide answers a valid request.
func (m *Model) decide(r weir.Request, now int64) (weir.Decision, error) {
	e := m.stored(r.Key, r.Limit, now)
	mine, was := e, entry{limit: e.limit, state: e.state.Clone()}
	e.under(r.Limit, now)
	undo := func() {}
	if readOnly(r) {
		undo = m.carry(e, r, now)
	}
	if r.Verb == weir.Commit || r.Verb == weir.Cancel {
		e = m.holder(e, r, now)
	}
	res, err := e.answer(r, now)
	if err == nil && len(e.reservations) > 0 {
		e.await(&res, r, now)
	}
	undo()
	if readOnly(r) || err != nil { // that migrates nothing
		mine.limit, mine.state = was.limit, was.state
	}
	return decision(r.Limit, res, now), err
}

// readOnly reports whether a request can change nothing.
func readOnly(r weir.Request) bool {
	return r.Verb == weir.Peek || r.N == 0 && (r.Verb == weir.Take || r.Verb == weir.TakeUpTo)
}

var errNoReservation = errors.New("model: unknown or expired id")

// answer asks the state what r asks.
func (e *entry) answer(r weir.Request, now int64) (algo.Result, error) {
	ask := algo.Ask{Now: now, N: r.N}
	switch r.Verb {
	case weir.Reserve:
		return e.reserve(r, now), nil
	case weir.Commit, weir.Cancel:
		n := r.N
		if r.Verb == weir.Cancel {
			n = 0
		}
		return e.settle(idOf(r), n, now)
	case weir.Reset:
		e.state, e.reservations = NewState(e.limit), map[string]reservation{}
		ask.Op, ask.N = algo.Peek, 0
	case weir.Take:
		ask.Op = algo.Take
	case weir.TakeUpTo:
		ask.Op = algo.TakeUpTo
	case weir.Peek:
		ask.Op = algo.Peek
	case weir.Charge:
		ask.Op = algo.Charge
	case weir.Return:
		if ask.Op = algo.Return; r.Borrowed {
			ask.Place = algo.Surplus
		}
		if !r.At.IsZero() {
			ask.At = max(1, r.At.UnixMicro()) // 0 would be none
		}
	}
	return e.state.Do(ask), nil
}

// decision is a result as a caller sees it.
func decision(l weir.Limit, r algo.Result, now int64) weir.Decision {
	return weir.Decision{
		OK:         r.OK,
		Borrowed:   r.Place != algo.Own,
		Limit:      l,
		Granted:    r.Granted,
		Remaining:  max(0, r.Balance),
		Debt:       max(0, -r.Balance),
		RetryAfter: duration(r.Retry),
		ResetAfter: duration(r.Reset),
		Delay:      duration(r.Delay),
		At:         time.UnixMicro(now),
	}
}

// duration is µs as a Duration. One that does not fit is as long as can be said
// without saying Never.
func duration(us int64) time.Duration {
	if us == algo.Never {
		return weir.Never
	}
	d := time.Duration(us) * time.Microsecond
	if d.Microseconds() != us {
		return weir.Never - 1
	}
	return d
}
