package weir_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/floodweir/weir"
	"github.com/floodweir/weir/internal/fakestore"
	"github.com/floodweir/weir/memstore"
)

func newLimiter(t *testing.T, limit string, c weir.Config) *weir.Limiter {
	t.Helper()
	store, err := memstore.New(memstore.Config{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { store.Close() })
	l, err := weir.New(store, weir.MustLimit(limit), c)
	if err != nil {
		t.Fatal(err)
	}
	return l
}

// TestWaitIsFirstComeFirstServed checks that waiters are served in the order in which they
// came, each at the first instant at which its tokens fit.
func TestWaitIsFirstComeFirstServed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLimiter(t, "1/s", weir.Config{})
		begin := time.Now()
		var mu sync.Mutex
		var served []string
		var wg sync.WaitGroup
		for i := range 5 {
			wg.Go(func() {
				d, err := l.WaitN(t.Context(), "k", 1, weir.Unlimited)
				mu.Lock()
				defer mu.Unlock()
				served = append(served, fmt.Sprintf("%d at %v: %v %v", i, time.Since(begin), d.OK, err))
			})
			synctest.Wait()
		}
		wg.Wait()
		want := []string{"0 at 0s: true <nil>", "1 at 1s: true <nil>", "2 at 2s: true <nil>", "3 at 3s: true <nil>", "4 at 4s: true <nil>"}
		if !slices.Equal(served, want) {
			t.Errorf("served %q, want %q", served, want)
		}
	})
}

// TestWaitKeepsALargeRequestInFront checks that a large waiter in front is not starved by
// small ones behind it.
func TestWaitKeepsALargeRequestInFront(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLimiter(t, "1/s burst 3", weir.Config{})
		begin := time.Now()
		if _, err := l.Take(t.Context(), "k", 3); err != nil {
			t.Fatal(err)
		}
		var mu sync.Mutex
		at := map[int64]time.Duration{}
		var wg sync.WaitGroup
		for _, n := range []int64{3, 1} {
			wg.Go(func() {
				if d, err := l.WaitN(t.Context(), "k", n, weir.Unlimited); err != nil || !d.OK {
					t.Errorf("Wait(%d) = %+v, %v", n, d, err)
				}
				mu.Lock()
				defer mu.Unlock()
				at[n] = time.Since(begin)
			})
			synctest.Wait()
		}
		wg.Wait()
		if at[3] != 3*time.Second || at[1] != 4*time.Second {
			t.Errorf("3 tokens came at %v and 1 token at %v, want 3s and 4s", at[3], at[1])
		}
	})
}

func TestWaitGivesUpAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLimiter(t, "1/s burst 2", weir.Config{})
		begin := time.Now()
		for _, c := range []struct {
			n       int64
			maxWait time.Duration
			ok      bool
			retry   time.Duration
		}{
			{2, 0, true, 0},
			{1, 999 * time.Millisecond, false, time.Second},
			{1, 0, false, time.Second},
			{3, -1, false, weir.Never},
		} {
			d, err := l.WaitN(t.Context(), "k", c.n, c.maxWait)
			if err != nil || d.OK != c.ok || d.RetryAfter != c.retry {
				t.Errorf("Wait(%d, %v) = %v retry %v, %v; want %v retry %v", c.n, c.maxWait, d.OK, d.RetryAfter, err, c.ok, c.retry)
			}
		}
		if waited := time.Since(begin); waited != 0 {
			t.Errorf("giving up took %v, want no time", waited)
		}
		if d, _ := l.WaitN(t.Context(), "k", 1, time.Second); !d.OK || time.Since(begin) != time.Second {
			t.Errorf("Wait(1, 1s) = %v after %v, want true after 1s", d.OK, time.Since(begin))
		}
	})
}

