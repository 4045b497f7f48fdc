package memstore

import (
	"fmt"
	"time"

	"github.com/floodweir/weir"
	"github.com/floodweir/weir/internal/algo"
	"github.com/floodweir/weir/memstore/internal/hold"
)

// precede does what comes before the decision of request i and stays even if
// that is a denial: what the key owes under a former limit is carried over, and
// a key of a primed limit has been seen.
func (t *txn) precede(i int) {
	r := &t.rs[i]
	if r.Verb == weir.Commit || r.Verb == weir.Cancel {
		return
	}
	c := t.cell(t.hashes[i]).under(r.Limit)
	if len(r.From) > 0 && !asksOnly(r) {
		t.carry(c, r)
	}
	if t.overflow && t.stranger(c, r) {
		t.hashes[i] = stateHash(t.s.hash.sum(""), r.Limit)
		t.shared++
		c = t.cell(t.hashes[i]).under(r.Limit)
	}
	if _, primed := c.rule.(*algo.Primed); primed && r.Verb != weir.Peek && !t.live(c) {
		t.do(c, &algo.Ask{Op: algo.Take})
	}
}

// preceded notes how the states are before the decisions.
func (t *txn) preceded() {
	t.newsBefore = len(t.news)
	for i := range t.cells {
		if c := &t.cells[i]; c.changed {
			c.before = append(t.cut(0, len(c.words)), c.words...)
			c.preceded, c.forgotBefore = true, c.forgot
		}
	}
}

// deny takes the decisions back, but not what preceded them. It reports whether
// there was anything.
func (t *txn) deny() (some bool) {
	t.news = t.news[:t.newsBefore]
	for i := range t.cells {
		c := &t.cells[i]
		if c.changed = c.preceded; c.changed {
			c.words, c.forgot, some = c.before, c.forgotBefore, true
		}
	}
	return some
}

// stranger reports whether nothing is known of the key of r, whose state is c.
func (t *txn) stranger(c *cell, r *weir.Request) bool {
	return !c.known && !t.live(c) && !t.reserved(c) && t.former(c, r) == nil
}

// decide answers the request i on the copies of t.
func (t *txn) decide(i int, d *weir.Decision) error {
	r := &t.rs[i]
	c := t.cell(t.hashes[i]).under(r.Limit)
	if c.shared && r.Verb == weir.Reserve {
		return t.s.full
	}
	var from *cell
	if asksOnly(r) {
		from = t.former(c, r)
	}
	if from != nil {
		// What is only asked about is carried over for the answer, and then back.
		was, fromWas, news := *c, *from, len(t.news)
		defer func() { *c, *from, t.news = was, fromWas, t.news[:news] }()
		t.carry(c, r)
	}
	if err := t.answer(c, r); err != nil {
		return err
	}
	*d = weir.Decision{}
	r.Limit.Spec().Fill(d, &t.res, t.now)
	return nil
}

// asksOnly reports whether a request can change nothing.
func asksOnly(r *weir.Request) bool {
	return r.Verb == weir.Peek || r.N == 0 && (r.Verb == weir.Take || r.Verb == weir.TakeUpTo)
}

// answer leaves in t.res what the answer to r is.
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
		a := algo.Ask{Op: algo.Op(r.Verb), N: r.N, At: at(r)}
		t.do(c, &a)
	}
	return nil
}

// at is the instant of the charge that a request gives back; 0 if it names none.
func at(r *weir.Request) int64 {
	if r.Verb != weir.Return || r.At.IsZero() {
		return 0
	}
	return max(1, r.At.UnixMicro())
}

// do asks the rule, on the copy of c, and leaves what it says in t.res.
func (t *txn) do(c *cell, a *algo.Ask) {
	a.Now = t.now
	c.words, t.res = c.rule.Do(c.words, *a)
	if a.Op != algo.Peek && t.res.OK {
		c.changed = true
		c.returned = c.returned || a.Op == algo.Return
	}
}

// reserve takes tokens under an id. Asked again it only answers.
func (t *txn) reserve(c *cell, r *weir.Request) {
	id := hold.Name{State: c.hash, ID: t.s.hash.reservation(r.ID)}
	ttl := (r.TTL + time.Microsecond - 1).Microseconds()
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
		h := hold.Hold{Name: id, N: r.N, At: t.now, Deadline: t.now + ttl}
		t.news = append(t.news, news{kind: added, Hold: h, limit: c.limit})
	}
}

// settle settles a reservation at actual tokens, the first time it is asked to.
// What it grants is what the reservation came to.
func (t *txn) settle(c *cell, r *weir.Request, actual int64) error {
	id := hold.Name{State: c.hash, ID: t.s.hash.reservation(r.ID)}
	if r.Limit.IsConcurrency() {
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
	case actual < h.N && t.live(c): // as never used, it has all already
		a = algo.Ask{Op: algo.Return, N: h.N - actual, At: h.At}
	case actual > h.N:
		a = algo.Ask{Op: algo.Charge, N: actual - h.N}
	}
	t.do(c, &a)
	t.res.Granted = actual
	if !h.Settled {
		h.Settled, h.Actual = true, actual
		t.news = append(t.news, news{kind: settled, Hold: h, limit: c.limit})
	}
	return nil
}

func errNoReservation(r *weir.Request) error {
	return fmt.Errorf("memstore: %s %.40q: %w", r.Verb, r.ID, weir.ErrNoReservation)
}

// former is the state of the key under the first of its former limits under
// which it has one, if it has none under the limit in force.
func (t *txn) former(c *cell, r *weir.Request) *cell {
	if len(r.From) == 0 || t.live(c) || t.reserved(c) {
		return nil
	}
	key := t.s.hash.sum(r.Key)
	for _, limit := range r.From {
		if limit.IsZero() {
			continue
		}
		if from := t.cell(stateHash(key, limit)); from != c && t.live(from) {
			return from.under(limit)
		}
	}
	return nil
}

// carry moves what the key owes under a former limit over to c.
func (t *txn) carry(c *cell, r *weir.Request) {
	from := t.former(c, r)
	if from == nil {
		return
	}
	n := c.rule.Words()
	c.words = algo.Carry(algo.CarryMode(r.Carry), from.rule, from.words, c.rule, t.cut(n, n+room(c.rule)), t.now)
	c.changed = true
	t.forget(from)
}
