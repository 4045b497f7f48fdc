package storetest

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/floodweir/weir"
	"github.com/floodweir/weir/internal/algo"
	"github.com/floodweir/weir/internal/bounds"
	"github.com/floodweir/weir/storetest/internal/story"
)

const hour = time.Hour

// ruleChecks check the numbered rules of the doc comment of weir.Store.
var ruleChecks = []check{
	{"rule 1: a decision is the result of the rule", rule1},
	{"rule 1: leaky buckets of one rate that are shared have one state", oneRate},
	{"rule 1: leaky buckets of one rate have no other state in common", apart},
	{"rule 2: a denial changes nothing", rule2},
	{"rule 3: a batch is all or nothing", rule3},
	{"rule 4: keys with debt are not evicted", rule4},
	{"rule 5: going back creates no tokens", rule5},
	{"rule 6: reservations are idempotent and come back", rule6},
	{"rule 6: many reservations end each at its time", manyReservations},
	{"rule 6: waits account for open reservations", tightRetry},
	{"rule 7: an invalid request changes nothing", rule7},
	// Rule 8 is checked by raceChecks.
}

// rule1 sends the same requests to the store and to the rule of the limit in package
// algo, each with its own state.
func rule1(tb testing.TB, open Open) {
	a := open.asker(tb)
	now := int64(origin)
	for _, l := range limits(everyday) {
		rule, words := l.Spec().Rule, []int64(nil)
		for i := range 200 {
			n := int64(i % 4)
			op := []algo.Op{algo.Take, algo.Take, algo.TakeUpTo, algo.Charge, algo.Peek, algo.Return, algo.Take}[i%7]
			verb := []weir.Verb{algo.Take: weir.Take, algo.TakeUpTo: weir.TakeUpTo, algo.Peek: weir.Peek, algo.Charge: weir.Charge, algo.Return: weir.Return}[op]
			var want algo.Result
			words, want = rule.Do(words, algo.Ask{Op: op, Now: now, N: n})
			a.SetNow(now)
			r := ask(verb, "k", l, n)
			got := a.do(r)
			if w := l.Spec().Decision(want, now); story.AnswerOf(got, nil) != story.AnswerOf(w, nil) || !got.At.Equal(w.At) || !got.Limit.Equal(l) {
				tb.Fatalf("step %d, %s = %+v, the rule says %+v", i, show(&r), got, w)
			}
			now += int64(i%5) * 77_777
		}
	}
}

// rule2 denies one of two keys that are in the same state, in every way in which
// it can be denied, and looks for a difference afterwards.
func rule2(tb testing.TB, open Open) {
	a := open.asker(tb)
	now := int64(origin)
	for _, l := range limits(everyday) {
		a.SetNow(now)
		for _, key := range []string{"denied", "left alone"} {
			a.do(ask(weir.Charge, key, l, l.Capacity()+1))
		}
		r := ask(weir.Reserve, "denied", l, 2)
		r.ID, r.TTL = "id", time.Second
		denials := []weir.Request{
			take("denied", l, 1), take("denied", l, l.Capacity()), take("denied", l, 1<<62), peek("denied", l, 1),
			ask(weir.TakeUpTo, "denied", l, 2), r,
		}
		for _, r := range denials {
			for range 3 {
				if d := a.do(r); d.OK || d.Granted != 0 {
					tb.Fatalf("%s = %+v, want a denial", show(&r), d)
				}
			}
			if ok, _, err := a.batch(take("other", l, 1), r, take("another", l, 1)); ok || err != nil {
				tb.Errorf("DoAll with a denial, %s = %v, %v, want false", show(&r), ok, err)
			}
		}
		r.Verb, r.N = weir.Commit, 1
		a.want(r, "error no-reservation")
		pairs := [][2]string{{"denied", "left alone"}, {"other", "new"}, {"another", "new"}}
		if b, ok := l.Config().(weir.TokenBucket); ok && b.Initial != nil {
			pairs = pairs[:1] // that a key was there counts, even if it was denied
		}
		for i := range 40 {
			for _, pair := range pairs {
				got, want := a.do(peek(pair[0], l, 1)), a.do(peek(pair[1], l, 1))
				if got != want {
					tb.Fatalf("%s, look %d: %+v after denials, %+v without", l, i, got, want)
				}
			}
			now += 300_000
			a.SetNow(now)
		}
		now += 48 * hour.Microseconds()
	}
}

