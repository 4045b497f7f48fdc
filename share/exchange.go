package share

import (
	"fmt"
	"slices"

	"github.com/floodweir/weir"
	"github.com/floodweir/weir/internal/algo"
	"github.com/floodweir/weir/internal/batching"
	"github.com/floodweir/weir/share/internal/parts"
)

// An op is a request that the ledger decides or, without one, the turn of a share: it is renewed,
// changed or returned.
type op struct {
	batching.Wait
	entry *entry
	r     *weir.Request
	d     weir.Decision

	own int64 // tokens from the share, which has neither them nor their capacity meanwhile
}

// Requests implements batching.Op.
func (o *op) Requests() int { return 1 }

// An exchange decides the ops of an entry by its row. It loads the row and puts into the remainder
// what the holder gives back. It decides, takes out what the holder gets, and swaps the row. The
// holder uses its share meanwhile. The steps are begin, load, and end after the swap. Load repeats
// if another process has written the row.
//
// A part that is given back has to leave the share before the row is read. Otherwise it refills twice
// in between, in the share and in the remainder, and used tokens of a log count as free too early.
type exchange struct {
	entry *entry
	ops   []*op
	first *weir.Request // of ops; nil if all are turns

	give      parts.Part // already removed from the share
	giveLevel int64
	gave      int64      // the instant; 0 if nothing was given back
	began     int64      // the local instant
	pull      bool       // the share is empty, or nearly
	hand      parts.Part // of the tokens of ops

	row    row
	in     *parts.Limit // the limit in force
	now    int64
	read   int64  // the local instant before the last load
	moment moment // of the reply of the last call
	get    parts.Part
	level  int64
	moved  int64 // tokens beside those of the part
	seq    uint64
	demand int64
	listed bool // the new row has the holder
	again  bool // the row was read before something was given back
	rows   int  // of the last load
	tries  int
	ended  bool
	sent   moment // before the swap
}

// begin removes from the share what ops need, and what is to be given back.
func begin(c *settings, e *entry, ops []*op, m moment) *exchange {
	x := &exchange{entry: e, ops: ops, began: m.local}
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.since == 0 {
		e.since = m.local
	}
	x.pull, e.pull, e.starved = e.pull, false, false
	e.ops++ // a caller may leave before the end
	e.terms = c.termsOf(e.key)
	e.until = min(e.until, m.local+e.terms.usable) // others may see a shorter lease of which the reply is lost
	reset := slices.ContainsFunc(ops, func(o *op) bool { return o.r != nil && o.r.Verb == weir.Reset })
	if e.live(m) {
		x.surrender(c, m, reset || e.debt)
	} else {
		e.drop()
	}
	for _, o := range ops {
		if o.r == nil {
			continue
		}
		if x.first == nil {
			x.first = o.r
		}
		if !e.live(m) {
			continue
		}
		switch o.r.Verb {
		case weir.Take, weir.TakeUpTo, weir.Charge:
			o.own = max(0, min(o.r.N, e.own.Level(e.now(m)), e.own.Size-1))
			e.own.Take(e.limit, e.limit.Tokens(o.own), o.own, e.now(m))
			x.hand = x.hand.Plus(e.limit.Tokens(o.own))
		case weir.Peek:
			o.own = min(o.r.N, max(0, e.own.Level(e.now(m))))
		}
	}
	return x
}

// surrender removes the surplus of a share, or all of it. It requires mu.
func (x *exchange) surrender(c *settings, m moment, all bool) {
	e, now := x.entry, x.entry.now(m)
	x.gave = e.at(m)
	to, level := e.target(c), max(0, e.own.Level(now))
	if all || to == (parts.Part{}) && (e.limit.Bucket || level >= e.own.Size || e.idle > idleLong || c.closing.Load()) {
		x.give, x.giveLevel = e.own.Part, min(level, e.own.Size)
		e.own = parts.Bank{}
		return
	}
	give, keep := e.own.Minus(to), e.own.Rate/5
	switch {
	case e.starving:
		keep = e.own.Rate / 64
	case e.scarce():
		keep = e.own.Rate / 16
	}
	if give.Rate <= keep && to != (parts.Part{}) {
		x.gave = 0
		return
	}
	if e.limit.Bucket {
		give.Size = max(0, give.Size)
		part := int64(float64(level) / float64(e.own.Size) * float64(give.Size))
		x.giveLevel = min(level, give.Size, max(level-to.Size, part))
	} else {
		give.Size = min(give.Size, level)
		give.Rate, x.giveLevel = give.Size, give.Size
	}
	x.give = give
	e.own.Take(e.limit, give, x.giveLevel, now)
}

