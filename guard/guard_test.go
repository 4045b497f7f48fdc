package guard_test

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/floodweir/weir"
	"github.com/floodweir/weir/enforce"
	"github.com/floodweir/weir/guard"
	"github.com/floodweir/weir/internal/fakestore"
	"github.com/floodweir/weir/policy"
)

// TestEnter checks that a guard admits what its limit says, for each key, and returns the
// retry delay.
func TestEnter(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := registry(t, guard.Config{}).MustGuard(guard.Resource{Name: "getId", Limits: limits("2/10s")})
		if got := passed(t, g, "a", 5); got != 2 {
			t.Fatalf("%d of 5 pass, want 2", got)
		}
		time.Sleep(2 * time.Second)
		_, err := g.Enter(context.Background(), "a")
		var d *guard.Denied
		if !errors.As(err, &d) || !errors.Is(err, guard.ErrDenied) || d.Decision.RetryAfter != 3*time.Second {
			t.Fatalf("Enter = %v, want a denial for 3s", err)
		}
		if got := passed(t, g, "b", 1); got != 1 {
			t.Errorf("another key is denied")
		}
		time.Sleep(3 * time.Second)
		if got := passed(t, g, "a", 2); got != 1 {
			t.Errorf("after the retry delay %d pass, want 1", got)
		}
	})
}

// TestNilContext checks that a limited function can be called with a nil context.
func TestNilContext(t *testing.T) {
	g := registry(t, guard.Config{}).MustGuard(guard.Resource{Name: "getId", Limits: limits("1/10s")})
	var none context.Context
	e, err := g.Enter(none, "a")
	if err != nil {
		t.Fatal(err)
	}
	e.Exit(nil)
	if _, err := g.Enter(none, "a"); !errors.Is(err, guard.ErrDenied) {
		t.Errorf("the second: %v, want it denied", err)
	}
}

// TestDefaultLimit checks that a resource without limits has 100 in 60 seconds from its first
// call.
func TestDefaultLimit(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := registry(t, guard.Config{}).MustGuard(guard.Resource{Name: "f"})
		time.Sleep(12345 * time.Millisecond)
		if got := passed(t, g, "", 200); got != 100 {
			t.Fatalf("%d of 200 pass, want 100", got)
		}
		time.Sleep(time.Minute - time.Microsecond)
		if got := passed(t, g, "", 1); got != 0 {
			t.Error("one passes before the end of the window")
		}
		time.Sleep(time.Microsecond)
		if got := passed(t, g, "", 200); got != 100 {
			t.Errorf("%d of 200 pass in the next window, want 100", got)
		}
	})
}

// TestEnterN checks that a call costs n times the cost of its rule, of every limit.
func TestEnterN(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := registry(t, guard.Config{})
		g := r.MustGuard(guard.Resource{Name: "f", Limits: limits("10/h", "20/24h")})
		step := func(n int64, want string) {
			t.Helper()
			e, err := g.EnterN(context.Background(), "k", n)
			got := "denied"
			var d *guard.Denied
			switch {
			case err == nil:
				got = fmt.Sprint(e.Decision().Remaining)
			case errors.As(err, &d) && d.Decision.RetryAfter == weir.Never:
				got = "never"
			case !errors.Is(err, guard.ErrDenied):
				got = err.Error()
			}
			if e.Exit(nil); got != want {
				t.Errorf("EnterN(%d) = %s, want %s", n, got, want)
			}
		}
		step(4, "6")
		step(7, "denied")
		step(0, "6")
		step(11, "never")
		step(math.MaxInt64, "never")
		step(-1, "guard: f: invalid: want a cost of 0 or more tokens, got -1")
		step(6, "0")
		step(1, "denied")
		configure(t, r, guard.Config{Functions: functions(rule(t, policy.Config{Name: "f", Limits: limits("1000/h"), Cost: 100, Carry: weir.CarryReset}))})
		step(1, "900")
		step(3, "600")
		step(math.MaxInt64/2, "never")
		step(7, "denied")
	})
}

// TestNames checks that guards of one name share buckets, also with a resource; others do not.
func TestNames(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := registry(t, guard.Config{})
		one := r.MustGuard(guard.Resource{Name: "f", Limits: limits("3/h"), Function: "a"})
		two := r.MustGuard(guard.Resource{Name: "f", Limits: limits("3/h"), Function: "b", Message: "no"})
		other := r.MustGuard(guard.Resource{Name: "g", Limits: limits("3/h")})
		if got := passed(t, one, "", 1) + passed(t, two, "", 5); got != 3 {
			t.Errorf("%d pass two guards of one name, want 3", got)
		}
		if _, err := r.Enter(context.Background(), "f", ""); !errors.Is(err, guard.ErrDenied) {
			t.Errorf("a resource of the name: %v, want a denial", err)
		}
		if got := passed(t, other, "", 5); got != 3 {
			t.Errorf("%d pass a guard of another name, want 3", got)
		}
		if again := r.MustGuard(guard.Resource{Name: "f", Limits: limits("3/h"), Function: "b", Message: "no"}); again != two {
			t.Error("an equal point has another guard")
		}
	})
}

