package algo_test

import (
	"fmt"
	"math/big"
	"math/rand/v2"
	"testing"

	"github.com/floodweir/weir/internal/algo"
)

// A kind makes limits of one algorithm and period from a count and a burst.
type kind struct {
	name  string
	limit func(count, burst int64) algo.Rule
}

// kinds has every algorithm, with periods that counts divide and periods that they do not.
func kinds() (all []kind) {
	for _, period := range []int64{second, 20 * second, 7_000_003, 24 * 3600 * second} {
		add := func(name string, limit func(count, burst int64) algo.Rule) {
			all = append(all, kind{fmt.Sprintf("%s per %d µs", name, period), limit})
		}
		bucket := func(count, burst int64) algo.Rule { return must(algo.NewTokenBucket(count, period, burst)) }
		add("token_bucket", bucket)
		add("primed", func(count, burst int64) algo.Rule { return primed(bucket(count, burst), burst/2) })
		add("leaky_bucket", func(count, burst int64) algo.Rule {
			return must(algo.NewLeakyBucket(count, period, burst, algo.Queueing{Queue: true}))
		})
		add("interval_bucket", func(count, burst int64) algo.Rule {
			return must(algo.NewIntervalBucket(count, period, burst, false))
		})
		add("warmup_bucket", func(count, burst int64) algo.Rule {
			return must(algo.NewWarmupBucket(count, period, 3*second, burst))
		})
		if period <= 20*second {
			add("limit_req", func(count, burst int64) algo.Rule {
				return must(algo.NewLimitReq(count, period, burst, algo.Queueing{}))
			})
		}
		add("fixed_window", func(count, _ int64) algo.Rule { return must(algo.NewFixedWindow(count, period, true)) })
		add("sliding_log", func(count, _ int64) algo.Rule { return must(algo.NewSlidingLog(count, period)) })
		add("concurrency", func(count, _ int64) algo.Rule { return must(algo.NewConcurrency(count, period)) })
		if period != 7_000_003 {
			for _, weighted := range []bool{false, true} {
				add(fmt.Sprintf("sliding_window weighted %v", weighted), func(count, _ int64) algo.Rule {
					return must(algo.NewSlidingWindow(count, period, 10, weighted))
				})
			}
		}
	}
	return all
}

// raises runs f with walks under limits of each kind, and with a limit of the same kind that
// allows no less.
func raises(t *testing.T, f func(t *testing.T, w *walk, higher algo.Rule)) {
	for _, k := range kinds() {
		t.Run(k.name, func(t *testing.T) {
			r := rand.New(rand.NewPCG(7, 7))
			for range 30 {
				count, burst := 1+r.Int64N(60), 1+r.Int64N(60)
				w := newWalk(k.limit(count, burst), r.Uint64())
				for range 60 {
					w.move(false)
					w.do(w.ask())
					f(t, w, k.limit(count+r.Int64N(2)*r.Int64N(3)*count+r.Int64N(3), burst+r.Int64N(2)*r.Int64N(90)))
					if t.Failed() {
						t.FailNow()
					}
				}
			}
		})
	}
}

// TestRaiseWaitsNoLonger checks that no request waits longer after a limit was raised.
func TestRaiseWaitsNoLonger(t *testing.T) {
	raises(t, func(t *testing.T, w *walk, higher algo.Rule) {
		s := algo.Migrate(w.rule, w.s, higher, nil, w.now)
		for _, n := range []int64{1, 2, 3, w.rule.Capacity() / 2, w.rule.Capacity()} {
			if n == 0 || n > w.rule.Capacity() {
				continue
			}
			_, before := on(w.rule, w.s, peek(w.now, n))
			if w.rule.Until(w.s) <= w.now {
				before.Retry = 0 // a key that is new under initial tokens stays new
				continue
			}
			if _, after := on(higher, s, peek(w.now, n)); after.Retry > before.Retry {
				t.Errorf("%v → %v, state %v → %v: a wait for %d of %d became %d", w.rule.Params(w.now), higher.Params(w.now), w.s, s, n, before.Retry, after.Retry)
			}
		}
	})
}

