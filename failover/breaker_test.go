package failover_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/floodweir/weir"
	"github.com/floodweir/weir/failover"
	"github.com/floodweir/weir/policy"
)

// switched is a store that works, refuses or does not reply. It counts its calls.
type switched struct {
	mode  atomic.Value // of func(context.Context, weir.Request) (weir.Decision, error)
	calls atomic.Int64
}

func (s *switched) set(f func(context.Context, weir.Request) (weir.Decision, error)) { s.mode.Store(f) }

func (s *switched) fake() fake {
	return fake{do: func(ctx context.Context, r weir.Request) (weir.Decision, error) {
		s.calls.Add(1)
		return s.mode.Load().(func(context.Context, weir.Request) (weir.Decision, error))(ctx, r)
	}}
}

// trip opens the breaker by failures.
func trip(t *testing.T, s *tested) {
	t.Helper()
	for range 100 {
		if s.Open() {
			return
		}
		s.Do(t.Context(), request)
	}
	t.Fatal("the breaker is closed after 100 failures")
}

// TestBreaker goes through the states of a breaker step by step.
func TestBreaker(t *testing.T) {
	type answer = func(context.Context, weir.Request) (weir.Decision, error)
	for name, steps := range map[string][]struct {
		pass    time.Duration
		mode    answer
		times   int
		reaches int64
		state   failover.State
	}{
		"errors": {
			{0, fine, 5, 5, failover.Up},
			{0, refusing, 14, 14, failover.Up}, // fewer than 20 calls
			{0, refusing, 1, 1, failover.Down}, // 15 of 20
			{0, fine, 9, 0, failover.Down},     // in the cool-down
			{25 * time.Millisecond, fine, 1, 0, failover.Down},
			{25 * time.Millisecond, refusing, 9, 1, failover.Down}, // a probe, at 50 ms
			{50 * time.Millisecond, refusing, 9, 0, failover.Down},
			{50 * time.Millisecond, refusing, 9, 1, failover.Down}, // the cool-down doubles
			{200 * time.Millisecond, fine, 9, 9, failover.Up},
			{0, refusing, 11, 11, failover.Up}, // of 19 after the probe
			{0, refusing, 1, 1, failover.Down},
		},
		"a ratio below a half": {
			{0, fine, 100, 100, failover.Up},
			{0, refusing, 99, 99, failover.Up},
			{0, refusing, 1, 1, failover.Down},
		},
		"a window that slides": {
			{0, refusing, 19, 19, failover.Up},
			{0, fine, 1, 1, failover.Up},
			{2 * time.Second, refusing, 19, 19, failover.Up}, // the first 20 do not count
			{0, refusing, 1, 1, failover.Down},
		},
		"silence": {
			{0, fine, 1, 1, failover.Up},
			{0, silent, 2, 2, failover.Up}, // 100 ms
			{0, fine, 1, 1, failover.Up},
			{0, silent, 2, 2, failover.Up},
			{0, silent, 1, 1, failover.Down}, // 150 ms without a reply
			{50 * time.Millisecond, silent, 1, 1, failover.Down},
			{100 * time.Millisecond, fine, 1, 1, failover.Up},
		},
		"a few calls that fail far apart": {
			{0, fine, 1, 1, failover.Up},
			{0, refusing, 1, 1, failover.Up},
			{time.Minute, fine, 1, 1, failover.Up},
			{time.Minute, refusing, 1, 1, failover.Up},
			{time.Second, refusing, 1, 1, failover.Down}, // no reply in a second
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var store switched
				s := newStore(t, store.fake(), failover.Config{}, failover.Open())
				s.SetJitter(0)
				for i, step := range steps {
					<-time.After(step.pass)
					store.set(step.mode)
					before := store.calls.Load()
					for range step.times {
						if _, err := s.Do(t.Context(), request); err != nil {
							t.Fatalf("step %d: %v", i, err)
						}
					}
					if reached, state := store.calls.Load()-before, s.Stats().State; reached != step.reaches || state != step.state || (s.Err() != nil) != (state != failover.Up) {
						t.Errorf("step %d: %d calls, state %s (%v), want %d and %s", i, reached, state, s.Err(), step.reaches, step.state)
					}
				}
			})
		})
	}
}

// TestWithFallback checks that several fallbacks share one breaker.
func TestWithFallback(t *testing.T) {
	var store switched
	store.set(refusing)
	s := newStore(t, store.fake(), failover.Config{})
	open, closed := failover.WithFallback(s, failover.Open()), failover.WithFallback(s, failover.Closed())
	for i, tt := range []struct {
		store weir.Store
		mode  weir.FailMode
	}{{open, policy.Open}, {closed, policy.Closed}, {open, policy.Open}, {closed, policy.Closed}} {
		for range 5 {
			s.Do(t.Context(), request)
		}
		if d, err := tt.store.Do(t.Context(), request); err != nil || d.Degraded != tt.mode {
			t.Errorf("request %d = %+v, %v, want %s", i, d, err, tt.mode)
		}
	}
	if _, err := s.Do(t.Context(), request); !errors.Is(err, weir.ErrUnavailable) {
		t.Errorf("Do without a fallback = %v, want ErrUnavailable", err)
	}
	if n := store.calls.Load(); n != 20 || !s.Open() || s.Err() == nil {
		t.Errorf("%d calls, open %t, error %v: want 20 calls and an open breaker", n, s.Open(), s.Err())
	}
	s.Close()
	if _, err := closed.Do(t.Context(), request); !errors.Is(err, weir.ErrClosed) {
		t.Errorf("Do after Close = %v, want ErrClosed", err)
	}
}

