package algo_test

import (
	"slices"
	"testing"

	"github.com/floodweir/weir/internal/algo"
)

func TestSlidingWindow(t *testing.T) {
	// Four segments of 25.
	replay(t, must(algo.NewSlidingWindow(10, 100, 4, false)), []step{
		{take(1010, 3), "ok 3, 7 left, reset 90"},
		{take(1024, 1), "ok 1, 6 left, reset 76"},
		{take(1030, 2), "ok 2, 4 left, reset 95"},
		{take(1099, 4), "ok 4, 0 left, reset 76"},
		// The segments are 4, 2, 0, 4: the first leaves at 1100, the second at 1125,
		// the fourth at 1175.
		{take(1099, 1), "denied, 0 left, retry 1, reset 76"},
		{take(1099, 5), "denied, 0 left, retry 26, reset 76"},
		{take(1099, 6), "denied, 0 left, retry 26, reset 76"},
		{take(1099, 7), "denied, 0 left, retry 76, reset 76"},
		{take(1099, 11), "denied, 0 left, never, reset 76"},
		{takeUpTo(1099, 11), "denied, 0 left, retry 1, reset 76"},
		{takeUpTo(1100, 11), "ok 4, 0 left, reset 100"},
		{charge(1130, 7), "ok 7, -5 left, reset 95"},
		// 4 in 1075, 4 in 1100, 7 in 1125.
		{take(1130, 1), "denied, -5 left, retry 70, reset 95"},
		{takeUpTo(1174, 1), "denied, -5 left, retry 26, reset 51"},
		{takeUpTo(1175, 3), "denied, -1 left, retry 25, reset 50"},
		{takeUpTo(1200, 1), "ok 1, 2 left, reset 100"},
		// The clock goes back: what left the ring stays gone, the rest is counted.
		{peek(1110, 3), "denied, 2 left, retry 115, reset 190"},
		{take(1110, 2), "ok 2, 0 left, reset 190"},
		{peek(1225, 7), "ok 0, 7 left, reset 75"},
	})
}

func TestSlidingWindowReturn(t *testing.T) {
	replay(t, must(algo.NewSlidingWindow(10, 100, 4, false)), []step{
		{take(1000, 2), "ok 2, 8 left, reset 100"},
		{take(1025, 3), "ok 3, 5 left, reset 100"},
		{take(1050, 4), "ok 4, 1 left, reset 100"},
		// To the segment of At only, and not beyond what it counts.
		{giveBackAt(1060, 9, 1049), "ok 0, 4 left, reset 90"},
		{giveBackAt(1060, 9, 1080), "ok 0, 4 left, reset 90"},
		{giveBackAt(1060, 9, -1), "ok 0, 4 left, reset 90"},
		// The newest first.
		{giveBack(1060, 3), "ok 0, 7 left, reset 90"},
		{giveBack(1060, 2), "ok 0, 9 left, reset 40"},
		// A segment that has left the ring is not credited.
		{giveBackAt(1100, 9, 1000), "ok 0, 10 left"},
		{take(1100, 5), "ok 5, 5 left, reset 100"},
		{giveBackAt(1110, 1, 1000), "ok 0, 5 left, reset 90"},
		{giveBack(1110, 9), "ok 0, 10 left"},
	})
}

func TestSlidingWindowWeighted(t *testing.T) {
	// Two buckets: of the one before, the share that is within the last 100.
	replay(t, must(algo.NewSlidingWindow(10, 100, 1, true)), []step{
		{take(1099, 10), "ok 10, 0 left, reset 101"},
		{take(1100, 1), "denied, 0 left, retry 10, reset 100"},
		{take(1109, 1), "denied, 0 left, retry 1, reset 91"},
		{take(1110, 1), "ok 1, 0 left, reset 190"},
		// 10·0.75 = 7.5, rounded up, and 1.
		{peek(1125, 1), "ok 0, 1 left, reset 175"},
		{take(1125, 10), "denied, 1 left, retry 175, reset 175"},
		{take(1289, 10), "denied, 9 left, retry 11, reset 11"},
		{peek(1299, 10), "denied, 9 left, retry 1, reset 1"},
		{peek(1300, 10), "ok 0, 10 left"},
		// In the segment before its newest, as at the newest's beginning.
		{peek(1050, 1), "denied, -1 left, retry 70, reset 250"},
	})
	// Segments of 25; the fifth counts by its share.
	replay(t, must(algo.NewSlidingWindow(10, 100, 4, true)), []step{
		{take(1000, 6), "ok 6, 4 left, reset 125"},
		{take(1030, 4), "ok 4, 0 left, reset 120"},
		{take(1099, 1), "denied, 0 left, retry 6, reset 51"},
		// 6·20/25 = 4.8
		{take(1105, 2), "denied, 1 left, retry 4, reset 45"},
		{take(1105, 1), "ok 1, 0 left, reset 120"},
		// 6·k/25 + 4 + 1 ≤ 9 at k ≤ 16
		{take(1105, 1), "denied, 0 left, retry 4, reset 120"},
		// All but the 1: 4·k/25 ≤ 0, when the 4 have left.
		{take(1105, 9), "denied, 0 left, retry 45, reset 120"},
		{giveBackAt(1105, 3, 1001), "ok 0, 2 left, reset 120"},
	})
}

