package weir_test

import (
	"context"
	"errors"
	"fmt"
	"math"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/floodweir/weir"
	"github.com/floodweir/weir/internal/bounds"
	"github.com/floodweir/weir/memstore"
)

func TestNewRefuses(t *testing.T) {
	store, err := memstore.New(memstore.Config{})
	if err != nil {
		t.Fatal(err)
	}
	defer store.Close()
	ten := weir.MustLimit("10/s")
	for _, c := range []struct {
		store weir.Store
		limit weir.Limit
		c     weir.Config
		want  string
	}{
		{nil, ten, weir.Config{}, "store"},
		{(*memstore.Store)(nil), ten, weir.Config{}, "store"}, // a variable that was never set
		{store, weir.Limit{}, weir.Config{}, "zero Limit"},
		{store, ten, weir.Config{MaxWaiters: -1}, "MaxWaiters"},
		{store, ten, weir.Config{Prefix: "a\x00b"}, "zero byte"},
		{store, ten, weir.Config{Carry: weir.CarryReset + 1}, "Carry"},
		{store, ten, weir.Config{Carry: weir.CarryAsIs, Name: "n"}, "Carry"},
		{store, ten, weir.Config{Name: strings.Repeat("n", 101)}, "Name"},
		{store, ten, weir.Config{Prefix: strings.Repeat("p", bounds.MaxKey)}, "Prefix"},
	} {
		if _, err := weir.New(c.store, c.limit, c.c); !errors.Is(err, weir.ErrInvalid) || !strings.Contains(err.Error(), c.want) {
			t.Errorf("New(%v, %v, %+.40v): %v; want ErrInvalid with %q", c.store, c.limit, c.c, err, c.want)
		}
	}
}

func TestBadInput(t *testing.T) {
	l := newLimiter(t, "10/s", weir.Config{Prefix: "p"})
	ctx := t.Context()
	for _, c := range []struct {
		what string
		do   func() (weir.Decision, error)
	}{
		{"an empty key", func() (weir.Decision, error) { return l.Take(ctx, "", 1) }},
		{"an empty key to Wait", func() (weir.Decision, error) { return l.WaitN(ctx, "", 1, 0) }},
		{"a long key", func() (weir.Decision, error) { return l.Take(ctx, strings.Repeat("k", 1<<20), 1) }},
		{"a negative cost", func() (weir.Decision, error) { return l.Take(ctx, "k", -1) }},
		{"the lowest cost", func() (weir.Decision, error) { return l.Charge(ctx, "k", math.MinInt64) }},
		{"a negative refund", func() (weir.Decision, error) { return l.Return(ctx, "k", -5) }},
		{"a reservation without id", func() (weir.Decision, error) { _, d, err := l.Reserve(ctx, "k", "", 1, time.Second); return d, err }},
		{"a reservation of no life", func() (weir.Decision, error) { _, d, err := l.Reserve(ctx, "k", "i", 1, 0); return d, err }},
		{"a reservation of a long life", func() (weir.Decision, error) {
			_, d, err := l.Reserve(ctx, "k", "i", 1, bounds.MaxTTL+1)
			return d, err
		}},
		{"a reservation of nothing", func() (weir.Decision, error) { _, d, err := l.Reserve(ctx, "k", "i", 0, time.Second); return d, err }},
	} {
		d, err := c.do()
		if !errors.Is(err, weir.ErrInvalid) || d.OK {
			t.Errorf("%s = %v, %v; want ErrInvalid", c.what, d.OK, err)
		}
	}
	for _, n := range []int64{11, 1 << 41, math.MaxInt64} {
		if d, err := l.Take(ctx, "k", n); err != nil || d.OK || d.RetryAfter != weir.Never {
			t.Errorf("Take(%d) of 10 = %v retry %v, %v; want a denial for ever", n, d.OK, d.RetryAfter, err)
		}
	}
	if d, err := l.Take(ctx, "k", 0); err != nil || !d.OK || d.Granted != 0 || d.Remaining != 10 {
		t.Errorf("Take(0) = %+v, %v; want a peek at 10", d, err)
	}
	if err := l.SetLimit(weir.Limit{}, weir.CarryAsIs); !errors.Is(err, weir.ErrInvalid) {
		t.Errorf("SetLimit of the zero Limit: %v, want ErrInvalid", err)
	}
	if err := l.SetLimit(weir.MustLimit("20/s"), weir.CarryReset+1); !errors.Is(err, weir.ErrInvalid) {
		t.Errorf("SetLimit with an unknown Carry: %v, want ErrInvalid", err)
	}
}

