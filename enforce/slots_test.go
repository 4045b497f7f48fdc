package enforce_test

import (
	"context"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/floodweir/weir"
	"github.com/floodweir/weir/enforce"
	"github.com/floodweir/weir/internal/fakestore"
	"github.com/floodweir/weir/memstore"
	"github.com/floodweir/weir/policy"
)

// TestSlots checks that a slot is renewed for hours while the request runs, and returned at
// its end.
func TestSlots(t *testing.T) {
	bubble(t, func(t *testing.T, store *memstore.Store) {
		e := open(t, store, enforce.Config{}, about("p", "2 concurrency lease 1m", "1000/s"))
		var a, b, c enforce.Admission
		enter(t, e, &a)
		enter(t, e, &b)
		for step := range 5 {
			if got := enter(t, e, &c); got != enforce.Denied || c.NeedsExit() {
				t.Errorf("step %d: a third is %s, want denied", step, got)
			}
			after(time.Hour)
		}
		a.Exit(enforce.Result{})
		if got := enter(t, e, &c); got != enforce.Admitted || !c.NeedsExit() {
			t.Errorf("after one has exited a third is %s, want admitted", got)
		}
		b.Exit(enforce.Result{})
		c.Cancel()
		after(time.Hour)
		if got := taken(t, store, "p", "2 concurrency lease 1m"); got != 0 {
			t.Errorf("%d slots are held after all have ended, want 0", got)
		}
	})
}

// TestSlotsOfManyRequests checks that requests one after another and at the same time each hold a
// slot of their own, renew it and return it.
func TestSlotsOfManyRequests(t *testing.T) {
	const limit = "3 concurrency lease 1m"
	bubble(t, func(t *testing.T, store *memstore.Store) {
		e := open(t, store, enforce.Config{}, about("p", limit))
		for round := range 20 {
			var held [3]enforce.Admission
			var over enforce.Admission
			for i := range held {
				if got := enter(t, e, &held[i]); got != enforce.Admitted {
					t.Fatalf("round %d: request %d is %s, want admitted", round, i, got)
				}
			}
			if round%4 == 0 {
				after(10 * time.Minute)
			}
			if got := enter(t, e, &over); got != enforce.Denied {
				t.Fatalf("round %d: a fourth request is %s, want denied", round, got)
			}
			for i := range held {
				if held[i].Exit(enforce.Result{}); i%2 == 0 {
					held[i].Exit(enforce.Result{}) // has no effect, also on a later request
				}
				if got := taken(t, store, "p", limit); got != int64(2-i) {
					t.Fatalf("round %d: %d slots are held after %d have ended, want %d", round, got, i+1, 2-i)
				}
			}
		}
		after(time.Hour)
		if got := taken(t, store, "p", limit); got != 0 {
			t.Errorf("%d slots are held at the end, want 0", got)
		}
	})
}

// TestSlotsExpire checks that the slots of a process that ended expire.
func TestSlotsExpire(t *testing.T) {
	bubble(t, func(t *testing.T, store *memstore.Store) {
		var dead atomic.Bool
		dying := fakestore.Around(store, func(context.Context, *weir.Request) error {
			if dead.Load() {
				return weir.ErrUnavailable
			}
			return nil
		}, nil)
		e := open(t, dying, enforce.Config{}, about("p", "1 concurrency lease 1m"))
		var p enforce.Admission
		enter(t, e, &p)
		after(10 * time.Minute)
		dead.Store(true)
		after(61 * time.Second)
		if got := taken(t, store, "p", "1 concurrency lease 1m"); got != 0 {
			t.Errorf("%d slots are held after the lease, want 0", got)
		}
		p.Exit(enforce.Result{})
	})
}

// TestSlotWhileRenewed checks that a request that ends during a renewal returns its slot.
func TestSlotWhileRenewed(t *testing.T) {
	bubble(t, func(t *testing.T, store *memstore.Store) {
		renewals := 0
		slow := fakestore.Around(store, func(_ context.Context, r *weir.Request) error {
			if r.Verb == weir.Reserve {
				if renewals++; renewals > 1 {
					<-time.After(500 * time.Millisecond)
				}
			}
			return nil
		}, nil)
		e := open(t, slow, enforce.Config{}, about("p", "1 concurrency lease 1m"))
		var p enforce.Admission
		enter(t, e, &p)
		after(20*time.Second + 100*time.Millisecond) // it is being renewed
		p.Exit(enforce.Result{})
		after(time.Second)
		if got := taken(t, store, "p", "1 concurrency lease 1m"); got != 0 {
			t.Errorf("%d slots are held after the exit, want 0", got)
		}
		enter(t, e, &p)
		after(time.Hour)
		if got := taken(t, store, "p", "1 concurrency lease 1m"); got != 1 {
			t.Errorf("%d slots are held by the next, want 1", got)
		}
		p.Exit(enforce.Result{})
	})
}

