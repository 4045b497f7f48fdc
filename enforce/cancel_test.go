package enforce_test

import (
	"context"
	"errors"
	"maps"
	"sync/atomic"
	"testing"
	"time"

	"github.com/floodweir/weir"
	"github.com/floodweir/weir/enforce"
	"github.com/floodweir/weir/internal/fakestore"
	"github.com/floodweir/weir/memstore"
	"github.com/floodweir/weir/policy"
)

// everyKind returns policies that take tokens in every way: at once, in a queue, by a
// reservation, as a slot, and in shadow mode.
func everyKind() []policy.Config {
	queue, counted, all, shadow, later := about("queue", "1/s leaky_bucket burst 9 queue"), about("counted", "9/24h"),
		about("all", "9/24h"), about("shadow", "9/24h"), about("later", "9/24h")
	counted.Count = policy.CountFailures
	all.Count = policy.CountAll
	shadow.Mode = policy.Shadow
	later.Mode, later.Count = policy.Shadow, policy.CountSuccesses
	tried := about("tried", "9/24h")
	tried.Candidate = []weir.Limit{weir.MustLimit("8/24h")}
	return []policy.Config{about("plain", "9/24h", "99/48h"), queue, counted, all, about("slot", "9 concurrency lease 1h"), shadow, later, tried}
}

// holdings returns the tokens that are taken of each limit.
func holdings(t *testing.T, store weir.Store) map[string]int64 {
	t.Helper()
	n := map[string]int64{}
	for _, c := range everyKind() {
		for _, l := range c.Limits {
			if got := taken(t, store, c.Name, l.String()); got != 0 {
				n[c.Name] += got
			}
		}
	}
	if got := taken(t, store, "tried~candidate", "8/24h"); got != 0 {
		n["candidate"] = got
	}
	return n
}

// TestDelay checks that Enter returns after the delay of a queue.
func TestDelay(t *testing.T) {
	bubble(t, func(t *testing.T, store *memstore.Store) {
		e := open(t, store, enforce.Config{}, everyKind()...)
		for step := range 3 {
			var p enforce.Admission
			start := time.Now()
			if got := enter(t, e, &p); got != enforce.Admitted || step > 0 && time.Since(start) != time.Second {
				t.Errorf("step %d: %s after %v, want admitted after 1s", step, got, time.Since(start))
			}
			p.Exit(enforce.Result{Status: 200})
		}
	})
}

// TestCancelDuringDelay checks that a request that is canceled during the delay returns its
// charges, also those of policies that count all requests.
func TestCancelDuringDelay(t *testing.T) {
	for _, charge := range []bool{false, true} {
		bubble(t, func(t *testing.T, store *memstore.Store) {
			e := open(t, store, enforce.Config{KeepOnCancel: charge}, everyKind()...)
			var first, second enforce.Admission
			enter(t, e, &first)
			first.Cancel()
			enter(t, e, &first)
			before := holdings(t, store)
			ctx, cancel := context.WithTimeout(t.Context(), 300*time.Millisecond)
			defer cancel()
			start := time.Now()
			got := e.Enter(ctx, by("ada", ""), &second)
			if got != enforce.FailedClosed || !errors.Is(second.Err(), context.DeadlineExceeded) || time.Since(start) != 300*time.Millisecond {
				t.Errorf("charge %t: %s, %v, after %v, want failed_closed when it left", charge, got, second.Err(), time.Since(start))
			}
			if second.NeedsExit() || second.Decision() != (weir.Decision{}) || second.DeniedBy() != nil {
				t.Errorf("charge %t: holds %t, decided %+v, want nothing", charge, second.NeedsExit(), second.Decision())
			}
			second.Exit(enforce.Result{Status: 500})
			more := int64(0)
			if charge {
				more = 1
			}
			left := holdings(t, store)
			for _, name := range []string{"plain", "queue", "counted", "all", "slot", "shadow", "later", "tried", "candidate"} {
				want := before[name]
				switch name {
				case "plain":
					want += 2 * more
				case "all", "shadow", "tried", "candidate":
					want += more
				case "queue":
					want = left[name] // it leaks by itself: see below
				}
				if left[name] != want {
					t.Errorf("charge %t: %d of %s are taken, want %d", charge, left[name], name, want)
				}
			}
			first.Exit(enforce.Result{})
			start = time.Now()
			enter(t, e, &first)
			if got, want := time.Since(start), time.Duration(1+more)*time.Second-300*time.Millisecond; got != want {
				t.Errorf("charge %t: the next one waits %v, want %v", charge, got, want)
			}
			first.Exit(enforce.Result{})
		})
	}
}

