package share_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/floodweir/weir"
	"github.com/floodweir/weir/internal/fakestore"
	"github.com/floodweir/weir/memstore"
	"github.com/floodweir/weir/share"
)

func newStore(tb testing.TB, ledger share.Ledger, c share.Config) *share.Store {
	tb.Helper()
	mem, err := memstore.New(memstore.Config{})
	if err != nil {
		tb.Fatal(err)
	}
	s, err := share.New(mem, ledger, c)
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() { _ = s.Close() })
	return s
}

func take(tb testing.TB, s weir.Store, l weir.Limit, n int64) weir.Decision {
	tb.Helper()
	d, err := s.Do(tb.Context(), weir.Request{Key: "hot", Limit: l, N: n})
	if err != nil {
		tb.Fatal(err)
	}
	return d
}

// warm asks for a key 5,000 times a second, so that the store gets a share of about half of 10,000.
func warm(tb testing.TB, s *share.Store, l weir.Limit) {
	tb.Helper()
	tick := time.NewTicker(time.Millisecond) // in a bubble of synctest
	defer tick.Stop()
	for range 1000 {
		take(tb, s, l, 5)
		<-tick.C
	}
	if s.Stats().Shares == 0 {
		tb.Fatalf("no share after 1,000 requests: %+v", s.Stats())
	}
}

// TestShare checks that a key that is asked for often is decided without a call, and that Close
// returns the share with its tokens.
func TestShare(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ledger := share.NewMemory(nil)
		s := newStore(t, ledger, share.Config{})
		limit := weir.MustLimit("10000/s burst 1000")
		warm(t, s, limit)
		before := s.Stats()
		for range 200 {
			if d := take(t, s, limit, 1); !d.OK {
				t.Fatalf("decision = %+v, want OK", d)
			}
		}
		if after := s.Stats(); after.Local != before.Local+200 || after.Ledger != before.Ledger {
			t.Errorf("stats = %+v after 200 requests, were %+v: want local decisions", after, before)
		}
		v, err := s.Explain(t.Context(), "hot", limit)
		if err != nil || len(v.Holders) != 1 || !v.Holders[0].Self || v.Holders[0].Rate <= 0 || v.Holders[0].Rate > 0.94 || v.Stranded < 0.05 || v.Stranded > 0.3 {
			t.Errorf("Explain = %+v, %v, want one holder", v, err)
		}
		if err := s.Close(); err != nil {
			t.Errorf("Close = %v", err)
		}
		if _, err := s.Do(t.Context(), weir.Request{Key: "hot", Limit: limit, N: 1}); !errors.Is(err, weir.ErrClosed) {
			t.Errorf("Do after Close = %v, want ErrClosed", err)
		}
		other := newStore(t, ledger, share.Config{})
		time.Sleep(time.Second)
		if d := take(t, other, limit, 1000); !d.OK {
			t.Errorf("another process gets %+v for the whole burst, want OK", d)
		}
	})
}

// TestKilled checks that the share of a process that died is taken back after its lease.
func TestKilled(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		memory := share.NewMemory(nil)
		cut := &cutLedger{Ledger: memory}
		dead := newStore(t, cut, share.Config{})
		limit := weir.MustLimit("10000/s burst 1000")
		warm(t, dead, limit)
		for range 900 {
			take(t, dead, limit, 1)
		}
		cut.cut.Store(true)
		s := newStore(t, memory, share.Config{})
		if d := take(t, s, limit, 1000); d.OK {
			t.Errorf("decision while a share is held = %+v, want denied", d)
		}
		time.Sleep(9 * time.Second)
		if d := take(t, s, limit, 1000); d.OK {
			t.Errorf("decision before the end of a lease = %+v, want denied", d)
		}
		if v, err := s.Explain(t.Context(), "hot", limit); err != nil || v.Remainder > 0.9 {
			t.Errorf("Explain before the end of a lease = %+v, %v, want the share of the dead process", v, err)
		}
		time.Sleep(2 * time.Second)
		take(t, s, limit, 1)
		time.Sleep(time.Second)
		if d := take(t, s, limit, 1000); !d.OK {
			t.Errorf("decision after a lease = %+v, want OK", d)
		}
	})
}

