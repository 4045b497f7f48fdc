package memstore_test

import (
	"context"
	"errors"
	"math"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/floodweir/weir"
	"github.com/floodweir/weir/internal/bounds"
	"github.com/floodweir/weir/memstore"
)

// TestConfig checks that a Config that can't be is refused, by field and value.
func TestConfig(t *testing.T) {
	for _, tt := range []struct {
		name string
		c    memstore.Config
		want string
	}{
		{"negative keys", memstore.Config{MaxKeys: -1}, "MaxKeys: invalid: want 1 to 1073741824, got -1"},
		{"too many keys", memstore.Config{MaxKeys: 1<<30 + 1}, "got 1073741825"},
		{"unknown Full", memstore.Config{Full: 2}, "Full: invalid: want Refuse or Share, got 2"},
		{"negative interval", memstore.Config{SnapshotEvery: -time.Second}, "SnapshotEvery: invalid: want a positive duration, got -1s"},
	} {
		_, err := memstore.New(tt.c)
		if !errors.Is(err, weir.ErrInvalid) || !strings.Contains(err.Error(), tt.want) {
			t.Errorf("%s: %v, want an error that wraps ErrInvalid and says %q", tt.name, err, tt.want)
		}
	}
	for _, path := range []string{t.TempDir(), t.TempDir() + "/no/such/place"} {
		if _, err := memstore.New(memstore.Config{Snapshot: path}); err == nil {
			t.Errorf("a snapshot at %s: New = nil, want an error", path)
		}
	}
}

// TestRealClock checks that the zero Config works, in real time: what is said to be free
// at an instant is free then, and not a microsecond before.
func TestRealClock(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newStore(t, memstore.Config{})
		for _, text := range []string{"3/7s", "3/7s fixed_window", "3/7s sliding_log", "3/7s leaky_bucket"} {
			l := weir.MustLimit(text)
			began := time.Now()
			for d := take(t, s, "k", l, 1); d.OK; d = take(t, s, "k", l, 1) {
				if d.At.Sub(began).Abs() > time.Microsecond {
					t.Errorf("%s: decided at %v, want %v", l, d.At, began)
				}
			}
			for range 3 {
				d := take(t, s, "k", l, 1)
				if d.OK {
					t.Fatalf("%s: %+v, want a denial", l, d)
				}
				<-time.After(d.RetryAfter - time.Microsecond)
				if d := take(t, s, "k", l, 1); d.OK || d.RetryAfter != time.Microsecond {
					t.Errorf("%s: a microsecond early: %+v, want a denial for a microsecond", l, d)
				}
				<-time.After(time.Microsecond)
				for take(t, s, "k", l, 1).OK {
				}
			}
		}
	})
}

// TestClock checks that a clock that goes back is held, and one out of all bounds
// overflows nothing.
func TestClock(t *testing.T) {
	now := clockAt(begin)
	s := newStore(t, memstore.Config{Clock: now.Load})
	l := weir.MustLimit("1/h")
	take(t, s, "k", l, 1)
	for _, us := range []int64{begin - 1, begin - 1000*hour, 1, 0, -1, math.MinInt64} {
		now.Store(us)
		for _, key := range []string{"k", "new"} {
			if d := do(t, s, weir.Request{Verb: weir.Peek, Key: key, Limit: l, N: 1}); d.At.UnixMicro() != begin || d.OK != (key == "new") {
				t.Errorf("clock at %d, key %s: %+v, want what it was", us, key, d)
			}
		}
	}
	now.Store(math.MaxInt64)
	for _, text := range []string{"1/h", "1/h fixed_window", "1/h sliding_window", "1/h sliding_log"} {
		l := weir.MustLimit(text)
		do(t, s, weir.Request{Verb: weir.Charge, Key: "k", Limit: l, N: math.MaxInt64})
		if d := take(t, s, "k", l, 1); d.OK || d.ResetAfter <= 0 {
			t.Errorf("%s: at the end of time %+v, want a denial", l, d)
		}
	}
}

// TestBadBatch checks that a batch of a wrong shape, or with a request that can't be,
// changes nothing.
func TestBadBatch(t *testing.T) {
	s := newStore(t, memstore.Config{Clock: clockAt(begin).Load})
	l := weir.MustLimit("5/h")
	good := weir.Request{Key: "k", Limit: l, N: 1}
	many := make([]weir.Request, bounds.MaxBatch+1)
	for i := range many {
		many[i] = good
	}
	for _, tt := range []struct {
		name string
		rs   []weir.Request
		ds   int
	}{
		{"fewer decisions", []weir.Request{good, good}, 1},
		{"too many", many, len(many)},
		{"no limit", []weir.Request{good, {Key: "k", N: 1}}, 2},
	} {
		if ok, err := s.DoAll(context.Background(), tt.rs, make([]weir.Decision, tt.ds)); ok || !errors.Is(err, weir.ErrInvalid) {
			t.Errorf("%s: %t, %v, want ErrInvalid", tt.name, ok, err)
		}
	}
	if ok, err := s.DoAll(context.Background(), nil, nil); !ok || err != nil {
		t.Errorf("an empty batch: %t, %v, want OK", ok, err)
	}
	if n := s.Stats().Keys; n != 0 {
		t.Errorf("%d keys are known, want none", n)
	}
	ds := make([]weir.Decision, bounds.MaxBatch)
	if ok, err := s.DoAll(context.Background(), many[:bounds.MaxBatch], ds); ok || err != nil {
		t.Errorf("the largest batch, of one key: %t, %v, want a denial", ok, err)
	}
	for i, d := range ds {
		if want := i < 5; d.OK != want {
			t.Errorf("request %d of the batch: OK %t, want %t", i, d.OK, want)
		}
	}
}

// TestLargeBatch checks that a large batch over many keys and shards is decided as a small
// one.
func TestLargeBatch(t *testing.T) {
	s := newStore(t, memstore.Config{Clock: clockAt(begin).Load})
	var rs []weir.Request
	for i, key := range keysOf(bounds.MaxBatch) {
		l := weir.MustLimit("5/h")
		if i%2 == 1 {
			l = weir.MustLimit("5/h sliding_log")
		}
		rs = append(rs, weir.Request{Key: key, Limit: l, N: 2, From: []weir.Limit{weir.MustLimit("7/h"), {}}})
	}
	ds := make([]weir.Decision, len(rs))
	for round, want := range []bool{true, true, false} {
		if ok, err := s.DoAll(context.Background(), rs, ds); ok != want || err != nil {
			t.Fatalf("round %d: %t, %v, want %t", round, ok, err, want)
		}
		for i, d := range ds {
			if want := max(1, 3-2*int64(round)); d.Remaining != want {
				t.Fatalf("round %d: %d remaining of key %d, want %d", round, d.Remaining, i, want)
			}
		}
	}
}
