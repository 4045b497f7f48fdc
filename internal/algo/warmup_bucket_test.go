package algo_test

import (
	"math"
	"math/big"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/floodweir/weir/internal/algo"
)

func TestWarmupBucket(t *testing.T) {
	// 10 per second, T = 100,000 µs, warm after 2 s. Cold, s = 2 s: the first permit
	// costs T + ((2s−W)² − (2(s−T)−W)²)/2W = 100,000 + (2² − 1.8²)/4 s = 290,000 µs.
	b := must(algo.NewWarmupBucket(10, second, 2*second, 20))
	replay(t, b, []step{
		{peek(start, 0), "ok 0, 20 left"},
		{take(start, 21), "denied, 20 left, never"},
		{take(start, 1), "ok 1, 0 left, reset 390000"},
		{take(start+289_999, 1), "denied, 0 left, retry 1, reset 100001"},
		{takeUpTo(start+289_999, 1), "denied, 0 left, retry 1, reset 100001"},
		{take(start+289_999, 0), "ok 0, 0 left, reset 100001"},
		{peek(start+290_000, 1), "ok 0, 20 left, reset 100000"},
		// The second costs 100,000 + (1.8² − 1.6²)/4 s = 270,000 µs.
		{take(start+290_000, 1), "ok 1, 0 left, reset 470000"},
		// The other 8 permits of the upper half: 800,000 + 1.6²/4 s = 1,440,000 µs.
		{take(start+560_000, 8), "ok 8, 0 left, reset 2440000"},
		// Warm: 10 stored permits at T each, and 10 fresh ones.
		{takeUpTo(start+2*second, 30), "ok 20, 0 left, reset 4000000"},
		{take(start+4*second, 1), "ok 1, 0 left, reset 2100000"},
		// Idle for 1.5 s: s = 1.5 s, and one costs 100,000 + (1² − 0.8²)/4 s.
		{take(start+5_600_000, 1), "ok 1, 0 left, reset 790000"},
	})
	replay(t, b, []step{
		// A Return undoes the Take: the last 3 of 10 were the warmest.
		{take(start, 7), "ok 7, 0 left, reset 2310000"},
		{giveBack(start, 7), "ok 0, 20 left"},
		{take(start, 10), "ok 10, 0 left, reset 3000000"},
		{giveBack(start, 3), "ok 0, 0 left, reset 2310000"},
		{giveBack(start, 70), "ok 0, 20 left"},
		// A debt counts from what the dearest Take can leave owing: 3 s.
		{charge(start, 20), "ok 20, 0 left, reset 5000000"},
		{charge(start, 5), "ok 5, -5 left, reset 5500000"},
		{take(start, 1), "denied, -5 left, retry 3500000, reset 5500000"},
	})
}

// TestWarmupBucketWarmsUp checks a cold bucket under constant demand. The time W gives
// the colder half of the stored permits, W/2 gives the other half, and then one comes
// every T.
func TestWarmupBucketWarmsUp(t *testing.T) {
	const warmup = 10 * second
	b := must(algo.NewWarmupBucket(100, second, warmup, 1))
	now := int64(start)
	var s []int64
	count := func(until int64) (n int64) {
		for now < until {
			var r algo.Result
			if s, r = b.Do(s, take(now, 1)); !r.OK {
				now += r.Retry
				continue
			}
			n++
		}
		return n
	}
	for _, c := range []struct{ until, want int64 }{{warmup, 500}, {warmup * 3 / 2, 500}, {warmup * 2, 500}, {warmup * 3, 1000}} {
		if n := count(start + c.until); n < c.want-1 || n > c.want+1 {
			t.Errorf("%d permits until %d µs, want %d", n, c.until, c.want)
		}
	}
}

// smoothWarmingUp is Guava's RateLimiter.create(rate, warmup): float64 permits,
// and whole µs.
type smoothWarmingUp struct {
	interval, warmup               float64 // µs
	threshold, most, slope, stored float64
	next                           int64
}

func newSmoothWarmingUp(interval, warmup float64, now int64) *smoothWarmingUp {
	l := &smoothWarmingUp{interval: interval, warmup: warmup, next: now}
	cold := 3 * interval
	l.threshold = 0.5 * warmup / interval
	l.most = l.threshold + 2*warmup/(interval+cold)
	l.slope = (cold - interval) / (l.most - l.threshold)
	l.stored = l.most
	return l
}

func (l *smoothWarmingUp) tryAcquire(now, n int64) bool {
	if l.next > now {
		return false
	}
	if now > l.next {
		l.stored = min(l.most, l.stored+float64(now-l.next)/(l.warmup/l.most))
		l.next = now
	}
	spend := min(float64(n), l.stored)
	l.next += l.wait(spend) + int64((float64(n)-spend)*l.interval)
	l.stored -= spend
	return true
}

