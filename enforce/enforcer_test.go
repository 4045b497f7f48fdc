package enforce_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/floodweir/weir"
	"github.com/floodweir/weir/enforce"
	"github.com/floodweir/weir/internal/bounds"
	"github.com/floodweir/weir/internal/fakestore"
	"github.com/floodweir/weir/memstore"
	"github.com/floodweir/weir/policy"
)

// TestNewRefuses checks that errors of New have the field, its value and the accepted
// values.
func TestNewRefuses(t *testing.T) {
	store, none := fakestore.Memory(t), set(t)
	for _, tc := range []struct {
		store weir.Store
		set   *policy.Set
		c     enforce.Config
		want  string
	}{
		{nil, none, enforce.Config{}, "enforce: store: invalid: got nil, want a store"},
		{store, nil, enforce.Config{}, "enforce: policies: invalid: got nil, want a set"},
		{(*memstore.Store)(nil), none, enforce.Config{}, "enforce: store: invalid: got nil, want a store"},
		{store, none, enforce.Config{Options: enforce.Options{Local: (*memstore.Store)(nil)}}, "enforce: Local: invalid: got a nil *memstore.Store, want a store or none"},
		{store, none, enforce.Config{Options: enforce.Options{MaxWaiters: -1}}, "enforce: MaxWaiters: invalid: got -1, want 0 or more"},
		{store, none, enforce.Config{Options: enforce.Options{SettleTTL: time.Millisecond}}, "enforce: SettleTTL: invalid: got 1ms, want 0, or 1s to"},
		{store, none, enforce.Config{Options: enforce.Options{SettleTTL: -time.Second}}, "enforce: SettleTTL: invalid: got -1s, want 0, or 1s to"},
		{store, none, enforce.Config{Options: enforce.Options{SettleTTL: bounds.MaxTTL + 1}}, "enforce: SettleTTL: invalid: got 720h0m0.000000001s, want 0, or 1s to"},
	} {
		_, err := enforce.New(tc.store, tc.set, tc.c)
		if !errors.Is(err, weir.ErrInvalid) || !strings.HasPrefix(err.Error(), tc.want) {
			t.Errorf("New = %v, want %q", err, tc.want)
		}
	}
}

// TestOutcomes checks that all policies of a request are decided together, all or nothing.
func TestOutcomes(t *testing.T) {
	var c enforce.Config
	events := observed(&c)
	e := open(t, fakestore.Memory(t), c, about("a", "3/h"), about("b", "2/h", "9/h"))
	var p enforce.Admission
	for step, want := range []struct {
		outcome   enforce.Outcome
		remaining int64
		events    []string
	}{
		{enforce.Admitted, 1, []string{"ada a admitted", "ada b admitted"}},
		{enforce.Admitted, 0, []string{"ada a admitted", "ada b admitted"}},
		{enforce.Denied, 0, []string{"ada a held", "ada b denied"}},
		{enforce.Denied, 0, []string{"ada a held", "ada b denied"}},
	} {
		got := enter(t, e, &p)
		d, by := p.Decision(), p.DeniedBy()
		if got != want.outcome || p.Outcome() != got || p.Err() != nil || d.OK != got.Passes() || d.Remaining != want.remaining || p.NeedsExit() {
			t.Errorf("step %d: %s, %v, %+v, want %s with %d left", step, got, p.Err(), d, want.outcome, want.remaining)
		}
		if (by != nil) != (got == enforce.Denied) || by != nil && by.Name() != "b" {
			t.Errorf("step %d: denied by %v, want b if at all", step, by)
		}
		if d.Limit.Capacity() != 2 {
			t.Errorf("step %d: the limit that counts is %v, want 2/h", step, d.Limit)
		}
		asks := p.Charges()
		if len(asks) != 2 || len(p.Decisions(&asks[0])) != 1 || len(p.Decisions(&asks[1])) != 2 || asks[1].Policy.Name() != "b" || asks[1].Key != "b|3:ada" {
			t.Errorf("step %d: asks %+v, want a with one decision and b with two", step, asks)
		} else if ds := p.Decisions(&asks[1]); ds[1].Limit.Capacity() != 9 || !ds[1].OK {
			t.Errorf("step %d: b decided %+v, want its second limit second, which admits", step, ds)
		}
		same(t, "events", events(), want.events...)
		p.Exit(enforce.Result{})
	}
	if got := e.Enter(t.Context(), by("bob", ""), &p); got != enforce.Admitted {
		t.Errorf("another key = %s, want admitted", got)
	}
}

// TestNoPolicy checks that a request without a policy is admitted.
func TestNoPolicy(t *testing.T) {
	elsewhere := about("p", "1/s")
	elsewhere.Match.Methods = []string{"POST"}
	off := about("off", "1/s")
	off.Mode = policy.Off
	for _, e := range []*enforce.Enforcer{open(t, fakestore.Failing(errors.New("asked")), enforce.Config{}), open(t, fakestore.Failing(errors.New("asked")), enforce.Config{}, elsewhere, off)} {
		var p enforce.Admission
		got := enter(t, e, &p)
		if got != enforce.Admitted || len(p.Charges()) != 0 || p.DeniedBy() != nil || p.NeedsExit() || !p.Decision().Limit.IsZero() || p.Err() != nil {
			t.Errorf("no policy: %s, asks %v, decision %+v, %v, want admitted without any", got, p.Charges(), p.Decision(), p.Err())
		}
		p.Exit(enforce.Result{})
		p.Exit(enforce.Result{})
		p.Cancel()
	}
}

