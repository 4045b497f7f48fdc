package algo

import (
	"fmt"
	"math/bits"
)

// A WarmupBucket admits count per period, but only a third of that when it is
// cold: it warms up as it is used and cools down as it idles.
//
// The idea: idle time is stored as permits, as in any bucket. A stored permit costs up
// to three times as much as a fresh one, because an idle system has caches to fill. A
// request is admitted as soon as the ones before it are paid, and the next request
// pays for it.
//
// Stored permits are measured by the time s that stored them, from 0 (warm) to W
// (cold). In the upper half of it a permit costs more than T = period/count.
//
//	idle     s ← min(W, s + now − next), next ← now     if next < now
//	admit n  ⇔  next ≤ now and n ≤ burst
//	then        y = min(n·T, s)
//	            next ← next + n·T + ((2s−W)₊² − (2(s−y)−W)₊²) / 2W
//	            s ← s − y                                x₊ = max(0, x)
//
// Invariant: under constant demand, a cold bucket gives as many permits in the time W
// as it later gives in W/2, and then one every T. It never gives more than burst + d/T
// in any span of d µs.
//
// Source: Guava's RateLimiter.create(rate, warmup), class SmoothWarmingUp, with
// its cold factor of 3; [golang.org/x/time/rate] has nothing like it.
//
// Deviation: integers, in units of 1/k µs with k = count/gcd(count, period); the
// quadratic term is rounded up to a whole unit. The state keeps m = W − s, so
// that a key never used is cold. There is a burst: Guava admits any n at once. A
// Return stores permits again, as if the last ones had not been taken, which cools the
// bucket. If nothing is stored they come back at T each.
type WarmupBucket struct {
	e                 emission
	burst             int64
	warmup            int64 // W, µs
	w                 int64 // W in units
	worstUs, worstRem int64 // what a Take(burst) costs a cold bucket
}

// The state of a WarmupBucket and, after [Migrate], what that rounded up, until the next free
// instant.
const (
	warmNextUs  = iota
	warmNextRem // the next free instant
	warmMissing // what is missing from cold, in units
	warmupBucketWords
	warmCredit = warmupBucketWords
)

// maxWarm is the longest warm-up in units, so that its square can be divided by
// parts that Lua's doubles hold.
const maxWarm = 1 << 44

// NewWarmupBucket makes the rule of count per period µs, once it is warm after
// warmup µs of use, of which at most burst may be taken at once. An error wraps
// ErrRange or ErrInexact and names the parameter, its value and what would be
// accepted.
func NewWarmupBucket(count, period, warmup, burst int64) (*WarmupBucket, error) {
	e, err := newEmission(count, period)
	if err != nil {
		return nil, err
	}
	if warmup < 1 {
		return nil, fmt.Errorf("warmup %d µs: %w: want at least 1", warmup, ErrRange)
	}
	if warmup > maxWarm/e.k {
		return nil, fmt.Errorf("warmup %d µs: %w at %d per %d µs: want at most %d", warmup, ErrInexact, count, period, maxWarm/e.k)
	}
	largest := mulDiv(MaxSpan-2*warmup, e.k, e.q, MaxCount)
	if largest < 1 {
		return nil, fmt.Errorf("period %d µs: %w: want at most %d for one token, with a warmup of %d µs", period, ErrRange, MaxSpan-2*warmup, warmup)
	}
	if burst < 1 || burst > largest {
		return nil, fmt.Errorf("burst %d: %w: want 1 to %d at %d per %d µs with a warmup of %d µs", burst, ErrRange, largest, count, period, warmup)
	}
	b := &WarmupBucket{e: e, burst: burst, warmup: warmup, w: warmup * e.k}
	b.worstUs, b.worstRem, _ = b.spend(0, 0, 0, burst)
	return b, nil
}

// Name implements [Rule].
func (b *WarmupBucket) Name() string { return "warmup_bucket" }

// Params returns k, T as µs and as units of 1/k µs beyond them, the burst, and the most
// tokens that one Charge or Return counts. Then come the warm-up in µs, and the cost of
// a Take of the burst from a cold bucket, as µs and units.
func (b *WarmupBucket) Params(int64) []int64 {
	return []int64{b.e.k, b.e.us, b.e.rem, b.burst, b.e.most, b.warmup, b.worstUs, b.worstRem}
}

// Words implements [Rule]: the next free instant as µs and remainder, and what is
// missing from cold.
func (b *WarmupBucket) Words() int { return warmupBucketWords }

// Variable implements [Rule].
func (b *WarmupBucket) Variable() bool { return false }

// Capacity implements [Rule].
func (b *WarmupBucket) Capacity() int64 { return b.burst }

// Horizon implements [Rule]: to pay the dearest burst, and then to cool down.
func (b *WarmupBucket) Horizon() int64 { return ceilMicros(b.worstUs, b.worstRem) + b.warmup }

