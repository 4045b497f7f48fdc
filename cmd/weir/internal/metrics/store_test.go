package metrics_test

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"testing"
	"time"

	"github.com/floodweir/weir"
	"github.com/floodweir/weir/cmd/weir/internal/metrics"
	"github.com/floodweir/weir/enforce"
	"github.com/floodweir/weir/memstore"
	"github.com/floodweir/weir/policy"
	"github.com/floodweir/weir/storetest"
)

// TestConformance checks that a timed store keeps the rules of weir.Store.
func TestConformance(t *testing.T) {
	storetest.Run(t, func(tb testing.TB) storetest.Harness {
		var now atomic.Int64
		store, err := memstore.New(memstore.Config{Clock: now.Load})
		if err != nil {
			tb.Fatal(err)
		}
		m := metrics.New(metrics.Config{})
		return storetest.Harness{Store: m.Interface("d", m.Store(store)), SetNow: now.Store, Close: func() { store.Close() }, Monotonic: true}
	})
}

// failing is a store that returns an error.
type failing struct{ err error }

func (f failing) Do(context.Context, weir.Request) (weir.Decision, error) {
	return weir.Decision{}, f.err
}

func (f failing) DoAll(context.Context, []weir.Request, []weir.Decision) (bool, error) {
	return false, f.err
}

func TestStoreErrors(t *testing.T) {
	m := metrics.New(metrics.Config{})
	canceled, cancel := context.WithCancel(context.Background())
	cancel()
	for _, test := range []struct {
		ctx context.Context
		err error
	}{
		{context.Background(), nil},
		{context.Background(), fmt.Errorf("redis: %w", weir.ErrUnavailable)},
		{context.Background(), fmt.Errorf("redis: %w: %w", weir.ErrUnavailable, context.DeadlineExceeded)},
		{context.Background(), &weir.OverloadError{Reason: "busy"}},
		{context.Background(), weir.ErrFull},
		{context.Background(), weir.ErrClosed},
		{context.Background(), weir.ErrNoReservation},
		{context.Background(), errors.New("something else")},
		{context.Background(), weir.ErrInvalid}, // the caller's error
		{canceled, context.Canceled},            // the caller has canceled
	} {
		s := m.Store(failing{test.err})
		if _, err := s.Do(test.ctx, weir.Request{Verb: weir.Peek}); err != test.err {
			t.Errorf("Do: %v, want %v", err, test.err)
		}
		if _, err := s.DoAll(test.ctx, nil, nil); err != test.err {
			t.Errorf("DoAll: %v, want %v", err, test.err)
		}
	}
	m.Store(failing{}).Do(context.Background(), weir.Request{Verb: 200}) // a store that takes anything
	got := scrape(t, m)
	for _, op := range []string{"peek", "batch"} {
		for _, reason := range []string{"unavailable", "timeout", "overloaded", "full", "closed", "no_reservation", "other"} {
			wantValue(t, got, 1, "weir_store_errors_total", op, reason)
		}
		wantValue(t, got, 8, "weir_store_duration_seconds", op)
	}
	if n := len(got["weir_store_errors_total"].GetMetric()); n != 14 {
		t.Errorf("%d series of errors, want 14: %v", n, got["weir_store_errors_total"])
	}
}

// TestDurations checks the durations that package enforce and package failover report.
func TestDurations(t *testing.T) {
	m := metrics.New(metrics.Config{})
	p := newPolicy(t, "p", policy.Enforce)
	m.Observe("gateway", enforce.Event{Policy: p, Outcome: enforce.Admitted, Took: time.Millisecond})
	m.Observe("gateway", enforce.Event{Policy: p, Outcome: enforce.Admitted}) // of the same decision
	calls := m.StoreCalls()
	calls(t.Context(), weir.Take, false, time.Now(), nil)
	calls(t.Context(), 0, true, time.Now(), weir.ErrUnavailable)
	got := scrape(t, m)
	wantValue(t, got, 1, "weir_decision_duration_seconds", "gateway")
	wantValue(t, got, 1, "weir_store_duration_seconds", "take")
	wantValue(t, got, 1, "weir_store_duration_seconds", "batch")
	wantValue(t, got, 1, "weir_store_errors_total", "batch", "unavailable")
}
