package guard_test

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"testing"
	"testing/synctest"
	"time"

	"github.com/floodweir/weir"
	"github.com/floodweir/weir/guard"
	"github.com/floodweir/weir/policy"
)

// one is a guard of one call an hour for each key, whose store is down if err is not nil.
func one(t testing.TB, err error, mode policy.FailMode) (*guard.Guard, *guard.Registry) {
	t.Helper()
	c := guard.Config{Functions: functions(rule(t, policy.Config{Name: "f", Limits: limits("1/h"), OnStoreError: mode}))}
	if err != nil {
		c.Store = &broken{down: err}
	}
	r := registry(t, c)
	return r.MustGuard(guard.Resource{Name: "f"}), r
}

// TestDenied checks that a fallback goes before a value, and a value before the error.
func TestDenied(t *testing.T) {
	value := "value"
	fallback := func(_ context.Context, a string, denied error) (string, error) {
		if !errors.Is(denied, guard.ErrDenied) {
			t.Errorf("the fallback got %v", denied)
		}
		return "fallback of " + a, errDown
	}
	for _, tc := range []struct {
		o    guard.FuncOptions[string, string]
		want string
	}{
		{guard.FuncOptions[string, string]{Fallback: fallback, Value: &value}, "fallback of k store down"},
		{guard.FuncOptions[string, string]{Value: &value}, "value <nil>"},
		{guard.FuncOptions[string, string]{}, " rate limit exceeded: f: retry after 1h0m0s"},
	} {
		synctest.Test(t, func(t *testing.T) {
			g, r := one(t, nil, policy.Open)
			tc.o.Key = func(a string) string { return a }
			f := guard.Func(g, func(_ context.Context, a string) (string, error) { return "called by " + a, nil }, tc.o)
			for i, want := range []string{"called by k <nil>", tc.want, tc.want} {
				s, err := f(context.Background(), "k")
				if got := fmt.Sprint(s, " ", err); got != want {
					t.Errorf("call %d = %s, want %s", i, got, want)
				}
			}
			if s, err := f(context.Background(), "l"); s != "called by l" || err != nil {
				t.Errorf("another key: %s, %v", s, err)
			}
			if s := r.Live()[0]; s.Failed != 0 || s.Passed != 2 || s.Denied != 2 || s.Running != 0 {
				t.Errorf("Live = %+v, want 2 passed and no failure", s)
			}
		})
	}
}

// TestOnError checks that error handlers run in order, before the rule decides.
func TestOnError(t *testing.T) {
	type link = func(context.Context, string, error) (string, error)
	next := func(_ context.Context, _ string, err error) (string, error) {
		if !errors.Is(err, errDown) {
			t.Errorf("a link got %v", err)
		}
		return "ignored", fmt.Errorf("not here: %w", guard.Next)
	}
	answers := func(_ context.Context, a string, _ error) (string, error) { return "answer for " + a, nil }
	fails := func(context.Context, string, error) (string, error) { return "", errors.New("failed") }
	unasked := func(context.Context, string, error) (string, error) {
		t.Error("asked after an answer")
		return "", nil
	}
	for _, tc := range []struct {
		mode  policy.FailMode
		links []link
		want  string
	}{
		{policy.Open, nil, "called <nil>"},
		{policy.Closed, nil, " guard: f: no decision: store down"},
		{policy.Open, []link{next, next}, "called <nil>"},
		{policy.Closed, []link{next}, " guard: f: no decision: store down"},
		{policy.Open, []link{next, answers, unasked}, "answer for k <nil>"},
		{policy.Closed, []link{next, answers, unasked}, "answer for k <nil>"},
		{policy.Open, []link{next, fails, unasked}, " failed"},
	} {
		g, _ := one(t, errDown, tc.mode)
		unused := "value"
		f := guard.Func(g, func(context.Context, string) (string, error) { return "called", nil }, guard.FuncOptions[string, string]{OnError: tc.links, Value: &unused})
		s, err := f(context.Background(), "k")
		if got := fmt.Sprint(s, " ", err); got != tc.want {
			t.Errorf("%s, %d links: %s, want %s", tc.mode, len(tc.links), got, tc.want)
		}
	}
	g, _ := one(t, errDown, policy.Open)
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	f := guard.Func(g, func(context.Context, string) (string, error) { return "called", nil }, guard.FuncOptions[string, string]{OnError: []link{unasked}})
	if s, err := f(ctx, "k"); s != "called" || err != nil {
		t.Errorf("with an ended context: %q, %v, want on_store_error to decide alone", s, err)
	}
}

