package guard_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/floodweir/weir/guard"
	"github.com/floodweir/weir/policy"
	"github.com/floodweir/weir/protect"
)

// fakeProtection records its calls.
type fakeProtection struct {
	name       string
	refuse     error
	panics     bool
	exitPanics bool
	hook       func() // called by Enter
	entered    int
	exits      []error
	log        *[]string
}

func (w *fakeProtection) Name() string  { return w.name }
func (w *fakeProtection) State() string { return fmt.Sprint(w.entered, " entered") }

func (w *fakeProtection) Read() protect.Reading {
	return protect.Reading{Open: time.Duration(w.entered) * time.Second}
}

func (w *fakeProtection) Enter(_ context.Context, key string) (func(error), error) {
	if w.panics {
		panic("protection")
	}
	if w.hook != nil {
		w.hook()
	}
	if w.refuse != nil {
		return nil, w.refuse
	}
	w.entered++
	if w.log != nil {
		*w.log = append(*w.log, w.name+" in "+key)
	}
	return func(err error) {
		w.exits = append(w.exits, err)
		if w.exitPanics {
			panic("protection")
		}
		if w.log != nil {
			*w.log = append(*w.log, w.name+" out")
		}
	}, nil
}

// protectionsByRule maps the names of rules to their protections.
type protectionsByRule map[string][]*fakeProtection

func (ps protectionsByRule) make(name string, _ guard.Settings) (made []guard.Protection, _ error) {
	for _, w := range ps[name] {
		made = append(made, w)
	}
	return made, nil
}

var breaker = guard.Settings{Breaker: &guard.Breaker{Failures: 3}}

// protected returns a guard f with a limit and protections, and its registry.
func protected(t *testing.T, limit string, ps ...*fakeProtection) (*guard.Guard, *guard.Registry) {
	r := registry(t, guard.Config{
		Protections: protectionsByRule{"f": ps}.make,
		Functions:   functions(guard.Rule{Name: "f", Settings: breaker}),
	})
	return r.MustGuard(guard.Resource{Name: "f", Limits: limits(limit)}), r
}

// TestProtections checks that protections are entered in order, after the limits, and exited in
// reverse order with the result of the call.
func TestProtections(t *testing.T) {
	var log []string
	a, b := &fakeProtection{name: "bulkhead", log: &log}, &fakeProtection{name: "breaker", log: &log}
	g, r := protected(t, "2/h", a, b)
	for i, err := range []error{nil, errDown} {
		e, denied := g.Enter(context.Background(), "k")
		if denied != nil {
			t.Fatalf("call %d: %v", i, denied)
		}
		e.Exit(err)
		e.Exit(errors.New("again"))
	}
	if _, err := g.Enter(context.Background(), "k"); !errors.Is(err, guard.ErrDenied) {
		t.Fatalf("the third of 2/h: %v", err)
	}
	once := []string{"bulkhead in k", "breaker in k", "breaker out", "bulkhead out"}
	if !slices.Equal(log, append(slices.Clone(once), once...)) {
		t.Errorf("protections recorded %q", log)
	}
	if !slices.Equal(b.exits, []error{nil, errDown}) {
		t.Errorf("exits of the breaker %v, want none for denied calls", b.exits)
	}
	s := r.Live()[0]
	if s.Protections["breaker"] != "2 entered" || s.BreakerOpen != 2*time.Second || s.Denied != 1 || s.Rule || len(s.Limits) != 1 {
		t.Errorf("Live = %+v", s)
	}
}

