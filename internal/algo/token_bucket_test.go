package algo_test

import (
	"math"
	"math/big"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/floodweir/weir/internal/algo"
)

// start is a round instant for stories.
const start = 1_000 * second

func TestTokenBucket(t *testing.T) {
	// 2 per second, burst 3: T = 500,000 µs.
	replay(t, must(algo.NewTokenBucket(2, second, 3)), []step{
		{peek(start, 0), "ok 0, 3 left"},
		{peek(start, 3), "ok 0, 3 left"},
		{take(start, 4), "denied, 3 left, never"},
		{take(start, 2), "ok 2, 1 left, reset 1000000"},
		{take(start, 2), "denied, 1 left, retry 500000, reset 1000000"},
		{takeUpTo(start, 2), "ok 1, 0 left, reset 1500000"},
		{takeUpTo(start, 2), "denied, 0 left, retry 500000, reset 1500000"},
		{takeUpTo(start, 0), "ok 0, 0 left, reset 1500000"},
		{take(start+499_999, 1), "denied, 0 left, retry 1, reset 1000001"},
		{take(start+500_000, 1), "ok 1, 0 left, reset 1500000"},
		{charge(start+500_000, 2), "ok 2, -2 left, reset 2500000"},
		{peek(start+500_000, 0), "ok 0, -2 left, reset 2500000"},
		{take(start+500_000, 0), "ok 0, -2 left, reset 2500000"},
		{take(start+500_000, 1), "denied, -2 left, retry 1500000, reset 2500000"},
		{take(start, 1), "denied, -3 left, retry 2000000, reset 3000000"},
		{giveBack(start+500_000, 1), "ok 0, -1 left, reset 2000000"},
		{giveBack(start+500_000, 100), "ok 0, 3 left"},
		{take(start+500_000, 3), "ok 3, 0 left, reset 1500000"},
	})
}

func TestTokenBucketKeepsRemainders(t *testing.T) {
	// 3 per second: T = 333,333 1/3 µs.
	replay(t, must(algo.NewTokenBucket(3, second, 1)), []step{
		{take(start, 1), "ok 1, 0 left, reset 333334"},
		{take(start+333_333, 1), "denied, 0 left, retry 1, reset 1"},
		{take(start+333_334, 1), "ok 1, 0 left, reset 333334"},
	})
	// In steps of one second, or whenever a token comes, 3 per second is 3 per
	// second for ever: three bursts of three seconds and a third.
	b := must(algo.NewTokenBucket(3, second, 3))
	var s []int64
	var r algo.Result
	for i := range int64(1000) {
		if s, r = b.Do(s, take(start+i*second, 3)); !r.OK || r.Balance != 0 {
			t.Fatalf("second %d: Take(3) = %s", i, story(r))
		}
		if s, r = b.Do(s, take(start+i*second+second-1, 3)); r.OK || r.Retry != 1 {
			t.Fatalf("1 µs before second %d: Take(3) = %s, want retry 1", i+1, story(r))
		}
	}
}