// TestCanceledBefore checks that a request whose context has ended is not admitted and has
// neither charges nor reservations.
func TestCanceledBefore(t *testing.T) {
	bubble(t, func(t *testing.T, store *memstore.Store) {
		var c enforce.Config
		events := observed(&c)
		e := open(t, store, c, everyKind()...)
		var p enforce.Admission
		enter(t, e, &p)
		p.Exit(enforce.Result{})
		events()
		before := holdings(t, store)
		why := errors.New("went home")
		ctx, cancel := context.WithCancelCause(t.Context())
		cancel(why)
		if got := e.Enter(ctx, by("ada", ""), &p); got != enforce.FailedClosed || !errors.Is(p.Err(), why) || p.NeedsExit() {
			t.Errorf("%s, %v, want failed_closed, and why", got, p.Err())
		}
		if got := holdings(t, store); !maps.Equal(got, before) {
			t.Errorf("taken %v, want %v as before", got, before)
		}
		if got := events(); len(got) != 7 || got[0] != "ada plain failed_closed error" {
			t.Errorf("events %q, want failed_closed of every enforced policy", got)
		}
	})
}

// TestDecideCanceled checks that a request whose context has ended is decided, that it does not
// wait for its delay, and that it has no charges then.
func TestDecideCanceled(t *testing.T) {
	bubble(t, func(t *testing.T, store *memstore.Store) {
		e := open(t, store, enforce.Config{DecideCanceled: true}, everyKind()...)
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		var first, second enforce.Admission
		if got := e.Enter(ctx, by("ada", ""), &first); got != enforce.Admitted || first.Err() != nil || len(holdings(t, store)) != 9 {
			t.Errorf("%s, %v, taken %v, want admitted, and some of each", got, first.Err(), holdings(t, store))
		}
		before := holdings(t, store)
		if got := e.Enter(ctx, by("ada", ""), &second); got != enforce.FailedClosed || !errors.Is(second.Err(), context.Canceled) {
			t.Errorf("%s, %v, want failed_closed instead of a delay", got, second.Err())
		}
		if got := holdings(t, store); !maps.Equal(got, before) {
			t.Errorf("taken %v, want %v as before", got, before)
		}
		first.Exit(enforce.Result{Status: 500})
	})
}

// TestCanceledBeforePlainLimit checks that the store is not asked.
func TestCanceledBeforePlainLimit(t *testing.T) {
	store := fakestore.Memory(t)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	for _, charge := range []bool{false, true} {
		e := open(t, store, enforce.Config{KeepOnCancel: charge}, about("p", "9/24h"))
		var p enforce.Admission
		if got := e.Enter(ctx, by("ada", ""), &p); got.Passes() != charge {
			t.Errorf("charge %t: %s, want admitted only with KeepOnCancel", charge, got)
		}
		if got := taken(t, store, "p", "9/24h"); (got != 0) != charge {
			t.Errorf("charge %t: %d are taken", charge, got)
		}
	}
}

// TestCancel checks that Cancel returns all charges once, also in shadow mode.
func TestCancel(t *testing.T) {
	bubble(t, func(t *testing.T, store *memstore.Store) {
		full := about("full", "1/24h")
		full.Mode, full.Count = policy.Shadow, policy.CountAll
		e := open(t, store, enforce.Config{}, append(everyKind(), full)...)
		_, _ = store.Do(t.Context(), weir.Request{Verb: weir.Charge, Key: "full|3:ada", Limit: fakestore.PolicyLimit(t, "1/24h"), N: 1})
		for step, end := range []func(*enforce.Admission){
			func(p *enforce.Admission) { p.Cancel(); p.Cancel() },
			func(p *enforce.Admission) { p.Cancel(); p.Exit(enforce.Result{Status: 500}) },
		} {
			var p enforce.Admission
			enter(t, e, &p)
			if got := holdings(t, store); len(got) != 9 {
				t.Errorf("step %d: taken %v, want some of each", step, got)
			}
			end(&p)
			if got := holdings(t, store); len(got) != 0 || p.NeedsExit() {
				t.Errorf("step %d: taken %v, want nothing", step, got)
			}
			d, err := store.Do(t.Context(), weir.Request{Verb: weir.Peek, Key: "full|3:ada", Limit: fakestore.PolicyLimit(t, "1/24h"), N: 1})
			if err != nil || d.RetryAfter != 24*time.Hour {
				t.Errorf("step %d: full may retry after %v, %v, want 24h, as without the request", step, d.RetryAfter, err)
			}
		}
		var p enforce.Admission
		enter(t, e, &p)
		p.Exit(enforce.Result{Status: 500})
		p.Cancel()
		if got := holdings(t, store); got["plain"] != 2 || got["counted"] != 1 {
			t.Errorf("a Cancel after the Exit leaves %v, want what the Exit left", got)
		}
	})
}

