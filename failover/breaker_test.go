package failover_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
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

// TestBreaker goes through the states of a breaker step by step.
func TestBreaker(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var store switched
		var got []bool
		s := newStore(t, store.fake(), failover.Config{Failures: 3, Cooldown: time.Second, Observe: func(open bool) { got = append(got, open) }}, failover.Open())
		for i, step := range []struct {
			pass    time.Duration
			mode    func(context.Context, weir.Request) (weir.Decision, error)
			reaches bool
			mark    weir.FailMode
			open    bool
		}{
			{0, fine, true, "", false},
			{0, refusing, true, policy.Open, false},
			{0, refusing, true, policy.Open, false},
			{0, fine, true, "", false}, // not in a row
			{0, refusing, true, policy.Open, false},
			{0, silent, true, policy.Open, false},
			{0, refusing, true, policy.Open, true}, // the third: open
			{0, fine, false, policy.Open, true},
			{time.Second - 1, fine, false, policy.Open, true},
			{1, refusing, true, policy.Open, true}, // tries, in vain
			{0, fine, false, policy.Open, true},
			{time.Second - 1, fine, false, policy.Open, true},
			{1, silent, true, policy.Open, true}, // takes its 50 ms; the cooldown begins behind them
			{time.Second - 1, fine, false, policy.Open, true},
			{1, fine, true, "", false}, // back
			{0, refusing, true, policy.Open, false},
			{0, refusing, true, policy.Open, false}, // it takes three again
			{0, fine, true, "", false},
		} {
			time.Sleep(step.pass)
			store.set(step.mode)
			before := store.calls.Load()
			d, err := s.Do(t.Context(), request)
			if reached := store.calls.Load() > before; err != nil || d.Degraded != step.mark || s.Open() != step.open || reached != step.reaches || (s.Err() != nil) != step.open {
				t.Errorf("step %d: %+v, %v, open %t (%v), reached the store %t, want %+v", i, d, err, s.Open(), s.Err(), reached, step)
			}
		}
		if !slices.Equal(got, []bool{true, false}) {
			t.Errorf("Observe got %v, want true and false", got)
		}
	})
}

// TestWithFallback checks that several fallbacks share one breaker.
func TestWithFallback(t *testing.T) {
	var store switched
	store.set(refusing)
	s := newStore(t, store.fake(), failover.Config{Failures: 2, Cooldown: time.Hour})
	open, closed := failover.WithFallback(s, failover.Open()), failover.WithFallback(s, failover.Closed())
	for i, tt := range []struct {
		store weir.Store
		mode  weir.FailMode
	}{{open, policy.Open}, {closed, policy.Closed}, {open, policy.Open}, {closed, policy.Closed}} {
		if d, err := tt.store.Do(t.Context(), request); err != nil || d.Degraded != tt.mode {
			t.Errorf("request %d = %+v, %v, want %s", i, d, err, tt.mode)
		}
	}
	if _, err := s.Do(t.Context(), request); !errors.Is(err, weir.ErrUnavailable) {
		t.Errorf("Do without a fallback = %v, want ErrUnavailable", err)
	}
	if n := store.calls.Load(); n != 2 || !s.Open() || s.Err() == nil {
		t.Errorf("%d calls, open %t, error %v: want 2 calls and an open breaker", n, s.Open(), s.Err())
	}
	s.Close()
	if _, err := closed.Do(t.Context(), request); !errors.Is(err, weir.ErrClosed) {
		t.Errorf("Do after Close = %v, want ErrClosed", err)
	}
}

// TestOpenBreakerError checks the error of a request while the breaker is open.
func TestOpenBreakerError(t *testing.T) {
	s := newStore(t, fake{do: refusing}, failover.Config{Failures: 2})
	for range 2 {
		if _, err := s.Do(t.Context(), request); !errors.Is(err, weir.ErrUnavailable) || err.Error() != "failover: "+errRefused.Error() {
			t.Errorf("Do = %v, want the store's error", err)
		}
	}
	ask(t, s, t.Context(), request, func(_ weir.Decision, err error, _ time.Duration) {
		want := "failover: store unavailable: circuit breaker open for 1s after 2 failures in a row, the last: failover: " + errRefused.Error()
		if fmt.Sprint(err) != want || !errors.Is(err, weir.ErrUnavailable) {
			t.Errorf("Do = %v\nwant %s", err, want)
		}
	})
}

