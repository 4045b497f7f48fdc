package algo_test

import (
	"testing"

	"github.com/floodweir/weir/internal/algo"
)

func slot(now int64, id uint64, n, ttl int64) algo.Ask {
	return algo.Ask{Op: algo.Take, Now: now, N: n, ID: id, TTL: ttl}
}

func freed(now int64, id uint64) algo.Ask {
	return algo.Ask{Op: algo.Return, Now: now, ID: id}
}

func TestConcurrencyAnonymous(t *testing.T) {
	replay(t, must(algo.NewConcurrency(4, 100)), []step{
		{take(1000, 1), "ok 1, 3 left, reset 100"},
		{take(1000, 1), "ok 1, 2 left, reset 100"},
		{take(1030, 1), "ok 1, 1 left, reset 100"},
		{take(1040, 2), "denied, 1 left, retry 60, reset 90"},
		{take(1040, 3), "denied, 1 left, retry 60, reset 90"},
		{take(1040, 4), "denied, 1 left, retry 90, reset 90"},
		{take(1040, 5), "denied, 1 left, never, reset 90"},
		{takeUpTo(1040, 5), "ok 1, 0 left, reset 100"},
		{takeUpTo(1050, 5), "denied, 0 left, retry 50, reset 90"},
		// Those that expire soonest are freed first: one of 1100 is left.
		{giveBack(1050, 1), "ok 1, 1 left, reset 90"},
		{take(1050, 2), "denied, 1 left, retry 50, reset 90"},
		// With At, those of that instant only.
		{giveBackAt(1050, 9, 1029), "ok 0, 1 left, reset 90"},
		{giveBackAt(1050, 9, 1040), "ok 1, 2 left, reset 80"},
		{giveBack(1050, 9), "ok 2, 4 left"},
		{giveBack(1050, 9), "ok 0, 4 left"},
		{charge(1050, 6), "ok 6, -2 left, reset 100"},
		{take(1050, 1), "denied, -2 left, retry 100, reset 100"},
		{take(1150, 4), "ok 4, 0 left, reset 100"},
		// The clock goes back: the slots are in use.
		{take(1100, 1), "denied, 0 left, retry 150, reset 150"},
	})
}

func TestConcurrencyNamed(t *testing.T) {
	replay(t, must(algo.NewConcurrency(3, 100)), []step{
		{slot(1000, 7, 2, 50), "ok 2, 1 left, reset 50"},
		{slot(1000, 8, 1, 0), "ok 1, 0 left, reset 100"},
		{slot(1010, 9, 1, 50), "denied, 0 left, retry 40, reset 90"},
		// Renewing: full or not, and whatever is asked, what was granted first.
		{slot(1020, 7, 1, 200), "ok 2, 0 left, reset 200"},
		{slot(1020, 7, 99, 60), "ok 2, 0 left, reset 80"},
		{algo.Ask{Op: algo.Peek, Now: 1020, N: 1, ID: 7}, "ok 0, 0 left, reset 80"},
		{algo.Ask{Op: algo.Peek, Now: 1020, N: 1, ID: 6}, "denied, 0 left, retry 60, reset 80"},
		{algo.Ask{Op: algo.TakeUpTo, Now: 1030, N: 1, ID: 7, TTL: 50}, "ok 2, 0 left, reset 70"},
		{algo.Ask{Op: algo.TakeUpTo, Now: 1030, N: 9, ID: 6, TTL: 50}, "denied, 0 left, retry 50, reset 70"},
		// Anonymous tokens are others than named ones.
		{giveBack(1030, 3), "ok 0, 0 left, reset 70"},
		{freed(1040, 8), "ok 1, 1 left, reset 40"},
		{freed(1040, 8), "ok 0, 1 left, reset 40"},
		{freed(1079, 5), "ok 0, 1 left, reset 1"},
		// A slot that was not renewed is free, and its ID is new.
		{freed(1080, 7), "ok 0, 3 left"},
		{slot(1080, 7, 1, 10), "ok 1, 2 left, reset 10"},
		// A charge takes an anonymous slot.
		{algo.Ask{Op: algo.Charge, Now: 1080, N: 3, ID: 7, TTL: 5}, "ok 3, -1 left, reset 10"},
		{freed(1081, 7), "ok 1, 0 left, reset 4"},
	})
}

// TestConcurrencyHeartbeat checks that a slot whose holder is alive is kept for as long as
// it renews it.
func TestConcurrencyHeartbeat(t *testing.T) {
	c := must(algo.NewConcurrency(1, 100))
	var s []int64
	var r algo.Result
	for now := int64(1000); now < 3000; now += 99 {
		if s, r = c.Do(s, slot(now, 1, 1, 0)); !r.OK || r.Granted != 1 || len(s) != 3 {
			t.Fatalf("renewal at %d = %+v, state %v", now, r, s)
		}
		if _, other := on(c, s, slot(now+98, 2, 1, 0)); other.OK {
			t.Fatalf("another got the slot at %d: %+v", now+98, other)
		}
	}
}

// TestConcurrencyIsBounded checks that slots are bounded, however many are charged; the
// debt is kept.
func TestConcurrencyIsBounded(t *testing.T) {
	const most = 20_000
	c := must(algo.NewConcurrency(2, 1_000_000))
	s, _ := c.Do(nil, slot(1000, 1, 1, 900_000))
	for i := range int64(most + 100) {
		s, _ = c.Do(s, charge(1001+i, 1))
	}
	if len(s) != 3*most {
		t.Errorf("%d words, want %d", len(s), 3*most)
	}
	if b := balance(c, s, 22_000); b != 2-1-most-100 {
		t.Errorf("balance %d, want %d", b, 2-1-most-100)
	}
	if u := c.Until(s); u != 1001+most+99+1_000_000 {
		t.Errorf("Until = %d", u)
	}
}