// TestWait checks that the wait of a resource holds calls back in order, and that the wait of
// a rule replaces it.
func TestWait(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := registry(t, guard.Config{})
		g := r.MustGuard(guard.Resource{Name: "f", Limits: limits("1/s"), Wait: 2500 * time.Millisecond})
		start := time.Now()
		// line is when each of n calls passes that come one after the other at one instant.
		line := func(n int) string {
			calls := make([]string, n)
			var all sync.WaitGroup
			for i := range n {
				all.Go(func() {
					e, err := g.Enter(context.Background(), "")
					if err != nil {
						calls[i] = fmt.Sprintf(" -%d", i)
						return
					}
					e.Exit(nil)
					calls[i] = fmt.Sprintf(" %d@%v", i, time.Since(start))
				})
				synctest.Wait()
			}
			all.Wait()
			return strings.Join(calls, "")
		}
		if got, want := line(5), " 0@0s 1@1s 2@2s -3 -4"; got != want {
			t.Errorf("calls pass %s, want %s", got, want)
		}
		time.Sleep(time.Minute)
		configure(t, r, guard.Config{Options: enforce.Options{MaxWaiters: 1}, Functions: functions(
			rule(t, policy.Config{Name: "f", Limits: limits("1/s"), OnDenied: policy.OnDenied{Wait: 10 * time.Second}}))})
		start = time.Now()
		if got, want := line(3), " 0@0s 1@1s -2"; got != want {
			t.Errorf("calls pass %s, want %s", got, want)
		}
		time.Sleep(time.Minute)
		configure(t, r, guard.Config{Functions: functions(rule(t, policy.Config{Name: "f", Limits: limits("1/s")}))})
		start = time.Now()
		if got, want := line(4), " 0@0s 1@1s 2@2s -3"; got != want {
			t.Errorf("under a rule without a wait calls pass %s, want %s", got, want)
		}
	})
}

// TestQueue checks that a leaky bucket with a queue delays calls, and that a canceled call
// gives its place back.
func TestQueue(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := registry(t, guard.Config{}).MustGuard(guard.Resource{Name: "f", Limits: limits("1/s leaky_bucket burst 2 queue")})
		start := time.Now()
		passed(t, g, "", 1)
		ctx, cancel := context.WithCancelCause(context.Background())
		go func() { time.Sleep(300 * time.Millisecond); cancel(errDown) }()
		e, err := g.Enter(ctx, "")
		var u *guard.StoreError
		if e != nil || !errors.As(err, &u) || u.FailsOpen || !errors.Is(err, errDown) {
			t.Errorf("Enter = %v, %v, want the cause of the end of the context", e, err)
		}
		if got := passed(t, g, "", 1); got != 1 || time.Since(start) > 1100*time.Millisecond {
			t.Errorf("%d pass after %v, want 1 after 1s", got, time.Since(start))
		}
	})
}

// TestOverload checks that a call that this process is too busy to decide is refused in every
// mode, and that its error has the RetryAfter.
func TestOverload(t *testing.T) {
	busy := fmt.Errorf("store: %w", &weir.OverloadError{Reason: "busy", RetryAfter: time.Second})
	for _, mode := range []policy.FailMode{policy.Open, policy.Closed, policy.Local} {
		for _, answered := range []bool{false, true} {
			r := registry(t, guard.Config{Store: &broken{down: busy}, Functions: functions(rule(t, policy.Config{Name: "f", Limits: limits("1/h"), OnStoreError: mode}))})
			g := r.MustGuard(guard.Resource{Name: "f", Limits: limits("1/h"), HandlesStoreError: answered})
			_, err := g.Enter(t.Context(), "")
			var overload *weir.OverloadError
			if !errors.Is(err, weir.ErrOverloaded) || !errors.As(err, &overload) || overload.RetryAfter != time.Second || guard.FailsOpen(err) || errors.Is(err, guard.ErrDenied) {
				t.Errorf("%s, %v: %v, fails open %v, want ErrOverloaded after a second", mode, answered, err, guard.FailsOpen(err))
			}
		}
	}
}

