package failsafe_test

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/floodweir/weir"
	"github.com/floodweir/weir/contrib/failsafe"
	"github.com/floodweir/weir/guard"
	"github.com/floodweir/weir/protect"
)

var errDown = errors.New("down")

func protection(t *testing.T, s guard.Settings) guard.Protection {
	t.Helper()
	all, err := failsafe.New("f", s)
	if err != nil {
		t.Fatal(err)
	}
	if len(all) != 1 {
		t.Fatalf("%d protections, want 1", len(all))
	}
	return all[0]
}

// call is one call that takes a while and returns err.
func call(w guard.Protection, takes time.Duration, err error) error {
	exit, refused := w.Enter(context.Background(), "k")
	if refused != nil {
		return refused
	}
	<-time.After(takes)
	exit(err)
	return nil
}

func TestBreaker(t *testing.T) {
	for _, tc := range []struct {
		name  string
		b     guard.Breaker
		calls []error // nil succeeds
		state string
	}{
		{"failures in a row", guard.Breaker{Failures: 3}, []error{errDown, errDown, errDown}, "open"},
		{"one too few", guard.Breaker{Failures: 3}, []error{errDown, errDown, nil, errDown, errDown}, "closed"},
		{"failures of the last", guard.Breaker{Failures: 3, Of: 5}, []error{errDown, nil, errDown, nil, errDown}, "open"},
		{"callers that leave", guard.Breaker{Failures: 1}, []error{context.Canceled}, "closed"},
		{"rate, too few calls", guard.Breaker{Rate: 50, Of: 4, Period: time.Minute}, []error{errDown, errDown, errDown}, "closed"},
		{"failures in a period", guard.Breaker{Failures: 3, Period: time.Minute}, []error{errDown, nil, errDown, nil, nil, errDown}, "open"},
		{"failures in several periods", guard.Breaker{Failures: 3, Period: time.Millisecond}, []error{errDown, errDown, errDown}, "closed"},
		{"rate", guard.Breaker{Rate: 50, Of: 4, Period: time.Minute}, []error{nil, errDown, nil, errDown}, "open"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := protection(t, guard.Settings{Breaker: &tc.b})
				for i, err := range tc.calls {
					if refused := call(w, time.Millisecond, err); refused != nil {
						t.Fatalf("call %d refused: %v", i, refused)
					}
				}
				if got := w.State(); got != tc.state {
					t.Errorf("State() = %s, want %s", got, tc.state)
				}
			})
		})
	}
}

// TestBreakerTries checks that a breaker opens, refuses until it has cooled down, admits its
// trials, and closes if they succeed.
func TestBreakerTries(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := protection(t, guard.Settings{Breaker: &guard.Breaker{Failures: 1, Slow: time.Second, Cooldown: 10 * time.Second, Trials: 2}})
		if err := call(w, time.Second, nil); err != nil {
			t.Fatal(err)
		}
		var refused *failsafe.Refused
		err := call(w, 0, nil)
		if !errors.As(err, &refused) || !errors.Is(err, failsafe.ErrOpen) || refused.RetryAfter != 10*time.Second {
			t.Fatalf("after a slow call: %v, want refused for 10s", err)
		}
		if want := "circuit breaker open: retry after 10s"; err.Error() != want {
			t.Errorf("error = %q, want %q", err, want)
		}
		open := func() time.Duration { return w.(protect.Measured).Read().Open }
		if time.Sleep(7 * time.Second); open() != 3*time.Second {
			t.Errorf("Open = %v after 7 s, want 3s", open())
		}
		if time.Sleep(4 * time.Second); open() != 0 {
			t.Errorf("Open = %v after 11 s, want 0", open())
		}
		if err := call(w, 0, errDown); err != nil {
			t.Fatalf("no call may try: %v", err)
		}
		if err := call(w, 0, nil); !errors.Is(err, failsafe.ErrOpen) {
			t.Fatalf("after a failed trial: %v, want open", err)
		}
		time.Sleep(10 * time.Second)
		for i := range 2 {
			if err := call(w, 0, nil); err != nil {
				t.Fatalf("trial %d: %v", i, err)
			}
		}
		if w.State() != "closed" {
			t.Errorf("State() = %s after two good trials, want closed", w.State())
		}
	})
}

