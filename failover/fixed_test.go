package failover_test

import (
	"errors"
	"testing"
	"time"

	"github.com/floodweir/weir"
	"github.com/floodweir/weir/failover"
	"github.com/floodweir/weir/internal/bounds"
	"github.com/floodweir/weir/policy"
)

// TestOpenAndClosed checks the decisions of Open and Closed for every verb.
func TestOpenAndClosed(t *testing.T) {
	limit := weir.MustLimit("10/s burst 20")
	for _, tt := range []struct {
		verb         weir.Verb
		n            int64
		open, closed weir.Decision
	}{
		{weir.Take, 3, weir.Decision{OK: true, Granted: 3}, weir.Decision{}},
		{weir.Take, 0, weir.Decision{OK: true}, weir.Decision{}},
		{weir.Take, 100, weir.Decision{OK: true, Granted: 100}, weir.Decision{}},
		{weir.TakeUpTo, 3, weir.Decision{OK: true, Granted: 3}, weir.Decision{}},
		{weir.Peek, 3, weir.Decision{OK: true}, weir.Decision{}},
		{weir.Reserve, 3, weir.Decision{OK: true, Granted: 3}, weir.Decision{}},
		{weir.Charge, 3, weir.Decision{OK: true, Granted: 3}, weir.Decision{OK: true, Granted: 3}},
		{weir.Return, 3, weir.Decision{OK: true}, weir.Decision{OK: true}},
		{weir.Reset, 0, weir.Decision{OK: true}, weir.Decision{OK: true}},
		{weir.Commit, 3, weir.Decision{OK: true, Granted: 3}, weir.Decision{OK: true, Granted: 3}},
		{weir.Cancel, 3, weir.Decision{OK: true}, weir.Decision{OK: true}},
	} {
		tt.open.Remaining = 20
		tt.open.Degraded, tt.closed.Degraded = policy.Open, policy.Closed
		if !tt.closed.OK {
			tt.closed.RetryAfter, tt.closed.ResetAfter = time.Second, time.Second
		}
		r := weir.Request{Verb: tt.verb, Key: "k", Limit: limit, N: tt.n}
		if tt.verb >= weir.Reserve {
			r.ID, r.TTL = "id", time.Minute
		}
		for _, mode := range []struct {
			name  string
			store weir.Store
			want  weir.Decision
		}{{"Open", failover.Open(), tt.open}, {"Closed", failover.Closed(), tt.closed}} {
			mode.want.Limit = limit
			ask(t, mode.store, t.Context(), r, func(d weir.Decision, err error, _ time.Duration) {
				if age := time.Since(d.At); age < 0 || age > time.Minute {
					t.Errorf("%s of %s is decided at %v", mode.name, tt.verb, d.At)
				}
				d.At = time.Time{}
				if err != nil || d != mode.want {
					t.Errorf("%s of %s(%d) = %+v, %v\nwant %+v", mode.name, tt.verb, tt.n, d, err, mode.want)
				}
			})
		}
	}
}

// TestOpenAndClosedBatches checks that batches are all or nothing, and that invalid batches
// are refused.
func TestOpenAndClosedBatches(t *testing.T) {
	limit := weir.MustLimit("10/s")
	settle := weir.Request{Verb: weir.Charge, Key: "k", Limit: limit, N: 1}
	take := weir.Request{Key: "k", Limit: limit, N: 1}
	for _, tt := range []struct {
		store weir.Store
		rs    []weir.Request
		want  bool
	}{
		{failover.Open(), nil, true},
		{failover.Closed(), nil, true},
		{failover.Open(), []weir.Request{take, settle}, true},
		{failover.Closed(), []weir.Request{take, settle}, false},
		{failover.Closed(), []weir.Request{settle, settle}, true},
	} {
		ds := make([]weir.Decision, len(tt.rs))
		if ok, err := tt.store.DoAll(t.Context(), tt.rs, ds); ok != tt.want || err != nil {
			t.Errorf("DoAll of %d = %v, %v, want %v", len(tt.rs), ok, err, tt.want)
		}
	}
	for _, store := range []weir.Store{failover.Open(), failover.Closed()} {
		for _, rs := range [][]weir.Request{{take, {Limit: limit}}, make([]weir.Request, bounds.MaxBatch+1)} {
			if ok, err := store.DoAll(t.Context(), rs, make([]weir.Decision, len(rs))); ok || !errors.Is(err, weir.ErrInvalid) {
				t.Errorf("DoAll of what is invalid = %v, %v, want ErrInvalid", ok, err)
			}
		}
		if _, err := store.DoAll(t.Context(), []weir.Request{take}, nil); !errors.Is(err, weir.ErrInvalid) {
			t.Errorf("DoAll of 1 into 0 = %v, want ErrInvalid", err)
		}
		if _, err := store.Do(t.Context(), weir.Request{Key: "k"}); !errors.Is(err, weir.ErrInvalid) {
			t.Errorf("Do of the zero Limit = %v, want ErrInvalid", err)
		}
	}
}