// TestOutcome checks that a call ends with what the function returned, or as failed if it did
// not.
func TestOutcome(t *testing.T) {
	r := registry(t, guard.Config{})
	g := r.MustGuard(guard.Resource{Name: "f", Limits: limits("1 concurrency")})
	f := guard.Func(g, func(_ context.Context, how string) (int, error) {
		switch how {
		case "fails":
			return 0, errDown
		case "panics":
			panic("at the disco")
		case "exits":
			runtime.Goexit()
		}
		return 7, nil
	}, guard.FuncOptions[string, int]{})
	for _, how := range []string{"returns", "fails", "panics", "exits"} {
		done := make(chan string)
		go func() {
			got := "nothing"
			defer func() {
				if p := recover(); p != nil {
					got = fmt.Sprint(p)
				}
				done <- got
			}()
			n, err := f(context.Background(), how)
			got = fmt.Sprint(n, err)
		}()
		want := map[string]string{"returns": "7 <nil>", "fails": "0 store down", "panics": "at the disco", "exits": "nothing"}[how]
		if got := <-done; got != want {
			t.Errorf("%s: %s, want %s", how, got, want)
		}
		if !free(t, g) {
			t.Fatalf("%s: the slot is still held", how)
		}
	}
	if s := r.Live()[0]; s.Failed != 3 || s.Running != 0 {
		t.Errorf("Live = %+v, want 3 failed", s)
	}
}

// TestShapes checks that functions of every shape are limited alike.
func TestShapes(t *testing.T) {
	type shape struct {
		name string
		make func(g *guard.Guard) func(k string) error
	}
	bg := context.Background()
	stand := "stand-in"
	ok := func(s string, err error) error {
		if s != "called" {
			return errors.Join(errors.New(s), err)
		}
		return err
	}
	kept := func(s string) error { return fmt.Errorf("%s: %w", s, guard.ErrDenied) }
	shapes := []shape{
		{"Func", func(g *guard.Guard) func(string) error {
			f := guard.Func(g, func(context.Context, string) (string, error) { return "called", nil }, guard.FuncOptions[string, string]{
				Key: func(a string) string { return a }, Cost: func(string) int64 { return 2 },
				Fallback: func(_ context.Context, _ string, err error) (string, error) { return "", kept("fallback") },
				OnError:  []func(context.Context, string, error) (string, error){func(context.Context, string, error) (string, error) { return "", errors.New("link") }},
			})
			return func(k string) error { return ok(f(bg, k)) }
		}},
		{"Action", func(g *guard.Guard) func(string) error {
			f := guard.Action(g, func(context.Context, string) error { return nil }, guard.ActionOptions[string]{
				Key: func(a string) string { return a }, Cost: func(string) int64 { return 2 },
				Fallback: func(_ context.Context, _ string, err error) error { return kept("fallback") },
				OnError:  []func(context.Context, string, error) error{func(context.Context, string, error) error { return errors.New("link") }},
			})
			return func(k string) error { return f(bg, k) }
		}},
		{"Plain", func(g *guard.Guard) func(string) error {
			f := guard.MustPlain(g, func(string) string { return "called" }, guard.PlainOptions[string, string]{
				Key: func(a string) string { return a }, Cost: func(string) int64 { return 2 }, Value: &stand,
				Fallback: func(_ string, err error) string {
					if errors.Is(err, guard.ErrDenied) {
						return "fallback"
					}
					return err.Error()
				},
				OnError: []func(string, error) (string, error){func(string, error) (string, error) { return "", errors.New("link") }},
			})
			return func(k string) error {
				switch s := f(k); s {
				case "called":
					return nil
				case "fallback":
					return kept(s)
				default:
					return errors.New(s)
				}
			}
		}},
	}
	for _, s := range shapes {
		t.Run(s.name, func(t *testing.T) {
			f := s.make(registry(t, guard.Config{}).MustGuard(guard.Resource{Name: "f", Limits: limits("4/h")}))
			for i, want := range []string{"<nil>", "<nil>", "fallback: guard: denied"} {
				err := f("k")
				if got := fmt.Sprint(err); len(got) < len(want) || got[len(got)-len(want):] != want {
					t.Errorf("call %d: %v, want %s", i, err, want)
				}
			}
			down, _ := one(t, errDown, policy.Open)
			if err := s.make(down)("k"); err == nil || err.Error()[max(0, len(err.Error())-4):] != "link" {
				t.Errorf("with a store that is down: %v, want what the link fails with", err)
			}
		})
	}
}

