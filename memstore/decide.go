package memstore

import (
	"fmt"
	"slices"
	"time"

	"github.com/floodweir/weir"
	"github.com/floodweir/weir/internal/algo"
	"github.com/floodweir/weir/memstore/internal/reservation"
)

// applyCarryOver makes the changes that precede the decision of request i and stay even
// if it is denied. The state under a former limit is carried over, and a key under a
// limit with initial tokens is no longer new.
func (t *txn) applyCarryOver(i int) {
	r := &t.rs[i]
	if r.Verb == weir.Commit || r.Verb == weir.Cancel {
		return
	}
	c := t.cell(t.hashes[i])
	if !readOnly(r) {
		c = c.under(t, r.Limit)
		if len(r.From) > 0 {
			t.carry(c, r)
		}
		c.changed = c.changed || c.migrated
	}
	if t.overflow && t.isUnknown(c, r) {
		t.hashes[i] = stateHash(t.s.hash.sum(""), r.Limit)
		t.shared++
		if c = t.cell(t.hashes[i]); !readOnly(r) {
			c = c.under(t, r.Limit)
		}
	}
	if p, ok := c.rule.(*algo.Primed); ok && r.N > 0 && r.Verb != weir.Peek && !c.live(t.now) {
		c.words, c.changed = p.First(c.words, t.now), true
	}
}

// saveUndo saves the states before the decisions, for rollBack.
func (t *txn) saveUndo() {
	t.pendingBefore = len(t.pending)
	for i := range t.cells {
		if c := &t.cells[i]; c.changed {
			c.savedWords = append(t.alloc(0, len(c.words)), c.words...)
			c.savedChanged, c.savedForgot, c.savedLimit = true, c.forgot, c.limit
		}
	}
}

// rollBack undoes the decisions, but not the changes that preceded them. It reports
// whether there were any of those.
func (t *txn) rollBack() (some bool) {
	t.pending = t.pending[:t.pendingBefore]
	for i := range t.cells {
		c := &t.cells[i]
		if c.changed = c.savedChanged; c.changed {
			c.words, c.forgot, some = c.savedWords, c.savedForgot, true
			c.limit, c.rule = c.savedLimit, c.savedLimit.Spec().Rule
		}
	}
	return some
}

// isUnknown reports whether the store has no state for the key of r, whose cell is c.
func (t *txn) isUnknown(c *cell, r *weir.Request) bool {
	return !c.known && !c.live(t.now) && !t.reserved(c) && t.former(c, r) == nil
}

// decide answers request i on the copies of t.
func (t *txn) decide(i int, d *weir.Decision) error {
	r := &t.rs[i]
	c := t.cell(t.hashes[i])
	if readOnly(r) && c.limit != r.Limit {
		was := *c
		defer func() { *c = was }() // a read migrates nothing
	}
	c = c.under(t, r.Limit)
	if c.shared && r.Verb == weir.Reserve {
		return t.s.full
	}
	var from *cell
	if readOnly(r) {
		from = t.former(c, r)
	}
	if from != nil {
		// A Peek carries the state over for its answer, and then back.
		was, fromWas, news := *c, *from, len(t.pending)
		defer func() { *c, *from, t.pending = was, fromWas, t.pending[:news] }()
		t.carry(c, r)
	}
	if r.Verb == weir.Commit || r.Verb == weir.Cancel {
		c = holder(t, c, r)
	}
	if err := t.answer(c, r); err != nil {
		return err
	}
	if t.reserved(c) {
		await(t, c, r)
	}
	*d = weir.Decision{}
	r.Limit.Spec().Fill(d, &t.res, t.now)
	return nil
}

// readOnly reports whether a request can change nothing.
func readOnly(r *weir.Request) bool {
	return r.Verb == weir.Peek || r.N == 0 && (r.Verb == weir.Take || r.Verb == weir.TakeUpTo)
}

// answer sets t.res to the result of r.
func (t *txn) answer(c *cell, r *weir.Request) error {
	switch r.Verb {
	case weir.Reset:
		t.forget(c)
		t.do(c, &algo.Ask{Op: algo.Peek})
	case weir.Reserve:
		t.reserve(c, r)
	case weir.Commit:
		return t.settle(c, r, r.N)
	case weir.Cancel:
		return t.settle(c, r, 0)
	default:
		a := algo.Ask{Op: algo.Op(r.Verb), Place: place(r), N: r.N, At: at(r)}
		t.do(c, &a)
	}
	return nil
}

// at returns the instant of the charge that a request gives back; 0 if it names none.
func at(r *weir.Request) int64 {
	if r.Verb != weir.Return || r.At.IsZero() {
		return 0
	}
	return max(1, r.At.UnixMicro())
}

// place returns the place of the tokens that a request gives back.
func place(r *weir.Request) algo.Place {
	if r.Borrowed {
		return algo.Surplus
	}
	return algo.Own
}

// do applies the rule to the copy of c, and sets t.res to its result.
func (t *txn) do(c *cell, a *algo.Ask) {
	a.Now = t.now
	c.words, t.res = c.rule.Do(c.words, *a)
	if t.res.OK && a.Op != algo.Peek && (a.N > 0 || a.Op > algo.Peek) {
		c.changed = true
		c.returned = c.returned || a.Op == algo.Return
	}
}

