package enforce_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/floodweir/weir"
	"github.com/floodweir/weir/budget"
	"github.com/floodweir/weir/enforce"
	"github.com/floodweir/weir/internal/fakestore"
	"github.com/floodweir/weir/memstore"
	"github.com/floodweir/weir/policy"
)

// metered returns a policy that reserves 10 tokens.
func metered(t *testing.T, name, limit string) policy.Config {
	t.Helper()
	meter, err := budget.NewMeter(budget.MeterConfig{Unit: budget.OutputTokens, MaxOutput: 10})
	if err != nil {
		t.Fatal(err)
	}
	c := about(name, limit)
	c.Settle.Meter = meter
	return c
}

func costing(n int64) enforce.Result {
	return enforce.Result{Status: 200, CostFromResponse: func(policy.Settle) (int64, error) { return n, nil }}
}

// TestExtend checks that steps are charged on all levels together or not at all, and that the actual
// cost replaces them.
func TestExtend(t *testing.T) {
	bubble(t, func(t *testing.T, store *memstore.Store) {
		var c enforce.Config
		events := observed(&c)
		shadow := metered(t, "shadow", "15/24h fixed_window")
		shadow.Mode = policy.Shadow
		e := open(t, store, c, metered(t, "key", "100/24h fixed_window"), metered(t, "team", "35/24h fixed_window"), about("other", "5/24h fixed_window"), shadow)
		var p enforce.Admission
		enter(t, e, &p)
		events()
		to := func(n int64) func(*policy.Policy) int64 { return func(*policy.Policy) int64 { return n } }
		for i, step := range []struct {
			total       int64
			ok          bool
			key, shadow int64
		}{{10, true, 10, 10}, {15, true, 15, 15}, {30, true, 30, 15}, {40, false, 30, 15}, {35, true, 35, 15}, {5, true, 35, 15}} {
			if ok := p.Extend(t.Context(), to(step.total)); ok != step.ok {
				t.Errorf("step %d: Extend to %d = %t", i, step.total, ok)
			}
			key, team := taken(t, store, "key", "100/24h fixed_window"), taken(t, store, "team", "35/24h fixed_window")
			if key != step.key || team != step.key || taken(t, store, "other", "5/24h fixed_window") != 1 || taken(t, store, "shadow", "15/24h fixed_window") != step.shadow {
				t.Errorf("step %d: %d and %d taken, want %d on both levels", i, key, team, step.key)
			}
		}
		same(t, "events", events(), "ada shadow exhausted shadow", "ada team exhausted")
		p.Exit(costing(12))
		if key, team := taken(t, store, "key", "100/24h fixed_window"), taken(t, store, "team", "35/24h fixed_window"); key != 12 || team != 12 {
			t.Errorf("%d and %d taken after the end, want 12", key, team)
		}
		if p.Extend(t.Context(), to(100)); taken(t, store, "key", "100/24h fixed_window") != 12 {
			t.Error("Extend charges after Exit")
		}
	})
}

// TestExtendAcrossPeriods checks that a step belongs to the period in which it was made, and what is
// returned of it too.
func TestExtendAcrossPeriods(t *testing.T) {
	bubble(t, func(t *testing.T, store *memstore.Store) {
		const limit = "100/1m fixed_window"
		e := open(t, store, enforce.Config{}, metered(t, "p", limit))
		var p enforce.Admission
		enter(t, e, &p)
		after(time.Minute)
		p.Extend(t.Context(), func(*policy.Policy) int64 { return 30 })
		if got := taken(t, store, "p", limit); got != 20 {
			t.Errorf("%d taken in the second period, want the step", got)
		}
		p.Exit(costing(13))
		if got := taken(t, store, "p", limit); got != 3 {
			t.Errorf("%d taken in the second period, want 3 of the step", got)
		}
	})
}

// TestExtendWithoutStore checks OnStoreError for a step.
func TestExtendWithoutStore(t *testing.T) {
	for mode, want := range map[policy.FailMode]bool{policy.Open: true, policy.Local: true, policy.Closed: false} {
		bubble(t, func(t *testing.T, store *memstore.Store) {
			down := false
			s := fakestore.Around(store, func(context.Context, *weir.Request) error {
				if down {
					return errors.New("down")
				}
				return nil
			}, nil)
			var c enforce.Config
			events := observed(&c)
			p := metered(t, "p", "100/24h")
			p.OnStoreError = mode
			e := open(t, s, c, p)
			var a enforce.Admission
			enter(t, e, &a)
			events()
			down = true
			if ok := a.Extend(t.Context(), func(*policy.Policy) int64 { return 20 }); ok != want {
				t.Errorf("%s: Extend = %t, want %t", mode, ok, want)
			}
			down = false
			if want {
				same(t, "events", events())
			} else {
				same(t, "events", events(), "ada p exhausted error")
			}
			a.Exit(costing(25))
			if got := taken(t, store, "p", "100/24h"); got != 25 {
				t.Errorf("%s: %d taken, want the cost", mode, got)
			}
		})
	}
}
