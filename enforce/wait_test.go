package enforce_test

import (
	"context"
	"errors"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/floodweir/weir"
	"github.com/floodweir/weir/enforce"
	"github.com/floodweir/weir/internal/fakestore"
	"github.com/floodweir/weir/memstore"
	"github.com/floodweir/weir/policy"
)

// waiting returns a policy that holds requests back for at most d.
func waiting(name string, d time.Duration, limit ...string) policy.Config {
	c := about(name, limit...)
	c.OnDenied.Wait = d
	return c
}

// TestWait checks that a denied request asks again when it can be admitted, and is denied
// at once if that is too late.
func TestWait(t *testing.T) {
	bubble(t, func(t *testing.T, store *memstore.Store) {
		var c enforce.Config
		events := observed(&c)
		daily := about("daily", "2/24h")
		daily.Match.Methods = []string{"DAILY"}
		e := open(t, store, c, waiting("slow", 3*time.Second, "1/s"), daily)
		var p enforce.Admission
		for step, want := range []struct {
			method  string
			outcome enforce.Outcome
			after   time.Duration
			retry   time.Duration
			events  []string
		}{
			{"DAILY", enforce.Admitted, 0, 0, []string{"ada slow admitted", "ada daily admitted"}},
			{"DAILY", enforce.Admitted, time.Second, 0, []string{"ada slow admitted", "ada daily admitted"}},
			{"DAILY", enforce.Denied, 0, 12*time.Hour - time.Second, []string{"ada slow denied", "ada daily denied"}},
			{"", enforce.Admitted, time.Second, 0, []string{"ada slow admitted"}},
		} {
			start := time.Now()
			got := e.Enter(t.Context(), by("ada", want.method), &p)
			if passed := time.Since(start); got != want.outcome || passed != want.after || p.Decision().RetryAfter != want.retry {
				t.Errorf("step %d: %s after %v, retry after %v, want %s after %v, %v", step, got, passed, p.Decision().RetryAfter, want.outcome, want.after, want.retry)
			}
			same(t, "events", events(), want.events...)
		}
	})
}

// TestWaitIsFair checks that requests of one key are admitted in their order. A new request
// queues behind waiting ones even if tokens are available.
func TestWaitIsFair(t *testing.T) {
	bubble(t, func(t *testing.T, store *memstore.Store) {
		var asking atomic.Int64
		one := fakestore.Around(store, func(context.Context, *weir.Request) error {
			if asking.Add(1) > 1 {
				t.Error("two requests of a key ask at once")
			}
			<-time.After(time.Microsecond)
			return nil
		}, func(weir.Request, weir.Decision) error { asking.Add(-1); return nil })
		e := open(t, one, enforce.Config{}, waiting("p", time.Minute, "10/s burst 1"))
		const n = 32
		var mu sync.Mutex
		var order []int
		var all sync.WaitGroup
		start := time.Now()
		for i := range n {
			all.Go(func() {
				var p enforce.Admission
				if got := enter(t, e, &p); got != enforce.Admitted {
					t.Errorf("request %d: %s, want admitted", i, got)
				}
				mu.Lock()
				defer mu.Unlock()
				order = append(order, i)
				if got, want := time.Since(start), time.Duration(i)*100*time.Millisecond; got < want || got > want+time.Millisecond {
					t.Errorf("request %d is admitted after %v, want %v", i, got, want)
				}
			})
			<-time.After(10 * time.Microsecond)
		}
		<-time.After(time.Second + 50*time.Millisecond) // no other request asks now
		other := time.Now()
		var p enforce.Admission
		if got := e.Enter(t.Context(), by("bob", ""), &p); got != enforce.Admitted || time.Since(other) > time.Millisecond {
			t.Errorf("a request of another key: %s after %v, want admitted at once", got, time.Since(other))
		}
		all.Wait()
		if !slices.IsSorted(order) || len(order) != n {
			t.Errorf("admitted in the order %v, want that in which they came", order)
		}
	})
}