// Do implements [Rule].
func (b *WarmupBucket) Do(s []int64, a Ask) ([]int64, Result) {
	s = grown(s, warmupBucketWords)
	d, dr, m := b.idle(s, a.Now)
	r := Result{OK: true}
	switch a.Op {
	case Take, Peek:
		if r.Retry = b.wait(d, dr, a.N); r.Retry != 0 {
			r.OK = false
		} else if a.Op == Take {
			d, dr, m = b.spend(d, dr, m, a.N)
			r.Granted = a.N
		}
	case TakeUpTo:
		if r.Retry = b.wait(d, dr, min(a.N, 1)); r.Retry != 0 {
			r.OK = false
			break
		}
		r.Granted = min(a.N, b.burst)
		d, dr, m = b.spend(d, dr, m, r.Granted)
	case Charge:
		r.Granted = a.N
		nd, ndr, nm := b.spend(d, dr, m, a.N)
		if m = nm; nd < MaxSpan {
			d, dr = nd, ndr
		} else if d < MaxSpan {
			d, dr = MaxSpan, 0
		}
	case Return:
		d, dr, m = b.store(d, dr, m, a.N)
	}
	r.Balance = b.balance(d, dr)
	r.Reset = ceilMicros(b.e.add(d, dr, m/b.e.k, m%b.e.k))
	switch {
	case !r.OK || a.Op == Peek:
		return s, r
	case r.Reset == 0:
		return zero(s), r
	}
	if len(s) > warmupBucketWords && s[warmNextUs] < a.Now {
		s[warmCredit] = 0
	}
	s[warmNextUs], s[warmNextRem], s[warmMissing] = a.Now+d, dr, m
	return s, r
}

// idle is the state at now: the time until the next free instant, and what is
// missing from cold after the time since it.
func (b *WarmupBucket) idle(s []int64, now int64) (d, dr, m int64) {
	d, dr, m = s[warmNextUs]-now, s[warmNextRem], s[warmMissing]
	if d >= 0 {
		return d, dr, m
	}
	us, rem := b.e.sub(0, 0, d, dr)
	if us >= b.warmup {
		return 0, 0, 0
	}
	return 0, 0, max(0, m-us*b.e.k-rem)
}

// wait returns the time until n fit.
func (b *WarmupBucket) wait(d, dr, n int64) int64 {
	switch {
	case n == 0:
		return 0
	case n > b.burst:
		return Never
	}
	return ceilMicros(d, dr)
}

// spend is the state after n permits.
func (b *WarmupBucket) spend(d, dr, m, n int64) (newD, newDr, newM int64) {
	stored := b.w - m
	y := b.stored(n, stored)
	c, cr := b.extra(stored, y)
	d, dr = b.e.add(d, dr, c, cr)
	c, cr = b.e.cost(n)
	d, dr = b.e.add(d, dr, c, cr)
	return d, dr, m + y
}

// store is the state after n permits came back.
func (b *WarmupBucket) store(d, dr, m, n int64) (newD, newDr, newM int64) {
	y := b.stored(n, m)
	if m < b.w {
		c, cr := b.extra(b.w-m+y, y)
		d, dr = b.e.sub(d, dr, c, cr)
	}
	c, cr := b.e.cost(n)
	if d, dr = b.e.sub(d, dr, c, cr); d < 0 {
		d, dr = 0, 0
	}
	return d, dr, m - y
}

// stored is n·T in units, at most most.
func (b *WarmupBucket) stored(n, most int64) int64 {
	if n = min(n, b.e.most); n > most/b.e.q {
		return most
	}
	return n * b.e.q
}

// extra returns the additional cost of y of the stored time s: the quadratic term,
// rounded up.
func (b *WarmupBucket) extra(s, y int64) (us, rem int64) {
	above := max(0, 2*s-b.w)
	below := max(0, 2*(s-y)-b.w)
	hi, lo := bits.Mul64(uint64(above-below), uint64(above+below))
	n, r := bits.Div64(hi, lo, uint64(2*b.w))
	if r > 0 {
		n++
	}
	return b.e.byUnit.div(int64(n))
}

// balance is the burst while the bucket is free. Otherwise it is 0, and less by
// the tokens that are owed beyond what a Take can have left owing.
func (b *WarmupBucket) balance(d, dr int64) int64 {
	if d == 0 && dr == 0 {
		return b.burst
	}
	return min(0, b.e.tokens(b.e.sub(b.worstUs, b.worstRem, d, dr)))
}

// Until implements [Rule].
func (b *WarmupBucket) Until(s []int64) int64 {
	if len(s) < warmupBucketWords || s[warmNextUs] == 0 {
		return 0
	}
	us, rem := b.e.byUnit.div(s[warmMissing])
	return ceilMicros(b.e.add(s[warmNextUs], s[warmNextRem], us, rem))
}

// Shift implements [Rule].
func (b *WarmupBucket) Shift(s []int64, d int64) {
	if len(s) >= warmupBucketWords && s[warmNextUs] > 0 {
		s[warmNextUs] = max(1, s[warmNextUs]-d)
	}
}
