package failover_test

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/floodweir/weir"
	"github.com/floodweir/weir/failover"
	"github.com/floodweir/weir/internal/roundtrip"
	"github.com/floodweir/weir/policy"
)

// A remote is a store that reports its round trips, as package redisstore does. A round trip
// continues after its caller has left.
type remote struct {
	queue   func() time.Duration // in this process, before the request is sent
	latency func() time.Duration // of the round trip
	calls   atomic.Int64
	most    atomic.Int64 // calls in progress at a time
	now     atomic.Int64
}

func (s *remote) Do(ctx context.Context, r weir.Request) (weir.Decision, error) {
	s.calls.Add(1)
	for n := s.now.Add(1); n > s.most.Load(); {
		s.most.Store(n)
	}
	defer s.now.Add(-1)
	progress := roundtrip.From(ctx)
	progress.Queued()
	done := make(chan struct{})
	queue, latency := s.queue, s.latency // a test may set others after its caller has left
	go func() {
		defer close(done)
		if queue != nil {
			<-time.After(queue())
			if ctx.Err() != nil {
				return
			}
		}
		progress.Sent()
		<-time.After(latency())
		progress.Replied()
	}()
	select {
	case <-done:
		return weir.Decision{OK: true, Limit: r.Limit, Granted: r.N}, nil
	case <-ctx.Done():
		return weir.Decision{}, ctx.Err()
	}
}

func (s *remote) DoAll(context.Context, []weir.Request, []weir.Decision) (bool, error) {
	return false, errOdd
}

func steady(d time.Duration) func() time.Duration { return func() time.Duration { return d } }

// stalls returns the latency of a store that does not reply in some spans, which repeat
// after a period.
func stalls(began time.Time, spans ...[2]time.Duration) func() time.Duration {
	return func() time.Duration {
		const usual = time.Millisecond
		at := time.Since(began)
		for _, s := range spans {
			if at+usual > s[0] && at < s[1] {
				return s[1] - at + usual
			}
		}
		return usual
	}
}

// paced sends one request of each client every 20 ms, and returns the number of decisions
// by the store and by the fallback.
func paced(t *testing.T, s weir.Store, clients int, span time.Duration) (exact, fallback int64) {
	var byStore, without atomic.Int64
	var wg sync.WaitGroup
	for i := range clients {
		wg.Go(func() {
			<-time.After(time.Duration(i) * 20 * time.Millisecond / time.Duration(clients))
			for began, next := time.Now(), time.Now(); next.Sub(began) < span; {
				d, err := s.Do(t.Context(), request)
				switch {
				case err != nil:
					t.Errorf("Do = %v, want a decision", err)
				case d.Degraded == "":
					byStore.Add(1)
				default:
					without.Add(1)
				}
				next = next.Add(20 * time.Millisecond)
				<-time.After(time.Until(next))
			}
		})
	}
	wg.Wait()
	return byStore.Load(), without.Load()
}

// TestShortStall checks one stall of 60 ms of a healthy store in 2 s, with 10 clients that
// send a request every 20 ms. The few calls that are late at the same time are one event:
// the breaker stays closed.
func TestShortStall(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := &remote{latency: stalls(time.Now(), [2]time.Duration{time.Second, 1060 * time.Millisecond})}
		changes := 0
		s := newStore(t, store, failover.Config{Observe: func(failover.Change) { changes++ }}, failover.Open())
		exact, fallback := paced(t, s, 10, 2*time.Second)
		if fallback == 0 || fallback > 10 || exact+fallback < 900 || changes != 0 {
			t.Errorf("%d decisions by the store, %d by the fallback, %d changes, want at most 10 by the fallback", exact, fallback, changes)
		}
		if n := s.Stats().LateReplies; n != fallback {
			t.Errorf("%d late replies, want %d", n, fallback)
		}
	})
}

