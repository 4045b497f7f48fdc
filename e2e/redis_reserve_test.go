package e2e_test

import (
	"slices"
	"strconv"
	"testing"
	"time"

	"github.com/floodweir/weir"
	"github.com/floodweir/weir/e2e/redistest"
	"github.com/floodweir/weir/internal/bounds"
	"github.com/floodweir/weir/redisstore"
)

// TestRedisReservationExpires checks, with the clock of Redis, that an unsettled reservation
// is returned after its TTL, however late the next request is.
func TestRedisReservationExpires(t *testing.T) {
	store := newRedisStore(t, openConn(t, "rueidis", "redis://"+redistest.Start(t).Addr), redisstore.Config{})
	limit := weir.MustLimit("3/h")
	const ttl = 20 * time.Millisecond
	d, err := store.Do(t.Context(), weir.Request{Verb: weir.Reserve, Key: "k", Limit: limit, N: 2, ID: "r", TTL: ttl})
	if err != nil || !d.OK || d.Remaining != 1 {
		t.Fatalf("Reserve(2) = %+v, %v, want OK and 1 left", d, err)
	}
	untilRedis(t, store, d.At.Add(10*ttl))
	d, err = store.Do(t.Context(), weir.Request{Verb: weir.Take, Key: "k", Limit: limit, N: 3})
	if err != nil || !d.OK {
		t.Errorf("Take(3) after the TTL = %+v, %v, want OK: the 2 that were reserved are back", d, err)
	}
}

// TestRedisBatchWithReservations checks that expired reservations are returned for a batch of
// a process that has not used reservations of this limit. That batch is charged once or not at
// all.
func TestRedisBatchWithReservations(t *testing.T) {
	url := "redis://" + redistest.Start(t).Addr
	first := newRedisStore(t, openConn(t, "rueidis", url), redisstore.Config{})
	limit, other := weir.MustLimit("3/h"), weir.MustLimit("5/h")
	const ttl = 20 * time.Millisecond
	d, err := first.Do(t.Context(), weir.Request{Verb: weir.Reserve, Key: "k", Limit: limit, N: 2, ID: "r", TTL: ttl})
	if err != nil || !d.OK {
		t.Fatalf("Reserve(2) = %+v, %v, want OK", d, err)
	}
	untilRedis(t, first, d.At.Add(10*ttl))
	for i, c := range []struct {
		take      int64
		ok        bool
		left, own int64
	}{{4, false, 3, 5}, {3, true, 0, 4}, {1, false, 0, 4}} {
		store := newRedisStore(t, openConn(t, "rueidis", url), redisstore.Config{})
		ds := make([]weir.Decision, 2)
		ok, err := store.DoAll(t.Context(), []weir.Request{
			{Verb: weir.Reserve, Key: "held", Limit: other, N: 1, ID: "r" + strconv.Itoa(i), TTL: time.Hour},
			{Verb: weir.Take, Key: "k", Limit: limit, N: c.take},
		}, ds)
		if err != nil || ok != c.ok || ds[1].Remaining != c.left {
			t.Errorf("batch %d = %v, %v, %+v, want %v and %d left", i, ok, err, ds, c.ok, c.left)
		}
		d, err := store.Do(t.Context(), weir.Request{Verb: weir.Peek, Key: "held", Limit: other, N: 1})
		if err != nil || d.Remaining != c.own {
			t.Errorf("after batch %d: %+v, %v, want %d of the reserved limit left", i, d, err, c.own)
		}
	}
}

// untilRedis waits until the clock of the store reaches then, and changes nothing.
func untilRedis(tb testing.TB, store weir.Store, then time.Time) {
	tb.Helper()
	tick := time.NewTicker(time.Millisecond)
	defer tick.Stop()
	for {
		d, err := store.Do(tb.Context(), weir.Request{Verb: weir.Peek, Key: "other", Limit: weir.MustLimit("3/h"), N: 1})
		if err != nil {
			tb.Fatal(err)
		}
		if d.At.After(then) {
			return
		}
		<-tick.C
	}
}

// TestRedisDenialSettles checks that expired reservations are processed once, also by a denied
// request. Otherwise Redis would process all of them for every denial.
func TestRedisDenialSettles(t *testing.T) {
	server := redistest.Start(t)
	store := newRedisStore(t, openConn(t, "rueidis", "redis://"+server.Addr), redisstore.Config{})
	limit := weir.MustLimit("1500/h")
	for key, ask := range map[string]func(weir.Request) (bool, error){
		"one": func(r weir.Request) (bool, error) {
			d, err := store.Do(t.Context(), r)
			return d.OK, err
		},
		"both": func(r weir.Request) (bool, error) {
			return store.DoAll(t.Context(), []weir.Request{r, r}, make([]weir.Decision, 2))
		},
	} {
		const reserved, ttl = 1200, 20 * time.Millisecond // more than fit in one command
		var rs []weir.Request
		for i := range reserved {
			r := weir.Request{Verb: weir.Reserve, Key: key, Limit: limit, N: 1, ID: strconv.Itoa(i), TTL: ttl}
			settled := r
			settled.Verb = weir.Commit
			rs = append(rs, r, settled)
		}
		rs = rs[:len(rs)-1] // the last one is never settled
		ds := make([]weir.Decision, bounds.MaxBatch)
		var last time.Time
		for batch := range slices.Chunk(rs, len(ds)) {
			if ok, err := store.DoAll(t.Context(), batch, ds[:len(batch)]); err != nil || !ok {
				t.Fatalf("%s: %v, %v", key, ok, err)
			}
			last = ds[0].At
		}
		untilRedis(t, store, last.Add(2*ttl))
		if ok, err := ask(weir.Request{Verb: weir.Take, Key: key, Limit: limit, N: 400}); ok || err != nil {
			t.Fatalf("%s: %v, %v, want a denial", key, ok, err)
		}
		name := "weir:1:{" + key + "}:1500/h+burst+1500:"
		if n := server.Do(t, "EXISTS", name+"holds", name+"deadlines"); n != int64(0) {
			t.Errorf("%s: %v of the keys of reservations are left, want none", key, n)
		}
		if ok, err := ask(weir.Request{Verb: weir.Take, Key: key, Limit: limit, N: 150}); !ok || err != nil {
			t.Errorf("%s: Take(150) = %v, %v", key, ok, err)
		}
	}
}