func TestTokenBucketAtTheExtremes(t *testing.T) {
	const huge = math.MaxInt64
	t.Run("1 per 100 years", func(t *testing.T) {
		replay(t, must(algo.NewTokenBucket(1, algo.MaxSpan, 1)), []step{
			{take(start, 1), "ok 1, 0 left, reset 3155760000000000"},
			{take(start+1, 1), "denied, 0 left, retry 3155759999999999, reset 3155759999999999"},
			{charge(start+1, huge), "ok 9223372036854775807, 0 left, reset 3155760000000000"},
			{take(start, huge), "denied, -1 left, never, reset 3155760000000001"},
			{charge(start, huge), "ok 9223372036854775807, -1 left, reset 3155760000000001"},
			{giveBack(start+1, huge), "ok 0, 1 left"},
		})
	})
	t.Run("10 million per second", func(t *testing.T) {
		b := must(algo.NewTokenBucket(10_000_000, second, algo.MaxCount))
		replay(t, b, []step{
			{take(start, algo.MaxCount), "ok 1099511627776, 0 left, reset 109951162778"},
			{take(start, 1), "denied, 0 left, retry 1, reset 109951162778"},
			{take(start+1, 11), "denied, 10 left, retry 1, reset 109951162777"},
			{take(start+1, 10), "ok 10, 0 left, reset 109951162778"},
			{charge(start+1, huge), "ok 9223372036854775807, -1099511627776 left, reset 219902325556"},
			{charge(start+1, huge), "ok 9223372036854775807, -1099511627776 left, reset 329853488333"},
			{takeUpTo(start+1, huge), "denied, -1099511627776 left, retry 219902325556, reset 329853488333"},
		})
	})
	t.Run("9,999,991 per second", func(t *testing.T) {
		// k = 9,999,991 and q = 1,000,000: 10^10 tokens take 1000.0009000008… s.
		replay(t, must(algo.NewTokenBucket(9_999_991, second, 20_000_000_000)), []step{
			{take(start, 10_000_000_000), "ok 10000000000, 10000000000 left, reset 1000000901"},
			{take(start, 10_000_000_000), "ok 10000000000, 0 left, reset 2000001801"},
			{charge(start, 10_000_000_000), "ok 10000000000, -10000000000 left, reset 3000002701"},
			{giveBack(start, 30_000_000_000), "ok 0, 20000000000 left"},
		})
	})
	t.Run("7 per hour", func(t *testing.T) {
		replay(t, must(algo.NewTokenBucket(7, hour, 7)), []step{
			{take(start, 7), "ok 7, 0 left, reset 3600000000"},
			{take(start+514_285_714, 1), "denied, 0 left, retry 1, reset 3085714286"},
			{take(start+514_285_715, 1), "ok 1, 0 left, reset 3600000000"},
		})
	})
}

// A bigBucket is the formula of TokenBucket in fractions.
type bigBucket struct {
	interval    *big.Rat // T
	burst, most int64
	tat         *big.Rat
}

func newBigBucket(count, period, burst int64) *bigBucket {
	m := &bigBucket{interval: big.NewRat(period, count), burst: burst, tat: new(big.Rat)}
	m.most = algo.MaxCount
	if n := floorOf(new(big.Rat).Quo(new(big.Rat).SetInt64(algo.MaxSpan), m.interval)); n.IsInt64() {
		m.most = min(m.most, n.Int64())
	}
	return m
}

func floorOf(x *big.Rat) *big.Int {
	return new(big.Int).Div(x.Num(), x.Denom()) // Euclid's: down, since Denom > 0
}

func ceilOf(x *big.Rat) int64 {
	return new(big.Int).Neg(floorOf(new(big.Rat).Neg(x))).Int64()
}

func (m *bigBucket) cost(n int64) *big.Rat {
	return new(big.Rat).Mul(m.interval, new(big.Rat).SetInt64(min(n, m.most)))
}

func (m *bigBucket) do(a algo.Ask) algo.Result {
	now := new(big.Rat).SetInt64(a.Now)
	owed := new(big.Rat).Sub(m.tat, now)
	if owed.Sign() < 0 {
		owed.SetInt64(0)
	}
	room := func() *big.Rat { return new(big.Rat).Sub(m.cost(m.burst), owed) }
	balance := func() int64 {
		n := floorOf(new(big.Rat).Quo(room(), m.interval))
		if n.Cmp(big.NewInt(-algo.MaxCount)) < 0 {
			return -algo.MaxCount
		}
		return n.Int64()
	}
	r := algo.Result{OK: true}
	wait := func(n int64) int64 {
		if n > m.burst {
			return algo.Never
		}
		if n == 0 {
			return 0
		}
		return max(0, ceilOf(new(big.Rat).Sub(m.cost(n), room())))
	}
	switch a.Op {
	case algo.Take, algo.Peek:
		r.Retry = wait(a.N)
		if r.OK = r.Retry == 0; r.OK && a.Op == algo.Take {
			r.Granted = a.N
		}
		owed.Add(owed, m.cost(r.Granted))
	case algo.TakeUpTo:
		r.Granted = min(a.N, max(0, balance()))
		if r.OK = r.Granted > 0 || a.N == 0; !r.OK {
			r.Retry = wait(1)
		}
		owed.Add(owed, m.cost(r.Granted))
	case algo.Charge:
		limit := new(big.Rat).SetInt64(algo.MaxSpan)
		if owed.Cmp(limit) > 0 {
			limit.Set(owed)
		}
		if owed.Add(owed, m.cost(a.N)); owed.Cmp(limit) > 0 {
			owed = limit
		}
		r.Granted = a.N
	case algo.Return:
		if owed.Sub(owed, m.cost(a.N)); owed.Sign() < 0 {
			owed.SetInt64(0)
		}
	}
	r.Balance, r.Reset = balance(), ceilOf(owed)
	if r.OK && a.Op != algo.Peek {
		if m.tat.SetInt64(0); owed.Sign() > 0 {
			m.tat.Add(owed, now)
		}
	}
	return r
}