// TestSlotsOfSlowStore checks that many requests that end while the store is slow return all
// their slots, and that each of them waits for one call at most. A renewal takes as long.
func TestSlotsOfSlowStore(t *testing.T) {
	for _, since := range []time.Duration{5 * time.Second, 100 * time.Millisecond} { // a renewal began
		bubble(t, func(t *testing.T, store *memstore.Store) { slotsOfSlowStore(t, store, since) })
	}
}

func slotsOfSlowStore(t *testing.T, store *memstore.Store, since time.Duration) {
	var slow atomic.Bool
	delayed := fakestore.Around(store, func(context.Context, *weir.Request) error {
		if slow.Load() {
			<-time.After(800 * time.Millisecond)
		}
		return nil
	}, nil)
	names := []string{"a", "b", "c", "d"}
	var policies []policy.Config
	for _, name := range names {
		policies = append(policies, about(name, "99 concurrency lease 1m"))
	}
	e := open(t, delayed, enforce.Config{}, policies...)
	var admissions [50]enforce.Admission
	for i := range admissions {
		enter(t, e, &admissions[i])
	}
	after(10*time.Minute - time.Second)
	slow.Store(true)
	after(time.Second + since)
	var wg sync.WaitGroup
	for i := range admissions {
		wg.Go(func() {
			start := time.Now()
			admissions[i].Exit(enforce.Result{})
			if d := time.Since(start); d > 800*time.Millisecond {
				t.Errorf("request %d: Exit takes %v, want at most 800ms", i, d)
			}
		})
	}
	wg.Wait()
	after(2 * time.Second)
	slow.Store(false)
	for _, name := range names {
		if got := taken(t, store, name, "99 concurrency lease 1m"); got != 0 {
			t.Errorf("%d slots of %s are held after the exit, want 0", got, name)
		}
	}
}

// TestNoReservation checks that a request whose slot was denied in shadow mode has no
// reservation.
func TestNoReservation(t *testing.T) {
	shadow := about("p", "1 concurrency lease 1m")
	shadow.Mode = policy.Shadow
	e := open(t, fakestore.Memory(t), enforce.Config{}, shadow)
	var first, second enforce.Admission
	enter(t, e, &first)
	if got := enter(t, e, &second); got != enforce.Admitted || second.NeedsExit() || !first.NeedsExit() {
		t.Errorf("%s, holds %t, want admitted without the slot that another has", got, second.NeedsExit())
	}
	first.Exit(enforce.Result{})
}

// TestSlotOfShadows checks that a slot in shadow mode is taken too, but not by a request
// that is denied.
func TestSlotOfShadows(t *testing.T) {
	bubble(t, func(t *testing.T, store *memstore.Store) {
		shadow, tried := about("shadow", "9 concurrency lease 1m"), about("tried", "1/24h")
		shadow.Mode = policy.Shadow
		tried.Candidate = []weir.Limit{weir.MustLimit("9 concurrency lease 1m")}
		e := open(t, store, enforce.Config{}, shadow, tried)
		var first, second enforce.Admission
		if got := enter(t, e, &first); got != enforce.Admitted || !first.NeedsExit() {
			t.Errorf("%s, holds %t, want admitted with what it tries out", got, first.NeedsExit())
		}
		after(time.Hour)
		if got := enter(t, e, &second); got != enforce.Denied || second.NeedsExit() {
			t.Errorf("%s, holds %t, want denied without a slot", got, second.NeedsExit())
		}
		for _, name := range []string{"shadow", "tried~candidate"} {
			if got := taken(t, store, name, "9 concurrency lease 1m"); got != 1 {
				t.Errorf("%d slots of %s are held, want 1", got, name)
			}
		}
		first.Exit(enforce.Result{})
		for _, name := range []string{"shadow", "tried~candidate"} {
			if got := taken(t, store, name, "9 concurrency lease 1m"); got != 0 {
				t.Errorf("%d slots of %s are held after the exit, want 0", got, name)
			}
		}
	})
}