// reserve takes tokens under an id. A second request with the id changes nothing.
func (t *txn) reserve(c *cell, r *weir.Request) {
	id := reservation.Name{State: c.hash, ID: t.s.hash.reservation(r)}
	ttl := ttlOf(r)
	if r.Limit.IsConcurrency() {
		t.do(c, &algo.Ask{Op: algo.Take, N: r.N, ID: id.ID, TTL: ttl})
		return
	}
	if h, ok := t.find(c, id); ok {
		t.do(c, &algo.Ask{Op: algo.Peek})
		t.res.Granted = h.N
		return
	}
	t.do(c, &algo.Ask{Op: algo.Take, N: r.N})
	if t.res.OK {
		h := reservation.Record{Name: id, Place: uint8(t.res.Place), N: r.N, At: t.now, Deadline: t.now + ttl}
		t.pending = append(t.pending, pendingWrite{kind: added, Record: h, limit: c.limit})
	}
}

// ttlOf returns the TTL of a reservation, in µs.
func ttlOf(r *weir.Request) int64 { return (r.TTL + time.Microsecond - 1).Microseconds() }

// settle settles a reservation at actual tokens, the first time. It grants what the
// reservation was settled at.
func (t *txn) settle(c *cell, r *weir.Request, actual int64) error {
	id := reservation.Name{State: c.hash, ID: t.s.hash.reservation(r)}
	if c.limit.IsConcurrency() {
		t.do(c, &algo.Ask{Op: algo.Return, ID: id.ID})
		if t.res.Granted == 0 {
			return errNoReservation(r)
		}
		t.res.Granted = 0
		return nil
	}
	h, ok := t.find(c, id)
	if !ok {
		return errNoReservation(r)
	}
	a := algo.Ask{Op: algo.Peek}
	switch {
	case h.Settled:
		actual = h.Actual
	case actual < h.N && c.live(t.now): // a state as if never used has them already
		a = algo.Ask{Op: algo.Return, Place: algo.Place(h.Place), N: h.N - actual, At: h.At}
	case actual > h.N:
		a = algo.Ask{Op: algo.Charge, N: actual - h.N}
	}
	t.do(c, &a)
	c.changed = c.changed || c.migrated
	t.res.Granted, t.res.Place = actual, algo.Own
	if !h.Settled {
		h.Settled, h.Actual = true, actual
		t.pending = append(t.pending, pendingWrite{kind: settled, Record: h, limit: c.limit})
	}
	return nil
}

func errNoReservation(r *weir.Request) error {
	return fmt.Errorf("memstore: %s %.40q: %w", r.Verb, r.ID, weir.ErrNoReservation)
}

// former returns the state of the key under its newest former limit that has one, if it
// has none under its limit.
func (t *txn) former(c *cell, r *weir.Request) *cell {
	if len(r.From) == 0 || c.live(t.now) || t.reserved(c) {
		return nil
	}
	key := t.s.hash.sum(r.Key)
	for _, limit := range r.From {
		if limit.IsZero() {
			continue
		}
		if from := t.cell(stateHash(key, limit)); from != c && from.live(t.now) {
			return from.under(t, limit)
		}
	}
	return nil
}

// carry carries the state under a former limit over to c.
func (t *txn) carry(c *cell, r *weir.Request) {
	from := t.former(c, r)
	if from == nil {
		return
	}
	n := c.rule.Words()
	c.words = algo.Carry(algo.CarryMode(r.Carry), from.rule, from.words, c.rule, t.alloc(n, n+growth(c.rule)), t.now)
	c.changed = true
	if r.Carry != weir.CarryReset {
		moveReservations(t, from, c)
	}
	t.forget(from)
}

// moveReservations gives c the reservations of from, with their ids and deadlines.
func moveReservations(t *txn, from, c *cell) {
	if !t.reserved(from) {
		return
	}
	var all []reservation.Record
	for h := range from.sh.reservations.State(from.hash) {
		all = append(all, *h)
	}
	for i := range t.pending {
		switch n := &t.pending[i]; {
		case n.State != from.hash:
		case n.kind == forgotten:
			all = nil
		default:
			all = slices.DeleteFunc(all, func(h reservation.Record) bool { return h.Name == n.Name })
			all = append(all, n.Record)
		}
	}
	for _, h := range all {
		h.State, h.Place = c.hash, uint8(algo.Own)
		t.pending = append(t.pending, pendingWrite{kind: added, Record: h, limit: c.limit})
	}
}

// holder returns the cell that has the reservation or slot of r: c, or that of a former limit.
func holder(t *txn, c *cell, r *weir.Request) *cell {
	id := t.s.hash.reservation(r)
	holds := func(c *cell) bool {
		if c.limit.IsConcurrency() {
			_, res := c.rule.Do(slices.Clone(c.words), algo.Ask{Op: algo.Return, Now: t.now, ID: id})
			return res.Granted > 0
		}
		_, ok := t.find(c, reservation.Name{State: c.hash, ID: id})
		return ok
	}
	if len(r.From) == 0 || holds(c) {
		return c
	}
	key := t.s.hash.sum(r.Key)
	for _, limit := range r.From {
		if limit.IsZero() || limit.IsConcurrency() != r.Limit.IsConcurrency() {
			continue
		}
		if from := t.cell(stateHash(key, limit)); from != c && holds(from.under(t, limit)) {
			return from
		}
	}
	return c
}