// TestConcurrentLateCalls checks that 5 calls that are late at the same time do not open the
// breaker.
func TestConcurrentLateCalls(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := &remote{latency: steady(60 * time.Millisecond)}
		s := newStore(t, store, failover.Config{}, failover.Open())
		var wg sync.WaitGroup
		for range 5 {
			wg.Go(func() { s.Do(t.Context(), request) })
		}
		wg.Wait()
		<-time.After(10 * time.Millisecond)
		store.latency = steady(time.Millisecond)
		if d, err := s.Do(t.Context(), request); err != nil || d.Degraded != "" || s.Open() {
			t.Errorf("Do after 5 late calls = %+v, %v, open %t, want the store's decision", d, err, s.Open())
		}
	})
}

// TestLateReplies checks that a late reply shows that the store is alive: the next request
// is a probe, without a further cool-down.
func TestLateReplies(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		end := time.Now().Add(900 * time.Millisecond)
		store := &remote{latency: func() time.Duration { return max(time.Millisecond, time.Until(end)) }}
		s := newStore(t, store, failover.Config{Cooldown: time.Hour}, failover.Open())
		s.SetJitter(0)
		for time.Until(end) > time.Millisecond { // cool-downs: 50, 100, 200, 400, 800 ms
			s.Do(t.Context(), request)
			<-time.After(time.Millisecond)
		}
		if !s.Open() {
			t.Fatal("the breaker is closed")
		}
		<-time.After(2 * time.Millisecond) // the replies to the probes
		if d, err := s.Do(t.Context(), request); err != nil || d.Degraded != "" || s.Open() {
			t.Errorf("Do after late replies = %+v, %v, open %t, want the store's decision", d, err, s.Open())
		}
	})
}

// TestSlowStore checks a store whose replies are all later than the deadline: it is slow,
// not down.
func TestSlowStore(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newStore(t, &remote{latency: steady(80 * time.Millisecond)}, failover.Config{}, failover.Closed())
		var wg sync.WaitGroup
		for range 10 {
			wg.Go(func() {
				for range 100 {
					if s.Open() {
						return
					}
					s.Do(t.Context(), request)
				}
			})
			<-time.After(7 * time.Millisecond)
		}
		wg.Wait()
		if state := s.Stats().State; state != failover.Slow {
			t.Errorf("state %s (%v), want slow", state, s.Err())
		}
		<-time.After(time.Second)
	})
}

// TestOwnQueue checks that a request that waits in the queue of this process is rejected as
// overloaded. The fallback does not admit it, and it is no failure of the store.
func TestOwnQueue(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := &remote{latency: steady(time.Millisecond), queue: steady(49 * time.Millisecond)}
		var changes []failover.Change
		s := newStore(t, store, failover.Config{Observe: func(c failover.Change) { changes = append(changes, c) }}, failover.Open())
		if d, err := s.Do(t.Context(), request); err != nil || d.Degraded != "" {
			t.Errorf("Do after 49 ms in the queue = %+v, %v, want the store's decision", d, err)
		}
		store.queue = steady(time.Minute)
		for range 100 {
			began := time.Now()
			_, err := s.Do(t.Context(), request)
			var overload *weir.OverloadError
			if took := time.Since(began); !errors.As(err, &overload) || overload.RetryAfter <= 0 || took > 55*time.Millisecond {
				t.Fatalf("Do = %v after %v, want an OverloadError", err, took)
			}
		}
		if stats := s.Stats(); stats.State != failover.Up || stats.QueueWait != 100 || stats.Unavailable != 0 {
			t.Errorf("%+v, want an available store", stats)
		}
		store.queue = nil
		for range 60 {
			s.Do(t.Context(), request)
			<-time.After(20 * time.Millisecond)
		}
		if len(changes) != 2 || !changes[0].Overloaded || changes[1].Overloaded || changes[0].Overload+changes[1].Overload != 100 {
			t.Errorf("changes %+v, want the begin and the end of an overload of 100 requests", changes)
		}
		<-time.After(time.Minute)
	})
}

