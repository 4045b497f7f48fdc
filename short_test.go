package weir_test

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/floodweir/weir"
	"github.com/floodweir/weir/memstore"
)

func TestAllow(t *testing.T) {
	l := memstore.MustLimiter("2/h")
	for i, want := range []bool{true, true, false} {
		if got := l.Allow(); got != want {
			t.Errorf("Allow %d = %v, want %v", i, got, want)
		}
		if got := l.AllowKey("k"); got != want {
			t.Errorf("AllowKey %d = %v, want %v", i, got, want)
		}
	}
	if l.AllowKey("") {
		t.Error("AllowKey of an empty key = true")
	}
	if n := testing.AllocsPerRun(100, func() { l.Allow(); l.AllowKey("k") }); n != 0 {
		t.Errorf("Allow allocates %v times", n)
	}
}

// TestTakeAllAllocations checks that several limits in one request allocate nothing.
func TestTakeAllAllocations(t *testing.T) {
	store, err := memstore.New(memstore.Config{})
	if err != nil {
		t.Fatal(err)
	}
	second, day := weir.MustLimit("1000000/s"), weir.MustLimit("1000000/24h")
	ctx := context.Background()
	take := func() {
		d, err := weir.TakeAll(ctx, store, weir.Request{Key: "k", Limit: second, N: 1}, weir.Request{Key: "k", Limit: day, N: 1})
		if err != nil || !d.OK {
			t.Fatalf("TakeAll = %+v, %v, want OK", d, err)
		}
	}
	if n := testing.AllocsPerRun(100, take); n >= 1 {
		t.Errorf("TakeAll allocates %v times, want 0", n)
	}
}

func TestMustLimiterPanics(t *testing.T) {
	defer func() {
		if err, ok := recover().(error); !ok || !errors.Is(err, weir.ErrInvalid) {
			t.Errorf("MustLimiter panicked with %v, want ErrInvalid", err)
		}
	}()
	memstore.MustLimiter("10 bananas")
}

func TestWaitShort(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := memstore.MustLimiter("1/s")
		begin := time.Now()
		for range 3 {
			if err := l.Wait(t.Context()); err != nil {
				t.Fatal(err)
			}
		}
		if took := time.Since(begin); took != 2*time.Second {
			t.Errorf("3 waits at 1/s took %v, want 2s", took)
		}
		if err := l.WaitKey(t.Context(), "k"); err != nil || time.Since(begin) != 2*time.Second {
			t.Errorf("WaitKey of a new key = %v after %v, want nil at once", err, time.Since(begin))
		}
		// A deadline before the next token is a denial at once.
		ctx, cancel := context.WithTimeout(t.Context(), 500*time.Millisecond)
		defer cancel()
		if err := l.Wait(ctx); !errors.Is(err, weir.ErrDenied) || time.Since(begin) != 2*time.Second {
			t.Errorf("Wait with a deadline in 500ms = %v after %v, want ErrDenied at once", err, time.Since(begin))
		}
		cancel()
		if err := l.Wait(ctx); !errors.Is(err, context.Canceled) || errors.Is(err, weir.ErrDenied) {
			t.Errorf("Wait of an ended context = %v, want its cause", err)
		}
	})
}

// TestWaitUsesTheClockOfTheStore checks that a fake clock ends the waits of its store, and
// measures them: while it stands still a wait goes on, whatever the time of the machine.
func TestWaitUsesTheClockOfTheStore(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var now atomic.Int64
		now.Store(1_767_225_600_000_000)
		advance := func(d time.Duration) {
			time.Sleep(5 * time.Second) // by the clock of the machine
			now.Add(d.Microseconds())
			time.Sleep(5 * time.Second)
			synctest.Wait()
		}
		store, err := memstore.New(memstore.Config{Clock: now.Load})
		if err != nil {
			t.Fatal(err)
		}
		l, err := weir.New(store, weir.MustLimit("1/s"), weir.Config{})
		if err != nil {
			t.Fatal(err)
		}
		var mu sync.Mutex
		var done []string // guarded by mu
		wait := func(name string, maxWait time.Duration) {
			go func() {
				d, err := l.WaitN(t.Context(), "k", 1, maxWait)
				if err != nil {
					t.Errorf("%s: %v", name, err)
				}
				if !d.OK {
					name += " denied"
				}
				mu.Lock()
				defer mu.Unlock()
				done = append(done, name)
			}()
			synctest.Wait()
		}
		check := func(want ...string) {
			t.Helper()
			mu.Lock()
			defer mu.Unlock()
			if len(done) != len(want) || len(want) > 0 && done[len(done)-1] != want[len(want)-1] {
				t.Fatalf("done = %q, want %q", done, want)
			}
		}
		l.AllowKey("k")
		wait("first", 2*time.Second)
		wait("second", 2*time.Second)
		wait("third", 1200*time.Millisecond)
		check()
		advance(999 * time.Millisecond)
		check()
		advance(time.Millisecond)
		check("first")
		advance(199 * time.Millisecond)
		check("first")
		advance(time.Millisecond)
		check("first", "third denied") // in the queue
		advance(800 * time.Millisecond)
		check("first", "third denied", "second")
		wait("fourth", 500*time.Millisecond)
		check("first", "third denied", "second", "fourth denied") // at once
	})
}

// TestWaitMeasuresByDecisions checks that a store that shows no clock is measured by the
// instants of its decisions.
func TestWaitMeasuresByDecisions(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &hurried{at: time.Unix(1_767_225_600, 0)}
		l, err := weir.New(s, weir.MustLimit("1/s"), weir.Config{})
		if err != nil {
			t.Fatal(err)
		}
		begin := time.Now()
		d, err := l.WaitN(t.Context(), "k", 1, 150*time.Minute)
		if err != nil || d.OK || s.asked != 4 || time.Since(begin) != 3*time.Second {
			t.Errorf("WaitN = %+v, %v after %d requests and %v; want a denial after 4 and 3s", d, err, s.asked, time.Since(begin))
		}
	})
}

// hurried denies every request for a second. Its clock advances by an hour per request.
type hurried struct {
	weir.Store
	at    time.Time
	asked int
}

func (s *hurried) Do(context.Context, weir.Request) (weir.Decision, error) {
	s.asked++
	s.at = s.at.Add(time.Hour)
	return weir.Decision{RetryAfter: time.Second, At: s.at}, nil
}
