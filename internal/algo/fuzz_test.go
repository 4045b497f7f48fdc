package algo_test

import (
	"errors"
	"testing"

	"github.com/floodweir/weir/internal/algo"
)

// fuzzed is the rule of a constructor chosen by kind.
func fuzzed(kind uint8, count, period, extra int64) (algo.Rule, error) {
	switch kind % 12 {
	case 0:
		return algo.NewFixedWindow(count, period, false)
	case 1:
		return algo.NewFixedWindow(count, period, true)
	case 2:
		return algo.NewCalendarWindow(count, length(period))
	case 3:
		return algo.NewSlidingWindow(count, period, int(extra), false)
	case 4:
		return algo.NewSlidingWindow(count, period, int(extra), true)
	case 5:
		return algo.NewSlidingLog(count, period)
	case 6:
		return algo.NewConcurrency(count, period)
	case 7:
		return algo.NewTokenBucket(count, period, extra)
	case 8:
		return algo.NewIntervalBucket(count, period, extra, period%2 == 0)
	case 9:
		return algo.NewWarmupBucket(count, period, extra, extra%100)
	case 10:
		return algo.NewLeakyBucket(count, period, extra, algo.Queueing{Queue: extra%2 == 0, Free: extra % 7})
	}
	return algo.NewLimitReq(count, period, extra, algo.Queueing{Queue: extra%2 == 0, Free: extra % 7})
}

// FuzzRule asks any rule anything: no panic, and every result and state is within
// its bounds.
func FuzzRule(f *testing.F) {
	ops := []byte("\x00\x01\x10\x00\x03\x20\x05\x01\x01\xff\x30\x02\x04\x02\x81\x03\x02\x11\x40\xff\x09\x23\x07\x55")
	for kind := range uint8(12) {
		f.Add(kind, int64(5), int64(100), int64(4), ops)
		f.Add(kind, int64(0), int64(-1), int64(1<<62), ops)
		f.Add(kind, int64(1<<40), int64(algo.MaxSpan), int64(1), ops)
		f.Add(kind, int64(10_000), int64(86_400_000_000), int64(24), ops)
	}
	f.Fuzz(func(t *testing.T, kind uint8, count, period, extra int64, ops []byte) {
		rule, err := fuzzed(kind, count, period, extra)
		if err != nil {
			if !errors.Is(err, algo.ErrRange) && !errors.Is(err, algo.ErrInexact) {
				t.Fatalf("%v wraps neither ErrRange nor ErrInexact", err)
			}
			return
		}
		var s []int64
		now := int64(someInstant)
		for len(ops) >= 3 {
			a := algo.Ask{Op: algo.Op(ops[0] % 5), ID: uint64(ops[0] >> 5 % 4), TTL: period * int64(ops[0]>>6)}
			a.N = int64(ops[1]) << (ops[1] % 57) & algo.Never
			move := int64(ops[2]%16) << (ops[2] / 8)
			if now += move; ops[2]%8 == 7 || now > algo.MaxInstant/2 {
				now = max(1, now-2*move)
			}
			if ops[1]%3 == 0 {
				a.At = now - move
			}
			a.Now, ops = now, ops[3:]
			var r algo.Result
			before := append([]int64(nil), s...)
			s, r = rule.Do(s, a)
			check(t, rule, a, r, s)
			if !r.OK && !sameWords(before, s) {
				t.Fatalf("%+v = %+v changed %v to %v", a, r, before, s)
			}
		}
		rule.Shift(s, period)
		rule.Shift(s, algo.MaxInstant)
		if u := rule.Until(s); u < 0 {
			t.Fatalf("Until = %d after a shift", u)
		}
	})
}

// check reports a result that cannot be, or a word that is not exact everywhere.
func check(t *testing.T, rule algo.Rule, a algo.Ask, r algo.Result, s []int64) {
	t.Helper()
	switch {
	case r.Balance > rule.Capacity(),
		r.OK && r.Retry != 0, !r.OK && r.Retry < 1,
		r.Retry != algo.Never && r.Retry > algo.MaxInstant,
		r.Reset < 0, r.Reset > algo.MaxInstant, r.Delay < 0,
		r.Granted < 0, r.Granted > a.N && a.ID == 0:
		t.Fatalf("%s of %d: %+v = %+v", rule.Name(), rule.Capacity(), a, r)
	}
	if u := rule.Until(s); u < 0 || u > algo.MaxInstant {
		t.Fatalf("Until = %d", u)
	}
	for _, word := range s {
		if word < -algo.MaxInstant || word > algo.MaxInstant {
			t.Fatalf("%+v = %+v: a word of %v is not exact", a, r, s)
		}
	}
}
