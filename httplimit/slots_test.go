package httplimit_test

import (
	"context"
	"net/http"
	"net/http/httptest"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/floodweir/weir"
	"github.com/floodweir/weir/enforce"
	"github.com/floodweir/weir/httplimit"
	"github.com/floodweir/weir/internal/fakestore"
	"github.com/floodweir/weir/memstore"
	"github.com/floodweir/weir/policy"
)

// slow is a handler, behind a limit of two slots, that runs until the test ends it.
func slow(t *testing.T, store weir.Store, mode policy.Mode, limit ...string) (start func() (status func() int, end func())) {
	t.Helper()
	m, err := httplimit.New(store, set(t, policy.Config{Name: "p", Mode: mode, Limits: limits(limit...)}), httplimit.Config{})
	if err != nil {
		t.Fatal(err)
	}
	return func() (func() int, func()) {
		ctx, cancel := context.WithCancel(context.Background())
		w := httptest.NewRecorder()
		go m.Wrap(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() })).
			ServeHTTP(w, httptest.NewRequest("GET", "/", nil).WithContext(ctx))
		synctest.Wait()
		return func() int { return w.Code }, func() { cancel(); synctest.Wait() }
	}
}

func bubbled(t *testing.T) *memstore.Store {
	t.Helper()
	s, err := memstore.New(memstore.Config{})
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func after(d time.Duration) { <-time.After(d); synctest.Wait() }

// TestSlotsLastAsLongAsTheHandler checks that a slot is renewed while its handler runs.
func TestSlotsLastAsLongAsTheHandler(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := bubbled(t)
		defer store.Close()
		start := slow(t, store, policy.Enforce, "2 concurrency lease 1m", "1000/s")
		status, end := start()
		_, end2 := start()
		for step := range 5 {
			denied, endDenied := start()
			if denied() != 429 {
				t.Errorf("step %d: a third request = %d, want 429", step, denied())
			}
			endDenied()
			after(time.Hour)
		}
		end()
		if status() != 200 {
			t.Errorf("first request = %d, want 200", status())
		}
		third, end3 := start()
		fourth, end4 := start()
		if fourth() != 429 {
			t.Errorf("with two running, a further request = %d, want 429", fourth())
		}
		end2()
		end3()
		end4()
		if third() != 200 {
			t.Errorf("third request = %d, want 200", third())
		}
	})
}

// TestSlotsAreGivenBackOnPanic checks that a panic of the handler returns its slot.
func TestSlotsAreGivenBackOnPanic(t *testing.T) {
	m, err := httplimit.New(fakestore.Memory(t), set(t, policy.Config{Name: "p", Limits: limits("1 concurrency")}), httplimit.Config{})
	if err != nil {
		t.Fatal(err)
	}
	panics := m.Wrap(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { panic("handler") }))
	for step := range 3 {
		func() {
			defer func() {
				if recover() != "handler" {
					t.Errorf("step %d: the panic did not pass through: the request was denied", step)
				}
			}()
			get(panics, "/", peer)
		}()
	}
}

// TestObserveThatPanicsHoldsNothing checks that the slot is free although the handler was
// never reached.
func TestObserveThatPanicsHoldsNothing(t *testing.T) {
	for _, mode := range []policy.Mode{policy.Enforce, policy.Shadow} {
		store, first := fakestore.Memory(t), true
		m, err := httplimit.New(store, set(t, policy.Config{Name: "p", Mode: mode, Limits: limits("1 concurrency")}), httplimit.Config{
			Observe: func(_ *http.Request, e enforce.Event) {
				if first {
					first = false
					panic("observe")
				}
				if e.Outcome != enforce.Admitted {
					t.Errorf("%s: after the panic a request is %s, want admitted", mode, e.Outcome)
				}
			},
		})
		if err != nil {
			t.Fatal(err)
		}
		h := m.Wrap(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}))
		func() {
			defer func() { recover() }()
			get(h, "/", peer)
		}()
		get(h, "/", peer)
	}
}

// TestSlotsHeal checks that the slot of a process that died is free after its lease.
func TestSlotsHeal(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := bubbled(t)
		defer store.Close()
		var reached atomic.Bool
		reached.Store(true)
		cut := fakestore.Store{One: func(ctx context.Context, r weir.Request) (weir.Decision, error) {
			if !reached.Load() {
				return weir.Decision{}, weir.ErrUnavailable
			}
			return store.Do(ctx, r)
		}}
		_, end := slow(t, cut, policy.Enforce, "1 concurrency lease 1m")()
		start := slow(t, store, policy.Enforce, "1 concurrency lease 1m")
		reached.Store(false)
		if denied, stop := start(); denied() != 429 {
			t.Errorf("beside the holder = %d, want 429", denied())
			stop()
		}
		after(time.Minute + time.Second)
		status, stop := start()
		stop()
		if status() != 200 {
			t.Errorf("after the lease = %d, want 200", status())
		}
		end()
	})
}

