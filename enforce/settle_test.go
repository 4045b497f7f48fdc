package enforce_test

import (
	"context"
	"errors"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/floodweir/weir"
	"github.com/floodweir/weir/budget"
	"github.com/floodweir/weir/enforce"
	"github.com/floodweir/weir/internal/fakestore"
	"github.com/floodweir/weir/memstore"
	"github.com/floodweir/weir/policy"
)

// TestCount checks the cost of a request by its result.
func TestCount(t *testing.T) {
	costs := func(n int64, ok bool) func(policy.Settle) (int64, error) {
		return func(s policy.Settle) (int64, error) {
			if ok && s.Header == "Cost" {
				return n, nil
			}
			return n, budget.ErrNoUsage
		}
	}
	cost := policy.Settle{Header: "Cost"}
	for _, tc := range []struct {
		name   string
		count  policy.Count
		settle policy.Settle
		cost   int64
		result enforce.Result
		want   int64
	}{
		{"failures", policy.CountFailures, policy.Settle{}, 3, enforce.Result{Status: 500}, 3},
		{"failures", policy.CountFailures, policy.Settle{}, 3, enforce.Result{Status: 200}, 0},
		{"failures", policy.CountFailures, policy.Settle{}, 3, enforce.Result{}, 0},
		{"failures", policy.CountFailures, policy.Settle{}, 3, enforce.Result{Status: 200, ClientGone: true}, 3},
		{"successes", policy.CountSuccesses, policy.Settle{}, 3, enforce.Result{Status: 200}, 3},
		{"successes", policy.CountSuccesses, policy.Settle{}, 3, enforce.Result{Status: 404}, 0},
		{"successes", policy.CountSuccesses, policy.Settle{}, 3, enforce.Result{Status: 404, ClientGone: true}, 3},
		{"lower cost", policy.CountAdmitted, cost, 3, enforce.Result{CostFromResponse: costs(1, true)}, 1},
		{"cost 0", policy.CountAdmitted, cost, 3, enforce.Result{CostFromResponse: costs(0, true)}, 0},
		{"higher cost", policy.CountAdmitted, cost, 3, enforce.Result{CostFromResponse: costs(7, true)}, 7},
		{"cost missing", policy.CountAdmitted, cost, 3, enforce.Result{CostFromResponse: costs(2, false)}, 3},
		{"cost missing, and a part above the reservation", policy.CountAdmitted, cost, 3, enforce.Result{CostFromResponse: costs(7, false)}, 7},
		{"no function", policy.CountAdmitted, cost, 3, enforce.Result{}, 3},
		{"negative cost", policy.CountAdmitted, cost, 3, enforce.Result{CostFromResponse: costs(-1, true)}, 3},
		{"cost too high", policy.CountAdmitted, cost, 3, enforce.Result{CostFromResponse: costs(1<<40+1, true)}, 3},
		{"cost and counts", policy.CountFailures, cost, 3, enforce.Result{Status: 500, CostFromResponse: costs(5, true)}, 5},
		{"cost and does not count", policy.CountFailures, cost, 3, enforce.Result{Status: 200, CostFromResponse: costs(5, true)}, 0},
		{"cost that is not selected", policy.CountFailures, policy.Settle{}, 3, enforce.Result{Status: 500, CostFromResponse: func(policy.Settle) (int64, error) { return 7, nil }}, 3},
		{"admitted", policy.CountAdmitted, policy.Settle{}, 3, enforce.Result{Status: 500, CostFromResponse: costs(5, true)}, 3},
	} {
		for _, mode := range []policy.Mode{policy.Enforce, policy.Shadow} {
			store := fakestore.Memory(t)
			c := about("p", "9/24h")
			c.Count, c.Settle, c.Cost, c.Mode = tc.count, tc.settle, tc.cost, mode
			e := open(t, store, enforce.Config{Observe: func(_ context.Context, _ policy.Attributes, event enforce.Event) {
				if event.Outcome != enforce.Admitted && event.Outcome != enforce.Unpriced {
					t.Errorf("%s, %s: %s, %v, want admitted alone", tc.name, mode, event.Outcome, event.Err)
				}
			}}, c)
			var p enforce.Admission
			enter(t, e, &p)
			if got := taken(t, store, "p", "9/24h"); got != 3 {
				t.Errorf("%s, %s: %d are taken while it runs, want 3", tc.name, mode, got)
			}
			p.Exit(tc.result)
			p.Exit(enforce.Result{Status: 500, CostFromResponse: costs(9, true)}) // the first counts
			if got := taken(t, store, "p", "9/24h"); got != tc.want {
				t.Errorf("%s %+v, %s: costs %d, want %d", tc.name, tc.result, mode, got, tc.want)
			}
		}
	}
}