func TestSlidingWindowParams(t *testing.T) {
	for weighted, want := range map[bool][]int64{
		false: {10, 25, 4, 4, 2 * algo.MaxCount},
		true:  {10, 25, 4, 5, 2 * algo.MaxCount},
	} {
		if got := must(algo.NewSlidingWindow(10, 100, 4, weighted)).Params(1000); !slices.Equal(got, want) {
			t.Errorf("Params, weighted %t = %v, want %v", weighted, got, want)
		}
	}
}

// TestSlidingWindowKeepsDebt checks that a debt is kept whole in weighted windows of any
// length.
func TestSlidingWindowKeepsDebt(t *testing.T) {
	for _, length := range []int64{100, hour, 30 * day, 50 * 365 * day} {
		w := must(algo.NewSlidingWindow(3, length, 1, true))
		s, r := w.Do(nil, charge(length, algo.MaxCount))
		if r.Balance != 3-algo.MaxCount {
			t.Errorf("3 per %d µs: balance %d after a charge of %d, want %d", length, r.Balance, int64(algo.MaxCount), 3-int64(algo.MaxCount))
		}
		// Half of the next segment later, half of the tokens count.
		if _, r = w.Do(s, peek(2*length+length/2, 1)); r.Balance != 3-algo.MaxCount/2 {
			t.Errorf("3 per %d µs: balance %d later, want %d", length, r.Balance, 3-int64(algo.MaxCount/2))
		}
	}
}

// TestSlidingWindowReachesItsBound checks that the bounds in one period are reached: they
// are no smaller.
func TestSlidingWindowReachesItsBound(t *testing.T) {
	replay(t, must(algo.NewSlidingWindow(8, 100, 4, false)), []step{
		{take(1024, 8), "ok 8, 0 left, reset 76"},
		{take(1099, 1), "denied, 0 left, retry 1, reset 1"},
		{take(1100, 8), "ok 8, 0 left, reset 100"}, // 16 in 76
	})
	replay(t, must(algo.NewSlidingWindow(8, 100, 4, true)), []step{
		{take(1024, 8), "ok 8, 0 left, reset 101"},
		{takeUpTo(1123, 8), "ok 7, 0 left, reset 102"}, // 15 in 100
	})
}

// TestSlidingWindowWeightedIsRightWhenEven checks that what came evenly is estimated at
// most one token too high: a caller at an even rate that is one token below the limit is
// never denied.
func TestSlidingWindowWeightedIsRightWhenEven(t *testing.T) {
	for _, segments := range []int{1, 5} {
		w := must(algo.NewSlidingWindow(101, 1000, segments, true))
		var s []int64
		for i := range int64(1000) {
			var r algo.Result
			if s, r = w.Do(s, take(1000+10*i, 1)); !r.OK {
				t.Fatalf("%d segments: Take %d = %+v, want OK", segments, i, r)
			}
		}
	}
}

// TestSlidingWindowShiftCountsOn checks that a shift by part of a segment leaves no token
// less counted.
func TestSlidingWindowShiftCountsOn(t *testing.T) {
	w := must(algo.NewSlidingWindow(8, 100, 4, true))
	for d := range int64(60) {
		s, _ := w.Do(nil, take(1110, 8))
		w.Shift(s, d)
		if b := balance(w, s, 1110-d); b != 0 {
			t.Errorf("balance %d after a shift by %d, want 0", b, d)
		}
	}
}
