package share_test

import (
	"errors"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/floodweir/weir"
	"github.com/floodweir/weir/failover"
	"github.com/floodweir/weir/memstore"
	"github.com/floodweir/weir/policy"
	"github.com/floodweir/weir/share"
)

// withLocal returns the store that decides by on_store_error: local while the ledger is unavailable. Nodes
// are not configured.
func withLocal(t *testing.T, l *layered) weir.Store {
	t.Helper()
	mem, err := memstore.New(memstore.Config{})
	if err != nil {
		t.Fatal(err)
	}
	whole, err := failover.NewLocal(mem, 1)
	if err != nil {
		t.Fatal(err)
	}
	return failover.WithFallback(l, l.shares.Local(whole))
}

// An admitted is a number of tokens.
type admitted struct {
	at time.Time
	n  int64
}

// beyond replays admissions through one limit, and returns how many tokens it denies.
func beyond(t *testing.T, limit weir.Limit, all []admitted) (n int64) {
	t.Helper()
	var now int64
	mem, err := memstore.New(memstore.Config{Clock: func() int64 { return now }})
	if err != nil {
		t.Fatal(err)
	}
	defer mem.Close()
	slices.SortStableFunc(all, func(a, b admitted) int { return a.at.Compare(b.at) })
	for _, a := range all {
		now = a.at.UnixMicro()
		d, err := mem.Do(t.Context(), weir.Request{Key: "k", Limit: limit, N: a.n})
		if err != nil {
			t.Fatal(err)
		}
		if !d.OK {
			n += a.n
		}
	}
	return n
}

// TestLocal lets three processes lose their ledger for minutes. After their leases all decide by the parts
// that they held, and together never admit more than the limit. The number of nodes is not configured.
// Under the race detector the processes lose it for seconds.
func TestLocal(t *testing.T) {
	for _, text := range []string{"10000/s burst 1000", "10000/s fixed_window anchor epoch", "10000/s sliding_window", "1000/s sliding_log"} {
		t.Run(text, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				limit := weir.MustLimit(text)
				ledger := &cutLedger{Ledger: share.NewMemory(nil)}
				costs := []int64{9, 5, 2} // of 10,000 a second
				var stores []weir.Store
				for range costs {
					stores = append(stores, withLocal(t, newLayered(t, ledger, share.Config{Lease: 3 * time.Second})))
				}
				tick := time.NewTicker(time.Millisecond)
				defer tick.Stop()
				ask := func(d time.Duration) (all []admitted, local int) {
					for end := time.Now().Add(d); time.Now().Before(end); <-tick.C {
						for i, s := range stores {
							cost := max(1, costs[i]*limit.Count()/10000)
							got := take(t, s, limit, cost)
							if got.Degraded == policy.Local {
								local++
							}
							if got.OK {
								all = append(all, admitted{got.At, cost})
							}
						}
					}
					return all, local
				}
				ask(2 * time.Second)
				ledger.cut.Store(true)
				begin, _ := ask(3 * time.Second)
				seconds := int64(120)
				if racing {
					seconds = 5
				}
				all, local := ask(time.Duration(seconds) * time.Second)
				if want := int(seconds) * 1000 * len(stores); local != want {
					t.Errorf("%d decisions local after the leases, want all %d", local, want)
				}
				if n := beyond(t, limit, all); n > 0 {
					t.Errorf("%d more tokens than of the limit in %d s, want 0", n, seconds)
				}
				var total, before int64
				for _, a := range all {
					total += a.n
				}
				for _, a := range begin {
					before += a.n
				}
				if least := seconds * limit.Count() * 85 / 100; total < least {
					t.Errorf("%d admitted in %d s, want at least %d: most of the limit", total, seconds, least)
				}
				// While leases end, a part may be full twice.
				if most := 3*limit.Count() + 2*limit.Capacity(); before > most {
					t.Errorf("%d admitted in the first 3 s, want at most %d", before, most)
				}
				ledger.cut.Store(false)
				ask(2 * time.Second)
				if _, local := ask(time.Second); local > 0 {
					t.Errorf("%d decisions local after the outage, want 0", local)
				}
			})
		})
	}
}