// A cutLedger is a ledger that can become unavailable.
type cutLedger struct {
	share.Ledger
	cut   atomic.Bool
	calls atomic.Int64
}

var errCut = fmt.Errorf("cut: %w", weir.ErrUnavailable)

func (c *cutLedger) Load(ctx context.Context, names []string, rows []share.Stored) (time.Time, error) {
	if c.calls.Add(1); c.cut.Load() {
		return time.Time{}, errCut
	}
	return c.Ledger.Load(ctx, names, rows)
}

func (c *cutLedger) Swap(ctx context.Context, swaps []share.Swap) error {
	if c.cut.Load() {
		return errCut
	}
	return c.Ledger.Swap(ctx, swaps)
}

// TestOutage checks that a holder decides by its share while the ledger is unavailable, for a lease.
func TestOutage(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		cut := &cutLedger{Ledger: share.NewMemory(nil)}
		s := newStore(t, cut, share.Config{})
		limit := weir.MustLimit("10000/s burst 1000")
		warm(t, s, limit)
		cut.cut.Store(true)
		ends := time.Now().Add(11 * time.Second)
		admitted, failed := 0, 0
		for time.Now().Before(ends) {
			d, err := s.Do(t.Context(), weir.Request{Key: "hot", Limit: limit, N: 1})
			switch {
			case errors.Is(err, weir.ErrUnavailable):
				failed++
			case err != nil || !d.OK:
				t.Fatalf("decision = %+v, %v", d, err)
			case failed > 0:
				t.Fatal("admitted after the lease has ended")
			default:
				admitted++
			}
			time.Sleep(10 * time.Millisecond)
		}
		if admitted < 650 || failed < 50 {
			t.Errorf("%d admitted and %d failed, want admissions for about a lease, and failures then", admitted, failed)
		}
	})
}

// TestChangedLimit lowers a limit with a name while a process holds a share of it. The holder
// decides by the former limit for at most a lease.
func TestChangedLimit(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ledger := share.NewMemory(nil)
		s, other := newStore(t, ledger, share.Config{}), newStore(t, ledger, share.Config{})
		before, after := weir.MustLimit("10000/s burst 1000").Named("api"), weir.MustLimit("1000/s burst 200").Named("api")
		warm(t, s, before)
		if d := take(t, other, after, 100); d.OK {
			t.Errorf("decision by the new limit = %+v, want denied: shares of the former one are larger", d)
		}
		time.Sleep(time.Second) // the share is idle, and returned
		v, err := other.Explain(t.Context(), "hot", after)
		if err != nil || len(v.Holders) != 0 || !v.Limit.Equal(after) {
			t.Errorf("Explain = %+v, %v, want no holder and the new limit", v, err)
		}
		if d := take(t, other, after, 200); !d.OK {
			t.Errorf("decision by the new limit = %+v, want OK", d)
		}
		if d := take(t, s, after, 200); d.OK {
			t.Errorf("another decision = %+v, want denied", d)
		}
	})
}

// TestLoweredAndRaisedLimit lowers a limit below what is used while a share of it is held, and raises it
// again. All tokens that were used still count.
func TestLoweredAndRaisedLimit(t *testing.T) {
	for _, text := range [][2]string{
		{"1000/h burst 10000", "200/h burst 2000"},
		{"10000/day fixed_window calendar UTC", "2000/day fixed_window calendar UTC"},
	} {
		synctest.Test(t, func(t *testing.T) {
			ledger := share.NewMemory(nil)
			s, other := newStore(t, ledger, share.Config{}), newStore(t, ledger, share.Config{})
			high, low := weir.MustLimit(text[0]).Named("api"), weir.MustLimit(text[1]).Named("api")
			admitted := take(t, other, high, 4000).Granted
			warm(t, s, high)
			admitted += 5000
			if d := take(t, other, low, 1); d.OK {
				t.Errorf("decision by the lower limit = %+v, want denied", d)
			}
			time.Sleep(30 * time.Second) // the share has ended
			if d := take(t, other, low, 1); d.OK {
				t.Errorf("decision by the lower limit = %+v, want denied: 9,000 are used", d)
			}
			for range 100 {
				admitted += take(t, other, high, 100).Granted
			}
			if admitted > 10_020 {
				t.Errorf("%s: %d tokens admitted, want at most 10,000 and what refills", high, admitted)
			}
		})
	}
}

