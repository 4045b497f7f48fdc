package algo_test

import (
	"math/big"
	"testing"

	"github.com/floodweir/weir/internal/algo"
)

// A charged is tokens that were consumed at an instant.
type charged struct{ at, n int64 }

// within is the tokens of past in [from, to).
func within(past []charged, from, to int64) int64 {
	sum := int64(0)
	for _, c := range past {
		if from <= c.at && c.at < to {
			sum += c.n
		}
	}
	return sum
}

// TestBalanceIsTheFormula checks that of a past that is kept in full, the balance is what
// each formula says, in the plainest terms and in fractions.
func TestBalanceIsTheFormula(t *testing.T) {
	const count, period = 12, 1000
	weighted := func(segments int64) func([]charged, int64) int64 {
		return func(past []charged, now int64) int64 {
			l := period / segments
			start := now / l * l
			share := big.NewRat(within(past, start-period, start-period+l)*(start+l-now), l)
			left := new(big.Rat).Sub(new(big.Rat).SetInt64(count-within(past, start-period+l, now+1)), share)
			floor := new(big.Int)
			floor.DivMod(left.Num(), left.Denom(), new(big.Int))
			return floor.Int64()
		}
	}
	for _, c := range []struct {
		name string
		rule algo.Rule
		left func(past []charged, now int64) int64
	}{
		{"fixed/first", must(algo.NewFixedWindow(count, period, false)), func(past []charged, now int64) int64 {
			start := int64(0)
			for _, c := range past {
				if c.at >= start+period {
					start = c.at
				}
			}
			if now >= start+period {
				return count
			}
			return count - within(past, start, now+1)
		}},
		{"fixed/epoch", must(algo.NewFixedWindow(count, period, true)), func(past []charged, now int64) int64 {
			return count - within(past, now-now%period, now+1)
		}},
		{"fixed/calendar", must(algo.NewCalendarWindow(count, uneven{})), func(past []charged, now int64) int64 {
			start, end := uneven{}.Window(now)
			return count - within(past, start, end)
		}},
		{"sliding", must(algo.NewSlidingWindow(count, period, 5, false)), func(past []charged, now int64) int64 {
			const l = period / 5
			return count - within(past, now/l*l-4*l, now+1)
		}},
		{"sliding/weighted/1", must(algo.NewSlidingWindow(count, period, 1, true)), weighted(1)},
		{"sliding/weighted/8", must(algo.NewSlidingWindow(count, period, 8, true)), weighted(8)},
		{"log", must(algo.NewSlidingLog(count, period)), func(past []charged, now int64) int64 {
			return count - within(past, now-period+1, now+1)
		}},
		{"concurrency", must(algo.NewConcurrency(count, period)), func(past []charged, now int64) int64 {
			return count - within(past, now-period+1, now+1)
		}},
	} {
		t.Run(c.name, func(t *testing.T) {
			for seed := range uint64(20) {
				w := newWalk(c.rule, seed)
				var past []charged
				for range 300 {
					w.move(false)
					a := algo.Ask{Now: w.now, N: w.tokens()}
					if w.IntN(8) == 0 {
						a = charge(w.now, 1+w.Int64N(count))
					}
					before := c.left(past, w.now)
					r := w.do(a)
					if want := a.Op == algo.Charge || a.N == 0 || a.N <= before; r.OK != want {
						t.Fatalf("seed %d: %+v = %+v, want OK %t with %d left", seed, a, r, want, before)
					}
					if r.OK && a.N > 0 {
						past = append(past, charged{w.now, a.N})
					}
					if want := c.left(past, w.now); r.Balance != want {
						t.Fatalf("seed %d: %+v = %+v, want %d left", seed, a, r, want)
					}
				}
			}
		})
	}
}
