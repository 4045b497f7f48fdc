package guard_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/floodweir/weir"
	"github.com/floodweir/weir/enforce"
	"github.com/floodweir/weir/guard"
	"github.com/floodweir/weir/internal/fakestore"
	"github.com/floodweir/weir/policy"
)

// TestRules checks that a rule replaces a guard's limits while the program runs, and a key
// keeps what it owes.
func TestRules(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := registry(t, guard.Config{})
		g := r.MustGuard(guard.Resource{Name: "f", Limits: limits("10/h")})
		to := func(text string) {
			configure(t, r, guard.Config{Functions: functions(rule(t, policy.Config{Name: "f", Limits: limits(text), Carry: weir.CarryProportional}))})
		}
		for i, step := range []struct {
			change func()
			calls  int
			want   int
		}{
			{nil, 5, 5},
			{func() { to("20/h") }, 50, 10}, // half of it was left
			{func() { to("40/h") }, 50, 0},
			{func() { configure(t, r, guard.Config{}) }, 50, 0}, // its own again
			{func() { to("1000/h") }, 50, 0},
			{func() { configure(t, r, guard.Config{Functions: &guard.Functions{Mode: policy.Off}}) }, 50, 50},
			{func() { to("1000/h") }, 50, 0},
		} {
			if step.change != nil {
				step.change()
			}
			if got := passed(t, g, "k", step.calls); got != step.want {
				t.Errorf("step %d: %d pass, want %d", i, got, step.want)
			}
		}
	})
}

// TestRuleGoesAndComes checks that debt under a rule is kept while the rule is removed, also
// that of the system rule.
func TestRuleGoesAndComes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := registry(t, guard.Config{})
		calls := func(name string, want int) {
			t.Helper()
			got := 0
			for range 50 {
				e, err := r.Enter(context.Background(), name, "k")
				if e.Exit(nil); err == nil {
					got++
				}
			}
			if got != want {
				t.Errorf("%d of %s pass, want %d", got, name, want)
			}
		}
		system := rule(t, policy.Config{Name: "system", Limits: limits("20/h"), Carry: weir.CarryProportional})
		with := func(system *guard.Rule, rules ...guard.Rule) {
			configure(t, r, guard.Config{Functions: &guard.Functions{System: system, Rules: rules}})
		}
		calls("a", 50)
		with(nil, rule(t, policy.Config{Name: "a", Limits: limits("5/h")}))
		calls("a", 5)
		with(nil)
		calls("a", 50)
		with(nil, rule(t, policy.Config{Name: "a", Limits: limits("10/h"), Carry: weir.CarryProportional}))
		calls("a", 0)
		with(&system)
		calls("b", 20)
		with(nil)
		calls("b", 50)
		more := rule(t, policy.Config{Name: "system", Limits: limits("40/h"), Carry: weir.CarryProportional})
		with(&more)
		calls("c", 0) // the first calls of c
		calls("b", 0)
	})
}

// TestLocalGoes checks that removed rules do not require Options.Local.
func TestLocalGoes(t *testing.T) {
	local := func(name string) *guard.Rule {
		r := rule(t, policy.Config{Name: name, Limits: limits("5/h"), OnStoreError: policy.Local})
		return &r
	}
	r := registry(t, guard.Config{Options: enforce.Options{Local: fakestore.Memory(t)}, Functions: &guard.Functions{System: local("system"), Rules: []guard.Rule{*local("f")}}})
	for _, name := range []string{"f", "g"} {
		if _, err := r.Enter(context.Background(), name, ""); err != nil {
			t.Fatal(err)
		}
	}
	system := rule(t, policy.Config{Name: "system", Limits: limits("9/h")})
	configure(t, r, guard.Config{Functions: &guard.Functions{System: &system}})
	configure(t, r, guard.Config{Functions: functions(rule(t, policy.Config{Name: "f", Limits: limits("9/h")}))})
	if _, err := r.Enter(context.Background(), "h", ""); err != nil {
		t.Error(err)
	}
}

