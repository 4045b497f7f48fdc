package algo_test

import (
	"math/rand/v2"
	"testing"

	"github.com/floodweir/weir/internal/algo"
)

func TestPrimed(t *testing.T) {
	// 1 per second, burst 5, of which a new key finds 2. It is full after 3 s, and new again
	// a day after that.
	replay(t, primed(must(algo.NewTokenBucket(1, second, 5)), 2), []step{
		{peek(start, 2), "ok 0, 2 left"},
		{peek(start+9*second, 2), "ok 0, 2 left"},
		{take(start+9*second, 1), "ok 1, 1 left, reset 86404000000"},
		{take(start+9*second, 2), "denied, 1 left, retry 1000000, reset 86404000000"},
		{take(start+14*second, 1), "ok 1, 4 left, reset 86401000000"},
		{peek(start+15*second+day-1, 0), "ok 0, 5 left, reset 1"},
		{peek(start+15*second+day, 0), "ok 0, 2 left"},
		{charge(start+15*second+day, 4), "ok 4, -2 left, reset 86407000000"},
		{giveBack(start+15*second+day, 40), "ok 0, 5 left, reset 86400000000"},
	})
}

// TestPrimedSlowUse checks that a key under a limit without initial tokens is denied once per
// idle period, however slowly it is used.
func TestPrimedSlowUse(t *testing.T) {
	for _, every := range []int64{second, 60 * second, 3600 * second, day} {
		rule := primed(must(algo.NewTokenBucket(1, second, 5)), 0)
		var s []int64
		for i := range int64(100) {
			var r algo.Result
			if s, r = rule.Do(s, take(start+i*every, 1)); r.OK != (i > 0) {
				t.Fatalf("1/s burst 5 initial 0, asked every %d s: request %d = %s", every/second, i, story(r))
			}
		}
		if _, r := rule.Do(s, take(start+99*every+2*day, 1)); r.OK {
			t.Errorf("after an idle period = %s, want a denial", story(r))
		}
	}
}

// TestPrimedKeepsTheFirstSight checks that the first sight is kept though its request is
// denied: initial 0 does not deny for ever.
func TestPrimedKeepsTheFirstSight(t *testing.T) {
	b := must(algo.NewTokenBucket(1, second, 5))
	replay(t, primed(b, 0), []step{
		{take(start, 1), "denied, 0 left, retry 1000000, reset 86405000000"},
		{take(start+second-1, 1), "denied, 0 left, retry 1, reset 86404000001"},
		{take(start+second, 1), "ok 1, 0 left, reset 86405000000"},
	})
	replay(t, primed(b, 0), []step{
		{takeUpTo(start, 3), "denied, 0 left, retry 1000000, reset 86405000000"},
		{takeUpTo(start+2*second, 3), "ok 2, 0 left, reset 86405000000"},
	})
	// A Peek does not keep it, nor does a request for nothing.
	replay(t, primed(b, 0), []step{
		{peek(start, 1), "denied, 0 left, retry 1000000"},
		{peek(start+second, 0), "ok 0, 0 left"},
		{take(start+second, 0), "ok 0, 0 left"},
		{takeUpTo(start+second, 0), "ok 0, 0 left"},
		{charge(start+second, 0), "ok 0, 0 left"},
		{giveBack(start+second, 0), "ok 0, 0 left"},
		{take(start+2*second, 1), "denied, 0 left, retry 1000000, reset 86405000000"},
	})
	// Afterwards a denial changes nothing.
	rule := primed(b, 1)
	walks(t, rule, func(w *walk) {
		a := w.ask()
		if rule.Until(w.s) <= a.Now {
			return
		}
		if s, r := on(rule, w.s, a); !r.OK && !sameWords(s, w.s) {
			t.Errorf("%+v = %s changed %v to %v", a, story(r), w.s, s)
		}
	})
}

// TestPrimedAdmitsNoMoreThanItsRule checks that a key that is primed is never better off
// than one that is not.
func TestPrimedAdmitsNoMoreThanItsRule(t *testing.T) {
	inner := must(algo.NewTokenBucket(7, second, 9))
	for initial := range int64(10) {
		rule := primed(inner, initial)
		rnd := rand.New(rand.NewPCG(uint64(initial), 0))
		now := int64(start)
		var s, u []int64
		for range 2000 {
			now += rnd.Int64N(rnd.Int64N(3*second) + 1)
			n := 1 + rnd.Int64N(9)
			var r algo.Result
			if s, r = rule.Do(s, take(now, n)); !r.OK {
				continue
			}
			var in algo.Result
			if u, in = inner.Do(u, take(now, n)); !in.OK {
				t.Fatalf("initial %d: Take(%d) = %s, of the inner rule %s", initial, n, story(r), story(in))
			}
		}
	}
}

// smoothBursty is Guava's RateLimiter.create(rate) in its float64 arithmetic.
type smoothBursty struct {
	interval, stored, most float64
	next                   int64 // µs
}

func (l *smoothBursty) tryAcquire(now int64) bool {
	if l.next > now {
		return false
	}
	if now > l.next {
		l.stored, l.next = min(l.most, l.stored+float64(now-l.next)/l.interval), now
	}
	spend := min(1, l.stored)
	l.next += int64((1 - spend) * l.interval)
	l.stored -= spend
	return true
}

// TestPrimedAgreesWithSmoothBursty checks that guava's SmoothBursty gives single permits
// as a bucket of one more than it can store, with one of them at first. It never forgets,
// and so no key here idles until it is new again.
func TestPrimedAgreesWithSmoothBursty(t *testing.T) {
	for _, c := range []struct{ rate, seconds int64 }{{1, 1}, {2, 1}, {5, 3}, {8, 10}, {1000, 1}} {
		interval := second / c.rate
		stored := c.rate * c.seconds
		rule := primed(must(algo.NewTokenBucket(c.rate, second, stored+1)), 1)
		l := smoothBursty{interval: float64(interval), most: float64(stored), next: start}
		rnd := rand.New(rand.NewPCG(uint64(c.rate), 9))
		now := int64(start)
		var s []int64
		for i := range 5000 {
			// Multiples of an eighth of an interval keep the float64 exact.
			switch {
			case i == 0: // both begin here
			case i%50 < 10:
				now += rnd.Int64N(2+rnd.Int64N(8*stored)) * (interval / 8)
			default:
				now += rnd.Int64N(8) * (interval / 8)
			}
			want := l.tryAcquire(now)
			var r algo.Result
			if s, r = rule.Do(s, take(now, 1)); r.OK != want {
				t.Fatalf("%+v, step %d at %d: Take(1) = %s, SmoothBursty says %v", c, i, now, story(r), want)
			}
		}
	}
}