// outage lets a process get a share of a limit and lose its ledger, and waits until its lease has ended.
func outage(t *testing.T, limit weir.Limit) (*layered, weir.Store) {
	t.Helper()
	l := newLayered(t, share.NewMemory(nil), share.Config{Lease: time.Second})
	s := withLocal(t, l)
	l.warm(t, limit)
	l.ledger.cut.Store(true)
	<-time.NewTimer(2 * time.Second).C // in a bubble of synctest
	return l, s
}

// TestLocalState checks the verbs after a lease: the part is about half of the limit, its state is kept over
// another outage, and larger costs are a debt.
func TestLocalState(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		limit := weir.MustLimit("10000/s burst 1000")
		l, s := outage(t, limit)
		do := func(v weir.Verb, n int64) weir.Decision {
			t.Helper()
			d, err := s.Do(t.Context(), weir.Request{Verb: v, Key: "hot", Limit: limit, N: n})
			if err != nil || d.Degraded != policy.Local || d.Limit != limit {
				t.Fatalf("%s(%d) = %+v, %v, want a local decision of %s", v, n, d, err, limit)
			}
			return d
		}
		size := do(weir.Peek, 0).Remaining
		if size < 500 || size > 750 {
			t.Errorf("part of %d tokens, want somewhat more than half of 1,000", size)
		}
		if d := do(weir.Take, size); !d.OK || d.Remaining != 0 {
			t.Errorf("Take of the part = %+v, want OK", d)
		}
		if d := do(weir.Take, 100); d.OK || d.RetryAfter < 10*time.Millisecond || d.RetryAfter > 20*time.Millisecond {
			t.Errorf("Take of an empty part = %+v, want denied for 10 to 20 ms", d)
		}
		do(weir.Return, 50)
		if d := do(weir.TakeUpTo, 1000); !d.OK || d.Granted != 50 {
			t.Errorf("TakeUpTo = %+v, want the 50 tokens that were returned", d)
		}
		do(weir.Reset, 0)
		if d := do(weir.Take, 1000); !d.OK || d.Granted != 1000 || d.Debt != 1000-size {
			t.Errorf("Take of more than the part = %+v, want a debt of %d", d, 1000-size)
		}
		if d := do(weir.Take, 1001); d.OK || d.RetryAfter != weir.Never {
			t.Errorf("Take of more than the limit = %+v, want denied for ever", d)
		}
		do(weir.Charge, 100_000)
		l.ledger.cut.Store(false)
		time.Sleep(2 * time.Second)
		l.warm(t, limit)
		l.ledger.cut.Store(true)
		time.Sleep(2 * time.Second)
		if d := do(weir.Take, 1); d.OK {
			t.Errorf("Take in another outage = %+v, want the debt kept", d)
		}
	})
}

// TestLocalLargeCost checks that a window denies a cost above its part for a second.
func TestLocalLargeCost(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		limit := weir.MustLimit("10000/s sliding_window")
		_, s := outage(t, limit)
		if d := take(t, s, limit, 9000); d.OK || d.RetryAfter != time.Second || d.Degraded != policy.Local {
			t.Errorf("Take of more than the part = %+v, want denied for a second", d)
		}
	})
}