// TestQueueBehindStall checks that the mode decides for requests that wait in this process
// behind requests to which the store does not reply.
func TestQueueBehindStall(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := &remote{latency: steady(time.Second)}
		s := newStore(t, store, failover.Config{MaxCalls: 4, MaxQueue: 100}, failover.Open())
		var wg sync.WaitGroup
		for range 50 {
			wg.Go(func() {
				began := time.Now()
				d, err := s.Do(t.Context(), request)
				if took := time.Since(began); err != nil || d.Degraded != policy.Open || took > 105*time.Millisecond {
					t.Errorf("Do = %+v, %v after %v, want the fallback's decision", d, err, took)
				}
			})
		}
		wg.Wait()
		<-time.After(time.Second)
	})
}

// TestManyConnections checks that with any number of connections each request is decided by
// the store or rejected quickly, and that the store never has more than MaxCalls.
func TestManyConnections(t *testing.T) {
	counts := []int{100, 1025, 1024, 6000}
	if racing {
		counts = counts[:2]
	}
	for _, connections := range counts {
		synctest.Test(t, func(t *testing.T) {
			store := &remote{latency: steady(5 * time.Millisecond)}
			s := newStore(t, store, failover.Config{MaxCalls: 64}, failover.Open())
			var exact, rejected atomic.Int64
			var wg sync.WaitGroup
			for range connections {
				wg.Go(func() {
					for end := time.Now().Add(200 * time.Millisecond); time.Now().Before(end); {
						began := time.Now()
						d, err := s.Do(t.Context(), request)
						took := time.Since(began)
						switch {
						case errors.Is(err, weir.ErrOverloaded) && took <= 55*time.Millisecond:
							rejected.Add(1)
							<-time.After(10 * time.Millisecond)
						case err == nil && d.Degraded == "" && took <= 105*time.Millisecond:
							exact.Add(1)
						default:
							t.Errorf("Do = %+v, %v after %v", d, err, took)
							return
						}
					}
				})
			}
			wg.Wait()
			if most := store.most.Load(); most > 64 || s.Open() || exact.Load() < 64*35 {
				t.Errorf("%d connections: %d exact, %d rejected, at most %d calls, open %t", connections, exact.Load(), rejected.Load(), most, s.Open())
			}
			if connections > 1024 && rejected.Load() == 0 {
				t.Errorf("%d connections: none rejected", connections)
			}
		})
	}
}

// TestWaitersOrder checks that of the requests that wait, those that settle admitted ones are
// sent first, and then the newest. A canceled one leaves the queue.
func TestWaitersOrder(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var mu sync.Mutex
		var order []string
		release := make(chan struct{})
		s := newStore(t, fake{do: func(ctx context.Context, r weir.Request) (weir.Decision, error) {
			mu.Lock()
			order = append(order, r.Key)
			mu.Unlock()
			<-release
			return fine(ctx, r)
		}}, failover.Config{MaxCalls: 1, MaxQueue: 2, Deadline: time.Second}, failover.Open())
		var wg sync.WaitGroup
		results := map[string]error{}
		ask := func(key string, verb weir.Verb, ctx context.Context) {
			wg.Go(func() {
				r := weir.Request{Key: key, Verb: verb, Limit: request.Limit, N: 1}
				_, err := s.Do(ctx, r)
				mu.Lock()
				defer mu.Unlock()
				results[key] = err
			})
			synctest.Wait()
		}
		gone, cancel := context.WithCancel(t.Context())
		ask("first", weir.Take, t.Context())
		ask("evicted", weir.Take, t.Context())
		ask("canceled", weir.Take, gone)
		ask("old", weir.Take, t.Context())
		cancel()
		synctest.Wait()
		ask("charge", weir.Charge, t.Context())
		ask("return", weir.Return, t.Context())
		ask("new", weir.Take, t.Context())
		close(release)
		wg.Wait()
		want := []string{"first", "charge", "return", "new", "old"}
		for i, key := range want {
			if i >= len(order) || order[i] != key || results[key] != nil {
				t.Fatalf("order %v, results %v, want %v", order, results, want)
			}
		}
		if !errors.Is(results["evicted"], weir.ErrOverloaded) || !errors.Is(results["canceled"], context.Canceled) {
			t.Errorf("evicted: %v, canceled: %v", results["evicted"], results["canceled"])
		}
		if stats := s.Stats(); stats.InProgress != 0 || stats.Queued != 0 || stats.QueueFull != 1 {
			t.Errorf("at the end: %+v", stats)
		}
	})
}