// TestZeroAdmission checks an Admission without Enter: it is empty, and Exit and Cancel
// have no effect.
func TestZeroAdmission(t *testing.T) {
	var p enforce.Admission
	p.Exit(enforce.Result{})
	p.Cancel()
	if p.NeedsExit() || p.DeniedBy() != nil || len(p.Charges()) != 0 || p.Err() != nil || p.Decision() != (weir.Decision{}) {
		t.Error("the zero Admission has a request")
	}
	for range p.Settles() {
		t.Error("the zero Pass settles")
	}
}

// TestReuse checks that an Admission has nothing of its previous request.
func TestReuse(t *testing.T) {
	slot, tokens := about("slot", "1 concurrency"), about("tokens", "1/h")
	slot.Match.Methods, tokens.Match.Methods = []string{"SLOT"}, []string{"TOKENS"}
	tokens.Count = policy.CountFailures
	store := fakestore.Memory(t)
	e := open(t, store, enforce.Config{}, slot, tokens)
	var p enforce.Admission
	for step, want := range []struct {
		method  string
		status  int
		outcome enforce.Outcome
		asks    int
		holds   bool
	}{
		{"SLOT", 200, enforce.Admitted, 1, true},
		{"SLOT", 200, enforce.Admitted, 1, true},
		{"", 200, enforce.Admitted, 0, false},
		{"TOKENS", 200, enforce.Admitted, 1, true},
		{"TOKENS", 500, enforce.Admitted, 1, true},
		{"TOKENS", 500, enforce.Denied, 1, false},
		{"", 200, enforce.Admitted, 0, false},
	} {
		got := e.Enter(t.Context(), by("ada", want.method), &p)
		if got != want.outcome || len(p.Charges()) != want.asks || p.NeedsExit() != want.holds || (p.DeniedBy() != nil) != (got == enforce.Denied) {
			t.Errorf("step %d: %s, %d asks, holds %t, denied by %v, want %+v", step, got, len(p.Charges()), p.NeedsExit(), p.DeniedBy(), want)
		}
		p.Exit(enforce.Result{Status: want.status})
		if p.NeedsExit() {
			t.Errorf("step %d: holds after its exit", step)
		}
	}
}

// TestReuseWithoutExit checks that an Admission that is used again before Exit returns its
// reservations.
func TestReuseWithoutExit(t *testing.T) {
	e := open(t, fakestore.Memory(t), enforce.Config{}, about("p", "1 concurrency"))
	var p enforce.Admission
	for step := range 3 {
		if got := enter(t, e, &p); got != enforce.Admitted {
			t.Errorf("step %d: %s, want admitted", step, got)
		}
	}
}

// TestAllocations checks that a reused Admission allocates only the key of a policy.
func TestAllocations(t *testing.T) {
	e := open(t, fakestore.Memory(t), enforce.Config{}, about("p", "1000000/s"))
	var p enforce.Admission
	ctx, a := context.Background(), by("ada", "")
	if got := testing.AllocsPerRun(1000, func() {
		e.Enter(ctx, a, &p)
		_ = p.Decision()
		p.Exit(enforce.Result{})
	}); got > 1 {
		t.Errorf("an admitted request allocates %v times, want at most once", got)
	}
}

func BenchmarkEnter(b *testing.B) {
	e := open(b, fakestore.Memory(b), enforce.Config{}, about("p", "1000000/s burst 1000000000"))
	ctx, a := context.Background(), by("ada", "")
	b.Run("serial", func(b *testing.B) {
		b.ReportAllocs()
		var p enforce.Admission
		for b.Loop() {
			e.Enter(ctx, a, &p)
			p.Exit(enforce.Result{})
		}
	})
	b.Run("parallel", func(b *testing.B) {
		b.ReportAllocs()
		b.RunParallel(func(pb *testing.PB) {
			var p enforce.Admission
			for pb.Next() {
				e.Enter(ctx, a, &p)
				p.Exit(enforce.Result{})
			}
		})
	})
}

// TestObserveThatPanics checks that reservations are returned if Observe panics.
func TestObserveThatPanics(t *testing.T) {
	for _, mode := range []policy.Mode{policy.Enforce, policy.Shadow} {
		first := true
		c := about("p", "1 concurrency")
		c.Mode = mode
		e := open(t, fakestore.Memory(t), enforce.Config{Observe: func(_ context.Context, _ policy.Attributes, event enforce.Event) {
			if first {
				first = false
				panic("observe")
			}
			if event.Outcome != enforce.Admitted {
				t.Errorf("%s: after the panic a request is %s, want admitted", mode, event.Outcome)
			}
		}}, c)
		var p enforce.Admission
		func() {
			defer func() { _ = recover() }()
			enter(t, e, &p)
		}()
		if p.NeedsExit() {
			t.Errorf("%s: holds after the panic", mode)
		}
		enter(t, e, &p)
		p.Exit(enforce.Result{})
	}
}

// TestFaultAndCost checks the key, the cost and the error of an expression in events.
func TestFaultAndCost(t *testing.T) {
	fault := errors.New("no number")
	c := about("p", "9/h")
	c.Cost, c.CostOf = 3, failingMeasure{fault}
	var events []enforce.Event
	e := open(t, fakestore.Memory(t), enforce.Config{Observe: func(_ context.Context, _ policy.Attributes, event enforce.Event) { events = append(events, event) }}, c)
	var p enforce.Admission
	enter(t, e, &p)
	if len(events) != 1 || events[0].Cost != 3 || events[0].Key != "p|3:ada" || !errors.Is(events[0].Fault, fault) || events[0].Decision.Remaining != 6 {
		t.Errorf("events %+v, want one at the cost of 3 with its fault", events)
	}
}

type failingMeasure struct{ error }

func (f failingMeasure) Eval(policy.Attributes) (int64, error) { return 0, f.error }

func (f failingMeasure) String() string { return "a number" }