// TestProtectionRefuses checks that limits and other protections get back what a refused call took.
func TestProtectionRefuses(t *testing.T) {
	for _, limit := range []string{"1/h", "1/h fixed_window", "1/h sliding_log", "1 concurrency"} {
		synctest.Test(t, func(t *testing.T) {
			first, second := &fakeProtection{name: "bulkhead"}, &fakeProtection{name: "breaker", refuse: errDown}
			g, r := protected(t, limit, first, second)
			for range 3 {
				e, err := g.Enter(context.Background(), "")
				var d *guard.Denied
				if e != nil || !errors.As(err, &d) || !errors.Is(err, errDown) || !errors.Is(err, guard.ErrDenied) || !d.Decision.Limit.IsZero() {
					t.Fatalf("%s: Enter = %v, %v, want the error of the protection", limit, e, err)
				}
				if got, want := err.Error(), "call refused: f: breaker: store down"; got != want {
					t.Errorf("Error() = %q, want %q", got, want)
				}
			}
			if first.entered != 3 || len(first.exits) != 3 || !errors.Is(first.exits[0], guard.ErrCanceled) ||
				!errors.Is(first.exits[0], guard.ErrDenied) || !errors.Is(first.exits[0], context.Canceled) {
				t.Errorf("the bulkhead was entered %d times and exited with %v", first.entered, first.exits)
			}
			second.refuse = nil
			if got := passed(t, g, "", 1); got != 1 {
				t.Errorf("%s: what was refused was charged", limit)
			}
			if s := r.Live()[0]; s.Denied != 3 || s.Passed != 1 || s.Running != 0 {
				t.Errorf("Live = %+v", s)
			}
		})
	}
}

// TestProtectionPanics checks that a protection that panics holds nothing.
func TestProtectionPanics(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := &fakeProtection{name: "breaker", panics: true}
		g, _ := protected(t, "1 concurrency", w)
		func() {
			defer func() { _ = recover() }()
			_, _ = g.Enter(context.Background(), "")
			t.Error("no panic")
		}()
		w.panics = false
		if !free(t, g) {
			t.Error("the slot is still held")
		}
	})
}

// TestProtectionPanicsInExit checks that the other protections are exited if one panics.
func TestProtectionPanicsInExit(t *testing.T) {
	first, second, last := &fakeProtection{name: "bulkhead"}, &fakeProtection{name: "adaptive", exitPanics: true}, &fakeProtection{name: "breaker"}
	g, _ := protected(t, "9/h", first, second, last)
	call := func() {
		defer func() {
			if recover() == nil {
				t.Error("no panic")
			}
		}()
		e, _ := g.Enter(context.Background(), "")
		e.Exit(errDown)
	}
	call()
	last.refuse = errDown
	call()
	if len(first.exits) != 2 || first.exits[0] != errDown || first.exits[1] != guard.ErrCanceled {
		t.Errorf("exits of the first %v, want the error of the call and ErrCanceled", first.exits)
	}
}

// TestProtectionAndContext checks that a call whose context ends while a protection holds it back is
// not a denial.
func TestProtectionAndContext(t *testing.T) {
	ctx, cancel := context.WithCancelCause(context.Background())
	w := &fakeProtection{name: "bulkhead", refuse: errDown, hook: func() { cancel(errDown) }}
	g, r := protected(t, "1/h", w)
	_, err := g.Enter(ctx, "")
	if errors.Is(err, guard.ErrDenied) || !errors.Is(err, errDown) || guard.FailsOpen(err) {
		t.Errorf("Enter = %v, want the cause of the end of the context", err)
	}
	if got, want := fmt.Sprint(err), "guard: f: no decision: bulkhead: store down"; got != want {
		t.Errorf("Error() = %q, want %q", got, want)
	}
	if s := r.Live()[0]; s.Undecided != 1 || s.Denied != 0 {
		t.Errorf("Live = %+v, want one undecided", s)
	}
	w.refuse, w.hook = nil, nil
	if got := passed(t, g, "", 1); got != 1 {
		t.Error("the caller that went was charged")
	}
}

