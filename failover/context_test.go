package failover_test

import (
	"context"
	"errors"
	"runtime"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/floodweir/weir"
	"github.com/floodweir/weir/failover"
)

type valueKey struct{}

// TestContextOfTheStore checks what a store may do with its context: read values, derive
// contexts, and wait for its end after a reply, at the deadline, or on cancellation.
func TestContextOfTheStore(t *testing.T) {
	for _, tt := range []struct {
		name    string
		timeout time.Duration // of the caller; none if 0
		answers bool
		want    error
	}{
		{"answered", 0, true, context.Canceled},
		{"deadline", 0, false, context.DeadlineExceeded},
		{"left", 10 * time.Millisecond, false, context.DeadlineExceeded},
	} {
		synctest.Test(t, func(t *testing.T) {
			var given, derived context.Context
			var called, stopped atomic.Int64
			var cancel context.CancelFunc
			var stop func() bool
			s := newStore(t, fake{do: func(ctx context.Context, r weir.Request) (weir.Decision, error) {
				given = ctx
				if ctx.Value(valueKey{}) != "v" || ctx.Err() != nil {
					t.Errorf("%s: the context has value %v, error %v", tt.name, ctx.Value(valueKey{}), ctx.Err())
				}
				before := runtime.NumGoroutine()
				derived, cancel = context.WithTimeout(ctx, time.Hour)
				context.AfterFunc(derived, func() { called.Add(1) })
				stop = context.AfterFunc(ctx, func() { stopped.Add(1) })
				if n := runtime.NumGoroutine(); n > before {
					t.Errorf("%s: a derived context started %d goroutines", tt.name, n-before)
				}
				if !stop() || stop() {
					t.Errorf("%s: stop() = false, true, want it to stop once", tt.name)
				}
				if tt.answers {
					return fine(ctx, r)
				}
				<-ctx.Done()
				return weir.Decision{}, ctx.Err()
			}}, failover.Config{})
			ctx := context.WithValue(t.Context(), valueKey{}, "v")
			if tt.timeout > 0 {
				var leave context.CancelFunc
				ctx, leave = context.WithTimeout(ctx, tt.timeout)
				defer leave()
			}
			s.Do(ctx, request)
			synctest.Wait()
			<-given.Done()
			<-derived.Done()
			cancel()
			if !errors.Is(given.Err(), tt.want) || derived.Err() == nil || called.Load() != 1 || stopped.Load() != 0 {
				t.Errorf("%s: ended by %v, derived by %v, called %d and %d, want %v, and 1 and 0", tt.name, given.Err(), derived.Err(), called.Load(), stopped.Load(), tt.want)
			}
			// Derived when all is over.
			late, cancel := context.WithCancel(given)
			defer cancel()
			<-late.Done()
			context.AfterFunc(given, func() { called.Add(1) })
			synctest.Wait()
			if called.Load() != 2 {
				t.Errorf("%s: a function of a context that has ended was called %d times", tt.name, called.Load()-1)
			}
		})
	}
}

// TestContextAskedLate checks that Done of an ended context returns a closed channel.
func TestContextAskedLate(t *testing.T) {
	var given context.Context
	s := newStore(t, fake{do: func(ctx context.Context, r weir.Request) (weir.Decision, error) {
		given = ctx
		return fine(ctx, r)
	}}, failover.Config{Deadline: patient})
	if _, err := s.Do(t.Context(), request); err != nil {
		t.Fatal(err)
	}
	<-given.Done()
	if given.Err() == nil {
		t.Error("Err() = nil of a context that has ended")
	}
}
