package failover_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/floodweir/weir"
	"github.com/floodweir/weir/failover"
	"github.com/floodweir/weir/policy"
)

// delayEach returns a measurement in which each tick is delayed.
func delayEach(d time.Duration) func(time.Time) time.Duration {
	return func(time.Time) time.Duration {
		<-time.After(d)
		return d
	}
}

// TestDelayInProgress checks a reply that arrives while the ticker waits for a processor. The
// time is a delay of this process although it is not measured yet, so the store is not slow. A
// request in the queue of this process is rejected, and not decided by the mode.
func TestDelayInProgress(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := &remote{latency: steady(110 * time.Millisecond)}
		store.queue = func() time.Duration {
			if store.calls.Load() == 1 {
				return 0
			}
			return time.Minute
		}
		s := newStore(t, store, failover.Config{}, failover.Open())
		s.SetSchedulingDelay(delayEach(120 * time.Millisecond))
		short, cancel := context.WithTimeout(t.Context(), 10*time.Millisecond)
		defer cancel()
		s.Do(short, request) // its reply arrives later
		if d, err := s.Do(t.Context(), request); !errors.Is(err, weir.ErrOverloaded) {
			t.Errorf("Do = %+v, %v, want a rejection", d, err)
		}
		<-time.After(2 * time.Minute)
	})
}

// TestOverloadedProcess checks a process that is delayed for half of the time or more. It does
// not attribute late replies to the store, and rejects the requests: goroutines that read
// replies may wait for longer than the one that measures the delay.
func TestOverloadedProcess(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newStore(t, &remote{latency: steady(300 * time.Millisecond)}, failover.Config{}, failover.Open())
		s.SetSchedulingDelay(delayEach(3 * time.Millisecond))
		for range 5 {
			if d, err := s.Do(t.Context(), request); !errors.Is(err, weir.ErrOverloaded) {
				t.Errorf("Do = %+v, %v, want a rejection", d, err)
			}
			<-time.After(100 * time.Millisecond)
		}
		if s.Open() {
			t.Errorf("the breaker is open: %v", s.Err())
		}
		<-time.After(time.Second)
	})
}

// TestOutageInOverload checks that the breaker opens when an overloaded process gets no reply
// for a long time.
func TestOutageInOverload(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newStore(t, &remote{latency: steady(time.Minute)}, failover.Config{}, failover.Open())
		s.SetSchedulingDelay(delayEach(3 * time.Millisecond))
		began := time.Now()
		for time.Since(began) < 2*time.Second {
			if d, err := s.Do(t.Context(), request); err == nil && d.Degraded == policy.Open {
				break
			}
		}
		if took := time.Since(began); took < time.Second || took > 1300*time.Millisecond {
			t.Errorf("the mode decides after %v, want about a second", took)
		}
		<-time.After(2 * time.Minute)
	})
}