// giveMore removes from the share what is a surplus since begin. It reports whether there is any.
func (x *exchange) giveMore(c *settings, m moment) bool {
	e := x.entry
	e.mu.Lock()
	defer e.mu.Unlock()
	if x.gives() || !e.live(m) {
		return false
	}
	x.surrender(c, m, e.debt)
	return x.gives()
}

// gives reports whether the holder gives something back.
func (x *exchange) gives() bool { return x.give != (parts.Part{}) || x.giveLevel != 0 }

// load reads the row, and those of the former limits of the first request. It returns the swap, or
// none if there is nothing to write. If it sets again, rows have to be loaded that are read from now on.
func (x *exchange) load(c *settings, rows []Stored, at int64, sent, received moment) (s Swap, write bool, err error) {
	e, r := x.entry, &x.row
	if x.again = x.giveMore(c, received); x.again {
		return s, false, nil
	}
	*r, x.read, x.moment, x.get, x.level, x.moved, x.listed = row{}, sent.local, received, parts.Part{}, 0, 0, false
	if rows[0].Version != 0 {
		if err = r.decode(rows[0].Data); err != nil {
			return s, false, err
		}
	}
	if x.now, x.in, err = r.open(e.limit, at, x.first != nil); err != nil {
		return s, false, err
	}
	if e.limit.Labels {
		x.now = max(x.now, x.gave) // what was given back was not free before
	}
	write = rows[0].Version == 0 && x.carry(rows[1:], at) || r.limit != x.in.Text && x.charges()
	write = r.reclaim(x.in, e.id, &e.watched, sent, received, x.now) || write
	mine := r.find(e.id)
	back := x.setBack(at)
	if mine == nil || mine.old || x.in != e.limit || back {
		if x.again = x.forget(mine != nil, back); x.again {
			return s, false, nil
		}
	}
	if mine != nil {
		// The row has the share, and what the holder gave back or never got. The tokens of
		// the latter are lost.
		if more := mine.part.Minus(e.own.Part).Minus(x.hand); more != (parts.Part{}) {
			r.rest.Put(x.in, more, x.giveLevel, x.now)
			write = true
		}
	}
	denied := false
	for _, o := range x.ops {
		if o.r != nil {
			write = x.decide(c, o) || write
			denied = denied || o.Err == nil && !o.d.OK
		}
	}
	if !x.grant(c, denied) && !write {
		return s, false, nil
	}
	x.list(c)
	s, err = r.swap(e.key, e.name, rows[0].Version, x.in, x.now)
	return s, err == nil, err
}

// setBack reports whether the clock of the ledger, which is at an instant, was set back.
func (x *exchange) setBack(at int64) bool {
	x.entry.mu.Lock()
	defer x.entry.mu.Unlock()
	return x.entry.floor > 0 && at < x.entry.floor-maxAhead
}

// forget drops the share, and the tokens of ops with it: another process has it, the limit has changed, or the
// clock of the ledger was set back. It gives the tokens back if a bucket of the row still lists the share. It reports
// whether a listed share was used until now.
func (x *exchange) forget(listed, setBack bool) (used bool) {
	e := x.entry
	e.mu.Lock()
	defer e.mu.Unlock()
	used = listed && e.own.Rule != nil
	if listed && !setBack && e.limit.Bucket && x.in.Bucket {
		x.giveLevel += x.hand.Size + max(0, e.own.Level(e.now(x.moment)))
	} else {
		x.giveLevel = 0
	}
	if used && !setBack {
		x.gave = e.at(x.moment)
	}
	e.drop()
	e.floor, x.hand = 0, parts.Part{}
	for _, o := range x.ops {
		o.own = 0
	}
	return used
}

// former returns the former limits whose state a new row carries over.
func (x *exchange) former() (limits []*parts.Limit) {
	if x.first == nil {
		return nil
	}
	for _, f := range x.first.From {
		if d, err := parts.Divide(f); err == nil && rowName(x.entry.key, f) != x.entry.name {
			limits = append(limits, d)
		}
	}
	return limits
}

// charges reports whether a request may change the state, so that a changed limit is stored even if
// the request is denied.
func (x *exchange) charges() bool {
	return slices.ContainsFunc(x.ops, func(o *op) bool { return o.r != nil && o.r.Verb != weir.Peek && o.r.N > 0 })
}

