package algo_test

import (
	"testing"

	"github.com/floodweir/weir/internal/algo"
)

func TestIntervalBucketFromTheFirstRequest(t *testing.T) {
	// 4 every 10 s, burst 10.
	replay(t, must(algo.NewIntervalBucket(4, 10*second, 10, false)), []step{
		{peek(start, 11), "denied, 10 left, never"},
		{take(start+3*second, 7), "ok 7, 3 left, reset 20000000"},
		{take(start+13*second-1, 4), "denied, 3 left, retry 1, reset 10000001"},
		{take(start+13*second, 4), "ok 4, 3 left, reset 20000000"},
		{takeUpTo(start+13*second, 9), "ok 3, 0 left, reset 30000000"},
		{takeUpTo(start+13*second, 9), "denied, 0 left, retry 10000000, reset 30000000"},
		{take(start+13*second, 5), "denied, 0 left, retry 20000000, reset 30000000"},
		{charge(start+32*second, 9), "ok 9, -5 left, reset 31000000"},
		{take(start+32*second, 0), "ok 0, -5 left, reset 31000000"},
		{take(start+32*second, 1), "denied, -5 left, retry 11000000, reset 31000000"},
		{take(start, 1), "denied, -5 left, retry 43000000, reset 63000000"},
		{giveBack(start+32*second, 14), "ok 0, 9 left, reset 1000000"},
		{giveBack(start+32*second, 14), "ok 0, 10 left"},
		{take(start+35*second, 1), "ok 1, 9 left, reset 10000000"},
		{take(start+45*second, 10), "ok 10, 0 left, reset 30000000"},
	})
}

func TestIntervalBucketFromTheEpoch(t *testing.T) {
	replay(t, must(algo.NewIntervalBucket(5, 10*second, 5, true)), []step{
		{take(start+7*second, 5), "ok 5, 0 left, reset 3000000"},
		{take(start+10*second-1, 1), "denied, 0 left, retry 1, reset 1"},
		{take(start+10*second, 1), "ok 1, 4 left, reset 10000000"},
		{take(start+39*second, 5), "ok 5, 0 left, reset 1000000"},
	})
}

func TestIntervalBucketAtTheExtremes(t *testing.T) {
	const huge = 1<<63 - 1
	replay(t, must(algo.NewIntervalBucket(1, algo.MaxSpan, 1, false)), []step{
		{take(start, 1), "ok 1, 0 left, reset 3155760000000000"},
		{charge(start, huge), "ok 9223372036854775807, 0 left, reset 3155760000000000"},
		{take(start, huge), "denied, 0 left, never, reset 3155760000000000"},
		{giveBack(start, huge), "ok 0, 1 left"},
	})
	replay(t, must(algo.NewIntervalBucket(algo.MaxCount, 1, algo.MaxCount, true)), []step{
		{take(start, algo.MaxCount), "ok 1099511627776, 0 left, reset 1"},
		{charge(start, huge), "ok 9223372036854775807, -1099511627776 left, reset 2"},
		{charge(start, huge), "ok 9223372036854775807, -1099511627776 left, reset 2"},
	})
	replay(t, must(algo.NewIntervalBucket(1, 1, algo.MaxCount, false)), []step{
		{take(start, algo.MaxCount), "ok 1099511627776, 0 left, reset 1099511627776"},
		{take(start+5, 6), "denied, 5 left, retry 1, reset 1099511627771"},
	})
}

// TestIntervalBucketIsPeriodByPeriod checks that refilling in one step is refilling period
// by period.
func TestIntervalBucketIsPeriodByPeriod(t *testing.T) {
	const count, period, burst = 3, 7, 11
	rule := must(algo.NewIntervalBucket(count, period, burst, false))
	walks(t, rule, func(w *walk) {
		if len(w.s) == 0 {
			return
		}
		begun, missing := w.s[0], w.s[1]
		for missing > 0 && begun+period <= w.now {
			begun, missing = begun+period, max(0, missing-count)
		}
		if b := balance(rule, w.s, w.now); b != burst-missing {
			t.Errorf("balance of %v at %d = %d, want %d", w.s, w.now, b, burst-missing)
		}
	})
}