// TestBreakerTurns checks that calls that began before the breaker opened are no trials,
// whatever their result.
func TestBreakerTurns(t *testing.T) {
	for _, late := range []error{nil, errDown, context.Canceled} {
		synctest.Test(t, func(t *testing.T) {
			w := protection(t, guard.Settings{Breaker: &guard.Breaker{Failures: 1, Cooldown: time.Second}})
			enter := func() func(error) {
				t.Helper()
				exit, err := w.Enter(context.Background(), "")
				if err != nil {
					t.Fatal(err)
				}
				return exit
			}
			first, second := enter(), enter()
			first(errDown)
			time.Sleep(time.Second)
			trial := enter()
			second(late)
			if got := w.State(); got != "half-open" {
				t.Errorf("State() = %s after a call from before returned %v, want half-open", got, late)
			}
			if _, err := w.Enter(context.Background(), ""); !errors.Is(err, failsafe.ErrOpen) {
				t.Errorf("beside the trial: %v, want refused", err)
			}
			trial(nil)
			if got := w.State(); got != "closed" {
				t.Errorf("State() = %s after the trial, want closed", got)
			}
		})
	}
}

// TestBreakerCalledOff checks that a canceled trial neither fails nor succeeds, and that the
// next call can take its place.
func TestBreakerCalledOff(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := protection(t, guard.Settings{Breaker: &guard.Breaker{Failures: 1, Cooldown: time.Second, Trials: 2}})
		if err := call(w, 0, errDown); err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Second)
		for range 3 {
			if err := call(w, 0, guard.ErrCanceled); err != nil {
				t.Fatal(err)
			}
		}
		if got := w.State(); got != "half-open" {
			t.Errorf("State() = %s after trials that were called off, want half-open", got)
		}
		var exits []func(error)
		for range 2 {
			exit, err := w.Enter(context.Background(), "")
			if err != nil {
				t.Fatal(err)
			}
			exits = append(exits, exit)
		}
		if _, err := w.Enter(context.Background(), ""); !errors.Is(err, failsafe.ErrOpen) {
			t.Errorf("a third trial of two: %v, want refused", err)
		}
		for _, exit := range exits {
			exit(nil)
		}
		if err := call(w, 0, guard.ErrCanceled); err != nil || w.State() != "closed" {
			t.Errorf("%v, State() = %s, want closed", err, w.State())
		}
	})
}

// TestBreakerOfTheSystem checks that a call that a protection of its own rule refuses does not
// open the breaker of the system.
func TestBreakerOfTheSystem(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r, err := guard.NewRegistry(guard.Config{Protections: failsafe.New, Functions: &guard.Functions{
			System: &guard.Rule{Settings: guard.Settings{Breaker: &guard.Breaker{Failures: 1, Cooldown: time.Second}}},
			Rules:  []guard.Rule{{Name: "f", Settings: guard.Settings{Bulkhead: &guard.Bulkhead{Max: 1}}}},
		}})
		if err != nil {
			t.Fatal(err)
		}
		enter := func(name string) (*guard.Entry, error) { return r.Enter(context.Background(), name, "") }
		held, _ := enter("f")
		defer held.Exit(nil)
		e, _ := enter("g")
		e.Exit(errDown)
		time.Sleep(time.Second)
		if _, err := enter("f"); !errors.Is(err, failsafe.ErrFull) {
			t.Fatalf("the second of one: %v, want full", err)
		}
		if e, err := enter("g"); err != nil {
			t.Errorf("the next: %v, want a trial", err)
		} else {
			e.Exit(nil)
		}
	})
}