// TestFormerShareReturned lowers a limit while most of it is held, and hardly used. The holder returns its
// tokens, so that the lower limit does not begin with a debt of the whole share.
func TestFormerShareReturned(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ledger := share.NewMemory(nil)
		s, other := newStore(t, ledger, share.Config{}), newStore(t, ledger, share.Config{})
		high, low := weir.MustLimit("10000/s burst 10000").Named("api"), weir.MustLimit("1000/h burst 1000").Named("api")
		warm(t, s, high)
		take(t, other, low, 1)
		time.Sleep(time.Second) // the share is idle, and returned
		if d := take(t, other, low, 1); d.Debt > 1000 {
			t.Errorf("decision by the lower limit = %+v, want no debt of more than what is used", d)
		}
	})
}

// TestChangedAlgorithm puts a limit of another algorithm in force. As the share of the former limit
// cannot be expressed under it, nothing is admitted until that share has ended.
func TestChangedAlgorithm(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ledger := share.NewMemory(nil)
		s, other := newStore(t, ledger, share.Config{}), newStore(t, ledger, share.Config{})
		before, after := weir.MustLimit("10000/s burst 1000").Named("api"), weir.MustLimit("500/m sliding_window").Named("api")
		warm(t, s, before)
		if d := take(t, other, after, 1); d.OK {
			t.Errorf("decision by the new limit = %+v, want denied", d)
		}
		time.Sleep(time.Second) // the share is idle, and returned
		if d := take(t, other, after, 1); d.OK || d.Debt != 0 {
			t.Errorf("decision by the new limit = %+v, want denied: what the former share may have admitted counts", d)
		}
		time.Sleep(70 * time.Second)
		if d := take(t, other, after, 500); !d.OK {
			t.Errorf("decision a minute later = %+v, want OK", d)
		}
	})
}

// TestReset checks that Reset makes a key as if never used, with the share of the process.
func TestReset(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newStore(t, share.NewMemory(nil), share.Config{})
		limit := weir.MustLimit("10000/s burst 1000")
		warm(t, s, limit)
		for range 950 {
			take(t, s, limit, 1)
		}
		d, err := s.Do(t.Context(), weir.Request{Verb: weir.Reset, Key: "hot", Limit: limit})
		if err != nil || !d.OK || d.Remaining < 900 {
			t.Errorf("Reset = %+v, %v, want OK and the burst left", d, err)
		}
	})
}

// TestDebt checks that a debt of the remainder takes back the shares of other processes when they
// renew them.
func TestDebt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ledger := share.NewMemory(nil)
		s, other := newStore(t, ledger, share.Config{}), newStore(t, ledger, share.Config{})
		limit := weir.MustLimit("100/s burst 1000")
		warm := func() (admitted int64) {
			tick := time.NewTicker(10 * time.Millisecond)
			defer tick.Stop()
			for range 500 {
				admitted += take(t, s, limit, 1).Granted
				<-tick.C
			}
			return admitted
		}
		if n := warm(); n < 400 {
			t.Fatalf("%d requests of 500 admitted, want most", n)
		}
		d, err := other.Do(t.Context(), weir.Request{Verb: weir.Charge, Key: "hot", Limit: limit, N: 10_000})
		if err != nil || !d.OK || d.Debt < 8000 {
			t.Errorf("Charge = %+v, %v, want a debt", d, err)
		}
		warm() // the lease is renewed
		if n := warm(); n > 0 {
			t.Errorf("%d requests admitted while the key is in debt, want none", n)
		}
		v, err := s.Explain(t.Context(), "hot", limit)
		if err != nil || v.Remainder < 1 {
			t.Errorf("Explain = %+v, %v, want the whole limit in the remainder", v, err)
		}
	})
}

