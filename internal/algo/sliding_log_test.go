package algo_test

import (
	"testing"

	"github.com/floodweir/weir/internal/algo"
)

func TestSlidingLog(t *testing.T) {
	replay(t, must(algo.NewSlidingLog(5, 100)), []step{
		{take(1000, 2), "ok 2, 3 left, reset 100"},
		{take(1000, 1), "ok 1, 2 left, reset 100"},
		{take(1040, 1), "ok 1, 1 left, reset 100"},
		{take(1070, 1), "ok 1, 0 left, reset 100"},
		// 3 leave at 1100, 1 at 1140, 1 at 1170.
		{take(1099, 1), "denied, 0 left, retry 1, reset 71"},
		{take(1099, 3), "denied, 0 left, retry 1, reset 71"},
		{take(1099, 4), "denied, 0 left, retry 41, reset 71"},
		{take(1099, 5), "denied, 0 left, retry 71, reset 71"},
		{take(1099, 6), "denied, 0 left, never, reset 71"},
		{takeUpTo(1099, 6), "denied, 0 left, retry 1, reset 71"},
		{takeUpTo(1100, 6), "ok 3, 0 left, reset 100"},
		{charge(1140, 3), "ok 3, -2 left, reset 100"},
		// 1 leaves at 1170, 3 at 1200, 3 at 1240.
		{take(1140, 0), "ok 0, -2 left, reset 100"},
		{peek(1140, 1), "denied, -2 left, retry 60, reset 100"},
		{take(1140, 3), "denied, -2 left, retry 100, reset 100"},
		{peek(1170, 2), "denied, -1 left, retry 30, reset 70"},
		// The clock goes back: the log ends at 1140.
		{peek(1110, 1), "denied, -2 left, retry 90, reset 130"},
		{take(1200, 2), "ok 2, 0 left, reset 100"},
		{take(1150, 1), "denied, 0 left, retry 90, reset 150"},
		{take(1239, 1), "denied, 0 left, retry 1, reset 61"},
		{take(1240, 3), "ok 3, 0 left, reset 100"},
		{peek(1340, 5), "ok 0, 5 left"},
	})
}

func TestSlidingLogReturn(t *testing.T) {
	replay(t, must(algo.NewSlidingLog(9, 100)), []step{
		{take(1000, 2), "ok 2, 7 left, reset 100"},
		{take(1010, 3), "ok 3, 4 left, reset 100"},
		{take(1020, 4), "ok 4, 0 left, reset 100"},
		// The entry of At only, and not beyond its tokens.
		{giveBackAt(1030, 1, 1009), "ok 0, 0 left, reset 90"},
		{giveBackAt(1030, 2, 1010), "ok 0, 2 left, reset 90"},
		{take(1030, 3), "denied, 2 left, retry 70, reset 90"},
		{giveBackAt(1030, 2, 1010), "ok 0, 3 left, reset 90"},
		{giveBackAt(1030, 2, 1010), "ok 0, 3 left, reset 90"},
		// The newest first.
		{take(1030, 1), "ok 1, 2 left, reset 100"},
		{giveBack(1040, 3), "ok 0, 5 left, reset 80"},
		{giveBack(1040, 2), "ok 0, 7 left, reset 60"},
		// An entry that has left the period is not credited.
		{take(1060, 1), "ok 1, 6 left, reset 100"},
		{giveBackAt(1100, 2, 1000), "ok 0, 8 left, reset 60"},
		{giveBack(1100, 9), "ok 0, 9 left"},
		{peek(1100, 9), "ok 0, 9 left"},
	})
}

// TestSlidingLogBehind checks that what was admitted at an instant behind the newest
// counts from the newest.
func TestSlidingLogBehind(t *testing.T) {
	replay(t, must(algo.NewSlidingLog(3, 100)), []step{
		{take(1000, 1), "ok 1, 2 left, reset 100"},
		{take(950, 1), "ok 1, 1 left, reset 150"},
		{take(1000, 1), "ok 1, 0 left, reset 100"},
		{take(1099, 1), "denied, 0 left, retry 1, reset 1"},
		{take(1100, 3), "ok 3, 0 left, reset 100"},
	})
}

// TestSlidingLogIsBounded checks that a log is never longer than twice its entries of the
// last period, and never longer than twice 10,000 entries.
func TestSlidingLogIsBounded(t *testing.T) {
	const most = 2 * 10_000
	l := must(algo.NewSlidingLog(10_000, 1_000_000_000))
	var s []int64
	var r algo.Result
	for i := range int64(30_000) {
		if s, r = l.Do(s, charge(1000+i, 1)); len(s) > 2*most {
			t.Fatalf("%d words after %d charges", len(s), i+1)
		}
	}
	if want := int64(10_000 - 30_000); r.Balance != want {
		t.Errorf("balance %d, want %d", r.Balance, want)
	}
	// The first 9,999 are at their own instants, the rest at that of the last.
	if _, got := on(l, s, peek(31_000, 1)); got.Retry != 30_999+1_000_000_000-31_000 {
		t.Errorf("Retry = %d", got.Retry)
	}
	if b := balance(l, s, 1000+1_000_000_000); b != -20_000+1 {
		t.Errorf("balance %d when the first charge has left, want -19999", b)
	}
	s = nil
	for i := range int64(1000) {
		if s, _ = l.Do(s, take(1000+i*300_000_000, 1)); len(s) > 2*2*4 {
			t.Fatalf("%d words after %d takes of which 4 are in the period", len(s), i+1)
		}
	}
}

// TestSlidingLogIsExact checks that the log admits exactly what keeps within the bound: as
// a plain list does.
func TestSlidingLogIsExact(t *testing.T) {
	l := must(algo.NewSlidingLog(20, 1000))
	w := newWalk(l, 7)
	var list []step // asks that were granted
	for i := range 5000 {
		w.move(false)
		a := algo.Ask{Now: w.now, N: 1 + w.Int64N(7)}
		used := int64(0)
		for _, p := range list {
			if p.ask.Now > w.now-1000 {
				used += p.ask.N
			}
		}
		got := w.do(a)
		if got.OK != (used+a.N <= 20) {
			t.Fatalf("step %d: %+v = %+v with %d used", i, a, got, used)
		}
		if got.OK {
			list = append(list, step{ask: a})
		}
	}
}
