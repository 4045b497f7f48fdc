package algo_test

import (
	"slices"
	"testing"

	"github.com/floodweir/weir/internal/algo"
)

func TestCarry(t *testing.T) {
	ten := must(algo.NewTokenBucket(10, second, 10))
	used := func(n int64) []int64 {
		s, _ := on(ten, nil, charge(start, n))
		return s
	}
	for _, c := range []struct {
		mode     algo.CarryMode
		used     int64 // of 10
		capacity int64
		want     int64 // left
	}{
		{algo.CarryProportional, 5, 20, 10},
		{algo.CarryProportional, 5, 5, 2},
		{algo.CarryProportional, 9, 5, 0},
		{algo.CarryProportional, 10, 5, 0},
		{algo.CarryProportional, 13, 5, -2},
		{algo.CarryProportional, 15, 1000, -500},
		{algo.CarryAsIs, 5, 20, 5},
		{algo.CarryAsIs, 5, 3, 3},
		{algo.CarryAsIs, 13, 3, -3},
		{algo.CarryAdditive, 5, 20, 15},
		{algo.CarryAdditive, 5, 3, 3},
		{algo.CarryAdditive, 9, 3, 1},
		{algo.CarryAdditive, 13, 20, 7},
		{algo.CarryReset, 5, 20, 20},
		{algo.CarryReset, 15, 3, 3},
	} {
		to := must(algo.NewTokenBucket(1, second, c.capacity))
		fs := used(c.used)
		before := slices.Clone(fs)
		got := balance(to, algo.Carry(c.mode, ten, fs, to, []int64{7, 7}, start), start)
		if got != c.want {
			t.Errorf("Carry(%d) of 10 − %d to a capacity of %d leaves %d, want %d", c.mode, c.used, c.capacity, got, c.want)
		}
		if !slices.Equal(fs, before) {
			t.Errorf("Carry(%d) changed the state it carries over: %v to %v", c.mode, before, fs)
		}
	}
}

// TestCarryOfNothing checks that a state that is as if never used carries nothing over, in
// any mode.
func TestCarryOfNothing(t *testing.T) {
	from, to := must(algo.NewTokenBucket(1, second, 5)), must(algo.NewTokenBucket(1, second, 10))
	s, _ := on(from, nil, take(start, 5))
	for mode := algo.CarryProportional; mode <= algo.CarryReset; mode++ {
		for _, fs := range [][]int64{nil, {0, 0}, s} {
			if ts := algo.Carry(mode, from, fs, to, nil, start+5*second); to.Until(ts) != 0 {
				t.Errorf("Carry(%d) of %v = %v, want a state never used", mode, fs, ts)
			}
		}
	}
}

// TestCarryBetweenRules checks every pair of rules: the new balance is that of the mode.
// It is never more, and less only if the tokens of the rule do not come one by one.
func TestCarryBetweenRules(t *testing.T) {
	all := rules()
	for i, f := range all {
		to := all[(i*7+3)%len(all)]
		if f.lacks[t.Name()] != "" || to.lacks[t.Name()] != "" {
			continue
		}
		walks(t, f.rule, func(w *walk) {
			live := f.rule.Until(w.s) > w.now
			for mode := algo.CarryProportional; mode <= algo.CarryReset; mode++ {
				ts := algo.Carry(mode, f.rule, w.s, to.rule, nil, w.now)
				b := balance(to.rule, ts, w.now)
				if !live {
					if to.rule.Until(ts) != 0 {
						t.Errorf("Carry(%d) of nothing from %s to %s = %v", mode, f.name, to.name, ts)
					}
					continue
				}
				had, most := balance(f.rule, w.s, w.now), to.rule.Capacity()
				if mode == algo.CarryReset && b != most {
					t.Errorf("reset from %s to %s leaves %d of %d", f.name, to.name, b, most)
				}
				if mode == algo.CarryAsIs && had >= 0 && b > min(had, most) {
					t.Errorf("as is from %s to %s: %d were left, now %d", f.name, to.name, had, b)
				}
				if had < f.rule.Capacity() && mode == algo.CarryProportional && b >= most {
					t.Errorf("proportional from %s, with %d, to %s: full", f.name, had, to.name)
				}
			}
		})
	}
}

// TestCarryToPrimed checks that a key whose limit became a primed one is not new, whatever
// it had left.
func TestCarryToPrimed(t *testing.T) {
	from := must(algo.NewTokenBucket(1, second, 10))
	to := primed(must(algo.NewTokenBucket(1, second, 5)), 0)
	s, _ := on(from, nil, take(start, 4))
	for mode, want := range map[algo.CarryMode]int64{
		algo.CarryProportional: 3, algo.CarryAsIs: 5, algo.CarryAdditive: 5, algo.CarryReset: 5,
	} {
		ts := algo.Carry(mode, from, s, to, nil, start)
		if b := balance(to, ts, start); b != want {
			t.Errorf("Carry(%d) leaves %d, want %d", mode, b, want)
		}
	}
	back := algo.Carry(algo.CarryProportional, to, algo.Carry(algo.CarryAsIs, from, s, to, nil, start), from, nil, start)
	if b := balance(from, back, start); b != 10 {
		t.Errorf("carried back: %d left, want 10", b)
	}
}
