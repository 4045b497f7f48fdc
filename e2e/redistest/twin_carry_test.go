package redistest_test

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/floodweir/weir/e2e/redistest"
	"github.com/floodweir/weir/internal/algo"
	"github.com/floodweir/weir/redisstore"
)

// TestTwinCarry compares the carry-over between limits with algo.Carry: from and to every
// bucket, with debts and the largest capacities.
func TestTwinCarry(t *testing.T) {
	var rules []algo.Rule
	add := func(r algo.Rule, err error) {
		if err == nil && r.Horizon() < algo.MaxSpan/10 {
			rules = append(rules, r)
		}
	}
	for _, c := range bucketRates {
		token, err := algo.NewTokenBucket(c.count, c.period, c.burst)
		add(token, err)
		if err == nil {
			p, err := algo.NewPrimed(token, c.burst/3)
			add(p, err)
		}
		l, err := algo.NewLeakyBucket(c.count, c.period, c.burst-1, algo.Queueing{Queue: true})
		add(l, err)
		n, err := algo.NewLimitReq(c.count, c.period, min(c.burst, 8_000_000_000), algo.Queueing{})
		add(n, err)
		i, err := algo.NewIntervalBucket(c.count, c.period, c.burst, false)
		add(i, err)
		w, err := algo.NewWarmupBucket(c.count, c.period, 1000, c.burst)
		add(w, err)
		f, err := algo.NewFixedWindow(c.count, c.period, false)
		add(f, err)
	}
	c, err := redistest.Dial(redistest.Start(t).Addr)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	sha, err := c.Do("SCRIPT", "LOAD", redisstore.Script())
	if err != nil {
		t.Fatal(err)
	}
	rnd := rand.New(rand.NewPCG(*twinSeed, 5))
	const slack = 3_600_000
	carried := 0
	steps := asks(6)
	for i := range steps {
		from, to := rules[rnd.IntN(len(rules))], rules[rnd.IntN(len(rules))]
		now := 1_700_000_000_000_000 + rnd.Int64N(1_000_000_000)
		if _, err := c.Do("DEL", "old", "new"); err != nil {
			t.Fatal(err)
		}
		do := func(args ...any) string {
			reply, err := c.Do(args...)
			if err != nil {
				t.Fatalf("%v: %v", args, err)
			}
			return unpack(reply)
		}
		params := func(r algo.Rule, now int64) string { return pack(append(r.Params(now), algo.Refill(r))...) }
		// Charge the old limit, a little or into debt.
		n := 1 + rnd.Int64N(2*from.Capacity())
		do("EVALSHA", sha, 1, "old", pack(now, slack, 0, 1, 2, int64(algo.Charge), n, 0), ruleName(from), params(from, now))
		fs, _ := from.Do(nil, algo.Ask{Op: algo.Charge, Now: now, N: n})
		// Send a request under the new one, later.
		now += rnd.Int64N(from.Horizon() + 2)
		mode := algo.CarryMode(rnd.IntN(5))
		ask := algo.Ask{Op: algo.Op(rnd.IntN(4)), Now: now, N: 1 + rnd.Int64N(to.Capacity())}
		rest, err := json.Marshal([]int64{0, 0, 0, 0, 0, int64(mode), to.Capacity(), 2, 5, 3, from.Capacity()})
		if err != nil {
			t.Fatal(err)
		}
		got := do("EVALSHA", sha, 4, "new", "old", "holds", "deadlines", pack(now, slack, 0, 1, 2, int64(ask.Op), ask.N, 4),
			ruleName(to), params(to, now), string(rest), ruleName(from), params(from, now))

		live := from.Until(fs) > now
		var ts []int64
		if live {
			ts = algo.Carry(mode, from, fs, to, nil, now)
			carried++
		}
		ts, r := to.Do(ts, ask)
		want := fmt.Sprint([]int64{b2i(r.OK), r.Granted, r.Balance, never(r.Retry), r.Reset, r.Delay, now})
		if got != want {
			t.Fatalf("step %d: carry %d from %s %v, which was charged %d, to %s %v: %+v is %v in Lua, %v in Go",
				i, mode, from.Name(), from.Params(now), n, to.Name(), to.Params(now), ask, got, want)
		}
		changed := ask.Op != algo.Peek && (r.OK || live) // a denial keeps the carried state
		if changed && r.Reset > 0 {
			text, err := json.Marshal(append(ts, now))
			if err != nil {
				t.Fatal(err)
			}
			want = string(text)
		} else {
			want = "<nil>"
		}
		if stored, err := c.Do("GET", "new"); err != nil || fmt.Sprint(stored) != want && (changed || live) {
			t.Fatalf("step %d: carry %d from %s to %s, then %+v = %+v: the twin stores %v, want %s (%v)",
				i, mode, from.Name(), to.Name(), ask, r, stored, want, err)
		}
		if old, err := c.Do("GET", "old"); err != nil || live && (old == nil) != changed {
			t.Fatalf("step %d: carry %d from %s to %s, then %+v = %+v: the old state is %v (%v)",
				i, mode, from.Name(), to.Name(), ask, r, old, err)
		}
	}
	if carried < steps/4 {
		t.Errorf("%d states carried over", carried)
	}
}
