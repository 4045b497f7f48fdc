package redismodel_test

import (
	"context"
	"testing"
	"time"

	"github.com/floodweir/weir"
)

// A jumper sends requests at instants that the test sets, in µs after a start.
type jumper struct {
	t   *testing.T
	set func(us int64)
	do  func(weir.Request) (weir.Decision, error)
}

func newJumper(t *testing.T, own bool) jumper {
	h := open(own)(t)
	return jumper{t, h.SetNow, func(r weir.Request) (weir.Decision, error) { return h.Store.Do(context.Background(), r) }}
}

func (j jumper) take(us time.Duration, verb weir.Verb, l weir.Limit, n int64) weir.Decision {
	j.t.Helper()
	j.set(1_700_000_000_000_000 + us.Microseconds())
	d, err := j.do(weir.Request{Verb: verb, Key: "k", Limit: l, N: n})
	if err != nil {
		j.t.Fatal(err)
	}
	return d
}

// TestClockJumps lets the clock of the server, or of the store, jump forward and back, by spans
// of different lengths. TTLs end by that clock. All jumps together give at most one burst.
func TestClockJumps(t *testing.T) {
	for _, text := range []string{"1/m burst 10", "5/m fixed_window", "6/m sliding_window", "5/m sliding_log", "3/s leaky_bucket burst 4 nginx", "5/s warmup 3s"} {
		l := weir.MustLimit(text)
		for _, hours := range [][]time.Duration{{10}, {10, 3, 7, 2, 5}, {200 * 24, 24, 100 * 24}} {
			j, total := newJumper(t, len(hours) == 5), int64(0)
			for i := range 20 {
				at := time.Duration(i) * time.Millisecond
				if i%2 == 1 {
					at += hours[i/2%len(hours)] * time.Hour
				}
				total += j.take(at, weir.TakeUpTo, l, l.Capacity()).Granted
			}
			if total > 2*l.Capacity() {
				t.Errorf("%s: jumps by %d hours let %d through, want at most %d", l, hours, total, 2*l.Capacity())
			}
		}
	}
}

// TestClockJumpsUnused lets the clock of the server jump forward and back, and takes tokens only
// while it is back. Redis deletes a key whose TTL has passed at the forward instant, so each
// jump gives a full bucket.
func TestClockJumpsUnused(t *testing.T) {
	l := weir.MustLimit("1/m burst 10")
	j := newJumper(t, false)
	for i := range 5 {
		at := time.Duration(i) * time.Millisecond
		if got := j.take(at, weir.TakeUpTo, l, 10).Granted; got != 10 {
			t.Errorf("take %d: got %d tokens, want 10", i, got)
		}
		j.take(at+10*time.Hour, weir.Peek, l, 1)
	}
}

// TestClockOffset has two clients whose clocks differ by a constant offset, and which take
// turns. A key gets the tokens of the elapsed time and one burst for the offset, and not many
// fewer: a window may end a turn later.
func TestClockOffset(t *testing.T) {
	for _, text := range []string{"1/s burst 5", "5/5s fixed_window", "5/5s sliding_window segments 8", "1/s leaky_bucket burst 5 nginx"} {
		l := weir.MustLimit(text)
		j, total := newJumper(t, true), int64(0)
		for i := range time.Duration(1000) {
			total += j.take(i*time.Second+i%2*(1234*time.Second+567*time.Microsecond), weir.TakeUpTo, l, 5).Granted
		}
		if total > 1010 || total < 800 {
			t.Errorf("%s: %d tokens in 1000 s, want 800 to 1010", l, total)
		}
	}
}

// TestClockBackIdle sets the clock back by a day. A key that pauses for longer than its limit
// takes to refill is denied at most once.
func TestClockBackIdle(t *testing.T) {
	l := weir.MustLimit("1/s")
	j := newJumper(t, false)
	j.take(24*time.Hour, weir.Take, l, 1)
	j.take(0, weir.Take, l, 1)
	denied := 0
	for i := range time.Duration(20) {
		if !j.take((i+1)*time.Minute, weir.Take, l, 1).OK {
			denied++
		}
	}
	if denied > 1 {
		t.Errorf("%d of 20 requests, one per minute, are denied, want at most 1", denied)
	}
}

// TestClockBackTogether sets the clock back by less than a limit takes to refill. Two states are
// decided together at the latest instant of their writes.
func TestClockBackTogether(t *testing.T) {
	l := weir.MustLimit("1/s burst 2")
	h := open(false)(t)
	rs := []weir.Request{{Key: "a", Limit: l, N: 1}, {Key: "b", Limit: l, N: 1}}
	for _, us := range []int64{1_700_000_005_000_000, 1_700_000_003_900_000} {
		h.SetNow(us)
		if ok, err := h.Store.DoAll(t.Context(), rs, make([]weir.Decision, 2)); !ok || err != nil {
			t.Errorf("at %d: got %t, %v, want one of two tokens", us, ok, err)
		}
	}
}
