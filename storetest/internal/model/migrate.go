package model

import (
	"math/big"
	"slices"

	"github.com/floodweir/weir"
	"github.com/floodweir/weir/internal/algo"
)

// migrated is the state under limit of a key whose state under another limit is s: what was
// used stays used. before is the capacity of that limit.
func migrated(s State, before int64, limit weir.Limit, now int64) State {
	to := NewState(limit)
	if s.Until() <= now {
		return to
	}
	if q, ok := to.(*primed); ok {
		p, ok := s.(*primed)
		if ok {
			s = p.inner
		}
		if ok && p.idle() == q.idle() && sameRate(p.inner, q.inner) {
			q.seen = p.seen
		}
		if q.inner = intoInner(s, before, q.inner, now).(filling); q.seen == 0 {
			q.see(now)
		}
		return q
	}
	if p, ok := s.(*primed); ok {
		s = p.inner
	}
	return intoInner(s, before, to, now)
}

// intoInner fills to, a state never used, from s.
func intoInner(s State, before int64, to State, now int64) State {
	if s.Until() <= now {
		return to
	}
	if b, c := bucketOf(s), bucketOf(to); b != nil && c != nil {
		b.into(c, now)
		return to
	}
	switch t := to.(type) {
	case *interval:
		if f, ok := s.(*interval); ok {
			f.into(t, now)
			return t
		}
	case *warmup:
		if f, ok := s.(*warmup); ok {
			f.into(t, now)
			return t
		}
	case *nginx:
		if f, ok := s.(*nginx); ok {
			f.into(t, now)
			return t
		}
	case *window:
		if f, ok := s.(*window); ok {
			f.into(t, now)
			return t
		}
	case *sliding:
		if f, ok := s.(*sliding); ok {
			f.into(t, now)
			return t
		}
	case *log:
		if f, ok := s.(*log); ok {
			t.list = slices.DeleteFunc(f.list, func(x admission) bool { return x.at <= now-f.period || x.n == 0 })
			return t
		}
	case *slots:
		if f, ok := s.(*slots); ok {
			t.inside = f.inside
			return t
		}
	case *tenants:
		if f, ok := s.(*tenants); ok {
			f.into(t, now)
			return t
		}
	}
	if used := before - s.Do(algo.Ask{Op: algo.Peek, Now: now}).Balance; used > 0 {
		to.Do(algo.Ask{Op: algo.Charge, Now: now, N: used})
	}
	return to
}

func bucketOf(s State) *bucket {
	switch b := s.(type) {
	case *bucket:
		return b
	case *leaky:
		return b.bucket
	}
	return nil
}

// sameRate reports whether states of two buckets are the same words.
func sameRate(a, b State) bool {
	if x, y := bucketOf(a), bucketOf(b); x != nil && y != nil {
		return mul(x.count, y.period).Cmp(mul(y.count, x.period)) == 0
	}
	x, ok := a.(*interval)
	y, also := b.(*interval)
	return ok && also && x.count == y.count && x.period == y.period && x.burst == y.burst && x.epoch == y.epoch
}

// one token, in the units of a credit.
var creditOne = new(big.Int).Lsh(one, 52)

// convert returns tokens as whole units of 1/q of a token, rounded up after the credit is
// subtracted, and the new credit.
func convert(tokens *big.Rat, credit, q *big.Int) (units, newCredit *big.Int) {
	if most := new(big.Rat).SetInt64(algo.MaxCount); tokens.Cmp(most) > 0 {
		tokens = most // no debt counts for more
	}
	y := new(big.Rat).Sub(tokens, new(big.Rat).SetFrac(credit, creditOne))
	y.Mul(y, new(big.Rat).SetInt(q))
	if y.Sign() <= 0 && new(big.Int).Div(new(big.Int).Neg(y.Num()), y.Denom()).Sign() > 0 {
		return new(big.Int), new(big.Int)
	}
	units = new(big.Int).Neg(new(big.Int).Div(new(big.Int).Neg(y.Num()), y.Denom())) // rounded up
	over := new(big.Rat).Sub(new(big.Rat).SetInt(units), y)
	over.Mul(over, new(big.Rat).SetFrac(creditOne, q))
	return units, new(big.Int).Div(over.Num(), over.Denom())
}