// TestScope checks that two limiters of one store share a key only if they have the same
// prefix and the same limit.
func TestScope(t *testing.T) {
	store, err := memstore.New(memstore.Config{})
	if err != nil {
		t.Fatal(err)
	}
	defer store.Close()
	used := map[string]bool{}
	for _, c := range []struct{ prefix, limit, key string }{
		{"", "1/h", "k"}, {"a", "1/h", "k"}, {"b", "1/h", "k"}, {"", "1/2h", "k"}, {"", "1/h fixed_window", "k"},
		{"", "1/h", "ak"}, {"a", "1/h", "b\x00k"}, {"", "1/h burst 2", "k"},
	} {
		l, err := weir.New(store, weir.MustLimit(c.limit), weir.Config{Prefix: c.prefix})
		if err != nil {
			t.Fatal(err)
		}
		if d, err := l.Take(t.Context(), c.key, 1); err != nil || !d.OK {
			t.Errorf("the first Take of %+v = %v, %v; want it admitted", c, d.OK, err)
		}
		used[fmt.Sprint(c)] = true
	}
}

func TestSetLimitCarriesOver(t *testing.T) {
	for _, c := range []struct {
		carry weir.Carry
		want  int64 // of 40 a minute, after 5 of 10 a minute were taken
	}{
		{weir.CarryProportional, 20},
		{weir.CarryAsIs, 5},
		{weir.CarryAdditive, 35},
		{weir.CarryReset, 40},
	} {
		synctest.Test(t, func(t *testing.T) {
			l := newLimiter(t, "10/m fixed_window", weir.Config{})
			l.Take(t.Context(), "k", 5)
			for range 2 { // the second time, nothing changes
				if err := l.SetLimit(weir.MustLimit("40/m fixed_window"), c.carry); err != nil {
					t.Fatal(err)
				}
			}
			d, err := l.Peek(t.Context(), "k", 1)
			if err != nil || d.Remaining != c.want || d.Limit.Capacity() != 40 {
				t.Errorf("remaining %d of %s after carry %d, %v; want %d", d.Remaining, d.Limit, c.carry, err, c.want)
			}
			if d, _ := l.Take(t.Context(), "k", 2); d.Remaining != c.want-2 {
				t.Errorf("remaining %d after 2 more, want %d", d.Remaining, c.want-2)
			}
			if d, _ := l.Take(t.Context(), "new", 1); d.Remaining != 39 {
				t.Errorf("remaining %d of a new key, want 39", d.Remaining)
			}
		})
	}
}

// TestSetLimitTwice checks that a key that was not asked about between two changes still
// carries over.
func TestSetLimitTwice(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLimiter(t, "10/m", weir.Config{})
		l.Take(t.Context(), "k", 10)
		l.SetLimit(weir.MustLimit("20/m"), weir.CarryAsIs)
		l.SetLimit(weir.MustLimit("30/m"), weir.CarryAsIs)
		if d, err := l.Take(t.Context(), "k", 1); err != nil || d.OK {
			t.Errorf("Take of a key that owed two limits ago = %v, %v; want a denial", d.OK, err)
		}
	})
}

func TestReservation(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx := t.Context()
		l := newLimiter(t, "100/h fixed_window", weir.Config{})
		remaining := func(want int64) {
			t.Helper()
			if d, err := l.Peek(ctx, "k", 1); err != nil || d.Remaining != want {
				t.Errorf("remaining %d, %v; want %d", d.Remaining, err, want)
			}
		}
		r, d, err := l.Reserve(ctx, "k", "job-1", 40, time.Minute)
		if err != nil || !d.OK || d.Granted != 40 {
			t.Fatalf("Reserve(40) = %+v, %v", d, err)
		}
		remaining(60)
		if _, d, err := l.Reserve(ctx, "k", "job-1", 40, time.Minute); err != nil || !d.OK || d.Granted != 40 {
			t.Errorf("Reserve again = %+v, %v; want the first answer", d, err)
		}
		remaining(60)
		for range 2 {
			if _, err := r.Commit(ctx, 10); err != nil {
				t.Errorf("Commit(10): %v", err)
			}
			remaining(90)
		}
		if _, err := r.Cancel(ctx); err != nil {
			t.Errorf("Cancel of what is settled: %v", err)
		}
		remaining(90)

		l.Reserve(ctx, "k", "job-2", 50, time.Minute)
		remaining(40)
		<-time.After(time.Minute)
		remaining(90)
		if _, err := reservation(t, l, "job-2").Commit(ctx, 50); !errors.Is(err, weir.ErrNoReservation) {
			t.Errorf("Commit after the life of a reservation: %v, want ErrNoReservation", err)
		}

		over, _, _ := l.Reserve(ctx, "k", "job-3", 10, time.Minute)
		if _, err := over.Commit(ctx, 120); err != nil {
			t.Errorf("Commit(120) of 10: %v", err)
		}
		if d, _ := l.Take(ctx, "k", 1); d.OK || d.Remaining != 0 {
			t.Errorf("Take in debt = %v with %d remaining, want a denial with 0", d.OK, d.Remaining)
		}
		if _, err := reservation(t, l, "never").Cancel(ctx); !errors.Is(err, weir.ErrNoReservation) {
			t.Errorf("Cancel of an unknown id: %v, want ErrNoReservation", err)
		}
	})
}