// TestOneProbe checks that no other request reaches the store while a probe is in flight.
func TestOneProbe(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var store switched
		store.set(refusing)
		s := newStore(t, store.fake(), failover.Config{Failures: 1}, failover.Open())
		s.Do(t.Context(), request)
		answer := make(chan struct{})
		store.set(func(ctx context.Context, r weir.Request) (weir.Decision, error) {
			<-answer
			return fine(ctx, r)
		})
		time.Sleep(failover.DefaultCooldown)
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

// TestCanceledProbe checks that a canceled probe does not count, so the next request is a
// probe. If all probes are canceled, their waiting times count as a failure.
func TestCanceledProbe(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var store switched
		store.set(refusing)
		s := newStore(t, store.fake(), failover.Config{Failures: 1}, failover.Open())
		s.Do(t.Context(), request)
		time.Sleep(failover.DefaultCooldown)
		store.set(silent)
		store.calls.Store(0)
		hurried := func() {
			ctx, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
			defer cancel()
			s.Do(ctx, request)
		}
		for want := int64(1); want <= 3; want++ {
			hurried()
			if n := store.calls.Load(); n != want {
				t.Fatalf("%d tries after %d callers that left, want each to try", n, want)
			}
		}
		hurried() // 3·20 ms in vain are a failed try
		if n := store.calls.Load(); n != 3 || !s.Open() {
			t.Errorf("%d probes, open %t, want 3 and a cool-down", n, s.Open())
		}
		time.Sleep(failover.DefaultCooldown)
		store.set(fine)
		if d, err := s.Do(t.Context(), request); err != nil || d.Degraded != "" {
			t.Errorf("Do = %+v, %v, want the store's decision", d, err)
		}
	})
}

// TestShortDeadlines checks that the breaker opens although every caller has less time than
// the deadline, such as the 20 ms of Envoy.
func TestShortDeadlines(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var store switched
		store.set(silent)
		s := newStore(t, store.fake(), failover.Config{}, failover.Open())
		hurried := func() (weir.Decision, error) {
			ctx, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
			defer cancel()
			return s.Do(ctx, request)
		}
		asked := 0
		for ; !s.Open() && asked < 100; asked++ {
			hurried()
		}
		if asked != 13 { // 13·20 ms ≥ 5·50 ms
			t.Errorf("the breaker opened after %d callers that canceled after 20 ms, want 13", asked)
		}
		if d, err := hurried(); err != nil || d.Degraded != policy.Open {
			t.Errorf("Do while the breaker is open = %+v, %v, want the fallback's decision", d, err)
		}
		if err := s.Err(); err == nil || !strings.Contains(err.Error(), "by canceled requests") {
			t.Errorf("Err() = %v, want what happened", err)
		}
		// With one reply between them, cancellations do not count.
		time.Sleep(failover.DefaultCooldown)
		store.set(fine)
		s.Do(t.Context(), request)
		for range 100 {
			store.set(silent)
			hurried()
			store.set(fine)
			hurried()
		}
		if s.Open() {
			t.Error("the breaker is open although the store replies")
		}
	})
}

// TestSlowProbe checks that a probe succeeds although the client first has to connect,
// which takes longer than a decision may.
func TestSlowProbe(t *testing.T) {
	for _, timeout := range []time.Duration{0, 20 * time.Millisecond} { // of the callers
		synctest.Test(t, func(t *testing.T) {
			var store switched
			store.set(refusing)
			s := newStore(t, store.fake(), failover.Config{Failures: 1}, failover.Open())
			s.Do(t.Context(), request)
			var connected atomic.Bool
			store.set(func(ctx context.Context, r weir.Request) (weir.Decision, error) {
				if !connected.Load() {
					select {
					case <-time.After(300 * time.Millisecond):
						connected.Store(true)
					case <-ctx.Done():
						return weir.Decision{}, ctx.Err()
					}
				}
				return fine(ctx, r)
			})
			began := time.Now()
			for s.Open() && time.Since(began) < time.Minute {
				ctx, cancel := t.Context(), func() {}
				if timeout > 0 {
					ctx, cancel = context.WithTimeout(ctx, timeout)
				}
				asked := time.Now()
				d, err := s.Do(ctx, request)
				if took := time.Since(asked); took > failover.DefaultDeadline || err == nil && !d.OK {
					t.Errorf("Do = %+v, %v after %v", d, err, took)
				}
				cancel()
				time.Sleep(10 * time.Millisecond)
			}
			if took := time.Since(began); took > failover.DefaultCooldown+400*time.Millisecond {
				t.Errorf("callers with %v: the store was back after %v", timeout, took)
			}
			time.Sleep(5 * time.Second) // for those that still try
		})
	}
}

// TestProbeTimeout checks that the context of a probe ends after its caller has returned.
func TestProbeTimeout(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var store switched
		store.set(refusing)
		s := newStore(t, store.fake(), failover.Config{Failures: 1, Cooldown: time.Hour})
		s.Do(t.Context(), request)
		time.Sleep(time.Hour)
		began, ended := time.Now(), time.Duration(0)
		store.set(func(ctx context.Context, r weir.Request) (weir.Decision, error) {
			if deadline, ok := ctx.Deadline(); !ok || time.Until(deadline) != 5*time.Second {
				t.Errorf("a try has %v", time.Until(deadline))
			}
			<-ctx.Done()
			ended = time.Since(began)
			return weir.Decision{}, ctx.Err()
		})
		s.Do(t.Context(), request)
		if took := time.Since(began); took != failover.DefaultDeadline {
			t.Errorf("the caller waited for %v", took)
		}
		time.Sleep(time.Minute)
		synctest.Wait()
		if ended != 5*time.Second {
			t.Errorf("the context of the probe ended after %v, want 5s", ended)
		}
	})
}

