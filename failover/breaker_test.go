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

// A switched store is well, or refuses, or is silent. It counts the calls that reach it.
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

// The life of a breaker, step by step.
func TestBreaker(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var store switched
		var told []bool
		s := newStore(t, store.fake(), failover.Config{Failures: 3, Cooldown: time.Second, Observe: func(away bool) { told = append(told, away) }}, failover.Open())
		for i, step := range []struct {
			pass    time.Duration
			mode    func(context.Context, weir.Request) (weir.Decision, error)
			reaches bool
			mark    weir.FailMode
			away    bool
		}{
			{0, fine, true, "", false},
			{0, refusing, true, policy.Open, false},
			{0, refusing, true, policy.Open, false},
			{0, fine, true, "", false}, // not in a row
			{0, refusing, true, policy.Open, false},
			{0, silent, true, policy.Open, false},
			{0, refusing, true, policy.Open, true}, // the third: away
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
			if reached := store.calls.Load() > before; err != nil || d.Degraded != step.mark || s.Open() != step.away || reached != step.reaches || (s.Err() != nil) != step.away {
				t.Errorf("step %d: %+v, %v, away %t (%v), reached the store %t, want %+v", i, d, err, s.Open(), s.Err(), reached, step)
			}
		}
		if !slices.Equal(told, []bool{true, false}) {
			t.Errorf("Observe was told %v, want that the store went and came", told)
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

// Without a fallback, who is refused hears why.
func TestLeftAloneSaysWhy(t *testing.T) {
	s := newStore(t, fake{do: refusing}, failover.Config{Failures: 2})
	for range 2 {
		if _, err := s.Do(t.Context(), request); !errors.Is(err, weir.ErrUnavailable) || err.Error() != "failover: "+errRefused.Error() {
			t.Errorf("Do = %v, want the store's error", err)
		}
	}
	ask(t, s, t.Context(), request, func(_ weir.Decision, err error, _ time.Duration) {
		want := "failover: store unavailable: left alone for 1s after 2 failures in a row, the last: failover: " + errRefused.Error()
		if fmt.Sprint(err) != want || !errors.Is(err, weir.ErrUnavailable) {
			t.Errorf("Do = %v\nwant %s", err, want)
		}
	})
}

// While one request tries, however many others come, none of them reaches the store.
func TestOneTries(t *testing.T) {
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
			t.Errorf("%d requests tried, %d were decided by the store, away %t, want 1, 1 and back", n, exact.Load(), s.Open())
		}
	})
}

// A request that tries and whose caller leaves proves nothing: the next one tries at
// once. But callers who all leave early do not keep the store busy for ever.
func TestTryingCallerLeaves(t *testing.T) {
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
			t.Errorf("%d tries, away %t, want 3 and a cooldown", n, s.Open())
		}
		time.Sleep(failover.DefaultCooldown)
		store.set(fine)
		if d, err := s.Do(t.Context(), request); err != nil || d.Degraded != "" {
			t.Errorf("Do = %+v, %v, want the store's decision", d, err)
		}
	})
}

// A gateway that gives every question less time than the deadline, as Envoy does with
// its 20 ms, does not keep a dead store from being left alone.
func TestHurriedCallers(t *testing.T) {
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
			t.Errorf("the store was left alone after %d callers that left after 20 ms, want 13", asked)
		}
		if d, err := hurried(); err != nil || d.Degraded != policy.Open {
			t.Errorf("Do of a store left alone = %+v, %v, want the fallback's decision", d, err)
		}
		if err := s.Err(); err == nil || !strings.Contains(err.Error(), "callers came and left") {
			t.Errorf("Err() = %v, want what happened", err)
		}
		// One answer between them, and they are no sign of anything.
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
			t.Error("the store is left alone although it answers")
		}
	})
}

// A store that needs more time than a decision has to be reached again, as one that is
// far away and has to be greeted, is found to be back all the same.
func TestBackButSlowAtFirst(t *testing.T) {
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

// What tries for too long is told to end, although nobody waits for it.
func TestTryEnds(t *testing.T) {
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
			t.Errorf("the try was told to end after %v, want 5s", ended)
		}
	})
}

// A failure that began before the store was found away, and is known only after it is
// back, does not count against it.
func TestOldFailures(t *testing.T) {
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
			t.Fatal("two failures, and not away")
		}
		store.set(fine)
		time.Sleep(time.Second)
		if d, err := s.Do(t.Context(), request); err != nil || !d.OK || s.Open() {
			t.Fatalf("Do = %+v, %v, away %t, want the store back", d, err, s.Open())
		}
		time.Sleep(time.Minute)
		store.set(refusing)
		s.Do(t.Context(), request)
		if s.Open() {
			t.Error("failures of long ago count against a store that is back")
		}
	})
}

// Observe hears every change once and in order, however many requests find it out at
// the same time, and may ask the store itself.
func TestObserve(t *testing.T) {
	var store switched
	store.set(fine)
	var told []bool
	var s *tested
	s = newStore(t, store.fake(), failover.Config{Failures: 2, Cooldown: time.Nanosecond, Deadline: patient, Observe: func(away bool) {
		told = append(told, away) // the race detector sees if it is called by two at once
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
	if len(told) < 2 {
		t.Errorf("Observe was told %d changes, want some", len(told))
	}
	for i, away := range told {
		if away != (i%2 == 0) {
			t.Fatalf("change %d is away %t: told %v", i, away, told[max(0, i-5):i+1])
		}
	}
	if s.Open() != (len(told)%2 == 1) {
		t.Errorf("away %t after %d changes", s.Open(), len(told))
	}
}

// An Observe that panics does so to who asked, and hears of later changes.
func TestObservePanics(t *testing.T) {
	told := 0
	s := newStore(t, fake{do: refusing}, failover.Config{Failures: 1, Cooldown: time.Nanosecond, Observe: func(bool) {
		told++
		panic("odd")
	}})
	func() {
		defer func() { recover() }()
		s.Do(t.Context(), request)
		t.Error("Do did not panic")
	}()
	if _, err := s.Do(t.Context(), request); !errors.Is(err, weir.ErrUnavailable) || told != 1 {
		t.Errorf("Do = %v, told %d times, want an error and once", err, told)
	}
}

// What a request may have been charged for is never asked again.
func TestNothingIsReplayed(t *testing.T) {
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

// The goroutines that wait for the next request end when none comes.
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