// TestReservationOfSlots checks that slots of a concurrency limit heal when their holder
// dies, and live as long as their heartbeat.
func TestReservationOfSlots(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx := t.Context()
		l := newLimiter(t, "2 concurrency lease 10s", weir.Config{})
		alive, _, _ := l.Reserve(ctx, "k", "alive", 1, 10*time.Second)
		l.Reserve(ctx, "k", "dies", 1, 10*time.Second)
		if _, d, err := l.Reserve(ctx, "k", "third", 1, 10*time.Second); err != nil || d.OK || d.RetryAfter != 10*time.Second {
			t.Errorf("a third slot = %v retry %v, %v; want a denial for 10s", d.OK, d.RetryAfter, err)
		}
		<-time.After(9 * time.Second)
		if d, err := alive.Extend(ctx, 10*time.Second); err != nil || !d.OK {
			t.Errorf("heartbeat = %+v, %v", d, err)
		}
		<-time.After(time.Second)
		if _, d, err := l.Reserve(ctx, "k", "third", 1, 10*time.Second); err != nil || !d.OK || d.Remaining != 0 {
			t.Errorf("a slot after one holder died = %v with %d remaining, %v; want the dead one's", d.OK, d.Remaining, err)
		}
		if d, err := reservation(t, l, "alive").Extend(ctx, 10*time.Second); err != nil || !d.OK || d.Remaining != 0 {
			t.Errorf("heartbeat by another handle = %v with %d remaining, %v; want it held on", d.OK, d.Remaining, err)
		}
		if _, err := alive.Cancel(ctx); err != nil {
			t.Error(err)
		}
		if d, _ := l.Peek(ctx, "k", 1); d.Remaining != 1 {
			t.Errorf("remaining %d after one was released, want 1", d.Remaining)
		}
	})
}

func TestTakeAll(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx := t.Context()
		store, err := memstore.New(memstore.Config{})
		if err != nil {
			t.Fatal(err)
		}
		defer store.Close()
		limiter := func(text string) *weir.Limiter {
			l, err := weir.New(store, weir.MustLimit(text), weir.Config{})
			if err != nil {
				t.Fatal(err)
			}
			return l
		}
		second, day := limiter("2/s"), limiter("3/day")
		all := func() weir.Decision {
			t.Helper()
			d, err := weir.TakeAll(ctx, store, request(t, second, "u", 1), request(t, day, "u", 1))
			if err != nil {
				t.Fatal(err)
			}
			return d
		}
		all()
		if d := all(); !d.OK || d.Limit.Capacity() != 2 || d.Remaining != 0 {
			t.Errorf("the second = %v by %s, %d remaining; want admitted, the second's limit the tightest", d.OK, d.Limit, d.Remaining)
		}
		if d := all(); d.OK || d.Limit.Capacity() != 2 || d.RetryAfter != 500*time.Millisecond {
			t.Errorf("the third = %v by %s retry %v; want denied by 2/s for 500ms", d.OK, d.Limit, d.RetryAfter)
		}
		if d, _ := day.Peek(ctx, "u", 1); d.Remaining != 1 {
			t.Errorf("the day has %d remaining after a denial by the second, want 1", d.Remaining)
		}
		<-time.After(time.Second)
		all()
		if d := all(); d.OK || d.Limit.Capacity() != 3 {
			t.Errorf("the fourth = %v by %s; want denied by the day", d.OK, d.Limit)
		}
		if d, _ := second.Peek(ctx, "u", 1); d.Remaining != 1 {
			t.Errorf("the second has %d remaining after a denial by the day, want 1", d.Remaining)
		}
	})
}