// check compares a history of n asks drawn from rnd with the model.
func checkBigBucket(t *testing.T, count, period, burst int64, rnd *rand.Rand, n int) {
	t.Helper()
	rule, err := algo.NewTokenBucket(count, period, burst)
	if err != nil {
		return
	}
	model, w := newBigBucket(count, period, burst), &walk{Rand: rnd, rule: rule, now: someInstant}
	for i := range n {
		w.move(true)
		a := w.ask()
		if a.Op == algo.Charge && w.IntN(4) == 0 {
			a.N = w.Int64()
		}
		before := slices.Clone(w.s)
		got, want := w.do(a), model.do(a)
		if got != want {
			t.Fatalf("%d per %d µs burst %d, step %d: %+v of %v = %s, want %s", count, period, burst, i, a, before, story(got), story(want))
		}
		if len(w.s) > 1 && (w.s[1] < 0 || w.s[1] >= rule.Units()) {
			t.Fatalf("%d per %d µs burst %d, step %d: remainder %d of %d", count, period, burst, i, w.s[1], rule.Units())
		}
	}
}

// anyOf is a number from 1 to most of any magnitude.
func anyOf(rnd *rand.Rand, most int64) int64 {
	return 1 + rnd.Int64N(min(most, 1<<rnd.IntN(62)))
}

func TestTokenBucketIsItsFormula(t *testing.T) {
	rnd := rand.New(rand.NewPCG(1, 2))
	for range 400 {
		count, period := anyOf(rnd, algo.MaxCount), anyOf(rnd, algo.MaxSpan)
		checkBigBucket(t, count, period, anyOf(rnd, algo.MaxCount), rnd, 40)
		checkBigBucket(t, count, period, 1, rnd, 40)
	}
}

func FuzzTokenBucket(f *testing.F) {
	f.Add(int64(3), int64(second), int64(5), uint64(1))
	f.Add(int64(1), int64(algo.MaxSpan), int64(1), uint64(2))
	f.Add(int64(9_999_991), int64(second), int64(9_999_991), uint64(3))
	f.Add(int64(10_000_000), int64(second), int64(algo.MaxCount), uint64(4))
	f.Add(int64(algo.MaxCount-1), int64(algo.MaxSpan), int64(algo.MaxCount-1), uint64(5))
	f.Fuzz(func(t *testing.T, count, period, burst int64, seed uint64) {
		checkBigBucket(t, count, period, burst, rand.New(rand.NewPCG(seed, 0)), 50)
	})
}

// rateLimiter is x/time/rate's arithmetic: float64 tokens, refilled on asking.
type rateLimiter struct {
	limit  float64 // per second
	burst  int64
	tokens float64
	last   int64 // µs
}

func (l *rateLimiter) allow(now, n int64) (ok bool, tokens float64) {
	tokens = min(float64(l.burst), l.tokens+float64(now-l.last)/second*l.limit)
	if ok = n <= l.burst && tokens >= float64(n); ok {
		l.tokens, l.last = tokens-float64(n), now
		return ok, l.tokens
	}
	return ok, tokens
}