// TestWaitIsBounded checks that a request beyond MaxWaiters is denied at once and takes no
// tokens.
func TestWaitIsBounded(t *testing.T) {
	bubble(t, func(t *testing.T, store *memstore.Store) {
		e := open(t, store, enforce.Config{Options: enforce.Options{MaxWaiters: 2}}, waiting("p", time.Minute, "1/s burst 1"))
		var p enforce.Admission
		for _, user := range []string{"ada", "bob"} {
			e.Enter(t.Context(), by(user, ""), &p)
		}
		var outcomes [2]enforce.Outcome
		for i := range outcomes {
			go func() {
				var p enforce.Admission
				outcomes[i] = enter(t, e, &p)
			}()
			synctest.Wait()
		}
		start := time.Now()
		for _, user := range []string{"ada", "bob"} { // of the same queue, and of another
			got := e.Enter(t.Context(), by(user, ""), &p)
			if got != enforce.Denied || time.Since(start) != 0 || p.Decision().OK || p.DeniedBy() == nil {
				t.Errorf("with the room full %s is %s after %v, want denied at once", user, got, time.Since(start))
			}
		}
		after(2 * time.Second)
		if outcomes != [2]enforce.Outcome{enforce.Admitted, enforce.Admitted} {
			t.Errorf("those in the room are %v, want admitted", outcomes)
		}
		if got := e.Enter(t.Context(), by("bob", ""), &p); got != enforce.Admitted {
			t.Errorf("with the room empty bob is %s, want admitted", got)
		}
	})
}

// TestTimeoutInQueue checks that a request whose time ends in the queue is denied, although
// tokens remain: they are for requests before it.
func TestTimeoutInQueue(t *testing.T) {
	bubble(t, func(t *testing.T, store *memstore.Store) {
		var hangs atomic.Bool
		slow := fakestore.Around(store, func(_ context.Context, r *weir.Request) error {
			if r.Verb == weir.Take && hangs.Load() {
				<-time.After(10 * time.Second)
			}
			return nil
		}, nil)
		e := open(t, slow, enforce.Config{}, waiting("p", 2*time.Second, "1/s burst 1"))
		var first, second enforce.Admission
		enter(t, e, &first)
		go enter(t, e, &first)
		after(500 * time.Millisecond)
		hangs.Store(true)
		start := time.Now()
		if got := enter(t, e, &second); got != enforce.Denied || time.Since(start) != 2*time.Second || second.Decision().OK {
			t.Errorf("%s after %v by %+v, want denied after 2s", got, time.Since(start), second.Decision())
		}
		if got := taken(t, store, "p", "1/s burst 1"); got != 0 {
			t.Errorf("%d taken, want none yet", got)
		}
		after(10 * time.Second)
		if got := first.Outcome(); got != enforce.Admitted {
			t.Errorf("the one before is %s, want admitted", got)
		}
	})
}

// TestCancelInQueue checks that a request that is canceled in the queue takes no tokens and
// does not block the others.
func TestCancelInQueue(t *testing.T) {
	for _, charge := range []bool{false, true} {
		bubble(t, func(t *testing.T, store *memstore.Store) {
			c := enforce.Config{KeepOnCancel: charge}
			events := observed(&c)
			e := open(t, store, c, waiting("p", time.Minute, "1/s burst 1"))
			var p enforce.Admission
			enter(t, e, &p)
			why := errors.New("went home")
			ctx, leave := context.WithCancelCause(t.Context())
			type result struct {
				outcome enforce.Outcome
				err     error
				after   time.Duration
			}
			var results [3]result
			start := time.Now()
			for i := range results {
				go func() {
					var p enforce.Admission
					ctx := ctx
					if i == 2 {
						ctx = t.Context()
					}
					outcome := e.Enter(ctx, by("ada", ""), &p)
					results[i] = result{outcome, p.Err(), time.Since(start)}
					if p.NeedsExit() || p.DeniedBy() != nil || !outcome.Passes() && p.Decision() != (weir.Decision{}) {
						t.Errorf("%d: holds %t, denied by %v, decided %+v, want nothing", i, p.NeedsExit(), p.DeniedBy(), p.Decision())
					}
				}()
				synctest.Wait()
			}
			after(500 * time.Millisecond)
			leave(why)
			after(10 * time.Second)
			for i, r := range results[:2] { // the first asks, the second queues behind it
				if r.outcome != enforce.FailedClosed || !errors.Is(r.err, why) || r.after != 500*time.Millisecond {
					t.Errorf("%d: %+v, want failed_closed when it left, and why", i, r)
				}
			}
			if r := results[2]; r.outcome != enforce.Admitted || r.after != time.Second {
				t.Errorf("the one behind: %+v, want admitted after 1s", r)
			}
			same(t, "events", events(), "ada p admitted", "ada p failed_closed error", "ada p failed_closed error", "ada p admitted")
		})
	}
}