func TestTakeUpToAndRefunds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx := t.Context()
		l := newLimiter(t, "10/m sliding_log", weir.Config{})
		l.Take(ctx, "k", 7)
		if d, err := l.TakeUpTo(ctx, "k", 5); err != nil || !d.OK || d.Granted != 3 {
			t.Errorf("TakeUpTo(5) of 3 = %v granted %d, %v; want 3", d.OK, d.Granted, err)
		}
		if d, err := l.TakeUpTo(ctx, "k", 5); err != nil || d.OK || d.Granted != 0 || d.RetryAfter != time.Minute {
			t.Errorf("TakeUpTo(5) of 0 = %v granted %d retry %v, %v; want a denial", d.OK, d.Granted, d.RetryAfter, err)
		}
		d, _ := l.Return(ctx, "k", 4)
		if d.Remaining != 4 {
			t.Errorf("remaining %d after Return(4), want 4", d.Remaining)
		}
		if d, _ := l.Return(ctx, "k", 400); d.Remaining != 10 {
			t.Errorf("remaining %d after Return(400), want the capacity 10", d.Remaining)
		}
		first, _ := l.Take(ctx, "k", 2)
		<-time.After(time.Second)
		l.Take(ctx, "k", 3)
		if d, _ := l.ReturnAt(ctx, "k", 5, first.At); d.Remaining != 7 {
			t.Errorf("remaining %d after the first 2 were given back 5 times, want 7", d.Remaining)
		}
		if d, _ := l.Charge(ctx, "k", 20); !d.OK || d.Remaining != 0 {
			t.Errorf("Charge(20) = %v with %d remaining, want OK with 0", d.OK, d.Remaining)
		}
		if d, _ := l.Reset(ctx, "k"); d.Remaining != 10 {
			t.Errorf("remaining %d after Reset, want 10", d.Remaining)
		}
	})
}

func TestCombine(t *testing.T) {
	a, b := weir.MustLimit("10/s"), weir.MustLimit("100/s")
	yes := func(l weir.Limit, left int64, delay time.Duration) weir.Decision {
		return weir.Decision{OK: true, Limit: l, Remaining: left, Delay: delay}
	}
	no := func(l weir.Limit, retry time.Duration) weir.Decision {
		return weir.Decision{Limit: l, RetryAfter: retry}
	}
	for i, c := range []struct {
		ds   []weir.Decision
		want weir.Decision
	}{
		{[]weir.Decision{yes(a, 5, 0), yes(b, 49, 0)}, yes(b, 49, 0)},
		{[]weir.Decision{yes(a, 4, time.Second), yes(b, 49, 2*time.Second)}, yes(a, 4, 2*time.Second)},
		{[]weir.Decision{yes(a, 0, time.Second), no(b, time.Minute)}, no(b, time.Minute)},
		{[]weir.Decision{no(a, weir.Never), no(b, time.Minute)}, no(a, weir.Never)},
		{[]weir.Decision{no(a, time.Second), no(b, time.Minute)}, no(b, time.Minute)},
	} {
		if got := c.ds[0].Combine(c.ds[1:]...); got != c.want {
			t.Errorf("case %d: Combine = %+v, want %+v", i, got, c.want)
		}
	}
}

// TestStoreError checks that an error of the store is passed on, and is no decision.
func TestStoreError(t *testing.T) {
	l, err := weir.New(brokenStore{}, weir.MustLimit("1/s"), weir.Config{})
	if err != nil {
		t.Fatal(err)
	}
	for name, do := range map[string]func() (weir.Decision, error){
		"Take": func() (weir.Decision, error) { return l.Take(t.Context(), "k", 1) },
		"Wait": func() (weir.Decision, error) { return l.WaitN(t.Context(), "k", 1, weir.Unlimited) },
		"TakeAll": func() (weir.Decision, error) {
			return weir.TakeAll(t.Context(), brokenStore{}, request(t, l, "k", 1))
		},
	} {
		if d, err := do(); !errors.Is(err, weir.ErrUnavailable) || d.OK {
			t.Errorf("%s of a broken store = %v, %v; want ErrUnavailable", name, d.OK, err)
		}
	}
}

type brokenStore struct{}

func (brokenStore) Do(context.Context, weir.Request) (weir.Decision, error) {
	return weir.Decision{}, weir.ErrUnavailable
}

func (brokenStore) DoAll(context.Context, []weir.Request, []weir.Decision) (bool, error) {
	return false, weir.ErrUnavailable
}

func request(t *testing.T, l *weir.Limiter, key string, n int64) weir.Request {
	t.Helper()
	r, err := l.Request(t.Context(), key, n)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

func reservation(t *testing.T, l *weir.Limiter, id string) weir.Reservation {
	t.Helper()
	r, err := l.Reservation(t.Context(), "k", id)
	if err != nil {
		t.Fatal(err)
	}
	return r
}