// TestDeniedTakesNoSlot checks that a request that a rate denies holds no slot.
func TestDeniedTakesNoSlot(t *testing.T) {
	h := wrap(t, fakestore.Memory(t), set(t,
		policy.Config{Name: "slots", Limits: limits("1 concurrency")},
		policy.Config{Name: "rate", Match: policy.Match{Paths: []string{"/rated"}}, Limits: limits("1/h")},
	), httplimit.Config{})
	for step, tc := range []struct {
		path   string
		status int
	}{{"/rated", 200}, {"/rated", 429}, {"/rated", 429}, {"/", 200}, {"/", 200}} {
		if w := get(h, tc.path, peer); w.Code != tc.status {
			t.Errorf("step %d: %s = %d, want %d", step, tc.path, w.Code, tc.status)
		}
	}
}

func TestShadowSlots(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := bubbled(t)
		defer store.Close()
		key := "p|9:192.0.2.1" // httptest's peer
		limit := weir.MustLimit("1 concurrency lease 1m").Named("concurrency")
		free := func() bool {
			d, err := store.Do(t.Context(), weir.Request{Verb: weir.Peek, Key: key, Limit: limit, N: 1})
			return err == nil && d.OK
		}
		_, end := slow(t, store, policy.Shadow, "1 concurrency lease 1m")()
		after(time.Hour)
		if free() {
			t.Error("while the handler runs the shadow slot is free, want it held")
		}
		end()
		if !free() {
			t.Error("after the handler the shadow slot is held, want it free")
		}
	})
}

// TestShorterSlots checks that a slot that is taken after another of a longer lease is renewed
// in time.
func TestShorterSlots(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := bubbled(t)
		defer store.Close()
		h := serving(t, store, set(t,
			policy.Config{Name: "long", Limits: limits("9 concurrency lease 1h")},
			policy.Config{Name: "short", Mode: policy.Shadow, Limits: limits("9 concurrency lease 1m")},
		), httplimit.Config{}, func(http.ResponseWriter, *http.Request) {
			for step := range 5 {
				after(10 * time.Minute)
				for name, limit := range map[string]string{"long": "9 concurrency lease 1h", "short": "9 concurrency lease 1m"} {
					if got := charged(t, store, name, limit); got != 1 {
						t.Errorf("step %d: %s holds %d slots, want 1", step, name, got)
					}
				}
			}
		})
		get(h, "/", peer)
	})
}

// TestCanceledInTheDelay checks that a client that disconnects before the handler runs is not
// charged by the response, and holds no slot.
func TestCanceledInTheDelay(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := bubbled(t)
		defer store.Close()
		h := serving(t, canceling(store), set(t,
			policy.Config{Name: "queue", Limits: limits("1/m leaky_bucket burst 5 queue")},
			policy.Config{Name: "slots", Limits: limits("9 concurrency lease 1h")},
			policy.Config{Name: "settled", Limits: limits(ample), Settle: policy.Settle{Header: "X-Cost"}},
		), httplimit.Config{}, func(http.ResponseWriter, *http.Request) {})
		get(h, "/", peer)
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		r := httptest.NewRequest("GET", "/", nil).WithContext(ctx)
		r.RemoteAddr = peer
		w := httptest.NewRecorder()
		h.ServeHTTP(w, r)
		if slots, settled := charged(t, store, "slots", "9 concurrency lease 1h"), charged(t, store, "settled", ample); w.Code != 503 || slots != 0 || settled != 1 {
			t.Errorf("%d, %d slots, %d settled, want 503, 0 and the 1 of the request before", w.Code, slots, settled)
		}
	})
}

// TestEndWithinARenewal checks that a handler that returns during a renewal does not wait for
// it, and leaves no slot behind.
func TestEndWithinARenewal(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := bubbled(t)
		defer store.Close()
		reserves := 0
		slow := fakestore.Store{One: func(ctx context.Context, r weir.Request) (weir.Decision, error) {
			if r.Verb == weir.Reserve {
				if reserves++; reserves > 1 {
					<-time.After(500 * time.Millisecond)
				}
			}
			return store.Do(ctx, r)
		}}
		h := serving(t, slow, set(t, policy.Config{Name: "p", Limits: limits("9 concurrency lease 1m")}), httplimit.Config{},
			func(http.ResponseWriter, *http.Request) { <-time.After(20*time.Second + 100*time.Millisecond) })
		start := time.Now()
		get(h, "/", peer)
		if got := time.Since(start); got != 20*time.Second+100*time.Millisecond {
			t.Errorf("the request took %v, want no more than its handler", got)
		}
		after(time.Second)
		if got := charged(t, store, "p", "9 concurrency lease 1m"); got != 0 || reserves != 2 {
			t.Errorf("%d slots are held after %d reservations, want none after 2", got, reserves)
		}
	})
}
