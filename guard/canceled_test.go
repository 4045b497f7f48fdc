package guard_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/floodweir/weir/enforce"
	"github.com/floodweir/weir/guard"
	"github.com/floodweir/weir/internal/fakestore"
	"github.com/floodweir/weir/policy"
)

// TestCanceledLocalDecision checks that the end of a context denies nothing: what needs no wait is
// decided as without it, in memory and with any limit.
func TestCanceledLocalDecision(t *testing.T) {
	ctx, cancel := context.WithCancelCause(context.Background())
	cancel(errDown)
	for _, tc := range []struct {
		limit string
		count policy.Count
		wait  time.Duration
	}{
		{"2/h", "", 0},
		{"2 concurrency lease 1h", "", 0},
		{"2/h", policy.CountFailures, 0},
		{"2/h", policy.CountAll, 0},
		{"2/m", "", time.Minute},
		{"1/h leaky_bucket burst 1", "", 0},
	} {
		synctest.Test(t, func(t *testing.T) {
			r := registry(t, guard.Config{Functions: functions(rule(t, policy.Config{
				Name: "f", Limits: limits(tc.limit), Count: tc.count, OnDenied: policy.OnDenied{Wait: tc.wait},
			}))})
			g := r.MustGuard(guard.Resource{Name: "f", HandlesStoreError: true})
			var open []*guard.Entry
			for i := range 2 {
				e, err := g.Enter(ctx, "")
				if err != nil {
					t.Errorf("%+v: call %d: %v, want it admitted", tc, i, err)
				}
				open = append(open, e)
			}
			_, err := g.Enter(ctx, "")
			var u *guard.StoreError
			switch {
			case tc.wait == 0 && !errors.Is(err, guard.ErrDenied):
				t.Errorf("%+v: the third call: %v, want a denial", tc, err)
			case tc.wait > 0 && (!errors.As(err, &u) || !u.Canceled || u.FailsOpen || !errors.Is(err, errDown)):
				t.Errorf("%+v: the third call: %v, want the cause of the end of its context instead of a wait", tc, err)
			}
			for _, e := range open {
				e.Exit(nil)
			}
			if s := r.Live()[0]; s.Passed != 2 || s.Running != 0 || s.Denied+s.Undecided != 1 && tc.wait == 0 {
				t.Errorf("%+v: %+v, want 2 passed and 1 denied", tc, s)
			}
			if tc.wait > 0 {
				return
			}
			if got := passed(t, g, "", 1); (got == 1) != (tc.limit == "2 concurrency lease 1h" || tc.count == policy.CountFailures) {
				t.Errorf("%+v: after the calls %d more pass", tc, got)
			}
		})
	}
}

// TestCanceledRemoteDecision checks that on_store_error decides about a call whose context has
// ended, or ends before the store responds, and that error handlers do not.
func TestCanceledRemoteDecision(t *testing.T) {
	for _, mode := range []policy.FailMode{policy.Open, policy.Closed, policy.Local} {
		for _, limit := range []string{"1/h", "1 concurrency lease 1h"} {
			for _, late := range []bool{false, true} {
				synctest.Test(t, func(t *testing.T) {
					local := fakestore.Memory(t)
					r := registry(t, guard.Config{Store: stuck{}, Options: enforce.Options{Local: local}, Functions: functions(
						rule(t, policy.Config{Name: "f", Limits: limits(limit), OnStoreError: mode}))})
					g := r.MustGuard(guard.Resource{Name: "f", HandlesStoreError: true})
					enter := func() error {
						ctx, cancel := context.WithCancel(context.Background())
						defer cancel()
						if !late {
							cancel()
						} else {
							time.AfterFunc(time.Second, cancel)
						}
						_, err := g.Enter(ctx, "")
						return err
					}
					what := fmt.Sprint(mode, " ", limit, " late ", late)
					err := enter()
					var u *guard.StoreError
					switch {
					case mode != policy.Closed && err != nil:
						t.Errorf("%s: %v, want it admitted", what, err)
					case mode == policy.Closed && (!errors.As(err, &u) || !u.Canceled || u.FailsOpen || !errors.Is(err, context.Canceled)):
						t.Errorf("%s: %v, want a *StoreError for handlers to ignore", what, err)
					}
					if err := enter(); errors.Is(err, guard.ErrDenied) != (mode == policy.Local) {
						t.Errorf("%s: the second call: %v, want a denial in mode local alone", what, err)
					}
				})
			}
		}
	}
}

// TestCanceledFunc checks that a wrapped clean-up function is called, and that neither its fallback
// nor its error handlers replace it.
func TestCanceledFunc(t *testing.T) {
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	for _, c := range []guard.Config{{}, {Store: stuck{}}} {
		handler := func(context.Context, int, error) (int, error) { return -1, nil }
		double := func(_ context.Context, n int) (int, error) { return 2 * n, nil }
		f := guard.Func(registry(t, c).MustGuard(guard.Resource{Name: "f"}), double, guard.FuncOptions[int, int]{
			Fallback: handler, OnError: []func(context.Context, int, error) (int, error){handler},
		})
		if n, err := f(ctx, 2); n != 4 || err != nil {
			t.Errorf("Store %v: %d, %v, want 4 of the function", c.Store, n, err)
		}
	}
}