// TestWaitByTheClockOfTheStore checks that a wait is measured by the clock of the store, which
// has an offset and another speed.
func TestWaitByTheClockOfTheStore(t *testing.T) {
	for _, c := range fakestore.DriftingWaits {
		synctest.Test(t, func(t *testing.T) {
			c.Check(t, func(store weir.Store, maxWait time.Duration) bool {
				var p enforce.Admission
				e := open(t, store, enforce.Config{}, waiting("p", maxWait, c.Limit))
				return enter(t, e, &p) == enforce.Admitted
			})
		})
	}
}

// TestFirstAtItsDeadline checks a request whose time ends at the instant at which the one
// before it is admitted. It is denied for the time until its own token, or one more if that one has
// not left the queue yet.
func TestFirstAtItsDeadline(t *testing.T) {
	for range 20 { // both wake at one instant, in any order
		bubble(t, func(t *testing.T, store *memstore.Store) {
			e := open(t, store, enforce.Config{}, waiting("p", time.Second, "1/s burst 1"))
			var ps [3]enforce.Admission
			enter(t, e, &ps[0])
			start := time.Now()
			var got [3]enforce.Outcome
			var took [3]time.Duration
			for i := 1; i < 3; i++ {
				go func() {
					got[i] = enter(t, e, &ps[i])
					took[i] = time.Since(start)
				}()
				synctest.Wait()
			}
			after(5 * time.Second)
			retry := ps[2].Decision().RetryAfter
			if got[1] != enforce.Admitted || got[2] != enforce.Denied || took[2] != time.Second || retry != time.Second && retry != 2*time.Second {
				t.Errorf("%s, then %s after %v, retry after %v; want admitted, then denied after 1s, retry after 1s or 2s", got[1], got[2], took[2], retry)
			}
		})
	}
}

// TestRetryAfterBehindOthers checks the RetryAfter of requests whose time ends in the queue:
// the tokens until then belong to the requests that still wait.
func TestRetryAfterBehindOthers(t *testing.T) {
	bubble(t, func(t *testing.T, store *memstore.Store) {
		long, short := waiting("p", time.Minute, "1/10s burst 2"), waiting("q", 3*time.Second, "1/10s burst 2")
		long.Match.Methods, short.Match.Methods = []string{"LONG"}, []string{"SHORT"}
		long.Zone, short.Zone = "z", "z" // one key and two waits
		e := open(t, store, enforce.Config{}, long, short)
		var ps [4]enforce.Admission
		for i := range 2 {
			e.Enter(t.Context(), by("ada", "LONG"), &ps[i])
		}
		go e.Enter(t.Context(), by("ada", "LONG"), &ps[2])
		synctest.Wait()
		if got := e.Enter(t.Context(), by("ada", "SHORT"), &ps[3]); got != enforce.Denied || ps[3].Decision().RetryAfter != 17*time.Second {
			t.Errorf("behind another: %s, retry after %v, want denied, 17s", got, ps[3].Decision().RetryAfter)
		}
		after(time.Minute)
	})
}
