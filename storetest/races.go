package storetest

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/floodweir/weir"
)

// raceChecks check rule 8: decisions are linearizable. The clock stands still,
// so that every sum is exact.
var raceChecks = []check{
	{"rule 8: one key, many askers", oneKey},
	{"rule 8: leaky buckets of one rate, many askers", oneBucket},
	{"rule 8: batches are never half charged", halfCharged},
	{"rule 8: one reservation, many askers", oneReservation},
	{"rule 8: what is taken and returned adds up", sums},
	{"rule 8: no more slots than the count, many holders", fewSlots},
}

const askers, rounds = 16, 25

// together runs f in many goroutines at once; i counts the goroutines.
func together(f func(i int)) {
	var wg sync.WaitGroup
	start := make(chan struct{})
	for i := range askers {
		wg.Go(func() {
			<-start
			f(i)
		})
	}
	close(start)
	wg.Wait()
}

// silent asks from a goroutine that may not end the test.
func (a asker) silent(r weir.Request) weir.Decision {
	d, err := a.Store.Do(context.Background(), r)
	if err != nil {
		a.Errorf("%s = error %v, want a decision", show(&r), err)
	}
	return d
}

// oneKey: as many are admitted as fit, and no two of them see the same number
// remaining.
func oneKey(tb testing.TB, open Open) {
	a := open.asker(tb)
	const capacity = askers * rounds / 2
	for _, l := range limits([]string{
		fmt.Sprintf("%d/1h", capacity),
		fmt.Sprintf("1999/h burst %d", capacity), // no whole number of µs or of their 1024ths
		fmt.Sprintf("%d/1h interval", capacity),
		fmt.Sprintf("1/h burst %d initial %[1]d", capacity),
		fmt.Sprintf("1/h leaky_bucket burst %d", capacity-1),
		fmt.Sprintf("4/h leaky_bucket burst %d nginx", capacity-1),
		fmt.Sprintf("%d/1h fixed_window", capacity),
		fmt.Sprintf("%d/month calendar Asia/Shanghai", capacity),
		fmt.Sprintf("%d/1h sliding_window weighted", capacity),
		fmt.Sprintf("%d/1h sliding_log", capacity),
		fmt.Sprintf("%d concurrency", capacity),
	}) {
		var seen [capacity + 1]atomic.Int32
		var admitted atomic.Int64
		together(func(int) {
			for range rounds {
				if d := a.silent(take("k", l, 1)); d.OK {
					admitted.Add(1)
					seen[max(0, min(d.Remaining, capacity))].Add(1)
				}
			}
		})
		if n := admitted.Load(); n != capacity {
			tb.Errorf("%s: %d admitted, want %d", l, n, capacity)
		}
		for left := range int64(capacity) {
			if n := seen[left].Load(); n != 1 {
				tb.Errorf("%s: %d admissions saw %d remaining, want 1", l, n, left)
				break
			}
		}
	}
}

// halfCharged: batches over two keys in both orders, single takes between them.
func halfCharged(tb testing.TB, open Open) {
	a := open.asker(tb)
	const capacity = askers * rounds
	l := hourly(capacity)
	scarce := hourly(capacity / 2)
	var both, left atomic.Int64
	together(func(i int) {
		for range rounds {
			rs := []weir.Request{take("left", l, 1), take("right", scarce, 1)}
			if i%2 == 1 {
				rs[0], rs[1] = rs[1], rs[0]
			}
			ok, _, err := a.batch(rs...)
			if err != nil {
				tb.Errorf("DoAll = error %v, want decisions", err)
			}
			if ok {
				both.Add(1)
			}
			if i%4 == 0 && a.silent(take("left", l, 1)).OK {
				left.Add(1)
			}
		}
	})
	b := both.Load()
	if d := a.do(peek("right", scarce, 0)); d.Remaining != capacity/2-b {
		tb.Errorf("after %d batches of both, right has %d of %d remaining", b, d.Remaining, capacity/2)
	}
	if d := a.do(peek("left", l, 0)); d.Remaining != capacity-b-left.Load() {
		tb.Errorf("after %d batches of both and %d takes of left, left has %d of %d remaining", b, left.Load(), d.Remaining, capacity)
	}
	if b != capacity/2 {
		tb.Errorf("%d batches admitted, want %d", b, capacity/2)
	}
}