func (l *smoothWarmingUp) wait(n float64) (us int64) {
	if above := l.stored - l.threshold; above > 0 {
		take := min(above, n)
		length := 2*l.interval + (above+above-take)*l.slope
		us = int64(take * length / 2)
		n -= take
	}
	return us + int64(l.interval*n)
}

// TestWarmupBucketAgreesWithGuava checks that one acquire after the other: the waits are
// Guava's up to the rounding of each, Guava's down and three times over, ours up.
func TestWarmupBucketAgreesWithGuava(t *testing.T) {
	for _, c := range []struct{ count, period, warmup, burst int64 }{
		{10, second, 4 * second, 20}, {3, second, 10 * second, 5}, {7, 3600 * second, 24 * 3600 * second, 7},
		{1000, second, second, 100}, {999_983, second, 10 * second, 5000}, {1, second, 1, 10},
	} {
		rule := must(algo.NewWarmupBucket(c.count, c.period, c.warmup, c.burst))
		interval := float64(c.period) / float64(c.count)
		rnd := rand.New(rand.NewPCG(11, uint64(c.count)))
		now := int64(start)
		l := newSmoothWarmingUp(interval, float64(c.warmup), now)
		var s []int64
		for i := range 3000 {
			switch i % 100 {
			case 0:
				now += rnd.Int64N(3 * c.warmup)
			case 1, 2, 3:
				now += rnd.Int64N(1 + rnd.Int64N(c.warmup))
			}
			n := 1 + rnd.Int64N(c.burst)
			now = max(now, l.next)
			before := l.stored
			if !l.tryAcquire(now, n) {
				t.Fatalf("%+v, step %d: the port is not free at its own instant", c, i)
			}
			var r algo.Result
			if s, r = rule.Do(s, take(now, n)); !r.OK {
				t.Fatalf("%+v, step %d: Take(%d) = %s, Guava admits it", c, i, n, story(r))
			}
			_, again := on(rule, s, take(now, 1))
			if diff := again.Retry - (l.next - now); diff < -1 || diff > 4 {
				t.Fatalf("%+v, step %d: after Take(%d) with %v stored wait %d, Guava %d", c, i, n, before, again.Retry, l.next-now)
			}
			// Go on from the later of the two, and from the same store.
			now += max(again.Retry, l.next-now)
			l.next = now
			stored := float64(c.warmup) - float64(s[2])/float64(rule.Params(0)[0])
			if diff := stored - l.stored*interval; math.Abs(diff) > 5+1e-9*stored {
				t.Fatalf("%+v, step %d: %v µs stored, Guava %v", c, i, stored, l.stored*interval)
			}
			l.stored = stored / interval
		}
	}
}

// A bigWarmup is the formula of WarmupBucket in fractions of a µs.
type bigWarmup struct {
	interval, warmup, unit *big.Rat // T, W, 1/k
	burst, most            int64
	next, m                *big.Rat
}

func newBigWarmup(count, period, warmup, burst int64) *bigWarmup {
	b := newBigBucket(count, period, burst)
	zero, unit := new(big.Rat), new(big.Rat).Quo(b.interval, new(big.Rat).SetInt(b.interval.Num()))
	return &bigWarmup{b.interval, new(big.Rat).SetInt64(warmup), unit, burst, b.most, zero, zero}
}

func add(x, y *big.Rat) *big.Rat { return new(big.Rat).Add(x, y) }
func sub(x, y *big.Rat) *big.Rat { return new(big.Rat).Sub(x, y) }
func mul(x, y *big.Rat) *big.Rat { return new(big.Rat).Mul(x, y) }

func least(x, y *big.Rat) *big.Rat {
	if x.Cmp(y) < 0 {
		return x
	}
	return y
}

func positive(x *big.Rat) *big.Rat {
	if x.Sign() < 0 {
		return new(big.Rat)
	}
	return x
}

// extra is the quadratic term of y out of s stored, rounded up to a unit.
func (b *bigWarmup) extra(s, y *big.Rat) *big.Rat {
	two := big.NewRat(2, 1)
	square := func(s *big.Rat) *big.Rat {
		x := positive(sub(mul(two, s), b.warmup))
		return mul(x, x)
	}
	units := new(big.Rat).Quo(sub(square(s), square(sub(s, y))), mul(mul(two, b.warmup), b.unit))
	return mul(new(big.Rat).SetInt64(ceilOf(units)), b.unit)
}