// TestModes checks the modes shadow and off, of one rule and of all.
func TestModes(t *testing.T) {
	for _, tc := range []struct {
		whole, own policy.Mode // own is of the rule of f
		f, g       int         // of 5 calls
		events     policy.Mode // of f
		asked      bool        // f
	}{
		{"", policy.Enforce, 1, 2, policy.Enforce, true},
		{policy.Enforce, policy.Shadow, 5, 2, policy.Shadow, true},
		{policy.Enforce, policy.Off, 5, 2, policy.Off, false},
		{policy.Shadow, policy.Enforce, 5, 5, policy.Shadow, true},
		{policy.Shadow, policy.Off, 5, 5, policy.Off, false},
		{policy.Off, policy.Enforce, 5, 5, policy.Off, false},
		{policy.Off, policy.Shadow, 5, 5, policy.Off, false},
	} {
		t.Run(fmt.Sprint(tc.whole, " ", tc.own), func(t *testing.T) {
			asked := map[string]bool{}
			r := registry(t, guard.Config{
				Functions: &guard.Functions{Mode: tc.whole, Rules: []guard.Rule{rule(t, policy.Config{Name: "f", Limits: limits("1/h"), Mode: tc.own})}},
				Observe:   func(_ context.Context, name string, _ enforce.Event) { asked[name] = true },
			})
			f := r.MustGuard(guard.Resource{Name: "f", Limits: limits("7/h")})
			g := r.MustGuard(guard.Resource{Name: "g", Limits: limits("2/h")})
			if a, b := passed(t, f, "", 5), passed(t, g, "", 5); a != tc.f || b != tc.g {
				t.Errorf("%d of f and %d of g pass, want %d and %d", a, b, tc.f, tc.g)
			}
			if s := r.Live()[0]; s.Mode != tc.events || !s.Rule || asked["f"] != tc.asked {
				t.Errorf("mode %s, by a rule: %v, asked: %v", s.Mode, s.Rule, asked["f"])
			}
		})
	}
}

// TestPercent checks that a rule that is enforced for a percentage of keys can be put in
// shadow mode as a whole.
func TestPercent(t *testing.T) {
	r := registry(t, guard.Config{})
	g := r.MustGuard(guard.Resource{Name: "f", Limits: limits("1/h")})
	half := functions(rule(t, policy.Config{Name: "f", Limits: limits("1/h"), Percent: 50, Candidate: limits("2/h")}))
	configure(t, r, guard.Config{Functions: half})
	got := 0
	for i := range 100 {
		got += passed(t, g, fmt.Sprint(i), 2)
	}
	if got < 125 || got > 175 {
		t.Errorf("%d of 200 pass, want about 150", got)
	}
	half.Mode = policy.Shadow
	configure(t, r, guard.Config{Functions: half})
	if got := passed(t, g, "k", 5); got != 5 {
		t.Errorf("%d of 5 pass in shadow", got)
	}
}

// TestOverrides checks that single keys, and keys that match a pattern, have their own limits.
func TestOverrides(t *testing.T) {
	g := registry(t, guard.Config{Functions: functions(rule(t, policy.Config{Name: "f", Limits: limits("2/h"), Overrides: []policy.Override{
		{Key: []string{"hot"}, Limits: limits("1/h")},
		{Key: []string{"vip-*"}, Limits: limits("4/h")},
		{Key: []string{""}, Limits: limits("3/h")},
		{Key: []string{guard.Key("a,b", "c")}, Limits: limits("5/h")},
	}}))}).MustGuard(guard.Resource{Name: "f", Limits: limits("9/h")})
	for key, want := range map[string]int{"hot": 1, "vip-7": 4, "vip-8": 4, "vip": 2, "": 3, `a\,b,c`: 5, "else": 2} {
		if got := passed(t, g, key, 9); got != want {
			t.Errorf("%d of %q pass, want %d", got, key, want)
		}
	}
}