// TestFailuresOfAnotherGeneration checks that a failure that began before the breaker
// opened does not count after it has closed.
func TestFailuresOfAnotherGeneration(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var store switched
		store.set(silent)
		s := newStore(t, store.fake(), failover.Config{Failures: 2, Deadline: time.Minute, Cooldown: time.Second})
		for range 10 {
			go s.Do(t.Context(), request) // fails in a minute
		}
		synctest.Wait()
		store.set(refusing)
		for range 2 {
			s.Do(t.Context(), request)
		}
		if !s.Open() {
			t.Fatal("two failures, and the breaker is closed")
		}
		store.set(fine)
		time.Sleep(time.Second)
		if d, err := s.Do(t.Context(), request); err != nil || !d.OK || s.Open() {
			t.Fatalf("Do = %+v, %v, open %t, want closed", d, err, s.Open())
		}
		time.Sleep(time.Minute)
		store.set(refusing)
		s.Do(t.Context(), request)
		if s.Open() {
			t.Error("failures of long ago count against a store that is back")
		}
	})
}

// TestObserve checks that Observe gets every change once and in order from concurrent
// requests, and that it may call the store.
func TestObserve(t *testing.T) {
	var store switched
	store.set(fine)
	var got []bool
	var s *tested
	s = newStore(t, store.fake(), failover.Config{Failures: 2, Cooldown: time.Nanosecond, Deadline: patient, Observe: func(open bool) {
		got = append(got, open) // the race detector sees if it is called by two at once
		s.Do(context.Background(), request)
		s.Open()
		s.Err()
	}}, failover.Open())
	var wg sync.WaitGroup
	for range 8 {
		wg.Go(func() {
			for range 300 {
				if rand.IntN(2) == 0 {
					store.set(fine)
				} else {
					store.set(refusing)
				}
				if _, err := s.Do(t.Context(), request); err != nil {
					t.Errorf("Do = %v, want a decision", err)
				}
			}
		})
	}
	wg.Wait()
	if len(got) < 2 {
		t.Errorf("Observe got %d changes, want some", len(got))
	}
	for i, open := range got {
		if open != (i%2 == 0) {
			t.Fatalf("change %d is open %t, got %v", i, open, got[max(0, i-5):i+1])
		}
	}
	if s.Open() != (len(got)%2 == 1) {
		t.Errorf("open %t after %d changes", s.Open(), len(got))
	}
}

// TestObservePanics checks that a panic of Observe reaches the caller of the store, and
// that later changes are observed.
func TestObservePanics(t *testing.T) {
	calls := 0
	s := newStore(t, fake{do: refusing}, failover.Config{Failures: 1, Cooldown: time.Nanosecond, Observe: func(bool) {
		calls++
		panic("odd")
	}})
	func() {
		defer func() { recover() }()
		s.Do(t.Context(), request)
		t.Error("Do did not panic")
	}()
	if _, err := s.Do(t.Context(), request); !errors.Is(err, weir.ErrUnavailable) || calls != 1 {
		t.Errorf("Do = %v, %d calls of Observe, want an error and 1", err, calls)
	}
}

// TestNoReplay checks that a request that may have been charged is not sent again.
func TestNoReplay(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var store switched
		s := newStore(t, store.fake(), failover.Config{Failures: 1 << 20}, failover.Open())
		const asked = 200
		for i := range asked {
			store.set([]func(context.Context, weir.Request) (weir.Decision, error){fine, refusing, silent}[i%3])
			s.Do(t.Context(), request)
		}
		time.Sleep(time.Hour)
		if n := store.calls.Load(); n != asked {
			t.Errorf("%d requests were asked %d times", asked, n)
		}
	})
}

// TestIdleGoroutinesEnd checks that goroutines end that wait for requests.
func TestIdleGoroutinesEnd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		gate := make(chan struct{})
		s, err := failover.New(fake{do: func(ctx context.Context, r weir.Request) (weir.Decision, error) {
			<-gate
			return fine(ctx, r)
		}}, failover.Config{}) // never closed
		if err != nil {
			t.Fatal(err)
		}
		var wg sync.WaitGroup
		for range 100 {
			wg.Go(func() { s.Do(t.Context(), request) })
		}
		synctest.Wait()
		close(gate)
		wg.Wait()
		time.Sleep(3 * time.Second)
		// A bubble that is left with a goroutine in it fails the test.
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