// TestProtectionModes checks that a rule in shadow mode or off has no protections.
func TestProtectionModes(t *testing.T) {
	for _, tc := range []struct {
		whole, own policy.Mode
		refused    bool
	}{{"", "", true}, {policy.Shadow, "", false}, {policy.Off, "", false}, {"", policy.Shadow, false}, {"", policy.Off, false}} {
		one := rule(t, policy.Config{Name: "f", Limits: limits("10/h"), Mode: tc.own})
		one.Settings = breaker
		c := guard.Config{
			Protections: protectionsByRule{"f": {{name: "breaker", refuse: errDown}}}.make,
			Functions:   &guard.Functions{Mode: tc.whole, Rules: []guard.Rule{one}},
		}
		r := registry(t, c)
		_, err := r.Enter(context.Background(), "f", "")
		if errors.Is(err, guard.ErrDenied) != tc.refused {
			t.Errorf("functions %q, rule %q: %v", tc.whole, tc.own, err)
		}
		if s := r.Live()[0]; s.Protections["breaker"] == "" {
			t.Errorf("functions %q, rule %q: Live = %+v, want the breaker", tc.whole, tc.own, s)
		}
	}
}

// TestProtectionsAreKept checks that protections are kept while their settings do not change, and
// that those of the system are shared.
func TestProtectionsAreKept(t *testing.T) {
	made := map[string]int{}
	system := &fakeProtection{name: "breaker"}
	c := func(failures int, limit string) guard.Config {
		f := rule(t, policy.Config{Name: "f", Limits: limits(limit)})
		f.Settings = guard.Settings{Breaker: &guard.Breaker{Failures: failures}}
		return guard.Config{
			Functions: &guard.Functions{Rules: []guard.Rule{f}, System: &guard.Rule{Settings: guard.Settings{Adaptive: &guard.Adaptive{Max: 9}}}},
			Protections: func(name string, s guard.Settings) ([]guard.Protection, error) {
				made[name]++
				if s.Adaptive != nil {
					return []guard.Protection{system}, nil
				}
				return []guard.Protection{&fakeProtection{name: "breaker"}}, nil
			},
		}
	}
	r := registry(t, c(3, "10/h"))
	r.MustGuard(guard.Resource{Name: "f"})
	passed(t, r.MustGuard(guard.Resource{Name: "g"}), "", 2)
	configure(t, r, c(3, "20/h"))
	passed(t, r.MustGuard(guard.Resource{Name: "f"}), "", 1)
	if made["f"] != 1 || made["system"] != 1 || system.entered != 3 {
		t.Errorf("made %v, the system's entered %d times", made, system.entered)
	}
	configure(t, r, c(4, "20/h"))
	if made["f"] != 2 || made["system"] != 1 {
		t.Errorf("after a change of f made %v", made)
	}
	if s := r.Live()[0]; s.Protections["breaker"] != "0 entered" || s.Protections["system breaker"] != "3 entered" {
		t.Errorf("Live = %+v", s)
	}
}

// TestProtectionsWithoutStore checks that protections decide about a call whose store error was
// not handled.
func TestProtectionsWithoutStore(t *testing.T) {
	w := &fakeProtection{name: "breaker", refuse: errors.New("open")}
	r := registry(t, guard.Config{
		Store: &broken{down: errDown}, Protections: protectionsByRule{"f": {w}}.make, Functions: functions(guard.Rule{Name: "f", Settings: breaker}),
	})
	g := r.MustGuard(guard.Resource{Name: "f"})
	f := guard.Func(g, func(context.Context, int) (int, error) { return 1, nil }, guard.FuncOptions[int, int]{
		OnError: []func(context.Context, int, error) (int, error){func(context.Context, int, error) (int, error) { return 0, guard.Next }},
		Value:   new(int),
	})
	if n, err := f(context.Background(), 0); n != 0 || err != nil {
		t.Errorf("with an open breaker: %d, %v, want the value", n, err)
	}
	w.refuse = nil
	if n, err := f(context.Background(), 0); n != 1 || err != nil || len(w.exits) != 1 {
		t.Errorf("with a closed breaker: %d, %v, exits %v", n, err, w.exits)
	}
}
