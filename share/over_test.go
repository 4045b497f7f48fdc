package share_test

import (
	"context"
	"errors"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/floodweir/weir"
	"github.com/floodweir/weir/failover"
	"github.com/floodweir/weir/memstore"
	"github.com/floodweir/weir/policy"
	"github.com/floodweir/weir/share"
)

// A layered is a Store with a failover.Store between its shares and its calls.
type layered struct {
	weir.Store // over all
	shares     *share.Store
	strict     *countingStore
	ledger     *cutLedger
}

type countingStore struct {
	weir.Store
	calls atomic.Int64
}

func (c *countingStore) Do(ctx context.Context, r weir.Request) (weir.Decision, error) {
	c.calls.Add(1)
	return c.Store.Do(ctx, r)
}

func (c *countingStore) DoAll(ctx context.Context, rs []weir.Request, ds []weir.Decision) (bool, error) {
	c.calls.Add(1)
	return c.Store.DoAll(ctx, rs, ds)
}

func newLayered(t *testing.T, ledger share.Ledger, c share.Config) *layered {
	t.Helper()
	mem, err := memstore.New(memstore.Config{})
	if err != nil {
		t.Fatal(err)
	}
	l := &layered{strict: &countingStore{Store: mem}, ledger: &cutLedger{Ledger: ledger}}
	if l.shares, err = share.New(l.strict, l.ledger, c); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = l.shares.Close() })
	breaker, err := failover.New(l.shares.Calls(), failover.Config{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { breaker.Close() })
	l.Store = l.shares.Over(breaker, breaker)
	return l
}

func (l *layered) warm(t *testing.T, limit weir.Limit) {
	t.Helper()
	tick := time.NewTicker(time.Millisecond)
	defer tick.Stop()
	for range 1000 {
		take(t, l, limit, 5)
		<-tick.C
	}
	if l.shares.Stats().Shares == 0 {
		t.Fatalf("no share after 1,000 requests: %+v", l.shares.Stats())
	}
}

// TestTerms checks that only keys with terms are divided, with their bounds, and that a share is
// returned after its key lost its terms.
func TestTerms(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var on atomic.Bool
		on.Store(true)
		l := newLayered(t, share.NewMemory(nil), share.Config{Terms: func(key string) (share.Terms, bool) {
			return share.Terms{Lease: 3 * time.Second, Largest: 20}, key == "hot" && on.Load()
		}})
		limit := weir.MustLimit("10000/s burst 1000")
		if _, err := l.Do(t.Context(), weir.Request{Key: "cold", Limit: limit, N: 1}); err != nil || l.strict.calls.Load() != 1 || l.ledger.calls.Load() != 0 {
			t.Errorf("%d strict calls and %d of the ledger, %v, want the strict store", l.strict.calls.Load(), l.ledger.calls.Load(), err)
		}
		l.warm(t, limit)
		v, err := l.shares.Explain(t.Context(), "hot", limit)
		if err != nil || len(v.Holders) != 1 || v.Holders[0].Rate < 0.15 || v.Holders[0].Rate > 0.2 || v.Holders[0].Lease != 3*time.Second {
			t.Errorf("Explain = %+v, %v, want a holder with 20 %% for 3 s", v, err)
		}
		on.Store(false)
		before := l.strict.calls.Load()
		for range 10 {
			take(t, l, limit, 1)
			time.Sleep(100 * time.Millisecond)
		}
		v, err = l.shares.Explain(t.Context(), "hot", limit)
		if n := l.strict.calls.Load() - before; err != nil || len(v.Holders) != 0 || n != 10 {
			t.Errorf("Explain = %+v, %v after %d strict decisions, want no holder and 10", v, err, n)
		}
	})
}

// A lossyLedger is a ledger that fails after a write whose reply is lost.
type lossyLedger struct {
	share.Ledger
	lose, lost atomic.Bool
}

func (l *lossyLedger) Load(ctx context.Context, names []string, rows []share.Stored) (time.Time, error) {
	if l.lost.Load() {
		return time.Time{}, errCut
	}
	return l.Ledger.Load(ctx, names, rows)
}

func (l *lossyLedger) Swap(ctx context.Context, swaps []share.Swap) error {
	if l.lost.Load() {
		return errCut
	}
	err := l.Ledger.Swap(ctx, swaps)
	if err == nil && l.lose.Load() {
		l.lost.Store(true)
		return errCut
	}
	return err
}

