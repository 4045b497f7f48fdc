package redistest_test

import (
	"fmt"
	"testing"

	"github.com/floodweir/weir/internal/algo"
)

const second = 1_000_000

// bucketRates lists counts per period, from common ones to the largest numbers that a rule
// accepts.
var bucketRates = []struct{ count, period, burst int64 }{
	{10, second, 20}, {1, second, 1}, {3, second, 3}, {7, 3600 * second, 100}, {1, 60 * second, 5},
	{10_000_000, second, 1000}, {9_999_991, second, 20_000_000_000}, {999_983, 1_000_003, 77},
	{1 << 40, 86_400_000_001, 1 << 40}, {1<<40 - 1, algo.MaxSpan, 1<<40 - 1}, {1, algo.MaxSpan, 1},
	{1<<32 - 1, 86_400 * second, 1<<32 - 1}, {1_000_003, 7, 1 << 30},
}

// twins collects the rules that a constructor accepts and fails if there are fewer than least.
func twins[R algo.Rule](t *testing.T, least int, each func(add func(R, error))) map[string]algo.Rule {
	t.Helper()
	rules, refused := map[string]algo.Rule{}, 0
	each(func(r R, err error) {
		if err != nil {
			refused++
			return
		}
		rules[fmt.Sprint(len(rules)+refused, r.Params(1))] = r
	})
	if len(rules) < least {
		t.Fatalf("%d rules accepted, want at least %d", len(rules), least)
	}
	return rules
}

var queueings = []algo.Queueing{{}, {Queue: true}, {Queue: true, Free: 1}}

func TestTwinLeakyBucket(t *testing.T) {
	runTwins(t, twins(t, 36, func(add func(*algo.LeakyBucket, error)) {
		for _, c := range bucketRates {
			for _, q := range queueings {
				add(algo.NewLeakyBucket(c.count, c.period, c.burst-1, q))
			}
		}
	}))
}

func TestTwinLimitReq(t *testing.T) {
	runTwins(t, twins(t, 20, func(add func(*algo.LimitReq, error)) {
		for _, c := range bucketRates {
			for _, q := range queueings {
				add(algo.NewLimitReq(c.count, c.period, min(c.burst, 8_000_000_000), q))
			}
		}
		add(algo.NewLimitReq(4_503_599, 1, 4_503_599_627, algo.Queueing{Queue: true}))
		add(algo.NewLimitReq(1, 1000*second, 3_155_759, algo.Queueing{Queue: true, Free: 1000}))
	}))
}

func TestTwinIntervalBucket(t *testing.T) {
	runTwins(t, twins(t, 26, func(add func(*algo.IntervalBucket, error)) {
		for _, c := range bucketRates {
			for _, epoch := range []bool{false, true} {
				add(algo.NewIntervalBucket(c.count, c.period, c.burst, epoch))
			}
		}
		add(algo.NewIntervalBucket(1, 1, algo.MaxCount, false))
		add(algo.NewIntervalBucket(algo.MaxCount, 1, algo.MaxCount, true))
	}))
}

func TestTwinWarmupBucket(t *testing.T) {
	runTwins(t, twins(t, 24, func(add func(*algo.WarmupBucket, error)) {
		for _, c := range bucketRates {
			for _, warmup := range []int64{1, 16, 1000, second, 1_759_220, 60 * second, 1 << 44} {
				add(algo.NewWarmupBucket(c.count, c.period, warmup, c.burst))
			}
		}
	}))
}

func TestTwinPrimed(t *testing.T) {
	inner := twins(t, 20, func(add func(algo.Rule, error)) {
		for _, c := range bucketRates {
			b, err := algo.NewTokenBucket(c.count, c.period, c.burst)
			add(b, err)
			i, err := algo.NewIntervalBucket(c.count, c.period, c.burst, c.count%2 == 0)
			add(i, err)
		}
	})
	runTwins(t, twins(t, 60, func(add func(*algo.Primed, error)) {
		for _, r := range inner {
			// A state is kept for twice its horizon, which has to end where doubles are exact.
			if r.Horizon() > algo.MaxSpan/10 {
				continue
			}
			for _, initial := range []int64{0, 1, r.Capacity() / 2, r.Capacity()} {
				add(algo.NewPrimed(r, initial))
			}
		}
	}))
}