// oneReservation checks that many goroutines that reserve and settle the same ids charge
// each once, at the first settlement.
func oneReservation(tb testing.TB, open Open) {
	a := open.asker(tb)
	const capacity = 1000
	l := hourly(capacity)
	var settled [rounds]atomic.Int64
	together(func(i int) {
		for j := range rounds {
			r := weir.Request{Verb: weir.Reserve, Key: "k", Limit: l, N: 5, ID: fmt.Sprint(j), TTL: time.Minute}
			if d := a.silent(r); !d.OK || d.Granted != 5 {
				tb.Errorf("%s = %+v, want 5 granted", show(&r), d)
			}
			r.Verb, r.N = weir.Commit, int64(i%10)
			d := a.silent(r)
			if was := settled[j].Swap(d.Granted + 1); was != 0 && was != d.Granted+1 {
				tb.Errorf("reservation %d was settled at %d and at %d", j, was-1, d.Granted)
			}
		}
	})
	total := int64(0)
	for j := range settled {
		total += settled[j].Load() - 1
	}
	if d := a.do(peek("k", l, 0)); d.Remaining != capacity-total {
		tb.Errorf("after settlements at %d in all, %d of %d remaining", total, d.Remaining, capacity)
	}
	r := weir.Request{Verb: weir.Cancel, Key: "k", Limit: l, ID: "never made"}
	if _, err := a.Store.Do(context.Background(), r); !errors.Is(err, weir.ErrNoReservation) {
		tb.Errorf("%s: error %v, want one that wraps ErrNoReservation", show(&r), err)
	}
}

// fewSlots checks that holders that come at once get as many slots as the limit has.
func fewSlots(tb testing.TB, open Open) {
	a, l := open.asker(tb), mustLimit(weir.Concurrency{Count: askers / 2, Lease: time.Minute})
	var held atomic.Int64
	together(func(i int) {
		r := weir.Request{Verb: weir.Reserve, Key: "k", Limit: l, N: 1, ID: fmt.Sprint(i), TTL: time.Minute}
		if taken := a.silent(r); taken.OK && a.silent(r).OK && held.Add(1) > askers/2 { // renewed
			tb.Errorf("more than %d slots are held", askers/2)
		}
	})
	a.want(peek("k", l, 0), "ok reset 1m")
}

// sums checks with every verb at once that the tokens left are those not taken.
func sums(tb testing.TB, open Open) {
	a := open.asker(tb)
	const capacity = askers * rounds * 10
	l := hourly(capacity)
	var used atomic.Int64
	together(func(i int) {
		for j := range rounds {
			key := fmt.Sprint("k", j%2)
			n := a.silent(take(key, l, 3)).Granted
			n += a.silent(ask(weir.TakeUpTo, key, l, 2)).Granted
			n += a.silent(ask(weir.Charge, key, l, 1)).Granted
			a.silent(ask(weir.Return, key, l, 2))
			r := weir.Request{Verb: weir.Reserve, Key: key, Limit: l, N: 4, ID: fmt.Sprint(i, "-", j), TTL: time.Minute}
			a.silent(r)
			r.Verb, r.N = weir.Commit, 3
			n += a.silent(r).Granted
			used.Add(n - 2)
		}
	})
	left := a.do(peek("k0", l, 0)).Remaining + a.do(peek("k1", l, 0)).Remaining
	if want := 2*capacity - used.Load(); left != want {
		tb.Errorf("%d used in all, %d remaining, want %d", used.Load(), left, want)
	}
}
