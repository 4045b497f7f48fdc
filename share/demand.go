package share

import (
	"math"
	"slices"

	"github.com/floodweir/weir/internal/algo"
	"github.com/floodweir/weir/share/internal/parts"
)

// idleTicks is the number of ticks without a request after which a share is returned.
const idleTicks = 3

// idleLong is the number of ticks without a request after which the used part of a count is returned
// too. Until then a holder waits until it is free again: what is returned counts as used at that
// time.
const idleLong = 100

// ticks is the number of ticks in an interval.
const ticks = 4

// tick measures the demand once in an interval, and earlier if requests end. It reports whether the holder
// needs a turn: its lease is to be renewed, it has more than it should have, or too little.
func (e *entry) tick(c *settings, m moment) bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	dt := m.local - e.since
	switch {
	case dt >= c.interval-c.interval/ticks/2:
		e.idle++
		if e.asked > 0 {
			e.idle = 0
		}
		e.estimate(dt)
		e.since, e.gap, e.longest = m.local, e.longest, 0
	case e.silent(m):
		e.demand, e.measured, e.asked, e.squares, e.since = 0, 0, 0, 0, m.local
	case !c.closing.Load() && !(e.starved && m.local >= e.repeats) && !(e.demand == 0 && !e.limit.Bucket):
		return false
	}
	switch {
	case e.queued || !e.listed:
		return false
	case m.local >= min(e.renew, e.look) || c.closing.Load() || e.debt || e.idle >= idleTicks && (e.limit.Bucket || e.idle > idleLong):
		e.queued = true
	case m.local >= e.repeats && (e.starved || e.low(c, m)):
		e.queued, e.pull = true, true
	default:
		least := e.own.Rate / 4
		switch {
		case e.starving:
			least = e.own.Rate / 64
		case e.demand == 0:
			least = e.own.Rate / 16
		case e.scarce():
			least = e.own.Rate / 12
		}
		surplus := e.own.Rate - e.target(c).Rate
		e.queued = surplus > least && (e.limit.Bucket || e.own.Level(e.now(m)) > least)
	}
	return e.queued
}

// estimate brings the demand up to date with the tokens of the last dt µs. It is the mean of the last
// measurements, as long as they differ by chance.
func (e *entry) estimate(dt int64) {
	if e.unlikely(e.demand * float64(dt) / float64(e.limit.Span)) {
		e.measured = 0
	}
	e.measured = min(e.measured+1, 8)
	e.demand += (float64(e.asked)/float64(max(1, dt))*float64(e.limit.Span) - e.demand) / float64(e.measured)
	e.asked, e.squares = 0, 0
}

// silent reports whether requests have ended: none came for much longer than before.
func (e *entry) silent(m moment) bool {
	t := m.local - e.last
	return t > 4*max(e.gap, e.longest) && e.demand*float64(t)/float64(e.limit.Span) > 20
}

// unlikely reports whether the tokens since the last measurement differ from what was expected by more than
// four standard deviations.
func (e *entry) unlikely(expected float64) bool {
	by := float64(e.asked) - expected
	return by*by > 16*max(expected, e.squares)
}

// risen measures a demand that has risen before the next tick, so that an exchange asks for enough. Chance
// lets it seem too small, rather than too large. It requires mu.
func (e *entry) risen(m moment) {
	dt := m.local - e.since
	expected := e.demand * float64(dt) / float64(e.limit.Span)
	if least := float64(e.asked) - 2*math.Sqrt(e.squares); dt >= soon && least > expected && e.unlikely(expected) {
		e.demand, e.measured = least/float64(dt)*float64(e.limit.Span), 1
	}
}

// soon is the least time of a measurement, in µs.
const soon = 10_000

// exhausted reports whether the share denies what it has no tokens for, without a call: the limit is short by a
// row that was read within the last second. It requires mu.
func (e *entry) exhausted(m moment) bool {
	return e.short() && m.local-e.known < second && (e.limit.Bucket || e.limit.Labels || e.call >= farTrip/2)
}

// short reports whether the demand of all holders is the whole limit at least. It requires mu.
func (e *entry) short() bool { return e.demand+e.rivals >= float64(e.limit.Whole.Rate) }

const second = 1_000_000

// low reports whether a share is less than the demand although the limit suffices, or may be empty before a far
// ledger replies. It requires mu.
func (e *entry) low(c *settings, m moment) bool {
	rate := float64(e.own.Rate)
	if !e.short() && rate < min(e.demand, float64(e.target(c).Rate)) {
		return true
	}
	if e.call < farTrip/2 || !e.live(m) {
		return false
	}
	t := float64(2*e.call+c.interval) / float64(e.limit.Span)
	return float64(e.own.Level(e.now(m))) < (e.demand-rate)*t+3*math.Sqrt(e.demand*t)
}