// TestPlainOptions checks the options that Plain refuses.
func TestPlainOptions(t *testing.T) {
	g, _ := one(t, nil, policy.Open)
	f := func(int) int { return 1 }
	value := 2
	good := guard.PlainOptions[int, int]{Value: &value}
	for _, tc := range []struct {
		g    *guard.Guard
		f    func(int) int
		o    guard.PlainOptions[int, int]
		want string
	}{
		{nil, f, good, "guard: invalid: want a guard of Registry.Guard, got nil"},
		{g, nil, good, "guard: invalid: want a function to limit, got nil"},
		{g, f, guard.PlainOptions[int, int]{}, "guard: f: invalid: got neither Fallback nor Value, want one, because the function returns no error"},
	} {
		if _, err := guard.Plain(tc.g, tc.f, tc.o); fmt.Sprint(err) != tc.want || !errors.Is(err, weir.ErrInvalid) {
			t.Errorf("Plain = %v, want %s", err, tc.want)
		}
	}
	limited, err := guard.Plain(g, f, good)
	if err != nil {
		t.Fatal(err)
	}
	if a, b := limited(0), limited(0); a != 1 || b != 2 {
		t.Errorf("%d, then %d, want 1, then the value", a, b)
	}
	defer func() {
		if p := recover(); p == nil {
			t.Error("MustPlain does not panic")
		}
	}()
	guard.MustPlain(g, f, guard.PlainOptions[int, int]{})
}

// TestNothingToLimit checks that every call fails without a guard or a function.
func TestNothingToLimit(t *testing.T) {
	g, _ := one(t, nil, policy.Open)
	bg := context.Background()
	f := func(context.Context, int) (int, error) { return 1, nil }
	_, noGuard := guard.Func(nil, f, guard.FuncOptions[int, int]{})(bg, 1)
	_, noFunc := guard.Func(g, nil, guard.FuncOptions[int, int]{})(bg, 1)
	noAction := guard.Action[int](g, nil, guard.ActionOptions[int]{})(bg, 1)
	_, negative := guard.Func(g, f, guard.FuncOptions[int, int]{Cost: func(int) int64 { return -1 }})(bg, 1)
	for i, err := range []error{noGuard, noFunc, noAction, negative} {
		if !errors.Is(err, weir.ErrInvalid) {
			t.Errorf("%d: %v, want an error that wraps ErrInvalid", i, err)
		}
	}
	if got := passed(t, g, "", 1); got != 1 {
		t.Error("an invalid call took something")
	}
}

// TestFuncWaits checks that a wrapped function waits as long as its resource says.
func TestFuncWaits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := registry(t, guard.Config{}).MustGuard(guard.Resource{Name: "f", Limits: limits("1/s"), Wait: time.Second})
		f := guard.MustPlain(g, func(time.Time) time.Duration { return 0 }, guard.PlainOptions[time.Time, time.Duration]{Value: new(time.Duration)})
		start := time.Now()
		for range 4 {
			f(start)
		}
		if got := time.Since(start); got != 3*time.Second {
			t.Errorf("4 calls took %v, want 3s", got)
		}
	})
}

// TestAllErrors checks that error handlers get the errors that the function returns if
// AllErrors is set, and that the outcome of the call is that of the function.
func TestAllErrors(t *testing.T) {
	errMine, errOther := errors.New("mine"), errors.New("other")
	for _, tc := range []struct {
		all  bool
		err  error
		want string
	}{
		{true, nil, "result <nil>"},
		{true, errMine, "handled <nil>"},
		{true, errOther, "result other"},
		{true, errDown, " failed"},
		{false, errMine, "result mine"},
	} {
		r := registry(t, guard.Config{Functions: functions(rule(t, policy.Config{Name: "f", Limits: limits("9/h"), Count: policy.CountFailures}))})
		g := r.MustGuard(guard.Resource{Name: "f", Limits: limits("9/h")})
		f := guard.Func(g, func(context.Context, string) (string, error) { return "result", tc.err }, guard.FuncOptions[string, string]{
			AllErrors: tc.all,
			OnError: []func(context.Context, string, error) (string, error){
				func(_ context.Context, _ string, err error) (string, error) {
					if err == errMine {
						return "handled", nil
					}
					return "dropped", guard.Next
				},
				func(_ context.Context, _ string, err error) (string, error) {
					if err == errDown {
						return "", errors.New("failed")
					}
					return "", fmt.Errorf("not here: %w", guard.Next)
				},
			},
		})
		s, err := f(context.Background(), "k")
		if got := fmt.Sprint(s, " ", err); got != tc.want {
			t.Errorf("%+v: %s, want %s", tc, got, tc.want)
		}
		if s := r.Live()[0]; s.Passed != 1 || (s.Failed == 1) != (tc.err != nil) || s.Running != 0 {
			t.Errorf("%+v: %+v, want the outcome of the function", tc, s)
		}
	}
	a := guard.Action(registry(t, guard.Config{}).MustGuard(guard.Resource{Name: "f"}), func(context.Context, int) error { return errMine }, guard.ActionOptions[int]{
		AllErrors: true, OnError: []func(context.Context, int, error) error{func(context.Context, int, error) error { return nil }},
	})
	if err := a(context.Background(), 1); err != nil {
		t.Errorf("Action: %v, want it handled", err)
	}
}