// TestSystem checks that the system rule applies to every call, together with the rule of its
// name.
func TestSystem(t *testing.T) {
	system := rule(t, policy.Config{Name: "system", Key: []policy.KeyPart{{Source: policy.Constant, Name: "all"}}, Limits: limits("5/h")})
	r := registry(t, guard.Config{Functions: &guard.Functions{System: &system}})
	f := r.MustGuard(guard.Resource{Name: "f", Limits: limits("1/h")})
	g := r.MustGuard(guard.Resource{Name: "g", Limits: limits("100/h")})
	if got := passed(t, f, "a", 9); got != 1 {
		t.Errorf("%d of f pass, want 1", got)
	}
	if got := passed(t, g, "b", 9); got != 4 { // what f was denied took nothing
		t.Errorf("%d of g pass, want the 4 that are left", got)
	}
	for _, name := range []string{"resource", "another"} {
		if _, err := r.Enter(context.Background(), name, ""); !errors.Is(err, guard.ErrDenied) {
			t.Errorf("a resource without a rule: %v, want a denial", err)
		}
	}
	system = rule(t, policy.Config{Name: "system", Limits: limits("6/h"), Carry: weir.CarryReset})
	configure(t, r, guard.Config{Functions: &guard.Functions{System: &system}})
	if got := passed(t, g, "b", 9); got != 6 {
		t.Errorf("%d of g pass, want 6", got)
	}
}

// TestCounts checks that failures or successes are counted by the result of a call.
func TestCounts(t *testing.T) {
	canceled, cancel := context.WithCancel(context.Background())
	cancel()
	fails := func(e *guard.Entry) { e.Exit(errDown) }
	succeeds := func(e *guard.Entry) { e.Exit(nil) }
	panics := func(e *guard.Entry) {
		defer func() { _ = recover() }()
		func() (err error) {
			defer e.Done(&err)
			panic("at the disco")
		}()
	}
	returns := func(e *guard.Entry) {
		func() (err error) {
			defer e.Done(&err)
			return errDown
		}()
	}
	foreign := func(e *guard.Entry) { e.Exit(canceled.Err()) } // its own caller is there
	for _, tc := range []struct {
		count policy.Count
		name  string
		end   func(*guard.Entry)
		want  int // of 5
	}{
		{policy.CountFailures, "succeeds", succeeds, 5},
		{policy.CountFailures, "fails", fails, 2},
		{policy.CountFailures, "panics", panics, 2},
		{policy.CountFailures, "returns an error", returns, 2},
		{policy.CountFailures, "foreign cancellation", foreign, 2},
		{policy.CountSuccesses, "succeeds", succeeds, 2},
		{policy.CountSuccesses, "fails", fails, 5},
		{policy.CountSuccesses, "panics", panics, 5},
		{policy.CountSuccesses, "foreign cancellation", foreign, 5},
		{policy.CountAdmitted, "fails", fails, 2},
	} {
		t.Run(fmt.Sprint(tc.count, " ", tc.name), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				g := registry(t, guard.Config{Functions: functions(rule(t, policy.Config{Name: "f", Limits: limits("2/h"), Count: tc.count}))}).
					MustGuard(guard.Resource{Name: "f"})
				got := 0
				for range 5 {
					if e, err := g.Enter(context.Background(), ""); err == nil {
						got++
						tc.end(e)
					}
				}
				if got != tc.want {
					t.Errorf("%d of 5 pass, want %d", got, tc.want)
				}
			})
		})
	}
}