// scarce reports whether a bucket does not suffice for what all holders want. Then a holder keeps less
// beyond what it should have, because others miss it. It requires mu.
func (e *entry) scarce() bool {
	d := e.limit
	return wanted(d, e.demand)+e.others > float64(d.Whole.Rate-d.Reserve().Rate)
}

// endTurn ends a turn that tick asked for, also if it was not sent.
func (e *entry) endTurn() {
	e.mu.Lock()
	e.queued = false
	e.mu.Unlock()
}

// wants reports whether the process asks for the key often enough for a share. One that holders leave too
// little is listed with less, so that they return more. It requires mu.
func (e *entry) wants(c *settings, listed, denied bool) bool {
	least := c.threshold * float64(e.limit.Span)
	if listed || denied {
		least /= 8
	}
	return !e.removed && e.idle < idleTicks && !c.closing.Load() && e.demand >= least
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
	if want+e.others > free {
		root := math.Sqrt(e.demand)
		switch left := free - e.demand - e.rivals; {
		case left < 0:
			want = e.demand * free / (e.demand + e.rivals)
		case root > 0:
			want = min(want, e.demand+left*root/(root+e.roots))
		}
	}
	return d.Fraction(int64(min(want, free, float64(d.Whole.Rate)*e.terms.largest)))
}

// grant takes a part for the holder out of the remainder, if it should have more than it has, and
// sets whether the row lists the holder. It reports whether the row has to be written.
func (x *exchange) grant(c *settings, denied bool) bool {
	e, r, d := x.entry, &x.row, x.entry.limit
	e.mu.Lock()
	defer e.mu.Unlock()
	was, starving := e.others, e.starving
	e.others, e.rivals, e.roots, e.starving = 0, 0, 0, false
	e.known, e.call = x.read, x.moment.local-x.read
	e.risen(x.moment)
	former := r.closed
	for i := range r.holders {
		if h := &r.holders[i]; h.id != e.id {
			demand := float64(h.demand)
			e.others += wanted(d, demand)
			e.rivals += demand
			e.roots += math.Sqrt(demand)
			e.starving = e.starving || h.part.Rate < h.demand
			former = former || h.old
		}
	}
	e.starving = e.starving && !e.short() && r.rest.Rate < d.Reserve().Rate+d.Whole.Rate/64
	if e.wait = min(2*e.wait, e.terms.lease/3); e.starving != starving || math.Abs(e.others-was) > float64(d.Whole.Rate)/64 {
		e.wait = c.interval // it is not yet settled who has how much: look again
	}
	x.demand = int64(min(e.demand, 1<<50))
	mine := r.find(e.id)
	wants := e.wants(c, mine != nil, denied) && x.in == d && (mine != nil || len(r.holders) < maxHolders)
	level := r.rest.Level(x.now)
	e.debt = level < 0 && e.own.Rule != nil
	if wants && !former && r.rest.Rule != nil && level >= 0 {
		x.get, x.level = e.lacks(c, &r.rest, level)
		if x.first != nil || x.pull {
			x.moved = x.more(level)
		}
		r.rest.Take(d, x.get, x.level+x.moved, x.now)
	}
	x.listed = e.own.Part.Plus(x.hand).Plus(x.get) != (parts.Part{}) || wants
	return x.get != (parts.Part{}) || x.moved > 0 || mine != nil && changed(x.demand, mine.demand) || x.listed != (mine != nil) || x.listed && x.moment.local >= e.renew
}

// changed reports whether a demand differs from one that the row has by more than a quarter.
func changed(demand, listed int64) bool {
	by := demand - listed
	return max(by, -by) > max(demand, listed)/4
}

// more returns how many tokens of a level the remainder gives to a share that is empty, beside those of
// the part. In a window, the remainder counts tokens as used that the share has used before. So no more
// than these can move. It requires mu.
func (x *exchange) more(level int64) int64 {
	e, d := x.entry, x.entry.limit
	if !e.live(x.moment) || !d.Bucket && !d.Labels {
		return 0
	}
	now := e.now(x.moment)
	more := level - x.level
	if !e.short() {
		more /= 2 // others may need it
	}
	if d.Bucket {
		more = min(more, e.own.Size+x.get.Size-e.own.Level(now)-x.level)
	} else {
		own := parts.Bank{Part: e.own.Part, Rule: e.own.Rule, Words: slices.Clone(e.own.Words)}
		own.Do(algo.Ask{Op: algo.Return, Now: now, At: x.now, N: max(0, more)})
		more = own.Level(now) - e.own.Level(now)
	}
	if x.first == nil && more < x.row.rest.Size/8 {
		return 0 // not worth a write
	}
	return max(0, more)
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
	least := e.own.Rate / 8
	if e.scarce() {
		least = e.own.Rate / 32
	}
	if get.Rate < max(1, least) {
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