// TestOneProbe checks that no other request reaches the store while a probe is in flight.
func TestOneProbe(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var store switched
		store.set(refusing)
		s := newStore(t, store.fake(), failover.Config{}, failover.Open())
		trip(t, s)
		answer := make(chan struct{})
		store.set(func(ctx context.Context, r weir.Request) (weir.Decision, error) {
			<-answer
			return fine(ctx, r)
		})
		<-time.After(failover.DefaultCooldown)
		store.calls.Store(0)
		var exact atomic.Int64
		var wg sync.WaitGroup
		for range 2000 {
			wg.Go(func() {
				began := time.Now()
				d, err := s.Do(t.Context(), request)
				if err != nil {
					t.Errorf("Do = %v", err)
				}
				if d.Degraded == "" {
					exact.Add(1)
				} else if took := time.Since(began); took != 0 {
					t.Errorf("who did not try waited for %v", took)
				}
			})
		}
		synctest.Wait()
		if n := store.calls.Load(); n != 1 {
			t.Errorf("%d requests try at a time, want 1", n)
		}
		close(answer)
		wg.Wait()
		if n := store.calls.Load(); n != 1 || exact.Load() != 1 || s.Open() {
			t.Errorf("%d probes, %d decisions by the store, open %t, want 1, 1 and closed", n, exact.Load(), s.Open())
		}
	})
}

// TestObserve checks that Observe gets every change once and in order from concurrent
// requests, with the requests since the last one, and that it may call the store.
func TestObserve(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var store switched
		var got []failover.Change
		var s *tested
		s = newStore(t, store.fake(), failover.Config{Observe: func(c failover.Change) {
			got = append(got, c) // the race detector sees if it is called by two at once
			s.Stats()
		}}, failover.Open())
		const rounds = 20
		for range rounds {
			for _, mode := range []func(context.Context, weir.Request) (weir.Decision, error){refusing, fine} {
				store.set(mode)
				var wg sync.WaitGroup
				for range 40 {
					wg.Go(func() { s.Do(t.Context(), request) })
				}
				wg.Wait()
				<-time.After(failover.DefaultCooldown)
			}
		}
		if len(got) != 2*rounds {
			t.Fatalf("Observe got %d changes, want %d", len(got), 2*rounds)
		}
		var sum int64
		for i, c := range got {
			sum += c.Unavailable
			if down := i%2 == 0; (c.State == failover.Down) != down || (c.Cause != nil) != down || c.Overloaded {
				t.Fatalf("change %d is %+v", i, c)
			}
		}
		if stats := s.Stats(); sum != stats.Unavailable || sum < rounds*20 {
			t.Errorf("the changes have %d requests, and the sum is %d", sum, stats.Unavailable)
		}
	})
}

// TestObservePanics checks that a panic of Observe reaches a caller of the store, and that
// the store can be used afterwards.
func TestObservePanics(t *testing.T) {
	s := newStore(t, fake{do: refusing}, failover.Config{Observe: func(failover.Change) { panic("odd") }})
	panics := 0
	for range 40 {
		func() {
			defer func() {
				if recover() != nil {
					panics++
				}
			}()
			s.Do(t.Context(), request)
		}()
	}
	if panics != 1 || !s.Open() {
		t.Errorf("%d panics, open %t, want 1 and open", panics, s.Open())
	}
}

// TestObserveCall checks that each call of the store is reported, with the store's own error.
func TestObserveCall(t *testing.T) {
	var got []string
	s := newStore(t, fake{do: refusing}, failover.Config{ObserveCall: func(_ context.Context, verb weir.Verb, batch bool, start time.Time, err error) {
		got = append(got, fmt.Sprint(verb, batch, err == errRefused, !start.After(time.Now())))
	}}, failover.Open())
	s.Do(t.Context(), weir.Request{Verb: weir.Charge, Key: "k", Limit: request.Limit, N: 1})
	s.DoAll(t.Context(), []weir.Request{request}, make([]weir.Decision, 1))
	if want := []string{"charge false true true", "take true true true"}; !slices.Equal(got, want) {
		t.Errorf("reported %q, want %q", got, want)
	}
}

// TestNoReplay checks that a request that may have been charged is not sent again.
func TestNoReplay(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var store switched
		s := newStore(t, store.fake(), failover.Config{}, failover.Open())
		const asked = 200
		for i := range asked {
			store.set([]func(context.Context, weir.Request) (weir.Decision, error){fine, fine, refusing, fine, silent}[i%5])
			s.Do(t.Context(), request)
		}
		<-time.After(time.Hour)
		if n := store.calls.Load(); n != asked {
			t.Errorf("%d requests were asked %d times", asked, n)
		}
	})
}

func TestClose(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		gate := make(chan struct{})
		s := newStore(t, fake{do: func(ctx context.Context, r weir.Request) (weir.Decision, error) {
			<-gate
			return fine(ctx, r)
		}}, failover.Config{}, failover.Open())
		done := make(chan error)
		go func() {
			_, err := s.Do(t.Context(), request)
			done <- err
		}()
		synctest.Wait()
		for range 2 {
			if err := s.Close(); err != nil {
				t.Errorf("Close = %v", err)
			}
		}
		close(gate)
		if err := <-done; err != nil {
			t.Errorf("Do under way at Close = %v, want its decision", err)
		}
		ask(t, s, t.Context(), request, func(d weir.Decision, err error, _ time.Duration) {
			if !errors.Is(err, weir.ErrClosed) {
				t.Errorf("Do after Close = %+v, %v, want ErrClosed", d, err)
			}
		})
	})
}