// TestWaitBounds checks that 0 and NoWait deny at once, Unlimited waits for any time.
func TestWaitBounds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLimiter(t, "1/24h", weir.Config{})
		l.Take(t.Context(), "k", 1)
		for _, maxWait := range []time.Duration{0, weir.NoWait, -time.Hour} {
			if d, err := l.WaitN(t.Context(), "k", 1, maxWait); err != nil || d.OK {
				t.Errorf("Wait(%v) = %v, %v, want a denial", maxWait, d.OK, err)
			}
		}
		if d, err := l.WaitN(t.Context(), "k", 1, weir.Unlimited); err != nil || !d.OK {
			t.Errorf("Wait(Unlimited) = %v, %v, want a token", d.OK, err)
		}
	})
}

// TestWaitCancelled checks that a caller that gives up in the queue consumes nothing and
// lets the next one in.
func TestWaitCancelled(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLimiter(t, "1/s", weir.Config{})
		begin := time.Now()
		l.Take(t.Context(), "k", 1)
		gone := errors.New("gone")
		ctx, cancel := context.WithCancelCause(t.Context())
		var wg sync.WaitGroup
		for _, c := range []context.Context{ctx, ctx, t.Context()} {
			wg.Go(func() {
				d, err := l.WaitN(c, "k", 1, weir.Unlimited)
				switch {
				case c == ctx && !errors.Is(err, gone):
					t.Errorf("cancelled Wait = %+v, %v; want the cause", d, err)
				case c != ctx && (err != nil || !d.OK || time.Since(begin) != time.Second):
					t.Errorf("Wait behind cancelled ones = %v, %v after %v; want true after 1s", d.OK, err, time.Since(begin))
				}
			})
			synctest.Wait()
		}
		cancel(gone)
		wg.Wait()
		if _, err := l.WaitN(ctx, "other", 1, weir.Unlimited); !errors.Is(err, gone) {
			t.Errorf("Wait of an ended context: %v, want its cause", err)
		}
	})
}

// TestWaitCancelledInItsDelay checks that a caller that is admitted, and gives up during its
// delay, returns its tokens: the next caller has the shorter delay.
func TestWaitCancelledInItsDelay(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		memory, err := memstore.New(memstore.Config{})
		if err != nil {
			t.Fatal(err)
		}
		defer memory.Close()
		remote := fakestore.Around(memory, func(ctx context.Context, _ *weir.Request) error { return ctx.Err() }, nil)
		l, err := weir.New(remote, weir.MustLimit("1/s leaky_bucket burst 5 queue"), weir.Config{})
		if err != nil {
			t.Fatal(err)
		}
		begin := time.Now()
		l.Take(t.Context(), "k", 1)
		gone := errors.New("gone")
		ctx, cancel := context.WithCancelCause(t.Context())
		var wg sync.WaitGroup
		for range 3 { // with delays of 1, 2 and 3 s
			wg.Go(func() {
				if d, err := l.WaitN(ctx, "k", 1, weir.Unlimited); !errors.Is(err, gone) || d != (weir.Decision{}) {
					t.Errorf("cancelled Wait = %+v, %v; want no decision and the cause", d, err)
				}
			})
		}
		synctest.Wait()
		if d, _ := l.Peek(t.Context(), "k", 1); d.Remaining != 2 {
			t.Errorf("remaining %d during the delays, want 2", d.Remaining)
		}
		cancel(gone)
		wg.Wait()
		if d, _ := l.Peek(t.Context(), "k", 1); d.Remaining != 5 {
			t.Errorf("remaining %d after the cancellations, want 5", d.Remaining)
		}
		if d, err := l.WaitN(t.Context(), "k", 1, weir.Unlimited); err != nil || !d.OK || time.Since(begin) != time.Second {
			t.Errorf("the next Wait = %v, %v after %v; want true after 1s", d.OK, err, time.Since(begin))
		}
	})
}