// TestCanceledIsCharged checks that a call whose context was canceled is charged.
func TestCanceledIsCharged(t *testing.T) {
	for _, count := range []policy.Count{policy.CountFailures, policy.CountSuccesses} {
		synctest.Test(t, func(t *testing.T) {
			g := registry(t, guard.Config{Functions: functions(rule(t, policy.Config{Name: "f", Limits: limits("2/h"), Count: count}))}).
				MustGuard(guard.Resource{Name: "f"})
			got := 0
			for range 5 {
				ctx, cancel := context.WithCancel(context.Background())
				e, err := g.Enter(ctx, "")
				if cancel(); err == nil {
					got++
					e.Exit(fmt.Errorf("asking: %w", ctx.Err()))
				}
			}
			if got != 2 {
				t.Errorf("%s: %d of 5 canceled calls pass, want 2", count, got)
			}
		})
	}
}

// TestSlots checks that a slot is held while the call runs, however long, and comes free once.
func TestSlots(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := registry(t, guard.Config{}).MustGuard(guard.Resource{Name: "f", Limits: limits("1 concurrency lease 30s")})
		first, err := g.Enter(context.Background(), "")
		if err != nil {
			t.Fatal(err)
		}
		time.Sleep(5*time.Minute + time.Second) // not while it is being renewed
		if free(t, g) {
			t.Fatal("the slot of a call that runs is free")
		}
		first.Exit(nil)
		second, err := g.Enter(context.Background(), "")
		if err != nil {
			t.Fatal(err)
		}
		first.Exit(nil) // again
		first.Done(&err)
		if free(t, g) {
			t.Error("exiting twice gave another's slot back")
		}
		func() {
			defer func() {
				if p := recover(); p != "at the disco" {
					t.Errorf("recovered %v", p)
				}
			}()
			var err error
			defer second.Done(&err)
			panic("at the disco")
		}()
		if !free(t, g) {
			t.Error("a call that panicked keeps its slot")
		}
	})
}

// TestReload checks concurrent calls and changes of the configuration.
func TestReload(t *testing.T) {
	r := registry(t, guard.Config{})
	store := fakestore.Memory(t)
	var wg sync.WaitGroup
	for i := range 4 {
		wg.Go(func() {
			g := r.MustGuard(guard.Resource{Name: fmt.Sprint("f", i%2), Limits: limits("50/s", "3 concurrency")})
			for range 500 {
				e, err := g.Enter(context.Background(), fmt.Sprint(i))
				if err != nil && !errors.Is(err, guard.ErrDenied) {
					t.Error(err)
				}
				e.Exit(nil)
				if e, err := r.Enter(context.Background(), "resource", ""); err == nil {
					e.Exit(nil)
				}
			}
		})
	}
	for i := range 100 {
		system := rule(t, policy.Config{Name: "system", Limits: limits("100000/s")})
		c := guard.Config{Functions: &guard.Functions{System: &system, Rules: []guard.Rule{
			rule(t, policy.Config{Name: "f0", Limits: limits(fmt.Sprint(i+1, "/s"), "3 concurrency")}),
		}}}
		if i%3 == 0 {
			c.Functions.Mode = policy.Off
		}
		if i%2 == 0 {
			c.Store = store
		}
		configure(t, r, c)
		r.Live()
	}
	wg.Wait()
	for _, s := range r.Live() {
		if s.Running != 0 {
			t.Errorf("%s: %d are running, want none", s.Name, s.Running)
		}
	}
}

// TestGuardAfterChanges checks that a guard that is made after changes of its limits knows the
// debt of its keys.
func TestGuardAfterChanges(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := fakestore.Memory(t)
		config := func(text string) guard.Config {
			return guard.Config{Store: store, Functions: functions(rule(t, policy.Config{Name: "f", Limits: limits(text), Carry: weir.CarryProportional}))}
		}
		one, late := registry(t, config("5/h")), registry(t, config("5/h"))
		passed(t, one.MustGuard(guard.Resource{Name: "f"}), "k", 5)
		configure(t, late, config("50/h"))
		if got := passed(t, late.MustGuard(guard.Resource{Name: "f"}), "k", 5); got != 0 {
			t.Errorf("%d pass, want none: nothing is left", got)
		}
	})
}