func TestBulkhead(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := protection(t, guard.Settings{Bulkhead: &guard.Bulkhead{Max: 2, MaxWaiters: 1, Wait: time.Second}})
		var wg sync.WaitGroup
		start := time.Now()
		took := make([]time.Duration, 4)
		errs := make([]error, 4)
		for i := range 4 {
			wg.Go(func() {
				errs[i] = call(w, 500*time.Millisecond, nil)
				took[i] = time.Since(start)
			})
			synctest.Wait()
		}
		if got, want := w.State(), "2 of 2, 1 waiting"; got != want {
			t.Errorf("State() = %q, want %q", got, want)
		}
		wg.Wait()
		if errs[0] != nil || errs[1] != nil || errs[2] != nil || took[2] != time.Second {
			t.Errorf("calls = %v in %v, want the third to wait for a place", errs, took)
		}
		if !errors.Is(errs[3], failsafe.ErrFull) || took[3] != 0 {
			t.Errorf("fourth call = %v in %v, want refused at once", errs[3], took[3])
		}
		for range 2 {
			wg.Go(func() { _ = call(w, 2*time.Second, nil) })
		}
		synctest.Wait()
		if err := call(w, 0, nil); !errors.Is(err, failsafe.ErrFull) {
			t.Errorf("who waited in vain: %v, want full", err)
		}
		ctx, cancel := context.WithCancelCause(context.Background())
		wg.Go(func() {
			if _, err := w.Enter(ctx, ""); !errors.Is(err, errDown) {
				t.Errorf("who left: %v, want the cause", err)
			}
		})
		synctest.Wait()
		cancel(errDown)
		wg.Wait()
		if got, want := w.State(), "0 of 2, 0 waiting"; got != want {
			t.Errorf("State() = %q, want %q", got, want)
		}
	})
}

// TestAdaptiveWaits checks that a call above the adaptive limit waits in the queue of the
// bulkhead, and is refused when its time is over or its context ends.
func TestAdaptiveWaits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		all, err := failsafe.New("f", guard.Settings{
			Adaptive: &guard.Adaptive{Min: 1, Max: 1, Initial: 1},
			Bulkhead: &guard.Bulkhead{Max: 2, MaxWaiters: 5, Wait: time.Second},
		})
		if err != nil {
			t.Fatal(err)
		}
		w := all[1]
		first, err := w.Enter(context.Background(), "")
		if err != nil {
			t.Fatal(err)
		}
		go func() {
			time.Sleep(300 * time.Millisecond)
			first(nil)
		}()
		began := time.Now()
		second, err := w.Enter(context.Background(), "")
		if err != nil || time.Since(began) != 300*time.Millisecond {
			t.Fatalf("second call after %v: %v, want let in after 300ms", time.Since(began), err)
		}
		began = time.Now()
		if _, err := w.Enter(context.Background(), ""); !errors.Is(err, failsafe.ErrSaturated) || time.Since(began) != time.Second {
			t.Errorf("third call after %v: %v, want refused after 1s", time.Since(began), err)
		}
		gone, cancel := context.WithCancel(context.Background())
		cancel()
		if _, err := w.Enter(gone, ""); !errors.Is(err, context.Canceled) {
			t.Errorf("a canceled call = %v, want context.Canceled", err)
		}
		second(nil)
		if got, want := w.State(), "0 of 1"; got != want {
			t.Errorf("State() = %q, want %q", got, want)
		}
	})
}

func TestAdaptive(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := protection(t, guard.Settings{Adaptive: &guard.Adaptive{Min: 1, Max: 10, Initial: 3}})
		var exits []func(error)
		for i := range 3 {
			exit, err := w.Enter(context.Background(), "")
			if err != nil {
				t.Fatalf("call %d: %v", i, err)
			}
			exits = append(exits, exit)
		}
		if _, err := w.Enter(context.Background(), ""); !errors.Is(err, failsafe.ErrSaturated) {
			t.Errorf("fourth call = %v, want refused", err)
		}
		if got, want := w.State(), "3 of 3"; got != want {
			t.Errorf("State() = %q, want %q", got, want)
		}
		exits[0](nil)
		exits[1](errDown)
		exits[2](nil)
		if got, want := w.State(), "0 of 3"; got != want {
			t.Errorf("State() = %q, want %q", got, want)
		}
	})
}