// TestLowerKeepsUsage checks that what was used under the higher limit stays used under the
// lower one, and no more than that.
func TestLowerKeepsUsage(t *testing.T) {
	raises(t, func(t *testing.T, w *walk, higher algo.Rule) {
		// The walk was under the lower limit: replay it under the higher one.
		s := algo.Migrate(w.rule, w.s, higher, nil, w.now)
		s, _ = on(higher, s, takeUpTo(w.now, 1+w.Int64N(higher.Capacity())))
		if higher.Until(s) <= w.now {
			return
		}
		back := algo.Migrate(higher, s, w.rule, nil, w.now)
		used := higher.Capacity() - balance(higher, s, w.now)
		now := w.rule.Capacity() - balance(w.rule, back, w.now)
		if higher.Name() != "warmup_bucket" && (now < used || now > used+1) {
			t.Errorf("%v → %v, state %v → %v: %d tokens used became %d", higher.Params(w.now), w.rule.Params(w.now), s, back, used, now)
		}
		_, before := on(higher, s, peek(w.now, 1))
		if _, after := on(w.rule, back, peek(w.now, 1)); after.Retry < before.Retry {
			t.Errorf("%v → %v, state %v → %v: a wait of %d became %d", higher.Params(w.now), w.rule.Params(w.now), s, back, before.Retry, after.Retry)
		}
	})
}

// TestManyChangesLoseNothing changes a limit a thousand times and back. No wait is shorter
// afterwards, and none is longer by more than a rounding.
func TestManyChangesLoseNothing(t *testing.T) {
	for _, k := range kinds() {
		t.Run(k.name, func(t *testing.T) {
			r := rand.New(rand.NewPCG(3, 9))
			w := newWalk(k.limit(1+r.Int64N(60), 1+r.Int64N(60)), 5)
			for range 20 {
				w.move(false)
				w.do(w.ask())
				if w.rule.Until(w.s) <= w.now {
					continue
				}
				rule, s := w.rule, w.s
				for i := range 1000 {
					next := k.limit(1+r.Int64N(60), 1+r.Int64N(60))
					if i == 999 {
						next = w.rule
					}
					s, rule = algo.Migrate(rule, s, next, nil, w.now), next
				}
				_, before := on(w.rule, w.s, peek(w.now, 1))
				_, after := on(w.rule, s, peek(w.now, 1))
				rounding, more := int64(1), int64(0)
				if rule.Name() == "limit_req" { // milliseconds, and up to a thousandth for the caller
					rounding, more = 1000, 1
				}
				if after.Retry < before.Retry-more*1000 || after.Retry > before.Retry+rounding || after.Balance > before.Balance+more || after.Balance < before.Balance-1 {
					t.Fatalf("state %v → %v: %+v became %+v", w.s, s, before, after)
				}
			}
		})
	}
}