// TestTokenBucketAgreesWithRate checks that at multiples of 1/64 s a float64 is exact, and
// both must agree.
func TestTokenBucketAgreesWithRate(t *testing.T) {
	rnd := rand.New(rand.NewPCG(3, 4))
	for _, c := range []struct{ limit, burst int64 }{{1, 1}, {3, 7}, {10, 20}, {1000, 64}, {64, 1000}} {
		b := must(algo.NewTokenBucket(c.limit, second, c.burst))
		now := int64(start)
		l := rateLimiter{float64(c.limit), c.burst, float64(c.burst), now}
		var s []int64
		for i := range 5000 {
			now += rnd.Int64N(1+rnd.Int64N(64*c.burst/c.limit+2)) * (second / 64)
			n := 1 + rnd.Int64N(c.burst+1)
			ok, tokens := l.allow(now, n)
			var r algo.Result
			if s, r = b.Do(s, take(now, n)); r.OK != ok || r.Balance != int64(math.Floor(tokens)) {
				t.Fatalf("%d/s burst %d, step %d: Take(%d) = %s, x/time/rate says %v, %v left", c.limit, c.burst, i, n, story(r), ok, tokens)
			}
		}
	}
}

// redisCell is the arithmetic of CL.THROTTLE with a burst of max_burst + 1, in ns.
func redisCell(tat *int64, interval, burst, now, n int64) (ok bool, remaining, retry, reset int64) {
	old := max(now, *tat)
	next, tolerance := old+interval*n, interval*burst
	ttl := next - now
	if early := next - tolerance - now; early > 0 {
		ttl = old - now
		if retry = early; n > burst {
			retry = -1
		}
	} else {
		ok, *tat = true, next
	}
	return ok, max(0, (tolerance-ttl)/interval), retry, ttl
}

func TestTokenBucketAgreesWithRedisCell(t *testing.T) {
	rnd := rand.New(rand.NewPCG(5, 6))
	for _, c := range []struct{ count, period, burst int64 }{
		{1, second, 1}, {30, 60 * second, 16}, {8, second, 5}, {1000, second, 100}, {6000, 6 * second, 10},
	} {
		b := must(algo.NewTokenBucket(c.count, c.period, c.burst))
		interval := c.period * 1000 / c.count
		var s []int64
		var tat int64
		now := int64(start)
		for i := range 5000 {
			now += rnd.Int64N(1 + rnd.Int64N(c.burst*c.period/c.count))
			n := 1 + rnd.Int64N(c.burst+1)
			ok, remaining, retry, reset := redisCell(&tat, interval, c.burst, now*1000, n)
			want := algo.Result{OK: ok, Balance: remaining, Retry: retry / 1000, Reset: reset / 1000}
			if ok {
				want.Granted = n
			}
			if retry < 0 {
				want.Retry = algo.Never
			}
			var r algo.Result
			if s, r = b.Do(s, take(now, n)); r != want {
				t.Fatalf("%+v step %d: Take(%d) = %s, redis-cell says %s", c, i, n, story(r), story(want))
			}
		}
	}
}

func TestTokenBucketDoesNotAllocate(t *testing.T) {
	for _, r := range rules() {
		if r.rule.Variable() {
			continue
		}
		s, now := make([]int64, r.rule.Words()), int64(someInstant)
		if n := testing.AllocsPerRun(100, func() {
			now += 1000
			s, _ = r.rule.Do(s, algo.Ask{Now: now, N: 1})
		}); n != 0 {
			t.Errorf("%s: %v allocations per Take", r.name, n)
		}
	}
}

func BenchmarkTokenBucket(b *testing.B) {
	const now = someInstant
	for _, c := range []struct {
		name                 string
		count, period, burst int64
		advance, n           int64
	}{
		{"admitted", 1000, second, 100, 1000, 1},
		{"admitted/n=3", 1000, second, 100, 3000, 3},
		{"admitted/k=3", 3, second, 100, 333_334, 1},
		{"admitted/k=9999991", 9_999_991, second, 9_999_991, 1, 1},
		{"denied", 1000, second, 1, 0, 1},
	} {
		b.Run(c.name, func(b *testing.B) {
			b.ReportAllocs()
			rule := must(algo.NewTokenBucket(c.count, c.period, c.burst)).(*algo.TokenBucket)
			us, rem, _ := rule.Step(0, 0, take(now, c.burst))
			i, ok := int64(now), false
			for b.Loop() {
				i += c.advance
				u, m, r := rule.Step(us, rem, algo.Ask{Now: i, N: c.n})
				us, rem, ok = u, m, r.OK
			}
			if ok != (c.advance > 0) {
				b.Fatalf("the last Take was OK: %v", ok)
			}
		})
	}
}