func TestOrder(t *testing.T) {
	all, err := failsafe.New("f", guard.Settings{
		Breaker: &guard.Breaker{Failures: 1}, Adaptive: &guard.Adaptive{Min: 1, Max: 1, Initial: 1}, Bulkhead: &guard.Bulkhead{Max: 1},
	})
	if err != nil {
		t.Fatal(err)
	}
	names := ""
	for _, w := range all {
		names += w.Name() + " "
	}
	if want := "bulkhead adaptive breaker "; names != want {
		t.Errorf("all = %s, want %s", names, want)
	}
	if all, err := failsafe.New("f", guard.Settings{}); len(all) != 0 || err != nil {
		t.Errorf("New of nothing = %v, %v", all, err)
	}
}

// TestForRequests checks the order before rate limits, and the shadow mode of each protection.
func TestForRequests(t *testing.T) {
	for _, shadow := range []bool{false, true} {
		all, err := failsafe.ForRequests("f", guard.Settings{
			Breaker:  &guard.Breaker{Failures: 1, Shadow: shadow},
			Bulkhead: &guard.Bulkhead{Max: 1, Wait: time.Minute, Shadow: shadow},
			Adaptive: &guard.Adaptive{Min: 1, Max: 1, Initial: 1, Shadow: shadow},
		})
		if err != nil {
			t.Fatal(err)
		}
		names := ""
		for _, p := range all {
			names += p.Name() + " "
		}
		if want := "breaker bulkhead adaptive "; names != want {
			t.Errorf("all = %s, want %s", names, want)
		}
		if !shadow {
			continue
		}
		synctest.Test(t, func(t *testing.T) {
			var refused []string
			chain := protect.New(protect.Config{Protections: all, Observe: func(name string, shadow bool) {
				refused = append(refused, fmt.Sprint(name, shadow))
			}})
			start := time.Now()
			for range 2 { // fails, and opens the breaker; the slots stay in use
				_, pass, err := chain.Enter(context.Background(), "")
				if err != nil {
					t.Fatal(err)
				}
				pass.Respond(errDown)
			}
			if want := []string{"breakertrue", "bulkheadtrue"}; !slices.Equal(refused, want) || time.Since(start) > 0 {
				t.Errorf("refused in shadow: %v after %v, want %v without a wait", refused, time.Since(start), want)
			}
		})
	}
}

func TestInvalid(t *testing.T) {
	for want, s := range map[string]guard.Settings{
		"failsafe: f: breaker: invalid: want failures, or rate or slow rate or both, got failures 0, rate 0, slow rate 0": {Breaker: &guard.Breaker{}},
		"failsafe: f: breaker: invalid: want failures, or rate or slow rate or both, got failures 1, rate 1, slow rate 0": {Breaker: &guard.Breaker{Failures: 1, Rate: 1}},
		"failsafe: f: breaker: invalid: want failures, or rate or slow rate or both, got failures 1, rate 0, slow rate 5": {Breaker: &guard.Breaker{Failures: 1, SlowRate: 5}},
		"failsafe: f: breaker.slow_rate: invalid: want 1 to 100, got 101":                                                 {Breaker: &guard.Breaker{SlowRate: 101, Slow: 1, Period: 1}},
		"failsafe: f: breaker.slow: invalid: want from when a call is slow, such as 1s, with slow rate, got 0s":           {Breaker: &guard.Breaker{SlowRate: 1, Period: 1}},
		"failsafe: f: breaker.rate: invalid: want 1 to 100, got 101":                                                      {Breaker: &guard.Breaker{Rate: 101, Period: 1}},
		"failsafe: f: breaker: invalid: want one of of and period, with failures, got of 5 and period 1s":                 {Breaker: &guard.Breaker{Failures: 5, Of: 5, Period: time.Second}},
		"failsafe: f: breaker.of: invalid: want at least failures, 5, got 4":                                              {Breaker: &guard.Breaker{Failures: 5, Of: 4}},
		"failsafe: f: breaker.period: invalid: want how long a call counts, such as 10s, with a rate, got 0s":             {Breaker: &guard.Breaker{Rate: 10}},
		"failsafe: f: breaker: invalid: want no negative time, got period 0s, slow -1ns, cooldown 0s":                     {Breaker: &guard.Breaker{Failures: 1, Slow: -1}},
		"failsafe: f: breaker: invalid: want no negative number, got failures -1, of 0, trials 0":                         {Breaker: &guard.Breaker{Failures: -1}},
		"failsafe: f: adaptive: invalid: want at least 1, in that order of size, got min 0, initial 0, max 0":             {Adaptive: &guard.Adaptive{}},
		"failsafe: f: adaptive: invalid: want at least 1, in that order of size, got min 2, initial 1, max 3":             {Adaptive: &guard.Adaptive{Min: 2, Initial: 1, Max: 3}},
		"failsafe: f: bulkhead.max: invalid: want at least 1, got 0":                                                      {Bulkhead: &guard.Bulkhead{}},
		"failsafe: f: bulkhead: invalid: want no negative number, got max_waiters 0, wait -1ns":                           {Bulkhead: &guard.Bulkhead{Max: 1, Wait: -1}},
	} {
		if _, err := failsafe.New("f", s); err == nil || err.Error() != want || !errors.Is(err, weir.ErrInvalid) {
			t.Errorf("New = %v, want %s", err, want)
		}
	}
}