// TestShorterLease checks that a holder whose lease was shortened does not use its share for longer
// than others wait for, although the reply to that write was lost.
func TestShorterLease(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var lease atomic.Int64
		lease.Store(int64(time.Hour))
		memory := share.NewMemory(nil)
		ledger := &lossyLedger{Ledger: memory}
		l := newLayered(t, ledger, share.Config{Terms: func(string) (share.Terms, bool) {
			return share.Terms{Lease: time.Duration(lease.Load())}, true
		}})
		limit := weir.MustLimit("10000/s burst 1000")
		l.warm(t, limit)
		lease.Store(int64(time.Second))
		ledger.lose.Store(true)
		for began := time.Now(); !ledger.lost.Load(); time.Sleep(time.Millisecond) { // until an exchange
			if _, err := l.Do(t.Context(), weir.Request{Key: "hot", Limit: limit, N: 100}); err != nil || time.Since(began) > time.Minute {
				t.Fatalf("no write of the ledger, %v", err)
			}
		}
		time.Sleep(1100 * time.Millisecond)
		if d, err := l.Do(t.Context(), weir.Request{Key: "hot", Limit: limit, N: 1}); !errors.Is(err, weir.ErrUnavailable) {
			t.Errorf("decision after the shorter lease = %+v, %v, want ErrUnavailable", d, err)
		}
		other := newStore(t, memory, share.Config{})
		take(t, other, limit, 1)
		time.Sleep(1100 * time.Millisecond)
		take(t, other, limit, 1)
		if v, err := other.Explain(t.Context(), "hot", limit); err != nil || v.Remainder < 1 {
			t.Errorf("Explain = %+v, %v, want that another process has taken the share back", v, err)
		}
	})
}

// TestAlone checks that a holder decides by its share alone while the ledger is unavailable, also
// while the circuit breaker is open, and that an empty share denies. After the lease it fails. The
// ledger returns errors, or does not return.
func TestAlone(t *testing.T) {
	t.Run("refused", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			l := newLayered(t, share.NewMemory(nil), share.Config{})
			testAlone(t, l, func() { l.ledger.cut.Store(true) }, true)
		})
	})
	// A call that takes longer than a lease is not measured by the circuit breaker, so requests wait.
	for timeout, denies := range map[time.Duration]bool{failover.DefaultDeadline: true, time.Minute: false} {
		t.Run("hung for "+timeout.String(), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				hung := &hungLedger{Ledger: share.NewMemory(nil)}
				testAlone(t, newLayered(t, hung, share.Config{Timeout: timeout}), func() { hung.hung.Store(true) }, denies)
			})
		})
	}
}

// A hungLedger is a ledger that may not return before its context ends.
type hungLedger struct {
	share.Ledger
	hung atomic.Bool
}

func (h *hungLedger) Load(ctx context.Context, names []string, rows []share.Stored) (time.Time, error) {
	if h.hung.Load() {
		<-ctx.Done()
		return time.Time{}, errCut
	}
	return h.Ledger.Load(ctx, names, rows)
}

func testAlone(t *testing.T, l *layered, fail func(), denies bool) {
	t.Helper()
	limit := weir.MustLimit("10000/s burst 1000")
	l.warm(t, limit)
	fail()
	cut := time.Now()
	tick := time.NewTicker(time.Millisecond) // in a bubble of synctest
	defer tick.Stop()
	var admitted, denied int64
	var failed time.Duration
	for failed == 0 && time.Since(cut) < 20*time.Second {
		d, err := l.Do(t.Context(), weir.Request{Key: "hot", Limit: limit, N: 20})
		switch {
		case errors.Is(err, weir.ErrUnavailable), !denies && errors.Is(err, weir.ErrOverloaded): // behind the turn of a share
			failed = time.Since(cut)
		case err != nil:
			t.Fatal(err)
		case d.OK:
			admitted += 20
		default:
			if denied++; d.RetryAfter <= 0 || d.RetryAfter > 10*time.Second {
				t.Fatalf("denial = %+v, want a RetryAfter within the lease", d)
			}
		}
		<-tick.C
	}
	most := 1000 + int64(failed.Seconds()*10000)
	if failed < 6*time.Second || failed > 10*time.Second || admitted > most || admitted < most/4 || denies && denied < 100 {
		t.Errorf("%d admitted and %d denied in %v, want %d to %d and denials for the rest of a lease", admitted, denied, failed, most/4, most)
	}
	if d, err := l.Do(t.Context(), weir.Request{Key: "hot", Limit: limit, N: 1}); err == nil || denies && (!errors.Is(err, weir.ErrUnavailable) || errors.Is(err, weir.ErrOverloaded)) {
		t.Errorf("decision after the lease = %+v, %v, want ErrUnavailable", d, err)
	}
}

// TestAloneThenLocal checks that on_store_error does not decide in addition to a live share.
func TestAloneThenLocal(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLayered(t, share.NewMemory(nil), share.Config{})
		limit := weir.MustLimit("10000/s burst 1000")
		l.warm(t, limit)
		l.ledger.cut.Store(true)
		store := failover.WithFallback(l, failover.Open())
		var d weir.Decision
		var err error
		for range 1000 {
			if d, err = store.Do(t.Context(), weir.Request{Key: "hot", Limit: limit, N: 100}); err != nil || !d.OK {
				break
			}
		}
		if err != nil || d.OK || d.Degraded != "" {
			t.Errorf("decision of an empty share = %+v, %v, want a denial", d, err)
		}
		if d, err := store.Do(t.Context(), weir.Request{Key: "cold", Limit: limit, N: 1}); err != nil || !d.OK || d.Degraded != policy.Open {
			t.Errorf("decision without a share = %+v, %v, want the fallback", d, err)
		}
	})
}

