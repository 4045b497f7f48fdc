package algo_test

import (
	"slices"
	"testing"

	"github.com/floodweir/weir/internal/algo"
)

func TestFixedWindowFromFirstRequest(t *testing.T) {
	replay(t, must(algo.NewFixedWindow(3, 100, false)), []step{
		{take(1000, 2), "ok 2, 1 left, reset 100"},
		{take(1050, 2), "denied, 1 left, retry 50, reset 50"},
		{take(1099, 1), "ok 1, 0 left, reset 1"},
		{take(1099, 1), "denied, 0 left, retry 1, reset 1"},
		{take(1100, 3), "ok 3, 0 left, reset 100"},
		{take(1100, 4), "denied, 0 left, never, reset 100"},
		// A debt is inside the window only.
		{charge(1150, 5), "ok 5, -5 left, reset 50"},
		{takeUpTo(1150, 2), "denied, -5 left, retry 50, reset 50"},
		{take(1150, 0), "ok 0, -5 left, reset 50"},
		{peek(1200, 3), "ok 0, 3 left"},
		// The window before is not credited.
		{giveBackAt(1150, 2, 1099), "ok 0, -5 left, reset 50"},
		{giveBackAt(1150, 2, 1200), "ok 0, -5 left, reset 50"},
		{giveBackAt(1160, 2, 1100), "ok 0, -3 left, reset 40"},
		{giveBack(1160, 100), "ok 0, 3 left"},
		// A key that gave everything back is new, and anchors a new window.
		{take(1170, 1), "ok 1, 2 left, reset 100"},
		{takeUpTo(1180, 9), "ok 2, 0 left, reset 90"},
		// The clock goes back: still the same window.
		{take(1120, 1), "denied, 0 left, retry 150, reset 150"},
		{take(1269, 1), "denied, 0 left, retry 1, reset 1"},
		{take(1270, 1), "ok 1, 2 left, reset 100"},
	})
}

func TestFixedWindowFromEpoch(t *testing.T) {
	replay(t, must(algo.NewFixedWindow(3, 100, true)), []step{
		{take(1070, 3), "ok 3, 0 left, reset 30"},
		{take(1099, 1), "denied, 0 left, retry 1, reset 1"},
		{take(1100, 2), "ok 2, 1 left, reset 100"},
		{giveBackAt(1150, 1, 1099), "ok 0, 1 left, reset 50"},
		{giveBackAt(1150, 1, 1100), "ok 0, 2 left, reset 50"},
		{take(1050, 2), "ok 2, 0 left, reset 150"},
		{take(1050, 1), "denied, 0 left, retry 150, reset 150"},
		{take(1399, 1), "ok 1, 2 left, reset 1"},
	})
}

func TestCalendarWindow(t *testing.T) {
	// Windows: [1080, 1120) [1120, 1190) [1190, 1215) [1215, 1255) …
	w := must(algo.NewCalendarWindow(2, uneven{}))
	replay(t, w, []step{
		{take(1100, 2), "ok 2, 0 left, reset 20"},
		{take(1119, 1), "denied, 0 left, retry 1, reset 1"},
		{take(1120, 1), "ok 1, 1 left, reset 70"},
		{take(1189, 2), "denied, 1 left, retry 1, reset 1"},
		{take(1190, 2), "ok 2, 0 left, reset 25"},
		{giveBackAt(1200, 1, 1189), "ok 0, 0 left, reset 15"},
		{giveBackAt(1200, 1, 1190), "ok 0, 1 left, reset 15"},
		{giveBackAt(1200, 1, 1214), "ok 0, 2 left"},
	})
	for now, want := range map[int64][]int64{
		1080: {2, 0, 1055, 1080, 1120, 1190, 1215},
		1130: {2, 0, 1080, 1120, 1190, 1215, 1255},
		1189: {2, 0, 1080, 1120, 1190, 1215, 1255},
		1190: {2, 0, 1120, 1190, 1215, 1255, 1325},
	} {
		if got := w.Params(now); !slices.Equal(got, want) {
			t.Errorf("Params(%d) = %v, want %v", now, got, want)
		}
	}
	if got := w.Horizon(); got != 70 {
		t.Errorf("Horizon = %d, want that of the longest window, 70", got)
	}
}

func TestFixedWindowParams(t *testing.T) {
	for epoch, want := range map[bool][]int64{false: {3, 100, 0}, true: {3, 100, 1}} {
		if got := must(algo.NewFixedWindow(3, 100, epoch)).Params(1000); !slices.Equal(got, want) {
			t.Errorf("Params with epoch %t = %v, want %v", epoch, got, want)
		}
	}
}

// TestFixedWindowReachesItsBound checks that the bound of 2·count in one period is
// reached: it is no smaller.
func TestFixedWindowReachesItsBound(t *testing.T) {
	replay(t, must(algo.NewFixedWindow(3, 100, true)), []step{
		{take(1099, 3), "ok 3, 0 left, reset 1"},
		{take(1100, 3), "ok 3, 0 left, reset 100"},
	})
	replay(t, must(algo.NewFixedWindow(3, 100, false)), []step{
		{take(1000, 1), "ok 1, 2 left, reset 100"},
		{giveBack(1000, 0), "ok 0, 2 left, reset 100"},
		{take(1099, 2), "ok 2, 0 left, reset 1"},
		{take(1100, 3), "ok 3, 0 left, reset 100"},
	})
}

// TestFixedWindowDebtSaturates checks that however much is charged, the debt saturates and
// the window ends on time.
func TestFixedWindowDebtSaturates(t *testing.T) {
	w := must(algo.NewFixedWindow(3, 100, false))
	s, r := w.Do(nil, charge(1000, algo.Never))
	if want := int64(3 - 2*algo.MaxCount); r.Balance != want {
		t.Errorf("balance %d, want %d", r.Balance, want)
	}
	s, r = w.Do(s, charge(1050, algo.Never))
	if want := int64(3 - 2*algo.MaxCount); r.Balance != want || w.Until(s) != 1100 {
		t.Errorf("balance %d until %d, want %d until 1100", r.Balance, w.Until(s), want)
	}
}
