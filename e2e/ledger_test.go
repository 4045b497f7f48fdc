//go:build unix && !onlyredis

package e2e_test

import (
	"context"
	"errors"
	"net/http"
	"net/http/httptest"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/floodweir/weir"
	"github.com/floodweir/weir/e2e/pgtest"
	"github.com/floodweir/weir/e2e/redistest"
	"github.com/floodweir/weir/httplimit"
	"github.com/floodweir/weir/memstore"
	"github.com/floodweir/weir/pgstore"
	"github.com/floodweir/weir/share"
	"github.com/floodweir/weir/share/ledgertest"
)

// TestLedgers runs the suite of every ledger on Redis, on a cluster and on PostgreSQL, and divides a
// limit among several stores on each.
func TestLedgers(t *testing.T) {
	t.Parallel()
	run := func(t *testing.T, open func(tb testing.TB) share.Ledger) {
		ledgertest.Run(t, open)
		t.Run("shares", func(t *testing.T) { divideLimit(t, open(t), askStore) })
	}
	t.Run("redis", func(t *testing.T) {
		t.Parallel()
		conn := openConn(t, "rueidis", "redis://"+redistest.Start(t).Addr)
		run(t, func(tb testing.TB) share.Ledger { return newRedisLedger(tb, conn) })
	})
	t.Run("cluster", func(t *testing.T) {
		t.Parallel()
		conn := openConn(t, "goredis", "redis+cluster://"+redistest.StartCluster(t).Addrs())
		run(t, func(tb testing.TB) share.Ledger { return newRedisLedger(tb, conn) })
	})
	t.Run("postgres", func(t *testing.T) {
		t.Parallel()
		db := openPostgres(t, pgtest.StartVolatile(t))
		run(t, func(tb testing.TB) share.Ledger {
			l, err := pgstore.NewLedger(db, pgstore.Config{})
			if err != nil {
				tb.Fatal(err)
			}
			return l
		})
	})
}

// TestSharesInPrograms divides a limit among programs that use weir.Limiter or package httplimit.
func TestSharesInPrograms(t *testing.T) {
	t.Parallel()
	conn := openConn(t, "rueidis", "redis://"+redistest.Start(t).Addr)
	t.Run("limiter", func(t *testing.T) {
		divideLimit(t, newRedisLedger(t, conn), func(s weir.Store, limit weir.Limit) func(context.Context) (bool, error) {
			l, err := weir.New(s, limit, weir.Config{Prefix: "limiter"})
			if err != nil {
				t.Fatal(err)
			}
			return func(ctx context.Context) (bool, error) {
				d, err := l.Take(ctx, "hot", 1)
				return d.OK, err
			}
		})
	})
	t.Run("httplimit", func(t *testing.T) {
		divideLimit(t, newRedisLedger(t, conn), func(s weir.Store, limit weir.Limit) func(context.Context) (bool, error) {
			hot := func(*http.Request) string { return "hot" }
			h := httplimit.Limit(s, limit.String(), hot)(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}))
			return func(ctx context.Context) (ok bool, err error) {
				w := httptest.NewRecorder()
				h.ServeHTTP(w, httptest.NewRequestWithContext(ctx, "GET", "/", nil))
				if degraded := w.Header().Get("Weir-Degraded"); degraded != "" {
					err = errors.New(degraded)
				}
				return w.Code == http.StatusOK, err
			}
		})
	})
}

// askStore returns the requests of a store for one key.
func askStore(s weir.Store, limit weir.Limit) func(context.Context) (bool, error) {
	return func(ctx context.Context) (bool, error) {
		d, err := s.Do(ctx, weir.Request{Key: "hot", Limit: limit, N: 1})
		return d.OK, err
	}
}

// divideLimit asks several stores for more than a limit, by requests that open returns. All together admit no more
// than it, and most decisions need no call.
func divideLimit(t *testing.T, ledger share.Ledger, open func(weir.Store, weir.Limit) func(context.Context) (bool, error)) {
	limit := weir.MustLimit("1000/h burst 30000")
	var admitted, denied, local atomic.Int64
	var wg sync.WaitGroup
	start := time.Now()
	for range 3 {
		mem, err := memstore.New(memstore.Config{})
		if err != nil {
			t.Fatal(err)
		}
		s, err := share.New(mem, ledger, share.Config{Timeout: patient})
		if err != nil {
			t.Fatal(err)
		}
		ask := open(s, limit)
		var callers sync.WaitGroup
		for range 4 {
			callers.Go(func() {
				// A holder whose share comes late denies by what it read before, so all go on until the
				// limit is used.
				for i := 0; i < 5000 || admitted.Load() < 25_000 && time.Since(start) < 2*time.Minute; i++ {
					ok, err := ask(t.Context())
					switch {
					case err != nil:
						t.Error(err)
						return
					case ok:
						admitted.Add(1)
					default:
						denied.Add(1)
					}
				}
			})
		}
		wg.Go(func() {
			callers.Wait()
			local.Add(s.Stats().Local)
			if err := s.Close(); err != nil {
				t.Errorf("Close = %v", err)
			}
		})
	}
	wg.Wait()
	most := 30_000 + int64(time.Since(start).Hours()*1000) + 1
	t.Logf("%d admitted, %d denied, %d local", admitted.Load(), denied.Load(), local.Load())
	if admitted.Load() > most || admitted.Load() < 25_000 {
		t.Errorf("%d of %d admitted, want at most that and at least 25,000", admitted.Load(), most)
	}
	if local.Load() < 30_000 {
		t.Errorf("%d decisions without a call, want at least 30,000", local.Load())
	}
}