// TestBreakerSlowRate checks that slow calls are counted apart from failures, in the same period,
// and that a slow trial fails.
func TestBreakerSlowRate(t *testing.T) {
	const fast, slow = time.Millisecond, time.Second
	for _, tc := range []struct {
		name  string
		b     guard.Breaker
		calls []time.Duration // negative: the call fails
		want  string
	}{
		{"at the rate", guard.Breaker{SlowRate: 50, Of: 4}, []time.Duration{fast, slow, fast, slow}, "open"},
		{"too few calls", guard.Breaker{SlowRate: 50, Of: 4}, []time.Duration{slow, slow, slow}, "closed"},
		{"below the rate", guard.Breaker{SlowRate: 50, Of: 4}, []time.Duration{slow, fast, fast, fast, slow}, "closed"},
		{"failures do not count", guard.Breaker{SlowRate: 50, Of: 2}, []time.Duration{-fast, -fast, -fast}, "closed"},
		{"slow failures are slow", guard.Breaker{SlowRate: 50, Of: 2}, []time.Duration{-slow, -slow}, "open"},
		{"slow calls are no failures", guard.Breaker{Rate: 10, SlowRate: 90, Of: 4}, []time.Duration{fast, slow, slow, fast}, "closed"},
		{"failures beside it", guard.Breaker{Rate: 50, SlowRate: 90, Of: 4}, []time.Duration{fast, fast, -fast, -fast}, "open"},
		{"out of the period", guard.Breaker{SlowRate: 50, Of: 2, Period: time.Second}, []time.Duration{slow, slow, slow}, "closed"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				tc.b.Slow, tc.b.Period = slow, cmp.Or(tc.b.Period, time.Minute)
				w := protection(t, guard.Settings{Breaker: &tc.b})
				for i, takes := range tc.calls {
					var err error
					if takes < 0 {
						takes, err = -takes, errDown
					}
					if refused := call(w, takes, err); refused != nil {
						t.Fatalf("call %d refused: %v", i, refused)
					}
				}
				if got := w.State(); got != tc.want {
					t.Errorf("State() = %s, want %s", got, tc.want)
				}
			})
		})
	}
	synctest.Test(t, func(t *testing.T) {
		w := protection(t, guard.Settings{Breaker: &guard.Breaker{Slow: slow, SlowRate: 100, Of: 2, Period: time.Hour, Cooldown: time.Second}})
		for i, step := range []struct {
			takes time.Duration
			err   error
			want  string
		}{
			{slow, nil, "closed"}, {slow, nil, "open"},
			{slow, nil, "open"},                // a slow trial
			{fast, context.Canceled, "open"},   // a trial that proves nothing
			{fast, errDown, "closed"},          // failures do not count
			{slow, nil, "closed"},              // those before it opened are forgotten
			{slow, context.Canceled, "closed"}, // and of a canceled call nothing is known
			{slow, protect.ErrCanceled, "closed"},
			{slow, nil, "open"},
		} {
			time.Sleep(time.Second)
			if err := call(w, step.takes, step.err); err != nil {
				t.Fatalf("step %d refused: %v", i, err)
			}
			if got := w.State(); got != step.want {
				t.Errorf("step %d: State() = %s, want %s", i, got, step.want)
			}
		}
	})
}
