package meminventory_test

import (
	"context"
	"fmt"
	"runtime"
	"testing"
	"testing/synctest"
	"time"

	"github.com/floodweir/weir/flashsale/meminventory"
	"github.com/floodweir/weir/flashsale/sale"
	"github.com/floodweir/weir/flashsale/verify/inventorytest"
)

func TestConfig(t *testing.T) {
	for _, cfg := range []meminventory.Config{{Redeliver: -1}, {MaxTickets: -1}} {
		if e, err := meminventory.New(cfg); err == nil {
			e.Stop()
			t.Errorf("New(%+v) is no error", cfg)
		}
	}
}

// TestGoroutinesEnd checks that the goroutine of a sale ends with Delete, and with the last
// entry of a stream that an earlier process left. A synctest bubble fails while a goroutine
// runs.
func TestGoroutinesEnd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		journal := meminventory.NewMemoryJournal()
		before := runtime.NumGoroutine()
		s := start(t, meminventory.Config{Journal: journal})
		for i := range 3 {
			s.open(int64(i) + 1)
			s.buy("ann")
			if err := s.Ack(t.Context(), "s", s.epoch, s.users(s.epoch, "ann")...); err != nil {
				t.Fatal(err)
			}
			if err := s.Delete(t.Context(), "s", s.epoch); err != nil {
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
		if err := s.Ack(t.Context(), "old", 7, "r"); err != nil {
			t.Fatal(err)
		}
		if err := journal.Append(t.Context(), "s", 9, []sale.Reservation{{ID: "r", Sale: "s", Epoch: 9}}); err != nil {
			t.Fatal(err)
		}
		s.is("Open of an epoch that has entries", s.Open(t.Context(), s.opening(9)), sale.ErrStale)
		synctest.Wait()
		after := runtime.NumGoroutine()
		for range 3_000_000 { // one that has ended is counted until its thread runs again
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

// TestMaxTickets checks the limits on users and reservations of a sale. A user who joins again
// takes no further space.
func TestMaxTickets(t *testing.T) {
	clock := inventorytest.NewClock()
	e, err := meminventory.New(meminventory.Config{MaxTickets: 3, Clock: clock.Now})
	if err != nil {
		t.Fatal(err)
	}
	defer e.Stop()
	openLong(t, e, clock, 2)
	n := 0
	join := func(user string, want sale.Reason) string {
		t.Helper()
		n++
		id := fmt.Sprintf("%036d", n)
		st, err := e.Join(t.Context(), sale.JoinRequest{Sale: "s", Epoch: 1, User: user, Ticket: id, Batch: "b", Until: clock.Now().Add(time.Second)})
		if err != nil || st.Reason != want {
			t.Fatalf("Join %d of %s = %+v, %v, want reason %q", n, user, st, err, want)
		}
		return id
	}
	buy := func(user string, want sale.Reason) {
		t.Helper()
		id := join(user, want)
		if want != sale.OK {
			return
		}
		if o, err := e.Reserve(t.Context(), sale.ReserveRequest{Sale: "s", Epoch: 1, User: user, Ticket: id, Reservation: id}); err != nil || o.Reason != sale.OK {
			t.Fatalf("Reserve of %s = %+v, %v", user, o, err)
		}
		if yes, err := e.Return(t.Context(), "s", 1, user, id, true); err != nil || !yes {
			t.Fatalf("Return of %s = %v, %v", user, yes, err)
		}
	}
	for range 10 {
		join("ann", sale.OK)
		clock.Move(time.Second) // the turn passes
	}
	join("bob", sale.OK)
	buy("eve", sale.OK)
	join("fay", sale.QueueFull)
	buy("ann", sale.OK)
	buy("eve", sale.OK)
	clock.Move(time.Second)
	join("eve", sale.QueueFull)
	join("bob", sale.QueueFull)
}

// openLong opens a sale without a line that lasts for a year.
func openLong(t *testing.T, e *meminventory.Inventory, clock *inventorytest.Clock, stock int64) {
	t.Helper()
	if err := e.Open(t.Context(), sale.InitialState{Sale: sale.Sale{ID: "s", Epoch: 1, Draft: sale.Draft{
		Stock: stock, PerUser: 1, Queue: sale.Direct, StartsAt: clock.Now(), EndsAt: clock.Now().Add(365 * 24 * time.Hour), PayWithin: time.Minute,
	}}}); err != nil {
		t.Fatal(err)
	}
}

// The time does not depend on steps of the wall clock: it goes as the monotonic clock does.
func TestClock(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := start(t, meminventory.Config{})
		defer s.Stop()
		s.open(1)
		begun := time.Now()
		time.Sleep(time.Minute)
		n, err := s.Counts(t.Context(), "s", 1)
		if want := begun.Add(time.Minute).Truncate(time.Millisecond); err != nil || !n.Now.Equal(want) {
			t.Fatalf("Count.Now = %v, %v, want %v", n.Now, err, want)
		}
	})
}

// Callers that give up, and sales that come and go, do no harm to each other.
func TestCallersGiveUp(t *testing.T) {
	s := start(t, meminventory.Config{})
	defer s.Stop()
	s.open(1)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	for range 100 {
		_, _ = s.Status(ctx, "s", 1, "ann")
		if _, err := s.Status(t.Context(), "s", 1, "ann"); err != nil {
			t.Fatalf("Look = %v", err)
		}
	}
	if _, err := s.Next(ctx, "s", 1, "w", 1, time.Minute); err == nil {
		t.Fatal("Next of a caller that gave up is no error")
	}
}

const crowd = 100_000

// fill adds many users to the queue of a sale.
func fill(t testing.TB, e *meminventory.Inventory) {
	t.Helper()
	now := time.Now()
	o := sale.InitialState{Sale: sale.Sale{ID: "s", Epoch: 1, Draft: sale.Draft{
		Stock: 1000, PerUser: 1, Queue: sale.Fifo, StartsAt: now.Add(-time.Hour), EndsAt: now.Add(time.Hour), PayWithin: time.Minute,
	}}}
	if err := e.Open(t.Context(), o); err != nil {
		t.Fatal(err)
	}
	for i := range crowd {
		if _, err := e.Join(t.Context(), sale.JoinRequest{Sale: "s", Epoch: 1, User: name(i), Ticket: fmt.Sprintf("%036d", i)}); err != nil {
			t.Fatal(err)
		}
	}
}

func name(i int) string { return fmt.Sprintf("user-%027d", i) }

// heap returns the memory in use.
func heap() uint64 {
	var m runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&m)
	return m.HeapAlloc
}

