//go:build !race

// Under the race detector the many goroutines and timers of this test end the program now and
// then with "ThreadSanitizer: CHECK failed: tsan_rtl.cpp:346", an internal check of the detector.

package failover_test

import (
	"context"
	"math/rand/v2"
	"testing"
	"testing/synctest"
	"time"

	"github.com/floodweir/weir"
	"github.com/floodweir/weir/failover"
)

// TestStallRatio checks that the share of decisions by the fallback is at most twice the
// share of the time in which the store stalls. It replies late or refuses calls.
func TestStallRatio(t *testing.T) {
	const span = 20 * time.Second
	for _, longest := range []time.Duration{60 * time.Millisecond, 200 * time.Millisecond, time.Second, 5 * time.Second} {
		for seed := range uint64(3) {
			for _, refuses := range []bool{false, true} {
				synctest.Test(t, func(t *testing.T) {
					g := rand.New(rand.NewPCG(seed, uint64(longest)))
					var spans [][2]time.Duration
					var stalled time.Duration
					for at := time.Second; ; {
						d := longest/4 + time.Duration(g.Int64N(int64(longest)*3/4))
						at += d + time.Duration(g.Int64N(int64(4*d)))
						if at+d >= span {
							break
						}
						spans = append(spans, [2]time.Duration{at, at + d})
						stalled += d
						at += d
					}
					began := time.Now()
					store := weir.Store(&remote{latency: stalls(began, spans...)})
					if refuses {
						store = fake{do: func(ctx context.Context, r weir.Request) (weir.Decision, error) {
							if stalls(began, spans...)() > time.Millisecond {
								return refusing(ctx, r)
							}
							return fine(ctx, r)
						}}
					}
					s := newStore(t, store, failover.Config{}, failover.Open())
					exact, fallback := paced(t, s, 10, span)
					ratio, time := float64(fallback)/float64(exact+fallback), float64(stalled)/float64(span)
					t.Logf("stalls up to %-5v refusing %-5t seed %d: %4.1f %% of the time, %4.1f %% of the decisions", longest, refuses, seed, 100*time, 100*ratio)
					if ratio > 2*time {
						t.Errorf("%.1f %% of the decisions by the fallback, want at most twice %.1f %%", 100*ratio, 100*time)
					}
				})
			}
		}
	}
}
