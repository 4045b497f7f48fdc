package model

import (
	"math/big"

	"github.com/floodweir/weir"
	"github.com/floodweir/weir/internal/algo"
)

// bucket is a token bucket with smooth refill. It holds an exact level, in units
// of 1/period of a token (period in µs): a token is period units, and every µs
// brings count of them.
type bucket struct {
	count, period, burst int64
	most                 int64 // a larger amount at once counts as this
	token, full, rate    *big.Int

	used   bool // false: full
	level  *big.Int
	at     int64    // the instant of level
	credit *big.Int // what a change of limit rounded up
}

func newTokenBucket(c weir.TokenBucket) State {
	if c.Warmup != 0 {
		return newWarmup(c)
	}
	fresh := func() filling {
		if c.Interval {
			return newInterval(c)
		}
		return newBucket(c.Count, c.Period.Microseconds(), c.Burst)
	}
	if c.Initial != nil {
		return newPrimed(fresh, c.Burst-*c.Initial)
	}
	return fresh()
}

func newBucket(count, period, burst int64) *bucket {
	b := &bucket{count: count, period: period, burst: burst, most: mostAtOnce(count, period)}
	b.credit = new(big.Int)
	b.token, b.rate, b.full = big.NewInt(period), big.NewInt(count), mul(burst, period)
	return b
}

// mostAtOnce is the largest number of tokens that a bucket charges or returns at
// once; a larger one counts as this many. They are not worth more than MaxSpan.
func mostAtOnce(count, period int64) int64 {
	return min(algo.MaxCount, floorDiv(mul(algo.MaxSpan, count), big.NewInt(period)))
}

// levelAt is the level at now. Before the instant of the last change it is what
// steady refill would have made it then.
func (b *bucket) levelAt(now int64) *big.Int {
	if !b.used {
		return new(big.Int).Set(b.full)
	}
	l := mul(now-b.at, b.count)
	l.Add(l, b.level)
	if l.Cmp(b.full) > 0 {
		l.Set(b.full)
	}
	return l
}

func (b *bucket) Do(a algo.Ask) algo.Result {
	level := b.levelAt(a.Now)
	r := algo.Result{OK: true}
	switch a.Op {
	case algo.Take, algo.Peek:
		cost := mul(a.N, b.period)
		switch {
		case a.N == 0:
		case a.N > b.burst:
			r.OK, r.Retry = false, algo.Never
		case level.Cmp(cost) < 0:
			r.OK, r.Retry = false, ceilDiv(cost.Sub(cost, level), b.rate)
		case a.Op == algo.Take:
			level.Sub(level, cost)
			r.Granted = a.N
		}
	case algo.TakeUpTo:
		n := min(a.N, max(0, floorDiv(level, b.token)))
		if n == 0 && a.N > 0 {
			r.OK, r.Retry = false, ceilDiv(new(big.Int).Sub(b.token, level), b.rate)
			break
		}
		level.Sub(level, mul(n, b.period))
		r.Granted = n
	case algo.Charge:
		level.Sub(level, mul(min(a.N, b.most), b.period))
		deepest := new(big.Int).Sub(b.full, mul(algo.MaxSpan, b.count))
		if level.Cmp(deepest) < 0 {
			level.Set(deepest) // no debt takes longer than MaxSpan to pay
		}
		r.Granted = a.N
	case algo.Return:
		level.Add(level, mul(min(a.N, b.most), b.period))
		if level.Cmp(b.full) > 0 {
			level.Set(b.full)
		}
	}
	r.Balance = max(-algo.MaxCount, min(floorDiv(level, b.token), algo.MaxCount))
	r.Reset = ceilDiv(new(big.Int).Sub(b.full, level), b.rate)
	if r.OK && a.Op != algo.Peek {
		if r.Reset == 0 || b.overflows(a.Now) {
			b.credit = new(big.Int)
		}
		b.used, b.level, b.at = r.Reset > 0, level, a.Now
	}
	return r
}

// overflows reports whether the bucket was full before the µs now.
func (b *bucket) overflows(now int64) bool {
	if !b.used {
		return true
	}
	l := mul(now-b.at, b.count)
	l.Add(l, b.level).Sub(l, b.full)
	return l.Sign() > 0
}

func (b *bucket) Until() int64 {
	if !b.used {
		return 0
	}
	return b.at + ceilDiv(new(big.Int).Sub(b.full, b.level), b.rate)
}

// Horizon is the time from empty to full.
func (b *bucket) Horizon() int64 { return ceilDiv(b.full, b.rate) }

func (b *bucket) Clone() State {
	c := *b // level is replaced, never written to
	return &c
}