func (b *bigWarmup) do(a algo.Ask) algo.Result {
	now := new(big.Rat).SetInt64(a.Now)
	owed, m := sub(b.next, now), b.m
	if owed.Sign() < 0 {
		owed, m = new(big.Rat), positive(add(m, owed))
	}
	cost := func(n int64) *big.Rat { return mul(new(big.Rat).SetInt64(min(n, b.most)), b.interval) }
	spend := func(n int64) {
		s := sub(b.warmup, m)
		y := least(cost(n), s)
		owed, m = add(owed, add(cost(n), b.extra(s, y))), add(m, y)
	}
	r := algo.Result{OK: true}
	switch n := a.N; a.Op {
	case algo.TakeUpTo, algo.Take, algo.Peek:
		if a.Op == algo.TakeUpTo {
			n = min(n, b.burst)
		}
		if n > b.burst {
			r.Retry = algo.Never
		} else if n > 0 {
			r.Retry = ceilOf(owed)
		}
		if r.OK = r.Retry == 0; r.OK && a.Op != algo.Peek {
			r.Granted = n
			spend(n)
		}
	case algo.Charge:
		r.Granted = n
		before := owed
		spend(n)
		if limit := new(big.Rat).SetInt64(algo.MaxSpan); owed.Cmp(limit) > 0 {
			owed = least(owed, sub(add(before, limit), least(before, limit)))
		}
	case algo.Return:
		y := least(cost(n), m)
		if m.Cmp(b.warmup) < 0 {
			owed = sub(owed, b.extra(add(sub(b.warmup, m), y), y))
		}
		owed, m = positive(sub(owed, cost(n))), sub(m, y)
	}
	worst := add(cost(b.burst), b.extra(b.warmup, least(cost(b.burst), b.warmup)))
	if r.Balance = b.burst; owed.Sign() > 0 {
		over := floorOf(new(big.Rat).Quo(sub(worst, owed), b.interval))
		if r.Balance = -algo.MaxCount; over.IsInt64() {
			r.Balance = max(r.Balance, min(0, over.Int64()))
		}
	}
	r.Reset = ceilOf(add(owed, m))
	if r.OK && a.Op != algo.Peek {
		b.next, b.m = add(now, owed), m
		if r.Reset == 0 {
			b.next, b.m = new(big.Rat), new(big.Rat)
		}
	}
	return r
}

// checkBigWarmup compares a history of n asks drawn from rnd with the model.
func checkBigWarmup(t *testing.T, count, period, warmup, burst int64, rnd *rand.Rand, n int) {
	t.Helper()
	rule, err := algo.NewWarmupBucket(count, period, warmup, burst)
	if err != nil {
		return
	}
	model, w := newBigWarmup(count, period, warmup, burst), &walk{Rand: rnd, rule: rule, now: someInstant}
	for i := range n {
		w.move(true)
		a := w.ask()
		if a.Op == algo.Charge && w.IntN(4) == 0 {
			a.N = w.Int64()
		}
		before := slices.Clone(w.s)
		if got, want := w.do(a), model.do(a); got != want {
			t.Fatalf("%d per %d µs warmup %d burst %d, step %d: %+v of %v = %s, want %s", count, period, warmup, burst, i, a, before, story(got), story(want))
		}
	}
}

func TestWarmupBucketIsItsFormula(t *testing.T) {
	rnd := rand.New(rand.NewPCG(1, 2))
	for range 300 {
		count, period := anyOf(rnd, algo.MaxCount), anyOf(rnd, algo.MaxSpan)
		checkBigWarmup(t, count, period, anyOf(rnd, 1<<44), anyOf(rnd, algo.MaxCount), rnd, 30)
	}
	for _, c := range [][4]int64{
		{9_999_991, second, 1 << 44 / 9_999_991, 1_000_000}, {1, algo.MaxSpan - 2<<44, 1 << 44, 1},
		{10_000_000, second, 1 << 40, algo.MaxCount}, {7, hour, day, 100}, {3, second, 1, 3}, {1 << 40, 1, 16, algo.MaxCount},
	} {
		for range 20 {
			checkBigWarmup(t, c[0], c[1], c[2], c[3], rnd, 50)
		}
	}
}

func FuzzWarmupBucket(f *testing.F) {
	f.Add(int64(10), int64(second), int64(4*second), int64(10), uint64(1))
	f.Add(int64(9_999_991), int64(second), int64(1_759_220), int64(1_000_000), uint64(2))
	f.Fuzz(func(t *testing.T, count, period, warmup, burst int64, seed uint64) {
		checkBigWarmup(t, count, period, warmup, burst, rand.New(rand.NewPCG(seed, 0)), 50)
	})
}