// TestCancelOfDenied checks that a denied request has nothing to return.
func TestCancelOfDenied(t *testing.T) {
	store := fakestore.Memory(t)
	e := open(t, store, enforce.Config{}, about("a", "9/24h"), about("b", "1/24h"))
	var first, second enforce.Admission
	enter(t, e, &first)
	if got := enter(t, e, &second); got != enforce.Denied {
		t.Fatalf("%s, want denied", got)
	}
	second.Cancel()
	second.Exit(enforce.Result{})
	if a, b := taken(t, store, "a", "9/24h"), taken(t, store, "b", "1/24h"); a != 1 || b != 1 {
		t.Errorf("taken %d and %d, want 1 and 1", a, b)
	}
}

// TestCancelOfADeniedShadow checks that limits of a shadow policy that denied are not
// returned: they were not charged.
func TestCancelOfADeniedShadow(t *testing.T) {
	store := fakestore.Memory(t)
	shadow := about("p", "9/24h", "1/h")
	shadow.Mode = policy.Shadow
	e := open(t, store, enforce.Config{}, shadow)
	var p enforce.Admission
	for range 2 {
		enter(t, e, &p)
	}
	p.Cancel()
	if got := taken(t, store, "p", "9/24h"); got != 1 {
		t.Errorf("%d are taken, want that of the first", got)
	}
}

// TestCancelOfLocal checks that charges of Local are returned to Local.
func TestCancelOfLocal(t *testing.T) {
	local := fakestore.Memory(t)
	p := about("p", "1/24h")
	p.OnStoreError = policy.Local
	e := open(t, fakestore.Failing(weir.ErrUnavailable), enforce.Config{Options: enforce.Options{Local: local}}, p, about("open", "1/24h"))
	for step := range 3 {
		var p enforce.Admission
		if got := enter(t, e, &p); got != enforce.Admitted || taken(t, local, "p", "1/24h") != 1 {
			t.Errorf("step %d: %s, want admitted by Local", step, got)
		}
		p.Cancel()
	}
}

// TestCancelAfterLocal checks that charges of the store are returned to it, although Local
// denied the request before.
func TestCancelAfterLocal(t *testing.T) {
	bubble(t, func(t *testing.T, store *memstore.Store) {
		local, err := memstore.New(memstore.Config{})
		if err != nil {
			t.Fatal(err)
		}
		defer local.Close()
		var up atomic.Bool
		flaky := fakestore.Around(store, func(context.Context, *weir.Request) error {
			if !up.Load() {
				return weir.ErrUnavailable
			}
			return nil
		}, nil)
		c := waiting("p", time.Minute, "1/s burst 1")
		c.OnStoreError = policy.Local
		e := open(t, flaky, enforce.Config{Options: enforce.Options{Local: local}}, c)
		var p enforce.Admission
		enter(t, e, &p)
		time.AfterFunc(500*time.Millisecond, func() { up.Store(true) })
		if got := enter(t, e, &p); got != enforce.Admitted || p.Err() != nil || taken(t, store, "p", "1/s burst 1") != 1 {
			t.Errorf("%s, %v, want admitted by the store after a wait", got, p.Err())
		}
		p.Cancel()
		if got := taken(t, store, "p", "1/s burst 1"); got != 0 {
			t.Errorf("%d are taken of the store, want 0", got)
		}
	})
}

// TestCanceledWhileReserving checks that a request that is canceled during a Reserve has no
// reservation, even if the store grants it later.
func TestCanceledWhileReserving(t *testing.T) {
	for _, takes := range []time.Duration{10 * time.Millisecond, time.Hour} {
		bubble(t, func(t *testing.T, store *memstore.Store) {
			late := fakestore.Around(store, func(ctx context.Context, r *weir.Request) error {
				if r.Verb != weir.Reserve {
					return nil
				}
				granted, asked := time.After(takes), *r
				select {
				case <-granted:
					return nil
				case <-ctx.Done(): // but what was asked is under way
					go func() {
						<-granted
						_, _ = store.Do(context.Background(), asked)
					}()
					return weir.ErrUnavailable
				}
			}, nil)
			counted := about("counted", "9/24h")
			counted.Count = policy.CountFailures
			e := open(t, late, enforce.Config{}, about("slot", "9 concurrency lease 1h"), counted, about("plain", "9/24h"))
			ctx, cancel := context.WithTimeout(t.Context(), time.Millisecond)
			defer cancel()
			var p enforce.Admission
			start := time.Now()
			if got := e.Enter(ctx, by("ada", ""), &p); got != enforce.FailedClosed || !errors.Is(p.Err(), context.DeadlineExceeded) || p.NeedsExit() {
				t.Errorf("%s, %v, want failed_closed as its context ended", got, p.Err())
			}
			if got := time.Since(start); got > 1100*time.Millisecond {
				t.Errorf("it took %v, want no more than a second after the end", got)
			}
			after(20 * time.Millisecond)
			if got := holdings(t, store); len(got) != 0 {
				t.Errorf("taken %v, want nothing", got)
			}
			after(takes)
		})
	}
}
