package algo_test

import (
	"math/rand/v2"
	"testing"

	"github.com/floodweir/weir/internal/algo"
)

func TestLeakyBucketAsMeter(t *testing.T) {
	// 10 per second: T = 100,000 µs; one in service and 2 more.
	replay(t, must(algo.NewLeakyBucket(10, second, 2, algo.Queueing{})), []step{
		{peek(start, 0), "ok 0, 3 left"},
		{take(start, 4), "denied, 3 left, never"},
		{take(start, 3), "ok 3, 0 left, reset 300000"},
		{take(start+99_999, 1), "denied, 0 left, retry 1, reset 200001"},
		{take(start+100_000, 1), "ok 1, 0 left, reset 300000"},
	})
	replay(t, must(algo.NewLeakyBucket(10, second, 0, algo.Queueing{})), []step{
		{take(start, 1), "ok 1, 0 left, reset 100000"},
		{take(start+50_000, 1), "denied, 0 left, retry 50000, reset 50000"},
		{take(start+100_000, 1), "ok 1, 0 left, reset 100000"},
	})
}

func TestLeakyBucketAsQueue(t *testing.T) {
	replay(t, must(algo.NewLeakyBucket(10, second, 3, algo.Queueing{Queue: true})), []step{
		{take(start, 1), "ok 1, 3 left, reset 100000"},
		{peek(start, 1), "ok 0, 3 left, reset 100000, delay 100000"},
		{take(start, 1), "ok 1, 2 left, reset 200000, delay 100000"},
		{takeUpTo(start, 5), "ok 2, 0 left, reset 400000, delay 300000"},
		{take(start, 1), "denied, 0 left, retry 100000, reset 400000"},
		{take(start+250_000, 1), "ok 1, 1 left, reset 250000, delay 150000"},
		{charge(start+250_000, 1), "ok 1, 0 left, reset 350000"},
		{peek(start+250_000, 0), "ok 0, 0 left, reset 350000"},
	})
	// T = 333,333 1/3 µs: delays are rounded up.
	replay(t, must(algo.NewLeakyBucket(3, second, 3, algo.Queueing{Queue: true, Free: 1})), []step{
		{take(start, 2), "ok 2, 2 left, reset 666667"},
		{take(start, 1), "ok 1, 1 left, reset 1000000, delay 333334"},
		{take(start, 1), "ok 1, 0 left, reset 1333334, delay 666667"},
	})
}

// TestLeakyBucketLeavesEvenly checks that requests leave at least T apart after their
// delays.
func TestLeakyBucketLeavesEvenly(t *testing.T) {
	const count = 7
	b := must(algo.NewLeakyBucket(count, second, 5, algo.Queueing{Queue: true}))
	rnd := rand.New(rand.NewPCG(1, 1))
	now, left, admitted := int64(start), int64(0), 0
	var s []int64
	for i := range 5000 {
		now += rnd.Int64N(250_000)
		var r algo.Result
		if s, r = b.Do(s, take(now, 1)); !r.OK {
			continue
		}
		admitted++
		leaves := now + r.Delay
		if gap := leaves - left; gap < second/count {
			t.Fatalf("step %d: leaves %d µs after the one before it, want at least %d", i, gap, second/count)
		}
		left = leaves
	}
	if admitted < 1000 {
		t.Errorf("%d admitted", admitted)
	}
}

// TestLeakyBucketIsATokenBucket checks that as a meter it is the token bucket with room
// for one more, word for word.
func TestLeakyBucketIsATokenBucket(t *testing.T) {
	leaky, token := must(algo.NewLeakyBucket(7, second, 4, algo.Queueing{})), must(algo.NewTokenBucket(7, second, 5))
	walks(t, leaky, func(w *walk) {
		a := w.ask()
		s, got := on(leaky, w.s, a)
		u, want := on(token, w.s, a)
		if got != want || !sameWords(s, u) {
			t.Errorf("%+v = %s, of the token bucket %s", a, story(got), story(want))
		}
	})
}
