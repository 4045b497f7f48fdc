package traffic_test

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/floodweir/weir"
	"github.com/floodweir/weir/cmd/weir/internal/traffic"
	"github.com/floodweir/weir/enforce"
	"github.com/floodweir/weir/policy"
)

// named returns a policy by client address, with a candidate.
func named(t testing.TB, name string) *policy.Policy {
	t.Helper()
	p, err := policy.New(policy.Config{
		Name: name, Key: []policy.KeyPart{{Source: policy.ClientIP}},
		Limits: []weir.Limit{weir.MustLimit("5/m")}, Candidate: []weir.Limit{weir.MustLimit("3/m")},
	})
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// bubble runs f with a recorder in virtual time.
func bubble(t *testing.T, f func(t *testing.T, r *traffic.Recorder)) {
	synctest.Test(t, func(t *testing.T) {
		r := traffic.New(traffic.Config{Seed: 1})
		ctx, stop := context.WithCancel(t.Context())
		done := make(chan struct{})
		go func() { r.Run(ctx); close(done) }()
		synctest.Wait()
		f(t, r)
		stop()
		<-done
	})
}

// TestColumns checks in which columns each outcome counts.
func TestColumns(t *testing.T) {
	p := named(t, "login")
	for _, tc := range []struct {
		event enforce.Event
		want  traffic.Counts
	}{
		{enforce.Event{Outcome: enforce.Admitted}, traffic.Counts{traffic.Admitted: 1}},
		{enforce.Event{Outcome: enforce.FailedOpen}, traffic.Counts{traffic.Admitted: 1}},
		{enforce.Event{Outcome: enforce.Admitted, Decision: weir.Decision{Delay: 1}}, traffic.Counts{traffic.Admitted: 1, traffic.Delayed: 1}},
		{enforce.Event{Outcome: enforce.Admitted, Shadow: true}, traffic.Counts{traffic.Admitted: 1}},
		{enforce.Event{Outcome: enforce.Denied}, traffic.Counts{traffic.Denied: 1}},
		{enforce.Event{Outcome: enforce.Denied, Shadow: true}, traffic.Counts{traffic.Shadow: 1}},
		{enforce.Event{Outcome: enforce.Held}, traffic.Counts{}},
		{enforce.Event{Outcome: enforce.FailedClosed}, traffic.Counts{traffic.Overloaded: 1}},
		{enforce.Event{Outcome: enforce.FailedClosed, Err: context.Canceled}, traffic.Counts{}},
		{enforce.Event{Outcome: enforce.Overloaded}, traffic.Counts{traffic.Overloaded: 1}},
		{enforce.Event{Outcome: enforce.Settled}, traffic.Counts{}},
	} {
		bubble(t, func(t *testing.T, r *traffic.Recorder) {
			start := time.Now()
			tc.event.Policy = p
			r.Observe(tc.event)
			<-time.After(time.Second)
			synctest.Wait()
			rows := r.History().Series("", start).Rows
			if len(rows) != 1 || rows[0] == nil || rows[0].Counts != tc.want {
				t.Errorf("%+v: rows %v, want one with %v", tc.event, rows, tc.want)
			}
		})
	}
}

// TestCandidate checks that the decisions of a candidate are in the series of its policy.
func TestCandidate(t *testing.T) {
	p := named(t, "login")
	set, err := policy.NewSet(p)
	if err != nil {
		t.Fatal(err)
	}
	store := newStore(t)
	bubble(t, func(t *testing.T, r *traffic.Recorder) {
		start := time.Now()
		e, err := enforce.New(store, set, enforce.Config{Observe: func(_ context.Context, _ policy.Attributes, e enforce.Event) {
			e.Took = time.Millisecond // virtual time stands still
			r.Observe(e)
		}})
		if err != nil {
			t.Fatal(err)
		}
		for range 10 {
			var a enforce.Admission
			e.Enter(t.Context(), request{ip: "192.0.2.1"}, &a)
		}
		<-time.After(time.Second)
		synctest.Wait()
		rows := r.History().Series("login", start).Rows
		want := traffic.Counts{traffic.Admitted: 5, traffic.Denied: 5, traffic.Candidate: 7}
		if len(rows) != 1 || rows[0].Counts != want {
			t.Errorf("rows %v, want one with %v", rows, want)
		}
		all := r.History().Series("", start).Rows
		if len(all) != 1 || all[0].P50 < time.Millisecond/2 || all[0].P50 > all[0].P99 || all[0].P99 > 2*time.Millisecond {
			t.Errorf("rows %v, want decision times of about 1 ms", all)
		}
	})
}

// TestExact checks that no decision is lost, from several goroutines and with reloads.
func TestExact(t *testing.T) {
	r := traffic.New(traffic.Config{})
	const each, goroutines = 20_000, 4
	var group sync.WaitGroup
	for g := range goroutines {
		group.Go(func() {
			var p *policy.Policy
			for i := range each {
				if i%1000 == 0 { // as after a reload
					p = named(t, fmt.Sprint("p", i/1000%3))
				}
				r.Observe(enforce.Event{Policy: p, Outcome: enforce.Denied, Key: fmt.Sprint("p|1:", g)})
			}
		})
	}
	group.Wait()
	now := time.Now()
	r.Collect(now.Add(time.Second))
	if got := total(r.History().Series("", now.Add(-time.Minute))); got[traffic.Denied] != each*goroutines {
		t.Errorf("denied %d, want %d", got[traffic.Denied], each*goroutines)
	}
}

func total(s traffic.Series) (sum traffic.Counts) {
	for _, row := range s.Rows {
		if row != nil {
			for i, n := range row.Counts {
				sum[i] += n
			}
		}
	}
	return sum
}