// TestCountAll checks that denied requests count too, so that clients that keep retrying
// stay denied, and that RetryAfter includes it.
func TestCountAll(t *testing.T) {
	bubble(t, func(t *testing.T, store *memstore.Store) {
		c := about("p", "1/s burst 2")
		c.Count = policy.CountAll
		e := open(t, store, enforce.Config{}, c, about("other", "9/s"))
		var p enforce.Admission
		for step, want := range []struct {
			outcome enforce.Outcome
			retry   time.Duration
		}{
			{enforce.Admitted, 0}, {enforce.Admitted, 0}, {enforce.Denied, 2 * time.Second}, {enforce.Denied, 3 * time.Second},
		} {
			if got := enter(t, e, &p); got != want.outcome || p.Decision().RetryAfter != want.retry {
				t.Errorf("step %d: %s, retry after %v, want %+v", step, got, p.Decision().RetryAfter, want)
			}
		}
		if got := taken(t, store, "other", "9/s"); got != 2 {
			t.Errorf("other took %d, want those admitted alone", got)
		}
	})
}

// TestSettles checks that Settles returns each policy that counts by the result once, also
// in shadow mode.
func TestSettles(t *testing.T) {
	failures, byCost, shadow := about("failures", "9/h", "99/24h"), about("byCost", "9/h"), about("shadow", "9/h")
	failures.Count = policy.CountFailures
	byCost.Settle = policy.Settle{JSON: "usage.tokens"}
	shadow.Mode, shadow.Count = policy.Shadow, policy.CountSuccesses
	e := open(t, fakestore.Memory(t), enforce.Config{}, about("plain", "9/h"), failures, about("slot", "9 concurrency"), byCost, shadow)
	var p enforce.Admission
	enter(t, e, &p)
	var names []string
	for one := range p.Settles() {
		names = append(names, one.Name())
	}
	if want := []string{"failures", "byCost", "shadow"}; !slices.Equal(names, want) {
		t.Errorf("settles %v, want %v", names, want)
	}
	for range p.Settles() {
		break // one may stop early
	}
	p.Exit(enforce.Result{})
	for one := range p.Settles() {
		t.Errorf("settles %s after the exit", one.Name())
	}
}

// TestLongRequest checks that a request that runs longer than its reservation is charged at
// its end.
func TestLongRequest(t *testing.T) {
	bubble(t, func(t *testing.T, store *memstore.Store) {
		c := about("p", "9/24h")
		c.Count = policy.CountFailures
		e := open(t, store, enforce.Config{Options: enforce.Options{SettleTTL: time.Minute}}, c)
		var p enforce.Admission
		enter(t, e, &p)
		after(2 * time.Minute)
		if got := taken(t, store, "p", "9/24h"); got != 0 {
			t.Errorf("%d are taken after the life of the reservation, want 0", got)
		}
		p.Exit(enforce.Result{Status: 500})
		if got := taken(t, store, "p", "9/24h"); got != 1 {
			t.Errorf("%d are taken after the end, want 1", got)
		}
	})
}

// TestUnsettled checks the event of a cost that could not be charged.
func TestUnsettled(t *testing.T) {
	down := false
	flaky := fakestore.Around(fakestore.Memory(t), func(ctx context.Context, r *weir.Request) error {
		if _, bounded := ctx.Deadline(); r.Verb == weir.Commit && (!bounded || ctx.Err() != nil) {
			t.Error("a settlement wants a context that ends, and has not ended")
		}
		if down {
			return weir.ErrUnavailable
		}
		return nil
	}, nil)
	c, all := about("p", "9/h", "99/24h"), about("all", "1/h")
	c.Settle = policy.Settle{Header: "Cost"}
	all.Count = policy.CountAll
	var gc enforce.Config
	events := observed(&gc)
	var cost int64
	observe := gc.Observe
	gc.Observe = func(ctx context.Context, a policy.Attributes, event enforce.Event) {
		if event.Outcome == enforce.Unsettled {
			cost = event.Cost
		}
		observe(ctx, a, event)
	}
	e := open(t, flaky, gc, c)
	ctx, cancel := context.WithCancel(t.Context())
	var p enforce.Admission
	e.Enter(ctx, by("ada", ""), &p)
	cancel()
	down = true
	p.Exit(enforce.Result{CostFromResponse: func(policy.Settle) (int64, error) { return 5, nil }})
	same(t, "events", events(), "ada p admitted", "ada p unsettled error")
	if cost != 5 {
		t.Errorf("unsettled at %d, want 5", cost)
	}

	down = false
	charges := fakestore.Around(fakestore.Memory(t), func(_ context.Context, r *weir.Request) error {
		if r.Verb == weir.Charge {
			return errors.New("down")
		}
		return nil
	}, nil)
	e = open(t, charges, gc, all)
	enter(t, e, &p)
	enter(t, e, &p)
	same(t, "events", events(), "ada all admitted", "ada all denied", "ada all unsettled error")
}

