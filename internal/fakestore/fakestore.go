// Package fakestore has stores for tests: one made of functions, and memory stores that end
// with a test.
package fakestore

import (
	"context"
	"sync/atomic"
	"testing"
	"time"

	"github.com/floodweir/weir"
	"github.com/floodweir/weir/memstore"
)

// A Store is a weir.Store made of functions.
type Store struct {
	// One decides one request.
	One func(context.Context, weir.Request) (weir.Decision, error)

	// All decides several. If nil, One decides each of them.
	All func(context.Context, []weir.Request, []weir.Decision) (bool, error)
}

// Do implements [weir.Store].
func (s Store) Do(ctx context.Context, r weir.Request) (weir.Decision, error) { return s.One(ctx, r) }

// DoAll implements [weir.Store].
func (s Store) DoAll(ctx context.Context, rs []weir.Request, ds []weir.Decision) (ok bool, err error) {
	if s.All != nil {
		return s.All(ctx, rs, ds)
	}
	ok = true
	for i, r := range rs {
		if ds[i], err = s.One(ctx, r); err != nil {
			return false, err
		}
		ok = ok && ds[i].OK
	}
	return ok, nil
}

// Failing returns a store that fails every request with err.
func Failing(err error) Store {
	return Store{One: func(context.Context, weir.Request) (weir.Decision, error) { return weir.Decision{}, err }}
}

// Answering returns a store that decides every request as d, under its limit.
func Answering(d weir.Decision) Store {
	return Store{One: func(_ context.Context, r weir.Request) (weir.Decision, error) {
		d := d
		d.Limit = r.Limit
		return d, nil
	}}
}

// Around returns store with before and after around each request; both may be nil. Before may
// change the request. An error of either is the error of the call.
func Around(store weir.Store, before func(context.Context, *weir.Request) error, after func(weir.Request, weir.Decision) error) Store {
	if before == nil {
		before = func(context.Context, *weir.Request) error { return nil }
	}
	if after == nil {
		after = func(weir.Request, weir.Decision) error { return nil }
	}
	return Store{
		One: func(ctx context.Context, r weir.Request) (weir.Decision, error) {
			if err := before(ctx, &r); err != nil {
				return weir.Decision{}, err
			}
			d, err := store.Do(ctx, r)
			if err == nil {
				err = after(r, d)
			}
			return d, err
		},
		All: func(ctx context.Context, rs []weir.Request, ds []weir.Decision) (bool, error) {
			for i := range rs {
				if err := before(ctx, &rs[i]); err != nil {
					return false, err
				}
			}
			ok, err := store.DoAll(ctx, rs, ds)
			for i := range rs {
				if err == nil {
					err = after(rs[i], ds[i])
				}
			}
			return ok && err == nil, err
		},
	}
}

// Memory returns a memory store that is closed with the test.
func Memory(t testing.TB) *memstore.Store {
	t.Helper()
	return open(t, memstore.Config{})
}

// Clocked returns a memory store whose clock begins in 2026 and advances by calls of advance.
func Clocked(t testing.TB) (store *memstore.Store, advance func(time.Duration)) {
	t.Helper()
	var now atomic.Int64
	now.Store(time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC).UnixMicro())
	return open(t, memstore.Config{Clock: now.Load}), func(d time.Duration) { now.Add(d.Microseconds()) }
}

// A DriftingWait is a wait of at most 12 s for 1 token of key under Limit, whose only token
// was taken at its beginning. The clock of its store differs from that of the machine by
// Offset, and advances by Percent of it. The wait is measured by the clock of the store.
type DriftingWait struct {
	Limit   string
	Offset  time.Duration
	Percent int64
	Taken   bool          // other clients take every token first
	After   time.Duration // when the wait ends, by the clock of the machine
}

// DriftingWaits are tests of every client that waits.
var DriftingWaits = []DriftingWait{
	{"1/10s", 0, 100, false, 10 * time.Second},
	{"1/10s", 1000 * time.Hour, 100, false, 10 * time.Second},
	{"1/10s", -1000 * time.Hour, 50, false, 20 * time.Second},
	{"1/s burst 1", 0, 100, true, 12 * time.Second},
	{"1/s burst 1", 1000 * time.Hour, 200, true, 6 * time.Second},
	{"1/s burst 1", -1000 * time.Hour, 50, true, 24 * time.Second},
}

// Check takes the token, calls wait, which reports whether the wait for the next one was
// successful, and checks when it ends. It is called in a bubble of package synctest.
func (w *DriftingWait) Check(t *testing.T, wait func(store weir.Store, maxWait time.Duration) bool) {
	start := time.Now()
	store := open(t, memstore.Config{Clock: func() int64 {
		return start.Add(w.Offset).UnixMicro() + time.Since(start).Microseconds()*w.Percent/100
	}})
	first := true
	ok := wait(Around(store, func(ctx context.Context, r *weir.Request) error {
		if !w.Taken && !first {
			return nil
		}
		first = false
		taken := *r
		taken.Verb = weir.Take
		_, err := store.Do(ctx, taken)
		return err
	}, nil), 12*time.Second)
	if after := time.Since(start).Round(time.Millisecond); ok == w.Taken || after != w.After {
		t.Errorf("%+v: ended after %v with %v", *w, after, ok)
	}
}

func open(t testing.TB, c memstore.Config) *memstore.Store {
	t.Helper()
	s, err := memstore.New(c)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.Close() })
	return s
}