// TestOverTogether decides several limits together: both by shares, then one of them by a share that
// is too small, and then without the ledger. A denied request takes nothing from its other limits.
func TestOverTogether(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLayered(t, share.NewMemory(nil), share.Config{})
		one, two := weir.MustLimit("10000/s burst 1000"), weir.MustLimit("20000/s burst 2000")
		rs := []weir.Request{{Key: "one", Limit: one, N: 1}, {Key: "two", Limit: two, N: 1}}
		ds := make([]weir.Decision, 2)
		together := func(n int64) (bool, error) {
			for i := range rs {
				rs[i].N = n
			}
			return l.DoAll(t.Context(), rs, ds)
		}
		warm := func() {
			t.Helper()
			for i := range 1000 {
				if ok, err := together(5); err != nil || !ok && i > 500 {
					t.Fatalf("request %d: DoAll = %v, %v, want OK", i, ok, err)
				}
				time.Sleep(time.Millisecond)
			}
			synctest.Wait() // no exchange is in flight
		}
		warm()
		if n := l.shares.Stats().Shares; n != 2 {
			t.Fatalf("%d shares, want 2: %+v", n, l.shares.Stats())
		}
		calls := l.ledger.calls.Load()
		for range 100 {
			if ok, err := together(1); !ok || err != nil {
				t.Fatalf("DoAll = %v, %v, want OK", ok, err)
			}
		}
		if n := l.ledger.calls.Load() - calls; n != 0 {
			t.Errorf("%d calls of the ledger for two limits with shares, want none", n)
		}
		remaining := func(i int) int64 {
			d, err := l.Do(t.Context(), weir.Request{Verb: weir.Peek, Key: rs[i].Key, Limit: rs[i].Limit, N: 0})
			if err != nil {
				t.Fatal(err)
			}
			return d.Remaining
		}
		for _, cut := range []bool{false, true} {
			warm()
			l.ledger.cut.Store(cut)
			before := remaining(1)
			if _, err := l.Do(t.Context(), weir.Request{Verb: weir.TakeUpTo, Key: "one", Limit: one, N: 1000}); err != nil {
				t.Fatal(err)
			}
			batch := []weir.Request{{Key: "two", Limit: two, N: 100}, {Key: "one", Limit: one, N: 900}}
			ok, err := l.DoAll(t.Context(), batch, ds)
			if ok || err != nil || !ds[0].OK || ds[1].OK || ds[1].RetryAfter <= 0 {
				t.Errorf("cut %v: DoAll = %v, %v, %+v, want a denial by the second request", cut, ok, err, ds)
			}
			if after := remaining(1); after < before {
				t.Errorf("cut %v: %d of the first limit remain after a denial by the second, want %d", cut, after, before)
			}
		}
	})
}

// TestOverMixed decides a limit that is divided together with one that is not.
func TestOverMixed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLayered(t, share.NewMemory(nil), share.Config{})
		large, small := weir.MustLimit("10000/s burst 1000"), weir.MustLimit("1/h burst 10")
		l.warm(t, large)
		time.Sleep(100 * time.Millisecond)
		rs := []weir.Request{{Key: "hot", Limit: large, N: 1}, {Key: "hot", Limit: small, N: 1}}
		ds := make([]weir.Decision, 2)
		for i := range 12 {
			ok, err := l.DoAll(t.Context(), rs, ds)
			if err != nil || ok != (i < 10) || ds[1].OK != ok || !ds[0].OK {
				t.Fatalf("request %d: DoAll = %v, %v, %+v, want 10 admitted by the second limit", i, ok, err, ds)
			}
		}
		l.ledger.cut.Store(true)
		if ok, err := l.DoAll(t.Context(), rs, ds); ok {
			t.Errorf("DoAll without the ledger = %v, %v, want a denial or an error", ok, err)
		}
	})
}

func TestTermsOfReservation(t *testing.T) {
	l := newLayered(t, share.NewMemory(nil), share.Config{})
	_, err := l.Do(t.Context(), weir.Request{Verb: weir.Reserve, Key: "k", Limit: weir.MustLimit("1000/s"), N: 1, ID: "a", TTL: time.Second})
	if !errors.Is(err, weir.ErrInvalid) || !strings.Contains(err.Error(), "turn shares off") {
		t.Errorf("Reserve = %v, want an error that says to turn shares off", err)
	}
}

// TestOverMissing checks that Over does not hide a missing store from the constructor behind it.
func TestOverMissing(t *testing.T) {
	l := newLayered(t, share.NewMemory(nil), share.Config{})
	for _, missing := range []weir.Store{nil, (*memstore.Store)(nil)} {
		for _, store := range []weir.Store{l.shares.Over(missing, l.strict), l.shares.Over(l.strict, missing)} {
			if _, err := weir.New(store, weir.MustLimit("1/s"), weir.Config{}); !errors.Is(err, weir.ErrInvalid) {
				t.Errorf("New = %v, want ErrInvalid", err)
			}
		}
	}
}