func TestWaitBoundsItsQueue(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLimiter(t, "1/s", weir.Config{MaxWaiters: 2})
		l.Take(t.Context(), "k", 1)
		var wg sync.WaitGroup
		for range 2 {
			wg.Go(func() { l.WaitN(t.Context(), "k", 1, weir.Unlimited) })
		}
		synctest.Wait()
		begin := time.Now()
		d, err := l.WaitN(t.Context(), "k", 1, weir.Unlimited)
		if err != nil || d.OK || time.Since(begin) != 0 {
			t.Errorf("Wait as the third = %v, %v after %v; want a denial at once", d.OK, err, time.Since(begin))
		}
		if d, err := l.WaitN(t.Context(), "other", 1, weir.Unlimited); err != nil || !d.OK {
			t.Errorf("Wait for another key = %v, %v; want it admitted", d.OK, err)
		}
		wg.Wait()
	})
}

// TestWaitTimesOutInTheQueue checks that a waiter is denied when its time is up, even if
// others precede it.
func TestWaitTimesOutInTheQueue(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLimiter(t, "1/10s", weir.Config{})
		l.Take(t.Context(), "k", 1)
		var wg sync.WaitGroup
		wg.Go(func() { l.WaitN(t.Context(), "k", 1, weir.Unlimited) })
		synctest.Wait()
		begin := time.Now()
		d, err := l.WaitN(t.Context(), "k", 1, 3*time.Second)
		if err != nil || d.OK || d.RetryAfter != 17*time.Second || time.Since(begin) != 3*time.Second {
			t.Errorf("Wait behind another = %v retry %v, %v after %v; want a denial after 3s, retry in 17s", d.OK, d.RetryAfter, err, time.Since(begin))
		}
		wg.Wait()
	})
}

// TestWaitHoldsBackItsDelay checks that a leaky bucket with queue holds admitted requests back,
// and takes tokens back from a caller whose maxWait is shorter.
func TestWaitHoldsBackItsDelay(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLimiter(t, "10/s leaky_bucket burst 5 queue", weir.Config{})
		begin := time.Now()
		var mu sync.Mutex
		var at []time.Duration
		var wg sync.WaitGroup
		for range 3 {
			wg.Go(func() {
				if d, err := l.WaitN(t.Context(), "k", 1, weir.Unlimited); err != nil || !d.OK {
					t.Errorf("Wait = %+v, %v", d, err)
				}
				mu.Lock()
				defer mu.Unlock()
				at = append(at, time.Since(begin))
			})
		}
		synctest.Wait()
		d, err := l.WaitN(t.Context(), "k", 1, 200*time.Millisecond)
		if err != nil || d.OK || d.RetryAfter != 100*time.Millisecond {
			t.Errorf("Wait at most 200ms for 300ms = %v retry %v, %v; want a denial, retry in 100ms", d.OK, d.RetryAfter, err)
		}
		wg.Wait()
		if want := []time.Duration{0, 100 * time.Millisecond, 200 * time.Millisecond}; !slices.Equal(at, want) {
			t.Errorf("served after %v, want %v", at, want)
		}
		if d, _ := l.Peek(t.Context(), "k", 1); d.Remaining != 5 {
			t.Errorf("remaining %d after the refused one gave back, want 5", d.Remaining)
		}
	})
}

// TestWaitByTheClockOfTheStore checks that a wait is measured by the clock of the store, which
// has an offset and another speed.
func TestWaitByTheClockOfTheStore(t *testing.T) {
	for _, c := range fakestore.DriftingWaits {
		synctest.Test(t, func(t *testing.T) {
			c.Check(t, func(store weir.Store, maxWait time.Duration) bool {
				l, err := weir.New(store, weir.MustLimit(c.Limit), weir.Config{})
				if err != nil {
					t.Fatal(err)
				}
				d, err := l.WaitN(t.Context(), "k", 1, maxWait)
				if err != nil {
					t.Error(err)
				}
				return d.OK
			})
		})
	}
}