// unitsOf returns the units of an exact rate: a token is q of them, a µs k.
func unitsOf(count, period int64) (q, k *big.Int) {
	g := new(big.Int).GCD(nil, nil, big.NewInt(count), big.NewInt(period)).Int64()
	return big.NewInt(period / g), big.NewInt(count / g)
}

// atMost is the debt of so many units, at most that of MaxSpan, which keeps no credit.
func atMost(units, credit, k *big.Int) (*big.Int, *big.Int) {
	if span := mul(algo.MaxSpan, k.Int64()); units.Cmp(span) >= 0 {
		return span, new(big.Int)
	}
	return units, credit
}

func (b *bucket) into(to *bucket, now int64) {
	if sameRate(b, to) {
		owed := new(big.Int).Sub(b.full, b.level)
		owed.Mul(owed, big.NewInt(to.period)).Div(owed, big.NewInt(b.period))
		to.used, to.at, to.credit = b.used, b.at, b.credit
		to.level = owed.Sub(to.full, owed)
		return
	}
	owed := new(big.Int).Sub(b.full, b.levelAt(now))
	q, k := unitsOf(to.count, to.period)
	units, credit := convert(new(big.Rat).SetFrac(owed, b.token), b.credit, q)
	units, to.credit = atMost(units, credit, k)
	units.Mul(units, big.NewInt(to.period)).Div(units, q) // of 1/period of a token
	to.used, to.at, to.level = units.Sign() > 0, now, new(big.Int).Sub(to.full, units)
}

func (b *interval) into(to *interval, now int64) {
	tokens, start := b.at(now)
	if tokens == b.burst {
		return
	}
	if b.period != to.period {
		_, start = to.at(now)
	}
	to.used, to.start, to.tokens = true, start, max(to.deepest, to.burst-(b.burst-tokens))
}

func (b *warmup) into(to *warmup, now int64) {
	if b.k.Cmp(to.k) == 0 && b.token.Cmp(to.token) == 0 && b.w.Cmp(to.w) == 0 {
		to.used, to.next, to.stored, to.credit = b.used, b.next, b.stored, b.credit
		return
	}
	debt, stored := b.at(now)
	credit := b.credit
	if new(big.Int).Mul(b.k, big.NewInt(now)).Cmp(b.next) > 0 {
		credit = new(big.Int)
	}
	units, credit := convert(new(big.Rat).SetFrac(debt, b.token), credit, to.token)
	units, to.credit = atMost(units, credit, to.k)
	missing := new(big.Int).Sub(b.w, stored)
	missing.Mul(missing, to.w).Div(missing, b.w)
	to.used = units.Sign() > 0 || missing.Sign() > 0
	to.stored = missing.Sub(to.w, missing)
	to.next = units.Add(units, new(big.Int).Mul(to.k, big.NewInt(now)))
}

func (x *nginx) into(to *nginx, now int64) {
	to.last, to.backlog = x.last, x.backlog
	if x.rate == to.rate {
		return
	}
	if ms := max(1, now/1000); ms > x.last {
		drained := mul(x.rate, ms-x.last)
		to.backlog -= floorDiv(drained, big.NewInt(1000))
		if to.rate > x.rate && new(big.Int).Mod(drained, big.NewInt(1000)).Sign() > 0 {
			to.backlog--
		}
		to.last = ms
	}
	to.backlog = min(max(0, to.backlog), to.most)
}

func (w *window) into(to *window, now int64) {
	to.start, to.end, to.taken = w.start, w.end, w.taken
	if w.period == to.period && w.epoch == to.epoch && w.period > 0 {
		return
	}
	_, end := to.bounds(now)
	to.end = min(w.end, end)
	if to.start = to.end - to.period; to.period == 0 {
		to.start, _ = to.bounds(to.end - 1)
	}
}

func (s *sliding) into(to *sliding, now int64) {
	s.forget(now)
	for _, x := range s.log {
		if s.length != to.length {
			x.at = min(now, (x.at/s.length+1)*s.length-1)
		}
		if x.n = min(x.n, most-to.segment(x.at/to.length)); x.n > 0 {
			to.log = append(to.log, x)
		}
	}
	to.forget(now)
}