// TestFormerLimits checks that a limit without a name carries its state over.
func TestFormerLimits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newStore(t, share.NewMemory(nil), share.Config{})
		before, after := weir.MustLimit("100/h burst 500"), weir.MustLimit("200/h burst 500")
		take(t, s, before, 400)
		r := weir.Request{Key: "hot", Limit: after, N: 200, From: []weir.Limit{before}}
		if d, err := s.Do(t.Context(), r); err != nil || d.OK || d.Remaining != 100 {
			t.Errorf("decision = %+v, %v, want a denial with 100 left", d, err)
		}
		r.N, r.From = 100, nil
		if d, err := s.Do(t.Context(), r); err != nil || !d.OK {
			t.Errorf("decision = %+v, %v, want OK", d, err)
		}
	})
}

// TestDoAll checks that requests under shared and strict limits are charged together or not at all.
func TestDoAll(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newStore(t, share.NewMemory(nil), share.Config{})
		divided, strict := weir.MustLimit("100/h burst 500"), weir.MustLimit("10/h")
		for _, c := range []struct {
			a, b int64
			ok   bool
		}{{400, 5, true}, {100, 6, false}, {101, 5, false}, {100, 5, true}} {
			rs := []weir.Request{{Key: "a", Limit: divided, N: c.a}, {Key: "a", Limit: strict, N: c.b}}
			ds := make([]weir.Decision, 2)
			ok, err := s.DoAll(t.Context(), rs, ds)
			if ok != c.ok || err != nil {
				t.Errorf("DoAll(%d, %d) = %v, %v, want %v", c.a, c.b, ok, err, c.ok)
			}
		}
	})
}

// TestConcurrent asks from many goroutines of several processes. All together admit no more than the
// limit.
func TestConcurrent(t *testing.T) {
	ledger := share.NewMemory(nil)
	limit := weir.MustLimit("1000/h burst 20000")
	var wg sync.WaitGroup
	var admitted, denied atomic.Int64
	start := time.Now()
	for range 3 {
		s := newStore(t, ledger, share.Config{Interval: 10 * time.Millisecond})
		for range 8 {
			wg.Go(func() {
				for range 5000 {
					d, err := s.Do(t.Context(), weir.Request{Key: "hot", Limit: limit, N: 1})
					if err != nil {
						t.Error(err)
						return
					}
					if d.OK {
						admitted.Add(1)
					} else {
						denied.Add(1)
					}
				}
			})
		}
	}
	wg.Wait()
	if most := 20_000 + int64(time.Since(start).Hours()*1000) + 1; admitted.Load() > most || admitted.Load() < 10_000 {
		t.Errorf("%d admitted and %d denied, want at most %d and at least 10,000 admitted", admitted.Load(), denied.Load(), most)
	}
}

func TestNewRejects(t *testing.T) {
	store, ledger := fakestore.Failing(nil), share.NewMemory(nil)
	for _, c := range []share.Config{
		{Lease: time.Millisecond}, {Interval: time.Millisecond}, {Threshold: -1}, {Largest: 101}, {Drift: -1},
		{MaxKeys: -1}, {Timeout: -1}, {InFlight: 65},
	} {
		if _, err := share.New(store, ledger, c); !errors.Is(err, weir.ErrInvalid) {
			t.Errorf("New(%+v) = %v, want ErrInvalid", c, err)
		}
	}
	if _, err := share.New(nil, ledger, share.Config{}); !errors.Is(err, weir.ErrInvalid) {
		t.Errorf("New without a store = %v", err)
	}
	if _, err := share.New(store, nil, share.Config{}); !errors.Is(err, weir.ErrInvalid) {
		t.Errorf("New without a ledger = %v", err)
	}
	s := newStore(t, ledger, share.Config{})
	r := weir.Request{Verb: weir.Reserve, Key: "a", ID: "1", TTL: time.Second, N: 1, Limit: weir.MustLimit("1000/s")}
	if _, err := s.Do(t.Context(), r); !errors.Is(err, weir.ErrInvalid) {
		t.Errorf("Reserve of a divided limit = %v, want ErrInvalid", err)
	}
	r.Limit = weir.MustLimit("10/s")
	if d, err := s.Do(t.Context(), r); err != nil || !d.OK {
		t.Errorf("Reserve of a small limit = %+v, %v, want the decision of the strict store", d, err)
	}
}