// TestMemoryOfChurn checks that the memory of a sale is bounded. Three hundred users who buy
// and cancel make thirty thousand reservations at most, and a user who joins again and again
// has one ticket.
func TestMemoryOfChurn(t *testing.T) {
	const churners, most = 300, 30 << 20
	clock := inventorytest.NewClock()
	e, err := meminventory.New(meminventory.Config{Clock: clock.Now})
	if err != nil {
		t.Fatal(err)
	}
	defer e.Stop()
	openLong(t, e, clock, 1)
	n := 0
	round := func(user string, buys bool) (bought bool) {
		n++
		id := fmt.Sprintf("%036d", n)
		st, err := e.Join(t.Context(), sale.JoinRequest{Sale: "s", Epoch: 1, User: user, Ticket: id, Batch: id, Until: clock.Now().Add(time.Second)})
		if err != nil {
			t.Fatal(err)
		}
		if !buys || st.State != sale.Admitted {
			clock.Move(time.Second) // the turn passes
			return false
		}
		o, err := e.Reserve(t.Context(), sale.ReserveRequest{Sale: "s", Epoch: 1, User: user, Ticket: id, Key: id, Reservation: id})
		if err != nil || o.Reason != sale.OK {
			t.Fatalf("Reserve = %+v, %v", o, err)
		}
		if _, err := e.Return(t.Context(), "s", 1, user, id, true); err != nil {
			t.Fatal(err)
		}
		if err := e.Ack(t.Context(), "s", 1, id); err != nil {
			t.Fatal(err)
		}
		return true
	}
	before := heap()
	bought := 0
	for range sale.MaxUnpaid + 10 {
		for i := range churners {
			if round(name(i), true) {
				bought++
			}
		}
	}
	kept := heap()
	t.Logf("%d reservations of %d users: %d MB", bought, churners, (kept-before)>>20)
	if bought != churners*sale.MaxUnpaid || kept-before > most {
		t.Errorf("%d reservations take %d MB, want %d in at most %d", bought, (kept-before)>>20, churners*sale.MaxUnpaid, most>>20)
	}
	for range 100_000 {
		round("passes", false)
	}
	if now := heap(); now > kept+1<<20 {
		t.Errorf("who joined 100,000 times takes %d kB, want what one ticket takes", (now-kept)>>10)
	}
}

// A hundred thousand tickets in line take 60 MB at most, with their names.
func TestMemory(t *testing.T) {
	e, err := meminventory.New(meminventory.Config{})
	if err != nil {
		t.Fatal(err)
	}
	defer e.Stop()
	before := heap()
	fill(t, e)
	used := (heap() - before) >> 20
	t.Logf("%d tickets: %d MB", crowd, used)
	if used > 60 {
		t.Errorf("%d tickets take %d MB, want 60 or less", crowd, used)
	}
}
