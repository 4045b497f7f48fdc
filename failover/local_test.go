package failover_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/floodweir/weir"
	"github.com/floodweir/weir/internal/bounds"
	"github.com/floodweir/weir/memstore"
	"github.com/floodweir/weir/policy"
)

// A clockedLocal is a local store with its clock in µs.
func clockedLocal(t *testing.T, nodes int) (weir.Store, *int64) {
	t.Helper()
	now := new(int64)
	*now = time.Date(2026, 1, 1, 12, 0, 0, 0, time.UTC).UnixMicro()
	mem, err := memstore.New(memstore.Config{Clock: func() int64 { return *now }})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { mem.Close() })
	return newLocal(t, mem, nodes), now
}

// A step is a pause, then a request and its decision.
type step struct {
	pass time.Duration
	verb weir.Verb
	n    int64
	want string
}

func play(t *testing.T, name string, s weir.Store, now *int64, limit weir.Limit, steps []step) {
	t.Helper()
	for i, st := range steps {
		*now += st.pass.Microseconds()
		r := weir.Request{Verb: st.verb, Key: "k", Limit: limit, N: st.n}
		if st.verb >= weir.Reserve {
			r.ID, r.TTL = "id", time.Minute
		}
		d, err := s.Do(t.Context(), r)
		if got := answer(d, err); got != st.want {
			t.Errorf("%s, step %d: %s(%d) of %s = %s, want %s", name, i, st.verb, st.n, limit, got, st.want)
		}
		if err == nil && (d.Degraded != policy.Local || d.Limit != limit) {
			t.Errorf("%s, step %d: %+v, want it marked local and of %s", name, i, d, limit)
		}
	}
}

func answer(d weir.Decision, err error) string {
	if err != nil {
		return err.Error()
	}
	verdict := "denied"
	if d.OK {
		verdict = "ok"
	}
	text := fmt.Sprintf("%s granted %d remaining %d", verdict, d.Granted, d.Remaining)
	if d.RetryAfter == weir.Never {
		text += " never"
	} else if d.RetryAfter > 0 {
		text += fmt.Sprintf(" retry %v", d.RetryAfter)
	}
	if d.Delay > 0 {
		text += fmt.Sprintf(" delay %v", d.Delay)
	}
	return text
}

// TestLargeCosts checks requests above the capacity of a share. A full bucket admits them
// and has the rest as debt; other limits deny them for a second. A request above the limit
// itself is denied for ever.
func TestLargeCosts(t *testing.T) {
	bucket := weir.MustLimit("60/m burst 30") // of 3: one in 3 s, 10 at once
	s, now := clockedLocal(t, 3)
	play(t, "bucket", s, now, bucket, []step{
		{0, weir.Peek, 25, "ok granted 0 remaining 10"},
		{0, weir.Take, 31, "denied granted 0 remaining 10 never"},
		{0, weir.Take, 25, "ok granted 25 remaining 0"},
		{0, weir.Take, 1, "denied granted 0 remaining 0 retry 48s"}, // 16 are owed
		{48 * time.Second, weir.Take, 1, "ok granted 1 remaining 0"},
		{0, weir.Take, 11, "denied granted 0 remaining 0 retry 30s"},
		{0, weir.Peek, 30, "denied granted 0 remaining 0 retry 30s"},
		{0, weir.TakeUpTo, 30, "denied granted 0 remaining 0 retry 3s"},
		{30*time.Second - time.Microsecond, weir.Take, 11, "denied granted 0 remaining 9 retry 1µs"},
		{time.Microsecond, weir.TakeUpTo, 30, "ok granted 10 remaining 0"},
		{time.Hour, weir.Reserve, 30, "ok granted 30 remaining 0"},
		{0, weir.Reserve, 30, "ok granted 30 remaining 0"}, // the same
		{0, weir.Commit, 12, "ok granted 12 remaining 0"},  // two more than were held
		{0, weir.Take, 1, "denied granted 0 remaining 0 retry 9s"},
		{time.Hour, weir.Charge, 30, "ok granted 30 remaining 0"},
	})
	queue := weir.MustLimit("60/m leaky_bucket burst 29 queue") // of 3: room for 9 and one in service
	s, now = clockedLocal(t, 3)
	play(t, "queue", s, now, queue, []step{
		{0, weir.Take, 20, "ok granted 20 remaining 0 delay 57s"}, // the last of 20 leaves after 19·3 s
		{0, weir.Take, 1, "denied granted 0 remaining 0 retry 33s"},
	})
	for _, text := range []string{"30/m fixed_window", "30/m sliding_window", "30/m sliding_log", "30 concurrency", "30/day calendar UTC"} {
		s, now = clockedLocal(t, 3)
		play(t, text, s, now, weir.MustLimit(text), []step{
			{0, weir.Take, 11, "denied granted 0 remaining 10 retry 1s"},
			{0, weir.Peek, 11, "denied granted 0 remaining 10 retry 1s"},
			{0, weir.Reserve, 30, "denied granted 0 remaining 10 retry 1s"},
			{0, weir.Take, 31, "denied granted 0 remaining 10 never"},
			{0, weir.TakeUpTo, 30, "ok granted 10 remaining 0"},
		})
	}
}