func rule3(tb testing.TB, open Open) {
	a := open.asker(tb)
	five, two := hourly(5), hourly(2)
	ok, ds, err := a.batch(take("u", five, 1), take("u", two, 2), take("v", five, 5), take("u", five, 4))
	if !ok || err != nil {
		tb.Fatalf("DoAll of what fits = %v, %v, want true", ok, err)
	}
	for i, left := range []int64{4, 0, 0, 0} {
		if ds[i].Remaining != left || !ds[i].OK || !ds[i].At.Equal(ds[0].At) {
			tb.Errorf("decision %d = %+v, want OK, %d remaining, all at one instant", i, ds[i], left)
		}
	}

	// In order, each seeing those before it; one denied, none charged.
	ok, ds, err = a.batch(take("w", five, 3), take("w", five, 3), take("w", five, 2))
	if ok || err != nil {
		tb.Fatalf("DoAll of more than fits = %v, %v, want false", ok, err)
	}
	for i, want := range []struct {
		ok   bool
		left int64
	}{{true, 2}, {false, 2}, {true, 0}} {
		if ds[i].OK != want.ok || ds[i].Remaining != want.left {
			tb.Errorf("decision %d = %+v, want OK %v and %d remaining", i, ds[i], want.ok, want.left)
		}
	}
	a.want(peek("w", five, 5), "ok remaining 5")

	// What cannot be decided charges nothing either.
	bad := ask(weir.Commit, "w", five, 1)
	bad.ID = "unknown"
	for _, r := range []weir.Request{bad, take("", five, 1), take("w", weir.Limit{}, 1), take("w", five, -1)} {
		if ok, _, err := a.batch(take("w", five, 1), r, take("w", five, 1)); ok || err == nil {
			tb.Errorf("DoAll with %s = %v, %v, want an error", show(&r), ok, err)
		}
		a.want(peek("w", five, 5), "ok remaining 5")
	}

	// Every verb goes into a batch, and out of it again.
	reserve := ask(weir.Reserve, "w", five, 2)
	reserve.ID, reserve.TTL = "id", time.Minute
	if ok, _, err = a.batch(reserve, ask(weir.Charge, "x", five, 7), ask(weir.TakeUpTo, "y", two, 9), take("u", five, 1)); ok || err != nil {
		tb.Errorf("DoAll with a denial at its end = %v, %v, want false", ok, err)
	}
	for _, key := range []string{"w", "x"} {
		a.want(peek(key, five, 5), "ok remaining 5")
	}
	a.want(peek("y", two, 2), "ok remaining 2")
	reserve.Verb = weir.Cancel
	a.want(reserve, "error no-reservation")
	if ok, ds, err := a.batch(); !ok || len(ds) > 0 || err != nil {
		tb.Errorf("DoAll of nothing = %v, %v, want true", ok, err)
	}
	many := make([]weir.Request, bounds.MaxBatch+1)
	for i := range many {
		many[i] = take("many", hourly(1000), 1)
	}
	if ok, _, err := a.batch(many[:bounds.MaxBatch]...); !ok || err != nil {
		tb.Errorf("DoAll of MaxBatch requests = %v, %v, want true", ok, err)
	}
	if _, _, err := a.batch(many...); !errors.Is(err, weir.ErrInvalid) {
		tb.Errorf("DoAll of MaxBatch+1 requests: error %v, want one that wraps ErrInvalid", err)
	}
	a.want(peek("many", hourly(1000), 1), fmt.Sprintf("ok remaining %d reset 15m21.6s", 1000-bounds.MaxBatch))
}

func rule4(tb testing.TB, open Open) {
	a := open.asker(tb)
	l := hourly(3)
	const many = 2000
	for i := range many {
		a.do(take(fmt.Sprint("k", i), l, 3))
	}
	for i := range many {
		if d := a.do(peek(fmt.Sprint("k", i), l, 1)); d.OK {
			tb.Fatalf("key %d of %d owes, and was forgotten: %+v", i, many, d)
		}
	}
	// As if never used: the same answers as those of a key that never was.
	now := int64(origin)
	for _, l := range limits(everyday) {
		a.do(take("used", l, 2))
		a.do(take("used", l, 1))
		now += a.do(peek("used", l, 1)).ResetAfter.Microseconds()
		a.SetNow(now)
		for i := range 5 {
			used, fresh := a.do(take("used", l, 1)), a.do(take("fresh", l, 1))
			if used != fresh {
				tb.Errorf("%s, take %d at ResetAfter = %+v, of a fresh key %+v", l, i, used, fresh)
			}
		}
	}
}

func rule7(tb testing.TB, open Open) {
	a := open.asker(tb)
	l := hourly(10)
	a.want(take("k", l, 4), "ok remaining 6 reset 24m")
	for _, c := range invalid(l) {
		if _, err := a.Store.Do(tb.Context(), c.r); !errors.Is(err, weir.ErrInvalid) {
			tb.Errorf("%s: error %v, want one that wraps ErrInvalid", c.name, err)
		}
		if _, _, err := a.batch(take("k", l, 1), c.r); !errors.Is(err, weir.ErrInvalid) {
			tb.Errorf("DoAll with %s: error %v, want one that wraps ErrInvalid", c.name, err)
		}
		a.want(peek("k", l, 6), "ok remaining 6 reset 24m")
	}
	for _, n := range []int{0, 1, 3} { // ds has the length of rs
		rs := []weir.Request{take("k", l, 1), take("k", l, 1)}
		if _, err := a.Store.DoAll(tb.Context(), rs, make([]weir.Decision, n)); !errors.Is(err, weir.ErrInvalid) {
			tb.Errorf("DoAll of 2 requests into %d decisions: error %v, want one that wraps ErrInvalid", n, err)
		}
	}
	a.want(peek("k", l, 6), "ok remaining 6 reset 24m")
}