// TestLocalTogether checks that a batch of limits with and without parts is decided all or nothing.
func TestLocalTogether(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		limit, small := weir.MustLimit("10000/s burst 1000"), weir.MustLimit("3/h burst 3")
		_, s := outage(t, limit)
		full := take(t, s, limit, 0).Remaining
		rs := []weir.Request{{Key: "hot", Limit: limit, N: 10}, {Key: "client", Limit: small, N: 1}, {Key: "cold", Limit: limit, N: 10}}
		ds := make([]weir.Decision, len(rs))
		for i := range 5 {
			ok, err := s.DoAll(t.Context(), rs, ds)
			if err != nil || ok != (i < 3) || !ds[0].OK || ds[1].OK != ok {
				t.Fatalf("batch %d = %v, %v, %+v, want 3 admitted by the second limit", i, ok, err, ds)
			}
			for _, d := range ds {
				if d.Degraded != policy.Local {
					t.Errorf("batch %d: %+v, want a local decision", i, d)
				}
			}
		}
		if d := take(t, s, limit, 0); d.Remaining != full-30 {
			t.Errorf("%d of %d tokens remain, want 30 fewer", d.Remaining, full)
		}
		if d, err := s.Do(t.Context(), weir.Request{Verb: weir.Peek, Key: "cold", Limit: limit}); err != nil || d.Remaining != 970 {
			t.Errorf("a limit without a part = %+v, %v, want 970 of the whole", d, err)
		}
	})
}

// TestLocalChanged checks that a limit that replaces another one during an outage gets the same part of it,
// and that one without a former limit does not.
func TestLocalChanged(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		limit, other := weir.MustLimit("10000/s burst 1000"), weir.MustLimit("2000/s burst 400")
		_, s := outage(t, limit)
		part := float64(take(t, s, limit, 0).Remaining) / 1000
		for _, from := range [][]weir.Limit{{{}, limit}, nil} { // then it has a part of its own
			d, err := s.Do(t.Context(), weir.Request{Key: "hot", Limit: other, N: 10, From: from})
			if got := float64(d.Remaining) / 400; err != nil || d.Limit != other || got < part-0.1 || got > part {
				t.Errorf("changed limit = %+v, %v, want %.2f of it", d, err, part)
			}
		}
		if d := take(t, s, weir.MustLimit("3000/s burst 400"), 10); d.Remaining != 390 {
			t.Errorf("another limit = %+v, want 390 of the whole", d)
		}
	})
}

// TestLocalWithoutPart checks that a process without a part decides by the sixteenth that is never granted
// if others had parts, and otherwise by the other store.
func TestLocalWithoutPart(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		memory := share.NewMemory(nil)
		limit := weir.MustLimit("16000/s burst 1600")
		cold, holder := newLayered(t, memory, share.Config{}), newLayered(t, memory, share.Config{})
		s := withLocal(t, cold)
		take(t, s, limit, 1)
		cold.ledger.cut.Store(true)
		if d := take(t, s, limit, 100); d.Remaining != 1500 || d.Degraded != policy.Local {
			t.Errorf("decision while there was no holder = %+v, want 1,500 of the whole", d)
		}
		cold.ledger.cut.Store(false)
		holder.warm(t, limit)
		time.Sleep(2 * time.Second)
		holder.warm(t, limit)
		if d := take(t, s, limit, 1); d.Degraded != "" {
			t.Fatalf("decision after the outage = %+v", d)
		}
		cold.ledger.cut.Store(true)
		if d := take(t, s, limit, 60); !d.OK || d.Remaining != 40 || d.Degraded != policy.Local {
			t.Errorf("decision while others have parts = %+v, want 40 of 100", d)
		}
	})
}

// TestLocalMissing checks that Local does not hide a missing store, and passes errors.
func TestLocalMissing(t *testing.T) {
	l := newLayered(t, share.NewMemory(nil), share.Config{})
	if _, err := weir.New(l.shares.Local(nil), weir.MustLimit("1/s"), weir.Config{}); !errors.Is(err, weir.ErrInvalid) {
		t.Errorf("New = %v, want ErrInvalid", err)
	}
	s := l.shares.Local(l.strict)
	if _, err := s.Do(t.Context(), weir.Request{Key: "k"}); !errors.Is(err, weir.ErrInvalid) {
		t.Errorf("Do without a limit = %v, want ErrInvalid", err)
	}
	if _, err := s.DoAll(t.Context(), make([]weir.Request, 2), make([]weir.Decision, 1)); !errors.Is(err, weir.ErrInvalid) {
		t.Errorf("DoAll with too few decisions = %v, want ErrInvalid", err)
	}
}
