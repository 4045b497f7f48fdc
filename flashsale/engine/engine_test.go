package engine_test

import (
	"context"
	"fmt"
	"runtime"
	"testing"
	"testing/synctest"
	"time"

	"github.com/floodweir/weir/flashsale/engine"
	"github.com/floodweir/weir/flashsale/sale"
)

func TestConfig(t *testing.T) {
	for _, cfg := range []engine.Config{{Redeliver: -1}, {MaxTickets: -1}} {
		if e, err := engine.New(cfg); err == nil {
			e.Stop()
			t.Errorf("New(%+v) is no error", cfg)
		}
	}
}

// The goroutine of a sale ends with Drop, and with the last entry of a stream that an
// earlier process left; a bubble does not end while one of its goroutines does not.
func TestGoroutinesEnd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		journal := engine.NewMemoryJournal()
		before := runtime.NumGoroutine()
		s := start(t, engine.Config{Journal: journal})
		for i := range 3 {
			s.open(int64(i) + 1)
			s.buy("ann")
			if err := s.Done(t.Context(), "s", s.epoch, s.users(s.epoch, "ann")...); err != nil {
				t.Fatal(err)
			}
			if err := s.Drop(t.Context(), "s", s.epoch); err != nil {
				t.Fatal(err)
			}
		}
		if err := journal.Append(t.Context(), "old", 7, []sale.Reservation{{ID: "r", Sale: "old", Epoch: 7}}); err != nil {
			t.Fatal(err)
		}
		es, err := s.Next(t.Context(), "old", 7, "w", 1, 0)
		if err != nil || len(es) != 1 {
			t.Fatalf("Next = %v, %v", es, err)
		}
		if err := s.Done(t.Context(), "old", 7, "r"); err != nil {
			t.Fatal(err)
		}
		if err := journal.Append(t.Context(), "s", 9, []sale.Reservation{{ID: "r", Sale: "s", Epoch: 9}}); err != nil {
			t.Fatal(err)
		}
		s.is("Open of an epoch that has entries", s.Open(t.Context(), s.opening(9)), sale.ErrStale)
		synctest.Wait()
		after := runtime.NumGoroutine()
		for range 10_000 { // one that has ended is counted for a moment
			if after <= before {
				break
			}
			runtime.Gosched()
			after = runtime.NumGoroutine()
		}
		if after > before {
			t.Fatalf("%d goroutines, %d before", after, before)
		}
	})
}

// A sale gives as many tickets as are allowed.
func TestMaxTickets(t *testing.T) {
	s := start(t, engine.Config{MaxTickets: 2})
	defer s.Stop()
	s.open(1)
	for i, want := range []sale.Reason{sale.OK, sale.OK, sale.QueueFull} {
		user := fmt.Sprint("user", i)
		st, err := s.Join(t.Context(), sale.Join{Sale: "s", Epoch: 1, User: user, Ticket: ticket(user)})
		if err != nil || st.Reason != want {
			t.Fatalf("Join %d = %+v, %v, want reason %q", i, st, err, want)
		}
	}
}

// The time does not depend on steps of the wall clock: it goes as the monotonic clock does.
func TestClock(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := start(t, engine.Config{})
		defer s.Stop()
		s.open(1)
		begun := time.Now()
		time.Sleep(time.Minute)
		n, err := s.Count(t.Context(), "s", 1)
		if want := begun.Add(time.Minute).Truncate(time.Millisecond); err != nil || !n.Now.Equal(want) {
			t.Fatalf("Count.Now = %v, %v, want %v", n.Now, err, want)
		}
	})
}

// Callers that give up, and sales that come and go, do no harm to each other.
func TestCallersGiveUp(t *testing.T) {
	s := start(t, engine.Config{})
	defer s.Stop()
	s.open(1)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	for range 100 {
		_, _ = s.Look(ctx, "s", 1, "ann")
		if _, err := s.Look(t.Context(), "s", 1, "ann"); err != nil {
			t.Fatalf("Look = %v", err)
		}
	}
	if _, err := s.Next(ctx, "s", 1, "w", 1, time.Minute); err == nil {
		t.Fatal("Next of a caller that gave up is no error")
	}
}

const crowd = 100_000

// fill lets a crowd into the line of a sale.
func fill(t testing.TB, e *engine.Engine) {
	t.Helper()
	now := time.Now()
	o := sale.Opening{Sale: sale.Sale{ID: "s", Epoch: 1, Draft: sale.Draft{
		Stock: 1000, PerUser: 1, Queue: sale.Fifo, StartsAt: now.Add(-time.Hour), EndsAt: now.Add(time.Hour), PayWithin: time.Minute,
	}}}
	if err := e.Open(t.Context(), o); err != nil {
		t.Fatal(err)
	}
	for i := range crowd {
		if _, err := e.Join(t.Context(), sale.Join{Sale: "s", Epoch: 1, User: name(i), Ticket: fmt.Sprintf("%036d", i)}); err != nil {
			t.Fatal(err)
		}
	}
}

func name(i int) string { return fmt.Sprintf("user-%027d", i) }

// A hundred thousand tickets in line take 60 MB at most, with their names.
func TestMemory(t *testing.T) {
	e, err := engine.New(engine.Config{})
	if err != nil {
		t.Fatal(err)
	}
	defer e.Stop()
	heap := func() uint64 {
		var m runtime.MemStats
		runtime.GC()
		runtime.ReadMemStats(&m)
		return m.HeapAlloc
	}
	before := heap()
	fill(t, e)
	used := (heap() - before) >> 20
	t.Logf("%d tickets: %d MB", crowd, used)
	if used > 60 {
		t.Errorf("%d tickets take %d MB, want 60 or less", crowd, used)
	}
}