// TestBucketChangesAgainstModel changes the limit of a bucket before every request, and compares
// the debt with exact fractions. After ten thousand changes it is not less, and more by at most
// one unit of time.
func TestBucketChangesAgainstModel(t *testing.T) {
	r := rand.New(rand.NewPCG(11, 2))
	for range 10 {
		period := 1 + r.Int64N(30*second)
		var all []algo.Rule
		for range 2 + r.IntN(3) {
			all = append(all, must(algo.NewTokenBucket(1+r.Int64N(500), period, 50+r.Int64N(500))))
		}
		now, rule := int64(someInstant), all[0]
		owed, s := new(big.Rat), []int64(nil) // owed in tokens
		admitted := 0
		for i := range 10_000 {
			gap := r.Int64N(period/100 + 2)
			now += gap
			count := ruleCount(rule, period)
			if owed.Sub(owed, big.NewRat(gap*count, period)); owed.Sign() < 0 {
				owed.SetInt64(0)
			}
			next := all[r.IntN(len(all))]
			s, rule = algo.Migrate(rule, s, next, nil, now), next
			n := 1 + r.Int64N(3)
			var res algo.Result
			if s, res = rule.Do(s, take(now, n)); res.OK {
				admitted++
				owed.Add(owed, big.NewRat(n, 1))
			}
			// The state owes the time (s[0] − now, s[1] units), which is so many tokens.
			p := rule.Params(now)
			have := new(big.Rat)
			if len(s) > 1 && s[0] >= now {
				have.Add(big.NewRat(s[0]-now, 1), big.NewRat(s[1], p[0]))
				have.Mul(have, big.NewRat(ruleCount(rule, period), period))
			}
			if unit := big.NewRat(ruleCount(rule, period), period*p[0]); have.Cmp(owed) < 0 || have.Sub(have, owed).Cmp(unit.Add(unit, big.NewRat(1, 1<<36))) > 0 {
				t.Fatalf("change %d: %v tokens of rounding, a unit is %v", i, have.FloatString(12), unit.FloatString(12))
			}
		}
		if admitted == 0 || admitted == 10_000 {
			t.Errorf("%d admitted: the test shows nothing", admitted)
		}
	}
}

// ruleCount returns the count per period of a token bucket, from its params.
func ruleCount(r algo.Rule, period int64) int64 {
	p := r.Params(0) // T = p[1] + p[2]/p[0] µs
	return new(big.Int).Div(new(big.Int).Mul(big.NewInt(period), big.NewInt(p[0])), big.NewInt(p[1]*p[0]+p[2])).Int64()
}

// TestMigrateWindow checks that a window and a log keep their instants: a wait of 5 s under
// 5/20s is not one of 20 s under 50/20s.
func TestMigrateWindow(t *testing.T) {
	for _, limit := range []func(count int64) algo.Rule{
		func(count int64) algo.Rule { return must(algo.NewFixedWindow(count, 20*second, false)) },
		func(count int64) algo.Rule { return must(algo.NewSlidingLog(count, 20*second)) },
		func(count int64) algo.Rule { return must(algo.NewSlidingWindow(count, 20*second, 20, false)) },
		func(count int64) algo.Rule { return must(algo.NewIntervalBucket(count, 20*second, count, false)) },
	} {
		from, to := limit(5), limit(50)
		s, _ := on(from, nil, charge(start, 50))
		_, before := on(from, s, peek(start+15*second, 1))
		if from.Name() != "interval_bucket" && before.Retry > 5*second+second {
			t.Fatalf("%s: waits %d before the change", from.Name(), before.Retry)
		}
		_, after := on(to, algo.Migrate(from, s, to, nil, start+15*second), peek(start+15*second, 1))
		if after.Retry == 0 || after.Retry > before.Retry || after.Retry > 6*second {
			t.Errorf("%s: a wait of %d became %d", from.Name(), before.Retry, after.Retry)
		}
	}
}

// TestMigrateWarmup checks that a warm bucket stays warm when its rate changes a little.
func TestMigrateWarmup(t *testing.T) {
	from := must(algo.NewWarmupBucket(50, second, 3*second, 1))
	to := must(algo.NewWarmupBucket(51, second, 3*second, 1))
	var s []int64
	now := int64(start)
	for range 500 { // as fast as it admits
		var r algo.Result
		if s, r = from.Do(s, take(now, 1)); !r.OK {
			now += r.Retry
			s, _ = from.Do(s, take(now, 1))
		}
	}
	s = algo.Migrate(from, s, to, nil, now)
	_, r := on(to, s, peek(now, 1))
	if r.Retry > second/50 {
		t.Fatalf("a warm bucket waits %d µs after 50/s → 51/s", r.Retry)
	}
	s, _ = on(to, s, take(now+r.Retry, 1))
	if _, next := on(to, s, peek(now+r.Retry, 1)); next.Retry > second/51+2 {
		t.Errorf("then %d µs for one token, want %d", next.Retry, second/51)
	}
}