// TestNoResponse checks that without results admitted requests count, and slots are
// returned at once.
func TestNoResponse(t *testing.T) {
	store := fakestore.Memory(t)
	e := open(t, store, enforce.Config{NoResponse: true}, everyKind()...)
	var p enforce.Admission
	if got := enter(t, e, &p); got != enforce.Admitted || p.NeedsExit() {
		t.Errorf("%s, holds %t, want admitted and nothing held", got, p.NeedsExit())
	}
	p.Exit(enforce.Result{Status: 200})
	if got := holdings(t, store); got["slot"] != 0 {
		t.Errorf("taken %v, want no slot", got)
	}
	if got := holdings(t, store); got["counted"] != 1 || got["later"] != 1 {
		t.Errorf("taken %v, want what counts by the result counted", got)
	}
	e = open(t, store, enforce.Config{NoResponse: true}, everyKind()[:1]...)
	enter(t, e, &p)
	p.Cancel()
	if got := holdings(t, store)["plain"]; got != 2 {
		t.Errorf("plain took %d, want the 2 of the first alone", got)
	}
}

// TestExitOnce checks that only one of concurrent calls of Exit and Cancel has an effect.
func TestExitOnce(t *testing.T) {
	store := fakestore.Memory(t)
	c := about("p", "9/24h")
	c.Count = policy.CountFailures
	e := open(t, store, enforce.Config{}, c, about("slot", "1 concurrency lease 1h"))
	for range 20 {
		var p enforce.Admission
		if got := enter(t, e, &p); got != enforce.Admitted {
			t.Fatalf("%s, want admitted: the slot is free", got)
		}
		var all sync.WaitGroup
		for i := range 8 {
			all.Go(func() {
				if i%2 == 0 {
					p.Exit(enforce.Result{Status: 200})
				} else {
					p.Cancel()
				}
			})
		}
		all.Wait()
	}
	if got := taken(t, store, "p", "9/24h"); got != 0 {
		t.Errorf("%d are taken, want none: nothing failed", got)
	}
}

// TestEventOfCountedDenial checks that the event of a denial has the RetryAfter after its
// charge, which the client receives.
func TestEventOfCountedDenial(t *testing.T) {
	bubble(t, func(t *testing.T, store *memstore.Store) {
		var retries []time.Duration
		c := about("p", "2/m")
		c.Count = policy.CountAll
		e := open(t, store, enforce.Config{Observe: func(_ context.Context, _ policy.Attributes, event enforce.Event) {
			retries = append(retries, event.Decision.RetryAfter)
		}}, c)
		for range 4 {
			var p enforce.Admission
			enter(t, e, &p)
			if got := p.Decision().RetryAfter; got != retries[len(retries)-1] {
				t.Errorf("event with %v, want %v as in the admission", retries[len(retries)-1], got)
			}
		}
		if want := []time.Duration{0, 0, time.Minute, 90 * time.Second}; !slices.Equal(retries, want) {
			t.Errorf("retries = %v, want %v", retries, want)
		}
	})
}

