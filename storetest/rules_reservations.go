package storetest

import (
	"fmt"
	"testing"
	"time"

	"github.com/floodweir/weir"
)

func rule6(tb testing.TB, open Open) {
	a := open.asker(tb)
	l := hourly(10)
	reserve := func(key, id string, n int64, ttl time.Duration) weir.Request {
		return weir.Request{Verb: weir.Reserve, Key: key, Limit: l, N: n, ID: id, TTL: ttl}
	}
	settle := func(v weir.Verb, key, id string, n int64) weir.Request {
		return weir.Request{Verb: v, Key: key, Limit: l, N: n, ID: id}
	}
	for range 3 { // again and again: charged once
		a.want(reserve("k", "one", 4, time.Minute), "ok remaining 6 reset 1m")
	}
	a.want(reserve("k", "one", 9, time.Minute), "ok granted 4 remaining 6 reset 1m")
	a.want(reserve("k", "two", 4, 2*time.Minute), "ok remaining 2 reset 2m")
	a.want(reserve("k", "three", 4, time.Minute), "denied remaining 2 retry 1m reset 2m")
	a.want(settle(weir.Commit, "k", "three", 4), "error no-reservation")
	a.want(settle(weir.Cancel, "other", "one", 0), "error no-reservation")
	for range 3 { // fewer than reserved: the rest goes back, once
		a.want(settle(weir.Commit, "k", "one", 1), "ok remaining 5 reset 6m")
	}
	a.want(settle(weir.Cancel, "k", "one", 0), "ok granted 1 remaining 5 reset 6m") // settled is settled
	a.want(reserve("k", "one", 4, time.Minute), "ok remaining 5 reset 6m")          // and still known
	for range 3 {                                                                   // more than reserved: into debt
		a.want(settle(weir.Commit, "k", "two", 12), "ok debt 3 reset 1h18m")
	}
	a.want(peek("k", l, 1), "denied debt 3 retry 24m reset 1h18m")

	// Unsettled at its end: back by itself, at the microsecond.
	a.want(reserve("t", "x", 5, 10*time.Second), "ok remaining 5 reset 10s")
	a.SetNow(origin + 10*second - 1)
	a.want(peek("t", l, 6), "denied remaining 5 retry 1µs reset 1µs")
	a.want(reserve("t", "x", 5, 10*time.Second), "ok remaining 5 reset 1µs")
	a.SetNow(origin + 10*second)
	a.want(peek("t", l, 10), "ok remaining 10")
	a.want(settle(weir.Commit, "t", "x", 5), "error no-reservation")
	a.want(reserve("t", "x", 7, 10*time.Second), "ok remaining 3 reset 10s") // a new one
	a.want(ask(weir.Reset, "t", l, 0), "ok remaining 10")
	a.want(settle(weir.Cancel, "t", "x", 0), "error no-reservation")
}

// manyReservations lets hundreds of reservations of one key, and slots of
// another, end in an order that has nothing to do with the one they were made in. A request
// for all tokens is denied until the last one returns.
func manyReservations(tb testing.TB, open Open) {
	a := open.asker(tb)
	const many, capacity = 200, 1000
	ttl := func(i int) int64 { return int64(i*7919%many + 1) } // s, each from 1 to many once
	window := mustLimit(weir.FixedWindow{Count: capacity, Period: hour})
	slots := mustLimit(weir.Concurrency{Count: capacity})
	reserve := func(key string, l weir.Limit, i int) weir.Request {
		return weir.Request{
			Verb: weir.Reserve, Key: key, Limit: l, N: int64(1 + i%3),
			ID: fmt.Sprint(i), TTL: time.Duration(ttl(i)) * time.Second,
		}
	}
	for i := range many {
		a.do(reserve("k", window, i))
		a.do(reserve("k", slots, i))
		a.do(reserve("reset", window, i))
	}
	if d := a.do(take("k", window, capacity)); d.OK || d.RetryAfter != many*time.Second {
		tb.Errorf("%s under reservations for up to %d s = %+v, want RetryAfter %[2]ds", window, many, d)
	}
	for s := int64(0); s <= many; s++ {
		a.SetNow(origin + s*second)
		held := int64(0)
		for i := range many {
			if ttl(i) > s {
				held += int64(1 + i%3)
			}
		}
		for _, l := range []weir.Limit{window, slots} {
			if d := a.do(peek("k", l, 0)); d.Remaining != capacity-held {
				tb.Fatalf("%s, %d s: %d remaining, want %d", l, s, d.Remaining, capacity-held)
			}
		}
		if s == many/2 { // a reset forgets them; the same ids may be used again
			a.do(ask(weir.Reset, "reset", window, 0))
			a.do(take("reset", window, 500))
			for i := range many {
				r := reserve("reset", window, i)
				r.N, r.TTL = 1, 2*many*time.Second
				a.do(r)
			}
		}
		if s >= many/2 {
			if d := a.do(peek("reset", window, 0)); d.Remaining != capacity-500-many {
				tb.Fatalf("%d s: %d remaining after a reset, want %d", s, d.Remaining, capacity-500-many)
			}
		}
	}
}
