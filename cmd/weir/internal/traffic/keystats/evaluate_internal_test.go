package keystats

import (
	"math/rand/v2"
	"testing"

	"github.com/floodweir/weir"
	"github.com/floodweir/weir/internal/algo"
)

// TestDecide checks that requests of one instant are decided as one after the other, by all
// algorithms.
func TestDecide(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 1))
	for _, text := range []string{
		"10/s", "7/m burst 40", "100/m interval", "50/s warmup 30s", "10/s burst 30 initial 0", "10/s leaky_bucket burst 20", "10/s leaky_bucket burst 20 queue",
		"10/s leaky_bucket burst 20 delay 8", "60/m fixed_window", "1000/month calendar UTC", "60/m sliding_window segments 6 weighted", "90/m sliding_log",
	} {
		limit := weir.MustLimit(text)
		for cost := int64(1); cost <= 3; cost++ {
			e := newEvaluator(limit, &Sample{until: 60, records: 1, cost: uint64(cost)})
			var state []int64
			at := int64(1_700_000_000) * second
			for range 200 {
				at += rng.Int64N(4 * second)
				n := uint64(rng.IntN(60))
				want := uint64(0)
				for range n {
					var result algo.Result
					if state, result = limit.Spec().Rule.Do(state, algo.Ask{Now: at, N: cost}); !result.OK {
						want++
					}
				}
				if got := e.decide(at, n); got != want {
					t.Fatalf("%s, cost %d: %d of %d denied, want %d", text, cost, got, n, want)
				}
			}
		}
	}
	e := newEvaluator(weir.MustLimit("1000000000/s"), &Sample{until: 60})
	if denied := e.decide(second, 1<<48); denied != 1<<48-1_000_000_000 {
		t.Errorf("%d denied, want all but the burst", denied)
	}
}
