package share

import "github.com/floodweir/weir/share/internal/parts"

// idleTicks is the number of ticks without a request after which a share is returned.
const idleTicks = 3

// idleLong is the number of ticks without a request after which the used part of a count is returned
// too. Until then a holder waits until it is free again: what is returned counts as used at that
// time.
const idleLong = 100

// tick measures the demand since the last tick, dt µs ago. It reports whether the holder needs a
// turn: its lease is to be renewed, or it has more than it should have.
func (e *entry) tick(c *settings, m moment, dt int64) bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	now := float64(e.asked) / float64(max(1, dt)) * float64(e.limit.Span)
	e.idle++
	if e.asked > 0 {
		e.idle, e.asked = 0, 0
	}
	switch expected := e.demand * float64(dt) / float64(e.limit.Span); {
	case now > e.demand:
		e.demand = (e.demand + now) / 2
	case expected > 20 && now < e.demand/2: // not by chance
		e.demand = now
	default:
		e.demand = e.demand*0.7 + now*0.3
	}
	switch {
	case e.queued || !e.listed:
		return false
	case m.local >= e.renew || c.closing.Load() || e.debt || e.idle >= idleTicks && (e.limit.Bucket || e.idle > idleLong):
		e.queued = true
	default:
		least := e.own.Rate / 4
		switch {
		case e.idle >= idleTicks:
			least = e.own.Rate / 16
		case e.scarce():
			least = e.own.Rate / 10
		}
		surplus := e.own.Rate - e.target(c).Rate
		e.queued = surplus > least && (e.limit.Bucket || e.own.Level(e.now(m)) > least)
	}
	return e.queued
}

// scarce reports whether a bucket does not suffice for what all holders want. Then a holder keeps less
// beyond what it should have, because others miss it. It requires mu.
func (e *entry) scarce() bool {
	d := e.limit
	return d.Bucket && wanted(d, e.demand)+e.others > float64(d.Whole.Rate-d.Reserve().Rate)
}

// endTurn ends a turn that tick asked for, also if it was not sent.
func (e *entry) endTurn() {
	e.mu.Lock()
	e.queued = false
	e.mu.Unlock()
}

// wants reports whether the process asks for the key often enough for a share. It requires mu.
func (e *entry) wants(c *settings) bool {
	return !e.removed && e.idle < idleTicks && !c.closing.Load() && e.demand >= c.threshold*float64(e.limit.Span)
}

// wanted returns the rate that a holder with a demand should have: a quarter more, and a bit.
func wanted(d *parts.Limit, demand float64) float64 {
	return demand*1.25 + float64(d.Whole.Rate)/64
}

// target returns the part that the process should have: what it wants if the limit suffices for all
// holders, and a part in proportion otherwise. It requires mu.
func (e *entry) target(c *settings) parts.Part {
	d := e.limit
	if e.idle >= idleTicks || c.closing.Load() {
		return parts.Part{}
	}
	free := float64(d.Whole.Rate - d.Reserve().Rate)
	want := wanted(d, e.demand)
	if all := want + e.others; all > free {
		want *= free / all
	}
	return d.Fraction(int64(min(want, free, float64(d.Whole.Rate)*e.terms.largest)))
}

// grant takes a part for the holder out of the remainder, if it should have more than it has, and
// sets whether the row lists the holder. It reports whether the row has to be written.
func (x *exchange) grant(c *settings, denied bool) bool {
	e, r, d := x.entry, &x.row, x.entry.limit
	e.mu.Lock()
	defer e.mu.Unlock()
	e.others = 0
	former := r.closed
	for i := range r.holders {
		if h := &r.holders[i]; h.id != e.id {
			e.others += wanted(d, float64(h.demand))
			former = former || h.old
		}
	}
	x.demand = int64(min(e.demand, 1<<50))
	mine := r.find(e.id)
	wants := e.wants(c) && x.in == d && (mine != nil || len(r.holders) < maxHolders)
	level := r.rest.Level(x.now)
	e.debt = level < 0 && e.own.Rule != nil
	if wants && !former && r.rest.Rule != nil && level >= 0 {
		x.get, x.level = e.lacks(c, &r.rest, level)
		if d.Bucket && x.first != nil && e.live(x.moment) { // the share was empty: it gets tokens too
			room := e.own.Size + x.get.Size - e.own.Level(e.now(x.moment)) - x.level
			x.level += max(0, min((level-x.level)/2, room))
		}
		r.rest.Take(d, x.get, x.level, x.now)
	}
	x.listed = e.own.Part.Plus(x.hand).Plus(x.get) != (parts.Part{}) || wants && (denied || mine != nil)
	return x.get != (parts.Part{}) || x.level > 0 || x.listed != (mine != nil) || x.listed && x.moment.local >= e.renew
}

// lacks returns what the holder should get from a remainder with a level. It requires mu.
func (e *entry) lacks(c *settings, rest *parts.Bank, level int64) (parts.Part, int64) {
	d, reserve := e.limit, e.limit.Reserve()
	target := e.target(c)
	get := target.Minus(e.own.Part)
	get.Rate = min(get.Rate, rest.Rate-reserve.Rate)
	get.Size = min(max(0, get.Size), rest.Size-reserve.Size)
	if d.Bucket {
		if get.Size < 0 || e.own.Size+get.Size < 1 {
			return parts.Part{}, 0
		}
	} else {
		get.Rate = min(get.Rate, level)
		get.Size = get.Rate
	}
	if get.Rate < max(1, e.own.Rate/8) {
		return parts.Part{}, 0
	}
	if !d.Bucket {
		return get, get.Size
	}
	return get, min(level, int64(float64(level)/float64(rest.Size)*float64(get.Size)))
}

// list writes the holder into the row, or removes it.
func (x *exchange) list(c *settings) {
	e, r := x.entry, &x.row
	mine := r.find(e.id)
	if !x.listed {
		if mine != nil {
			*mine = r.holders[len(r.holders)-1]
			r.holders = r.holders[:len(r.holders)-1]
		}
		return
	}
	x.seq = e.seq + 1
	if mine != nil {
		x.seq = max(x.seq, mine.seq+1)
	}
	r.set(holder{id: e.id, seq: x.seq, part: e.own.Part.Plus(x.hand).Plus(x.get), demand: x.demand, lease: e.terms.lease})
}
