package storetest

import (
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/floodweir/weir"
	"github.com/floodweir/weir/internal/algo"
)

// tightRetry makes random reservations and charges under each limit, and then checks that a
// denied request is denied until its RetryAfter and admitted at it. It checks likewise that a
// key is as if never used at its ResetAfter and not before.
func tightRetry(tb testing.TB, open Open) {
	a := open.asker(tb)
	rnd := rand.New(rand.NewPCG(14, 3))
	now := int64(origin)
	denials := 0
	for _, l := range limits(everyday) {
		refill := algo.Refill(l.Spec().Rule)
		for scene := range 25 {
			key := fmt.Sprint("k", scene)
			a.SetNow(now)
			for i := range 1 + rnd.IntN(5) {
				r := ask(weir.Reserve, key, l, 1+rnd.Int64N(l.Capacity()))
				r.ID, r.TTL = fmt.Sprint(i), time.Duration(1+rnd.Int64N(2*refill))*time.Microsecond
				a.do(r)
				if rnd.IntN(3) == 0 {
					a.do(take(key, l, rnd.Int64N(l.Capacity())))
				}
				if rnd.IntN(4) == 0 {
					a.do(ask(weir.Charge, key, l, rnd.Int64N(l.Capacity())))
				}
				if r.Verb = weir.Commit; rnd.IntN(4) == 0 {
					r.N = rnd.Int64N(2 * l.Capacity())
					_, _ = a.Store.Do(tb.Context(), r) // there is none if it was denied
				}
				now += rnd.Int64N(refill / 8)
				a.SetNow(now)
			}
			r := take(key, l, 1+rnd.Int64N(l.Capacity()))
			d := a.do(r)
			if !d.OK {
				denials++
				retry := d.RetryAfter.Microseconds()
				a.SetNow(now + retry - 1)
				if early := a.do(r); early.OK {
					tb.Errorf("%s = %+v, but 1 µs before RetryAfter it is admitted", show(&r), d)
				}
				now += retry
				a.SetNow(now)
				if late := a.do(r); !late.OK {
					tb.Errorf("%s = %+v, but at RetryAfter it is denied: %+v", show(&r), d, late)
				}
			}
			reset := a.do(peek(key, l, 0)).ResetAfter.Microseconds()
			a.SetNow(now + reset - 1)
			if d := a.do(peek(key, l, 0)); reset > 0 && d.ResetAfter != time.Microsecond {
				tb.Errorf("%s, 1 µs before its ResetAfter of %d µs: %+v", l, reset, d)
			}
			now += reset
			a.SetNow(now)
			if d := a.do(peek(key, l, 0)); d.ResetAfter != 0 {
				tb.Errorf("%s, at its ResetAfter of %d µs: %+v", l, reset, d)
			}
			now += 2 * refill
		}
	}
	if denials < 100 {
		tb.Errorf("%d denials, want at least 100", denials)
	}
}