// TestStoreErrors checks on_store_error of rules, and that error handlers run first.
func TestStoreErrors(t *testing.T) {
	for _, tc := range []struct {
		mode     policy.FailMode
		answered bool
		want     string
	}{
		{policy.Open, false, "<nil> open"},
		{policy.Open, true, "guard: f: no decision: store down true"},
		{policy.Closed, false, "guard: f: no decision: store down false"},
		{policy.Closed, true, "guard: f: no decision: store down false"},
		{policy.Local, false, "<nil> local"},
		{policy.Local, true, "guard: f: no decision: store down true"},
	} {
		t.Run(fmt.Sprint(tc.mode, tc.answered), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				local := fakestore.Memory(t)
				r := registry(t, guard.Config{Store: &broken{down: errDown}, Options: enforce.Options{Local: local}, Functions: functions(
					rule(t, policy.Config{Name: "f", Limits: limits("1/h"), OnStoreError: tc.mode}))})
				g := r.MustGuard(guard.Resource{Name: "f", Limits: limits("1/h"), HandlesStoreError: tc.answered})
				e, err := g.Enter(context.Background(), "")
				got := fmt.Sprint(err, " ", guard.FailsOpen(err))
				if err == nil {
					got = fmt.Sprint(err, " ", e.Decision().Degraded)
				} else if !errors.Is(err, errDown) || errors.Is(err, guard.ErrDenied) {
					t.Errorf("%v does not wrap why", err)
				}
				if e.Exit(nil); got != tc.want {
					t.Errorf("Enter = %s, want %s", got, tc.want)
				}
				var undecided *guard.StoreError
				if errors.As(err, &undecided) && undecided.FailsOpen {
					e, err := undecided.Enter(context.Background())
					if err != nil || e.Decision().Degraded != tc.mode {
						t.Errorf("StoreError.Enter = %v, %v, want a decision of mode %s", e, err, tc.mode)
					}
					e.Exit(nil)
				}
				if tc.mode == policy.Local && !tc.answered {
					if _, err := g.Enter(context.Background(), ""); !errors.Is(err, guard.ErrDenied) {
						t.Errorf("the second of a local 1/h: %v, want a denial", err)
					}
				}
			})
		})
	}
}

// TestStoreErrorEnter checks that a call whose error was not handled goes on as an admitted call.
func TestStoreErrorEnter(t *testing.T) {
	r := registry(t, guard.Config{Store: &broken{down: errDown}})
	g := r.MustGuard(guard.Resource{Name: "f", HandlesStoreError: true})
	_, err := g.Enter(context.Background(), "")
	var u *guard.StoreError
	if !errors.As(err, &u) || !guard.FailsOpen(fmt.Errorf("wrapped: %w", err)) {
		t.Fatalf("Enter = %v, want an *Undecided that lets through", err)
	}
	e, err := u.Enter(context.Background())
	if err != nil || !e.Decision().OK || e.Decision().Degraded != policy.Local {
		t.Fatalf("Undecided.Enter = %v, %v", e, err)
	}
	if s := r.Live()[0]; s.Running != 1 || s.Passed != 1 || s.Undecided != 1 {
		t.Errorf("%+v, want one undecided that passed and runs", s)
	}
	e.Exit(errDown)
	if s := r.Live()[0]; s.Running != 0 || s.Failed != 1 {
		t.Errorf("%+v, want one that failed", s)
	}
	if e, err := (&guard.StoreError{Name: "f", Err: errDown}).Enter(context.Background()); e != nil || !errors.Is(err, errDown) {
		t.Errorf("Enter of what is not let through = %v, %v", e, err)
	}
	if guard.FailsOpen(nil) || guard.FailsOpen(errDown) {
		t.Error("LetsThrough of another error")
	}
}

// TestMessages checks the texts of errors.
func TestMessages(t *testing.T) {
	for _, tc := range []struct {
		err  error
		want string
	}{
		{&guard.Denied{Name: "getId", Message: "rate limit exceeded", Decision: weir.Decision{RetryAfter: 3 * time.Second}}, "rate limit exceeded: getId: retry after 3s"},
		{&guard.Denied{Name: "getId", Message: "slow down", Decision: weir.Decision{RetryAfter: 1234567 * time.Microsecond}}, "slow down: getId: retry after 1.235s"},
		{&guard.Denied{Name: "getId", Message: "slow down", Decision: weir.Decision{RetryAfter: 12 * time.Microsecond}}, "slow down: getId: retry after 12µs"},
		{&guard.Denied{Name: "getId", Message: "slow down", Decision: weir.Decision{RetryAfter: weir.Never}}, "slow down: getId: cost above capacity"},
		{&guard.Denied{Name: "getId", Message: "slow down", Decision: weir.Decision{RetryAfter: weir.Never - 1}}, "slow down: getId: retry after 2562047h47m16.854s"},
		{&guard.Denied{Name: "getId", Message: "slow down"}, "slow down: getId"},
		{&guard.Denied{Name: "getId", Message: "call refused", Cause: errDown}, "call refused: getId: store down"},
		{&guard.StoreError{Name: "getId", Err: errDown}, "guard: getId: no decision: store down"},
	} {
		if got := tc.err.Error(); got != tc.want {
			t.Errorf("Error() = %q, want %q", got, tc.want)
		}
		if d, ok := tc.err.(*guard.Denied); ok && (!errors.Is(d, guard.ErrDenied) || errors.Is(d, errDown) != (d.Cause != nil)) {
			t.Errorf("%v wraps %v", d, d.Unwrap())
		}
	}
}