// TestSchedulingDelay checks that the time in which this process is not scheduled does not
// count against the store. If it is too long, the request is rejected.
func TestSchedulingDelay(t *testing.T) {
	for _, c := range []struct {
		share   float64 // of the time that the process is delayed
		latency time.Duration
		want    error
		took    time.Duration
	}{
		{0, 60 * time.Millisecond, weir.ErrUnavailable, 50 * time.Millisecond},
		{0.5, 90 * time.Millisecond, nil, 90 * time.Millisecond}, // 45 ms without the delay
		{0.5, 200 * time.Millisecond, weir.ErrUnavailable, 100 * time.Millisecond},
		{0.9, 300 * time.Millisecond, weir.ErrOverloaded, 250 * time.Millisecond},
	} {
		synctest.Test(t, func(t *testing.T) {
			s := newStore(t, &remote{latency: steady(c.latency)}, failover.Config{}, failover.Open())
			s.SetSchedulingDelay(func(time.Time) time.Duration { return time.Duration(c.share * float64(2500*time.Microsecond)) })
			began := time.Now()
			_, err := s.Store.Do(t.Context(), request)
			if took := time.Since(began); !errors.Is(err, c.want) || took < c.took || took > c.took+5*time.Millisecond {
				t.Errorf("delayed for %v of the time: %v after %v, want %v after %v", c.share, err, took, c.want, c.took)
			}
			if c.share > 0 && s.Stats().SchedulingDelay == 0 {
				t.Error("no scheduling delay measured")
			}
			if errors.Is(c.want, weir.ErrOverloaded) && s.Stats().Scheduling != 1 {
				t.Errorf("%+v, want one request", s.Stats())
			}
			<-time.After(time.Second)
		})
	}
}

// TestBusyProcess checks the measurement of the scheduling delay: a goroutine that hands the
// processor on is late by the time that the others run.
func TestBusyProcess(t *testing.T) {
	if d := failover.SchedulingDelay(time.Now().Add(-time.Second)); d < time.Second {
		t.Errorf("delay of a goroutine that is due since a second: %v", d)
	}
}

// TestQueueBehindSlowStore checks that the mode decides for requests that wait behind requests
// to which the store replies late.
func TestQueueBehindSlowStore(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := &remote{latency: steady(60 * time.Millisecond)}
		s := newStore(t, store, failover.Config{}, failover.Open())
		s.Do(t.Context(), request) // late
		<-time.After(20 * time.Millisecond)
		store.queue = steady(time.Minute)
		if d, err := s.Do(t.Context(), request); err != nil || d.Degraded != policy.Open {
			t.Errorf("Do = %+v, %v, want the fallback's decision", d, err)
		}
		<-time.After(time.Minute)
	})
}

// TestQueueBeforeStall checks a request that was queued just before the store stalls. It is
// decided by the mode as those that were sent, and not rejected.
func TestQueueBeforeStall(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := &remote{latency: steady(time.Second)}
		store.queue = func() time.Duration {
			if store.calls.Load() == 1 {
				return time.Minute // behind the second, which is sent after 5 ms
			}
			return 5 * time.Millisecond
		}
		s := newStore(t, store, failover.Config{}, failover.Open())
		var wg sync.WaitGroup
		for range 2 {
			wg.Go(func() {
				if d, err := s.Do(t.Context(), request); err != nil || d.Degraded != policy.Open {
					t.Errorf("Do = %+v, %v, want the fallback's decision", d, err)
				}
			})
			synctest.Wait()
		}
		wg.Wait()
		<-time.After(2 * time.Minute)
	})
}