// TestUnpriced checks that a response without a cost is reported once for each policy, with its
// reason and its charge, and that a response with a cost is not.
func TestUnpriced(t *testing.T) {
	for _, tc := range []struct {
		name   string
		result enforce.Result
		reason error // nil if the response has a cost
		cost   int64
	}{
		{"a cost", enforce.Result{CostFromResponse: func(policy.Settle) (int64, error) { return 7, nil }}, nil, 0},
		{"no cost", enforce.Result{CostFromResponse: func(policy.Settle) (int64, error) { return 0, budget.ErrNoUsage }}, budget.ErrNoUsage, 3},
		{"a part", enforce.Result{CostFromResponse: func(policy.Settle) (int64, error) { return 5, budget.ErrUnknownModel }}, budget.ErrUnknownModel, 5},
		{"a negative cost", enforce.Result{CostFromResponse: func(policy.Settle) (int64, error) { return -1, nil }}, budget.ErrBadUsage, 3},
		{"no responses", enforce.Result{}, budget.ErrNoUsage, 3},
		{"disconnected", enforce.Result{ClientGone: true}, budget.ErrDisconnected, 3},
	} {
		var events []enforce.Event
		priced := about("a", "100/h fixed_window", "1000/24h fixed_window")
		priced.Cost, priced.Settle = 3, policy.Settle{Header: "Cost"}
		e := open(t, fakestore.Memory(t), enforce.Config{Observe: func(_ context.Context, _ policy.Attributes, e enforce.Event) {
			if e.Outcome.AtEnd() {
				events = append(events, e)
			}
		}}, priced, about("other", "100/h fixed_window"))
		var p enforce.Admission
		enter(t, e, &p)
		p.Exit(tc.result)
		switch {
		case tc.reason == nil:
			if len(events) > 0 {
				t.Errorf("%s: %d events %+v, want none", tc.name, len(events), events)
			}
		case len(events) != 1 || events[0].Outcome != enforce.Unpriced || events[0].Policy.Name() != "a" || !errors.Is(events[0].Err, tc.reason) || events[0].Cost != tc.cost:
			t.Errorf("%s: events %+v, want one with cost %d and %v", tc.name, events, tc.cost, tc.reason)
		}
	}
}

// TestMeteredCharge checks that a policy with a meter charges the bound at once. A request whose
// process ends stays charged after the TTL of reservations, a canceled one is returned, and the others
// are corrected by their response, also after the TTL.
func TestMeteredCharge(t *testing.T) {
	meter, err := budget.NewMeter(budget.MeterConfig{Unit: budget.Tokens, MaxInput: 30, MaxOutput: 12})
	if err != nil {
		t.Fatal(err)
	}
	costs := func(n int64) enforce.Result {
		return enforce.Result{CostFromResponse: func(policy.Settle) (int64, error) { return n, nil }}
	}
	bubble(t, func(t *testing.T, store *memstore.Store) {
		const limit = "1000/24h fixed_window"
		c := about("p", limit)
		c.Settle.Meter = meter
		e := open(t, store, enforce.Config{}, c)
		check := func(when string, want int64) {
			t.Helper()
			if got := taken(t, store, "p", limit); got != want {
				t.Errorf("%s: %d are taken, want %d", when, got, want)
			}
		}
		var lost, canceled, lower, higher, late enforce.Admission
		for _, p := range []*enforce.Admission{&lost, &canceled, &lower, &higher, &late} {
			enter(t, e, p)
		}
		check("while five requests run", 5*42)
		canceled.Cancel()
		lower.Exit(costs(2))
		higher.Exit(costs(100))
		check("after three requests", 2*42+2+100)
		after(enforce.DefaultSettleTTL + time.Minute)
		check("after the TTL", 2*42+2+100)
		late.Exit(costs(7))
		check("after the last response", 42+2+100+7)
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		var gone enforce.Admission
		e.Enter(ctx, by("ada", "GET"), &gone)
		check("after a request that was canceled before", 42+2+100+7)
	})
}

// TestSlowSettlement checks that a store which responds after three seconds still settles a
// budget, and that another policy does not wait for it.
func TestSlowSettlement(t *testing.T) {
	meter, err := budget.NewMeter(budget.MeterConfig{Unit: budget.Tokens, MaxInput: 30, MaxOutput: 12})
	if err != nil {
		t.Fatal(err)
	}
	for name, settle := range map[string]policy.Settle{"budget": {Meter: meter}, "header": {Header: "Cost"}} {
		bubble(t, func(t *testing.T, store *memstore.Store) {
			slow := false
			wrapped := fakestore.Around(store, func(ctx context.Context, _ *weir.Request) error {
				if !slow {
					return nil
				}
				select {
				case <-time.After(3 * time.Second):
					return nil
				case <-ctx.Done():
					return ctx.Err()
				}
			}, nil)
			const limit = "1000/24h fixed_window"
			c := about("p", limit)
			c.Settle = settle
			var gc enforce.Config
			events := observed(&gc)
			e := open(t, wrapped, gc, c)
			var p enforce.Admission
			enter(t, e, &p)
			slow = true
			began := time.Now()
			p.Exit(enforce.Result{CostFromResponse: func(policy.Settle) (int64, error) { return 100, nil }})
			want, wait := []string{"ada p admitted"}, 3*time.Second
			if settle.Meter == nil {
				want, wait = append(want, "ada p unsettled error"), time.Second
			}
			same(t, name, events(), want...)
			if got := time.Since(began); got != wait {
				t.Errorf("%s: the end took %v, want %v", name, got, wait)
			}
		})
	}
}