// TestObserve checks that Observe gets each decision with its name, once for each rule.
func TestObserve(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var events []string
		system := rule(t, policy.Config{Name: "system", Limits: limits("9/h")})
		r := registry(t, guard.Config{
			Functions: &guard.Functions{System: &system},
			Observe: func(_ context.Context, name string, e enforce.Event) {
				events = append(events, fmt.Sprint(name, " ", e.Policy.Name(), " ", e.Outcome, " ", e.Cost, " ", e.Key))
			},
		})
		passed(t, r.MustGuard(guard.Resource{Name: "f", Limits: limits("1/h")}), "k", 2)
		if e, err := r.Enter(context.Background(), "r", ""); err == nil {
			e.Exit(nil)
		}
		want := []string{
			"f system admitted 1 system|6:system", "f f admitted 1 f|1:k",
			"f system held 1 system|6:system", "f f denied 1 f|1:k",
			"r system admitted 1 system|6:system",
		}
		if !slices.Equal(events, want) {
			t.Errorf("events %q, want %q", events, want)
		}
	})
}

// TestConcurrentCalls checks that concurrent calls get exactly the limit.
func TestConcurrentCalls(t *testing.T) {
	g := registry(t, guard.Config{}).MustGuard(guard.Resource{Name: "f", Limits: limits("100/h", "1000/24h")})
	var n atomic.Int64
	var wg sync.WaitGroup
	for range 8 {
		wg.Go(func() {
			for range 100 {
				if e, err := g.Enter(context.Background(), ""); err == nil {
					n.Add(1)
					e.Exit(nil)
				}
			}
		})
	}
	if wg.Wait(); n.Load() != 100 {
		t.Errorf("%d of 800 pass, want 100", n.Load())
	}
}

// TestLostResponse checks that a reservation whose response was lost is given back.
func TestLostResponse(t *testing.T) {
	for _, answered := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			s := &lossy{Store: fakestore.Memory(t)}
			g := registry(t, guard.Config{Store: s}).MustGuard(guard.Resource{Name: "f", Limits: limits("1 concurrency"), HandlesStoreError: answered})
			s.loses = true
			e, err := g.Enter(context.Background(), "")
			if guard.FailsOpen(err) != answered {
				t.Fatalf("Enter = %v", err)
			}
			e.Exit(nil)
			if s.loses = false; !free(t, g) {
				t.Errorf("answered %v: the slot is lost", answered)
			}
		})
	}
}

// TestHandledErrorTakesNothing checks that a call whose store error is handled takes nothing in
// shadow mode.
func TestHandledErrorTakesNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var events []enforce.Outcome
		r := registry(t, guard.Config{
			Store:     &partly{Store: fakestore.Memory(t), down: "f|"},
			Functions: functions(rule(t, policy.Config{Name: "f", Limits: limits("9/h"), Candidate: limits("1/h")})),
			Observe: func(_ context.Context, _ string, e enforce.Event) {
				if e.Shadow {
					events = append(events, e.Outcome)
				}
			},
		})
		g := r.MustGuard(guard.Resource{Name: "f", HandlesStoreError: true})
		for range 3 {
			if _, err := g.Enter(context.Background(), ""); !guard.FailsOpen(err) {
				t.Fatalf("Enter = %v, want undecided", err)
			}
		}
		if want := []enforce.Outcome{enforce.Admitted, enforce.Admitted, enforce.Admitted}; !slices.Equal(events, want) {
			t.Errorf("events of the candidate %v, want %v", events, want)
		}
	})
}

// TestOwnMemory checks that a registry keeps its own memory store.
func TestOwnMemory(t *testing.T) {
	r := registry(t, guard.Config{})
	g := r.MustGuard(guard.Resource{Name: "f", Limits: limits("2/h")})
	if got := passed(t, g, "k", 1); got != 1 {
		t.Fatal("denied at once")
	}
	configure(t, r, guard.Config{Store: fakestore.Memory(t)})
	if got := passed(t, g, "k", 9); got != 2 {
		t.Errorf("%d pass in another store, want 2", got)
	}
	configure(t, r, guard.Config{})
	if got := passed(t, g, "k", 9); got != 1 {
		t.Errorf("%d pass, want the one that was left in the registry's own store", got)
	}
}
