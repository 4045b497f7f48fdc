package e2e_test

import (
	"testing"
	"time"

	"github.com/floodweir/weir"
	"github.com/floodweir/weir/e2e/redistest"
	"github.com/floodweir/weir/redisstore"
)

// TestRedisReservationAfterSetLimit checks in Redis what the test TestReservationAfterSetLimit
// of package weir checks in memory, with limiters of two processes.
func TestRedisReservationAfterSetLimit(t *testing.T) {
	ctx := t.Context()
	url := "redis://" + redistest.Start(t).Addr
	for _, c := range []struct {
		name, before, after string
		n, actual, free     int64
	}{
		{"", "100/h fixed_window", "200/h fixed_window", 80, 30, 169},
		{"api", "100/h fixed_window", "200/h fixed_window", 80, 30, 169},
		{"", "2 concurrency lease 1h", "3 concurrency lease 1h", 1, 0, 2},
		{"slots", "2 concurrency lease 1h", "3 concurrency lease 1h", 1, 0, 2},
	} {
		limiter := func() *weir.Limiter {
			store := newRedisStore(t, openConn(t, "rueidis", url), redisstore.Config{Prefix: "p" + c.name})
			l, err := weir.New(store, weir.MustLimit(c.before), weir.Config{Name: c.name})
			if err != nil {
				t.Fatal(err)
			}
			return l
		}
		l, other := limiter(), limiter()
		change := func(l *weir.Limiter) {
			if err := l.SetLimit(weir.MustLimit(c.after), weir.CarryUsage); err != nil {
				t.Fatal(err)
			}
		}
		held, d, err := l.Reserve(ctx, "k", "held", c.n, time.Hour)
		if err != nil || !d.OK {
			t.Fatalf("%q %s: Reserve = %+v, %v", c.name, c.before, d, err)
		}
		change(l)
		if d, err := l.Take(ctx, "k", 1); err != nil || !d.OK { // the state migrates
			t.Fatalf("%q %s: Take = %+v, %v", c.name, c.after, d, err)
		}
		if c.name != "" { // the other process has the former limit
			if d, err := other.Peek(ctx, "k", 1); err != nil || d.Remaining > l.Limit().Capacity()-c.n-1 {
				t.Errorf("%q %s: %d remaining in the process with the former limit, %v", c.name, c.before, d.Remaining, err)
			}
			change(other)
		}
		if d, err := held.Extend(ctx, time.Hour); err != nil || !d.OK || d.Granted != c.n {
			t.Errorf("%q %s: Extend after the change = %+v, %v, want %d granted", c.name, c.after, d, err, c.n)
		}
		if d, err := held.Commit(ctx, c.actual); err != nil || d.Granted != c.actual || d.Remaining != c.free {
			t.Errorf("%q %s: Commit(%d) after the change = %+v, %v, want %d remaining", c.name, c.after, c.actual, d, err, c.free)
		}
		if d, err := l.Peek(ctx, "k", 1); err != nil || d.Remaining != c.free {
			t.Errorf("%q %s: %d remaining, %v, want %d", c.name, c.after, d.Remaining, err, c.free)
		}
	}
}