// TestLargeCostsTogether checks the same in a batch: all or nothing, with a decision for
// each request.
func TestLargeCostsTogether(t *testing.T) {
	s, now := clockedLocal(t, 3)
	small, bucket, window := weir.MustLimit("30/h burst 30"), weir.MustLimit("60/m burst 30"), weir.MustLimit("30/m fixed_window")
	for i, tt := range []struct {
		rs   []weir.Request
		ok   bool
		want []string
	}{
		{[]weir.Request{{Key: "a", Limit: small, N: 2}, {Key: "a", Limit: bucket, N: 30}, {Key: "a", Limit: window, N: 11}}, false,
			[]string{"ok granted 2 remaining 8", "ok granted 30 remaining 0", "denied granted 0 remaining 10 retry 1s"}},
		{[]weir.Request{{Key: "a", Limit: bucket, N: 30}, {Key: "a", Limit: small, N: 2}, {Key: "b", Limit: bucket, N: 11}}, true,
			[]string{"ok granted 30 remaining 0", "ok granted 2 remaining 8", "ok granted 11 remaining 0"}},
		{[]weir.Request{{Key: "a", Limit: small, N: 2}, {Key: "a", Limit: bucket, N: 30}}, false,
			[]string{"ok granted 2 remaining 6", "denied granted 0 remaining 0 retry 1m30s"}},
	} {
		ds := make([]weir.Decision, len(tt.rs))
		ok, err := s.DoAll(t.Context(), tt.rs, ds)
		if ok != tt.ok || err != nil {
			t.Errorf("batch %d = %v, %v, want %v", i, ok, err, tt.ok)
		}
		for j, d := range ds {
			if got := answer(d, err); got != tt.want[j] || d.Degraded != policy.Local || d.Limit != tt.rs[j].Limit {
				t.Errorf("batch %d, request %d = %s of %s, want %s", i, j, got, d.Limit, tt.want[j])
			}
		}
	}
	// A full batch has no room for a charge: the request is denied for a second.
	rs, ds := make([]weir.Request, bounds.MaxBatch), make([]weir.Decision, bounds.MaxBatch)
	for i := range rs {
		rs[i] = weir.Request{Key: fmt.Sprint(i), Limit: bucket, N: 1}
		if i < 2 {
			rs[i].N = 30
		}
	}
	if ok, err := s.DoAll(t.Context(), rs, ds); ok || err != nil || answer(ds[0], err) != "denied granted 0 remaining 10 retry 1s" {
		t.Errorf("a full batch = %v, %v, the first %s, want it denied for a second", ok, err, answer(ds[0], err))
	}
	if ok, err := s.DoAll(t.Context(), rs[:bounds.MaxBatch-2], ds[:bounds.MaxBatch-2]); !ok || err != nil {
		t.Errorf("a batch with room for two debts = %v, %v, want true", ok, err)
	}
	*now += time.Hour.Microseconds()
}