// carry carries the state under a former limit over into a new row, as if the shares of that limit
// were used. It reports whether there was one.
func (x *exchange) carry(rows []Stored, at int64) bool {
	limits := x.former()
	if len(limits) == 0 || x.first.Verb == weir.Peek || x.first.N == 0 {
		return false
	}
	for i := range rows {
		var r row
		if rows[i].Version == 0 || r.decode(rows[i].Data) != nil {
			continue
		}
		now, in, err := r.open(limits[i], at, false)
		if err != nil {
			continue
		}
		for _, h := range r.holders {
			r.rest.Put(in, h.part, 0, now)
		}
		b := &x.row.rest
		if r.rest.Rule != nil {
			b.Words = algo.Carry(algo.CarryMode(x.first.Carry), r.rest.Rule, r.rest.Words, b.Rule, nil, max(now, x.now))
		}
		return true
	}
	return false
}

// decide decides a request by the remainder and the tokens of the share. It reports whether the
// state changed.
func (x *exchange) decide(c *settings, o *op) (changed bool) {
	e, r, b := x.entry, o.r, &x.row.rest
	o.Err = nil // of a row that another process has written
	a := algo.Ask{Op: algo.Op(r.Verb), Now: x.now, N: r.N - o.own}
	switch r.Verb {
	case weir.Reset:
		clear(b.Words)
		a.Op, a.N = algo.Peek, 0
	case weir.Return:
		if !r.At.IsZero() {
			a.At = max(1, r.At.UnixMicro())
		}
	}
	res := b.Do(a)
	if b.Rule == nil && r.Verb == weir.Charge && a.N > 0 {
		o.Err = fmt.Errorf("share: charge: %w: the limit has changed, and shares of the former one have not ended", weir.ErrUnavailable)
		return false
	}
	changed = r.Verb == weir.Reset || res.OK && r.Verb != weir.Peek && a.N > 0
	switch r.Verb {
	case weir.TakeUpTo:
		res.Granted += o.own
		res.OK = res.OK || o.own > 0
	case weir.Take, weir.Charge:
		if res.OK {
			res.Granted += o.own
		}
	}
	switch {
	case res.OK:
		res.Retry = 0
	case r.Verb != weir.TakeUpTo && r.N > x.in.Capacity():
		res.Retry = algo.Never
	case res.Retry == algo.Never || b.Rule == nil:
		res.Retry = c.interval
	}
	e.mu.Lock()
	if e.own.Rule != nil {
		res.Balance += max(0, e.own.Level(e.now(x.moment)))
	}
	e.mu.Unlock()
	r.Limit.Spec().Fill(&o.d, &res, x.now)
	return changed
}

// end ends the exchange. It was written, if it had something to write, unless err is set; sent
// reports whether it may have been written nevertheless.
func (x *exchange) end(c *settings, wrote, sent bool, err error) {
	e, m := x.entry, x.moment
	e.mu.Lock()
	defer e.mu.Unlock()
	x.ended = true
	if x.pull {
		e.repeats = m.local + c.interval/2
	}
	e.ops--
	e.took = min(m.local-x.began, 10*c.interval)
	if err == nil {
		e.listed, e.look = x.listed, m.local+e.wait
		if e.limit.Labels {
			e.floor = max(e.floor, x.now)
		}
	}
	switch {
	case err == nil && wrote:
		if x.listed {
			e.seq = x.seq
			e.until, e.renew = x.sent.local+e.terms.usable, x.sent.local+e.terms.lease/3
		}
		e.own.Put(e.limit, x.get, x.level, e.now(m))
		e.own.Do(algo.Ask{Op: algo.Return, Now: e.now(m), At: x.now, N: x.moved})
	case err != nil && !sent:
		e.own.Put(e.limit, x.give, x.giveLevel, e.now(m))
	}
	for _, o := range x.ops {
		if err != nil && o.Err == nil {
			o.Err = err
		}
		if o.r == nil {
			continue
		}
		takes := o.r.Verb == weir.Take || o.r.Verb == weir.TakeUpTo
		denied := o.Err == nil && !o.d.OK
		if takes && o.Err == nil && !denied {
			e.denied = 0
		}
		if o.own > 0 && o.r.Verb != weir.Peek {
			level := int64(0)
			if o.Err != nil || denied {
				level = o.own
			}
			e.own.Put(e.limit, e.limit.Tokens(o.own), level, e.now(m))
		}
		if takes && denied {
			retry := o.d.RetryAfter.Microseconds()
			e.denied, e.retry, e.repeats = o.r.N, m.local+retry, m.local+min(retry, c.interval)
			if e.live(m) {
				e.repeats = m.local + c.interval/2 // the share decides first
			}
			if o.r.Verb == weir.TakeUpTo {
				e.denied = 1
			}
		}
	}
	e.remember(err)
}
