package storetest

import (
	"fmt"
	"testing"
	"time"

	"github.com/floodweir/weir"
)

// changeChecks check that the state of a key survives a change of its limit.
var changeChecks = []check{
	{"a change of a named limit keeps windows, tokens and slots", namedChanges},
	{"a limit that is raised often admits what is due", raisedOften},
	{"reservations survive a change of their limit", reservationsChange},
}

// namedChanges takes under one limit of a name and looks under another.
func namedChanges(tb testing.TB, open Open) {
	a := open.asker(tb)
	now := int64(origin)
	for i, c := range []struct {
		from, to string
		take     int64         // under from
		pass     time.Duration // then
		n        int64         // of a request under to
		ok       bool
		remains  int64
		wait     time.Duration
	}{
		// Raised, no request waits longer; lowered, all that was used counts.
		{"5/20s fixed_window", "50/20s fixed_window", 5, 15 * time.Second, 46, false, 45, 5 * time.Second},
		{"50/20s fixed_window", "5/20s fixed_window", 40, 15 * time.Second, 1, false, 0, 5 * time.Second},
		{"5/20s sliding_log", "50/20s sliding_log", 5, 15 * time.Second, 46, false, 45, 5 * time.Second},
		{"5/20s", "50/20s", 5, 0, 46, false, 45, 400 * time.Millisecond},
		{"10/s burst 5", "20/s burst 5", 5, 0, 1, false, 0, 50 * time.Millisecond},
		{"20/s burst 20", "10/s burst 20", 20, 0, 1, false, 0, 100 * time.Millisecond},
		{"10/m burst 5", "10/m burst 10", 5, 3 * time.Second, 6, false, 5, 3 * time.Second},
		{"10/m burst 10", "10/m burst 5", 10, 3 * time.Second, 1, false, 0, 33 * time.Second},
		{"10/10s interval", "20/10s interval", 10, 4 * time.Second, 11, false, 10, 6 * time.Second},
		{"10/s leaky_bucket burst 9", "10/s leaky_bucket burst 19", 10, 0, 11, false, 10, 100 * time.Millisecond},
		{"50/s warmup 3s", "51/s warmup 3s", 0, 0, 1, true, 0, 0},
		{"2 concurrency lease 1m", "3 concurrency lease 1m", 2, 10 * time.Second, 2, false, 1, 50 * time.Second},
		{"3 concurrency lease 1m", "2 concurrency lease 1m", 3, 10 * time.Second, 1, false, 0, 50 * time.Second},
		{"100/h fixed_window", "100/h sliding_log", 60, 0, 41, false, 40, time.Hour},
	} {
		key, name := fmt.Sprint("k", i), fmt.Sprint("n", i)
		from, to := weir.MustLimit(c.from).Named(name), weir.MustLimit(c.to).Named(name)
		a.SetNow(now)
		a.do(take(key, from, c.take))
		now += c.pass.Microseconds()
		a.SetNow(now)
		for range 20 { // there and back
			a.do(ask(weir.Charge, key, to, 0))
			a.do(ask(weir.Charge, key, from, 0))
		}
		for _, verb := range []weir.Verb{weir.Peek, weir.Take} {
			if d := a.do(ask(verb, key, to, c.n)); d.OK != c.ok || !c.ok && (d.Remaining != c.remains || d.RetryAfter != c.wait) {
				tb.Errorf("%s → %s, %s %d = %+v, want %d remaining, retry after %v", c.from, c.to, verb, c.n, d, c.remains, c.wait)
			}
		}
		now += time.Second.Microseconds()
	}
}

// raisedOften raises a limit every 50 minutes for eight hours, with a request per minute.
func raisedOften(tb testing.TB, open Open) {
	a := open.asker(tb)
	now := int64(origin)
	for _, algorithm := range []string{"", " fixed_window", " sliding_window", " sliding_log", " interval"} {
		admitted := 0
		const hours = 8
		for minute := range hours * 60 {
			limit := weir.MustLimit(fmt.Sprintf("%d/h%s", 50+minute/50, algorithm)).Named("quota" + algorithm)
			now += 60_000_000
			a.SetNow(now)
			if a.do(take("k", limit, 1)).OK {
				admitted++
			}
		}
		if admitted < hours*50 {
			tb.Errorf("50/h%s raised by one every 50 minutes admits %d of %d requests in %[4]d hours", algorithm, admitted, hours*60, hours)
		}
	}
}

// reservationsChange settles reservations and renews a slot under another limit, named and with
// the former limit in the request.
func reservationsChange(tb testing.TB, open Open) {
	a := open.asker(tb)
	a.SetNow(origin)
	for _, name := range []string{"", "tokens"} {
		limit := func(text string) weir.Limit {
			l := weir.MustLimit(text)
			if name != "" {
				l = l.Named(name + l.Algorithm())
			}
			return l
		}
		old, changed := limit("100/24h"), limit("200/24h")
		slots, more := limit("2 concurrency lease 1m"), limit("3 concurrency lease 1m")
		r := ask(weir.Reserve, "k"+name, old, 80)
		r.ID, r.TTL = "id", time.Hour
		a.do(r)
		slot := ask(weir.Reserve, "s"+name, slots, 2)
		slot.ID, slot.TTL = "holder", time.Minute
		a.do(slot)

		one := func(key string, l, former weir.Limit) weir.Request {
			r := take(key+name, l, 1)
			r.From = []weir.Limit{former}
			return r
		}
		a.do(one("k", changed, old))
		a.do(one("s", more, slots)) // the third slot
		if d := a.do(one("s", more, slots)); d.OK {
			tb.Errorf("%q: a fourth slot of three = %+v", name, d)
		}
		r.Verb, r.N, r.Limit, r.From = weir.Commit, 30, changed, []weir.Limit{old}
		if d := a.do(r); d.Granted != 30 || d.Remaining != 169 {
			tb.Errorf("%q: a commit of 30 of 80 after the change = %+v, want 169 remaining", name, d)
		}
		slot.Limit, slot.From = more, []weir.Limit{slots}
		if d := a.do(slot); !d.OK || d.Granted != 2 {
			tb.Errorf("%q: the holder renews its slots after the change = %+v", name, d)
		}
		slot.Verb, slot.N = weir.Cancel, 0
		if d := a.do(slot); d.Remaining != 2 {
			tb.Errorf("%q: the holder returns its slots = %+v, want 2 free", name, d)
		}
	}
}