// TestUnknownReservations checks that a reservation of the unavailable store counts as
// settled, alone and in a batch.
func TestUnknownReservations(t *testing.T) {
	limit := weir.MustLimit("30/h burst 30")
	s, now := clockedLocal(t, 3)
	play(t, "unknown", s, now, limit, []step{
		{0, weir.Commit, 7, "ok granted 7 remaining 10"},
		{0, weir.Cancel, 3, "ok granted 0 remaining 10"},
		{0, weir.Reserve, 4, "ok granted 4 remaining 6"},
		{0, weir.Commit, 2, "ok granted 2 remaining 8"},
	})
	take := weir.Request{Key: "k", Limit: limit, N: 3}
	reserve := weir.Request{Verb: weir.Reserve, Key: "k", Limit: limit, N: 2, ID: "known", TTL: time.Minute}
	commit := weir.Request{Verb: weir.Commit, Key: "k", Limit: limit, N: 5, ID: "elsewhere"}
	known := commit
	known.ID, known.N = "known", 1
	if d, err := s.Do(t.Context(), reserve); err != nil || d.Remaining != 6 {
		t.Fatalf("Reserve = %+v, %v", d, err)
	}
	ds := make([]weir.Decision, 4)
	ok, err := s.DoAll(t.Context(), []weir.Request{take, commit, known, take}, ds)
	if !ok || err != nil || ds[1].Granted != 5 || ds[2].Granted != 1 || ds[3].Remaining != 0 {
		t.Errorf("DoAll with an unknown reservation = %v, %v, %+v", ok, err, ds)
	}
	if d, err := s.Do(t.Context(), weir.Request{Verb: weir.Peek, Key: "k", Limit: limit}); err != nil || d.Remaining != 1 {
		t.Errorf("after 3, 1 and 3 of 8: %+v, %v, want 1 remaining", d, err)
	}
	// If another request is denied, nothing is settled.
	reserve.ID, known.ID = "other", "other"
	reserve.N, known.N = 1, 0
	s.Do(t.Context(), reserve)
	if ok, err := s.DoAll(t.Context(), []weir.Request{commit, known, take}, ds[:3]); ok || err != nil || ds[2].OK {
		t.Errorf("DoAll with a denial = %v, %v, %+v", ok, err, ds[:3])
	}
	if d, err := s.Do(t.Context(), weir.Request{Verb: weir.Peek, Key: "k", Limit: limit}); err != nil || d.Remaining != 0 {
		t.Errorf("a denied batch settled something: %+v, %v", d, err)
	}
}

// TestCarryBetweenShares checks that the debt of a key is carried over from share to share.
func TestCarryBetweenShares(t *testing.T) {
	s, _ := clockedLocal(t, 3)
	old, now := weir.MustLimit("30/h burst 30"), weir.MustLimit("60/h burst 60")
	s.Do(t.Context(), weir.Request{Key: "k", Limit: old, N: 5})
	d, err := s.Do(t.Context(), weir.Request{Key: "k", Limit: now, N: 1, From: []weir.Limit{{}, old}})
	if err != nil || d.Remaining != 14 { // 5 of 20 used, and one more
		t.Errorf("Take after a change of limits = %+v, %v, want 14 remaining", d, err)
	}
}

// TestLocalErrors checks that errors of the store in memory are returned.
func TestLocalErrors(t *testing.T) {
	full := fake{do: func(context.Context, weir.Request) (weir.Decision, error) {
		return weir.Decision{}, fmt.Errorf("fake: %w", weir.ErrFull)
	}}
	ask(t, newLocal(t, full, 3), t.Context(), request, func(d weir.Decision, err error, _ time.Duration) {
		if !errors.Is(err, weir.ErrFull) || d != (weir.Decision{}) {
			t.Errorf("Do = %+v, %v, want ErrFull and nothing else", d, err)
		}
	})
	s := newLocal(t, newMem(t), 3)
	for _, r := range []weir.Request{{Limit: request.Limit}, {Key: "k"}, {Key: "k", Limit: request.Limit, N: -1}} {
		ask(t, s, t.Context(), r, func(d weir.Decision, err error, _ time.Duration) {
			if !errors.Is(err, weir.ErrInvalid) {
				t.Errorf("%+v = %+v, %v, want ErrInvalid", r, d, err)
			}
		})
	}
	unknown := fake{do: func(_ context.Context, r weir.Request) (weir.Decision, error) {
		if r.Verb == weir.Peek {
			return weir.Decision{}, errOdd
		}
		return weir.Decision{}, fmt.Errorf("fake: %w", weir.ErrNoReservation)
	}}
	r := weir.Request{Verb: weir.Commit, Key: "k", Limit: request.Limit, ID: "id"}
	ask(t, newLocal(t, unknown, 3), t.Context(), r, func(d weir.Decision, err error, _ time.Duration) {
		if !errors.Is(err, errOdd) {
			t.Errorf("Commit = %+v, %v, want the store's error", d, err)
		}
	})
}

// TestManyLimits checks that the cache of shares is bounded, and that each decision is by
// the share of its own limit.
func TestManyLimits(t *testing.T) {
	s := newLocal(t, newMem(t), 3)
	for round := range 2 {
		for i := range 3000 {
			limit, err := weir.NewLimit(weir.TokenBucket{Count: 1, Period: time.Hour, Burst: 3 * int64(i+1)})
			if err != nil {
				t.Fatal(err)
			}
			d, err := s.Do(t.Context(), weir.Request{Key: "k", Limit: limit, N: 1})
			if want := int64(i - round); err != nil || d.Limit != limit || d.Remaining != max(0, want) {
				t.Fatalf("round %d, limit %s: %+v, %v, want %d remaining", round, limit, d, err, want)
			}
		}
	}
}
