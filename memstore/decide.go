package memstore

import (
	"fmt"
	"time"

	"github.com/floodweir/weir"
	"github.com/floodweir/weir/algo"
)

// decide answers the request i on the copies of t.
func (t *txn) decide(i int) (weir.Decision, error) {
	r := &t.rs[i]
	c := t.cell(t.hashes[i])
	var undo carried
	if len(r.From) > 0 && r.Verb != weir.Commit && r.Verb != weir.Cancel {
		undo = t.carry(c, r)
	}
	if t.overflow && !c.known && !t.live(c) && !t.reserved(c) {
		if r.Verb == weir.Reserve {
			return weir.Decision{}, t.s.errFull(r)
		}
		c = t.cell(stateHash(t.s.hash.sum(""), r.Limit))
		t.shared++
	}
	res, err := t.answer(c, r)
	switch {
	case undo.from != nil && (err != nil || !res.OK || asksOnly(r)):
		undo.undo(t)
	case err == nil && r.Verb != weir.Peek:
		c.asked = true
	}
	return r.Limit.Decision(res, t.now), err
}

// asksOnly reports whether a request can change nothing.
func asksOnly(r *weir.Request) bool {
	return r.Verb == weir.Peek || r.N == 0 && (r.Verb == weir.Take || r.Verb == weir.TakeUpTo)
}

func (t *txn) answer(c *cell, r *weir.Request) (algo.Result, error) {
	switch r.Verb {
	case weir.Reset:
		t.forget(c)
		return t.do(c, algo.Ask{Op: algo.Peek}), nil
	case weir.Reserve:
		return t.reserve(c, r), nil
	case weir.Commit:
		return t.settle(c, r, r.N)
	case weir.Cancel:
		return t.settle(c, r, 0)
	}
	return t.do(c, ask(r)), nil
}

// ask is what a request without a reservation asks a rule.
func ask(r *weir.Request) algo.Ask {
	a := algo.Ask{Op: algo.Op(r.Verb), N: r.N}
	if r.Verb == weir.Return && !r.At.IsZero() {
		a.At = max(1, r.At.UnixMicro()) // zero is no instant
	}
	return a
}

// do asks the rule, on the copy of c.
func (t *txn) do(c *cell, a algo.Ask) algo.Result {
	a.Now = t.now
	words, res := c.rule.Do(c.words, a)
	c.words = words
	c.changed = c.changed || res.OK && a.Op != algo.Peek
	return res
}

// reserve takes tokens under an id. Asked again it only answers.
func (t *txn) reserve(c *cell, r *weir.Request) algo.Result {
	id := holdID{c.hash, t.s.hash.reservation(r.ID)}
	ttl := (r.TTL + time.Microsecond - 1).Microseconds()
	if isConcurrency(r.Limit) {
		return t.do(c, algo.Ask{Op: algo.Take, N: r.N, ID: id.id, TTL: ttl})
	}
	if h, ok := t.find(c, id); ok {
		res := t.do(c, algo.Ask{Op: algo.Peek})
		res.Granted = h.n
		return res
	}
	res := t.do(c, algo.Ask{Op: algo.Take, N: r.N})
	if res.OK {
		h := hold{holdID: id, n: r.N, at: t.now, deadline: t.now + ttl}
		t.news = append(t.news, news{kind: added, hold: h, limit: c.limit})
	}
	return res
}

// settle settles a reservation at actual tokens, the first time it is asked to.
// What it grants is what the reservation came to.
func (t *txn) settle(c *cell, r *weir.Request, actual int64) (algo.Result, error) {
	id := holdID{c.hash, t.s.hash.reservation(r.ID)}
	if isConcurrency(r.Limit) {
		res := t.do(c, algo.Ask{Op: algo.Return, ID: id.id})
		if res.Granted == 0 {
			return res, errNoReservation(r)
		}
		res.Granted = 0
		return res, nil
	}
	h, ok := t.find(c, id)
	if !ok {
		return algo.Result{}, errNoReservation(r)
	}
	a := algo.Ask{Op: algo.Peek}
	switch {
	case h.settled:
		actual = h.actual
	case actual < h.n:
		a = algo.Ask{Op: algo.Return, N: h.n - actual, At: h.at}
	case actual > h.n:
		a = algo.Ask{Op: algo.Charge, N: actual - h.n}
	}
	res := t.do(c, a)
	res.Granted = actual
	if !h.settled {
		h.settled, h.actual = true, actual
		t.news = append(t.news, news{kind: settled, hold: h, limit: c.limit})
	}
	return res, nil
}

func errNoReservation(r *weir.Request) error {
	return fmt.Errorf("memstore: %s %.40q: %w", r.Verb, r.ID, weir.ErrNoReservation)
}

// A carried is a state that was carried over, and what both cells were before.
type carried struct {
	from, to       *cell
	fromWas, toWas cell
	news           int
}

// carry moves what the key owes under a former limit over to c, if nothing is
// known of it there.
func (t *txn) carry(c *cell, r *weir.Request) carried {
	if t.live(c) || t.reserved(c) {
		return carried{}
	}
	key := t.s.hash.sum(r.Key)
	for _, limit := range r.From {
		if limit.IsZero() {
			continue
		}
		from := t.cell(stateHash(key, limit))
		if from == c || !t.live(from) {
			continue
		}
		done := carried{from, c, *from, *c, len(t.news)}
		n := c.rule.Words()
		c.words = algo.Carry(algo.CarryMode(r.Carry), from.rule, from.words, c.rule, t.cut(n, n+room(c.rule)), t.now)
		c.changed = true
		t.forget(from)
		return done
	}
	return carried{}
}

// undo puts both states back: a denial, or a question, changes nothing.
func (d *carried) undo(t *txn) {
	*d.from, *d.to = d.fromWas, d.toWas
	t.news = t.news[:d.news]
}
