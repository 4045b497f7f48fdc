package flashsale_test

import (
	"cmp"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/floodweir/weir/e2e/pgtest"
	"github.com/floodweir/weir/flashsale/ledger"
	"github.com/floodweir/weir/flashsale/sale"
	"github.com/floodweir/weir/flashsale/verify/ledgertest"
	"github.com/floodweir/weir/flashsale/verify/ledgertest/random"
)

// longTimeout is so long that no busy machine refuses an operation which waits for others.
const longTimeout = 2 * time.Minute

// openPostgres opens a ledger in a database, with longTimeout unless c.Timeout is set.
func openPostgres(t testing.TB, dsn string, c ledger.Config) *ledger.Ledger {
	t.Helper()
	c.Timeout = cmp.Or(c.Timeout, longTimeout)
	l, err := ledger.Open(t.Context(), dsn, c)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := l.Close(); err != nil {
			t.Errorf("Close: %v", err)
		}
	})
	return l
}

// eachEmpty opens one ledger for the tests of a suite, and returns a function that empties it. The
// tests must not run in parallel. A database for each costs more than a test.
func eachEmpty(t *testing.T) func(t *testing.T) *ledger.Ledger {
	t.Helper()
	dsn := newDatabase(t, &ledgers)
	l := openPostgres(t, dsn, ledger.Config{})
	return func(t *testing.T) *ledger.Ledger {
		t.Helper()
		execute(t, dsn, `DO $$
			DECLARE name text;
			BEGIN
				SET LOCAL session_replication_role = replica; -- in any order
				FOR name IN SELECT tablename FROM pg_tables WHERE schemaname = 'public' AND tablename <> 'goose_db_version' LOOP
					EXECUTE 'DELETE FROM ' || quote_ident(name);
				END LOOP;
			END $$`)
		return l
	}
}

// TestPostgresLedger runs the conformance suite on a real server.
func TestPostgresLedger(t *testing.T) {
	t.Parallel()
	s := ledgers.use(t)
	empty := eachEmpty(t)
	ledgertest.Run(t, func(t *testing.T) sale.Ledger { return empty(t) })
	if _, found, ok := strings.Cut(s.Log(), "deadlock detected"); ok {
		t.Errorf("there was a deadlock: %.3000s", found) // it is retried, but costs a second
	}
}

// openTogether opens a database by n programs at once.
func openTogether(t *testing.T, dsn string, n int) {
	t.Helper()
	var all sync.WaitGroup
	for range n {
		all.Go(func() {
			l, err := ledger.Open(t.Context(), dsn, ledger.Config{Timeout: longTimeout})
			if err != nil {
				t.Errorf("Open: %v", err)
				return
			}
			if err := l.Close(); err != nil {
				t.Errorf("Close: %v", err)
			}
		})
	}
	all.Wait()
}

// TestPostgresMigratesTogether opens new databases by eight processes at once. They migrate one after
// the other, without a deadlock, which would cost each of them a second.
func TestPostgresMigratesTogether(t *testing.T) {
	t.Parallel()
	s := pgtest.StartVolatile(t)
	for range 4 {
		openTogether(t, s.DSN(s.NewDB(t)), 8)
	}
	if _, found, ok := strings.Cut(s.Log(), "deadlock detected"); ok {
		t.Errorf("there was a deadlock: %.3000s", found)
	}
}

// TestPostgresMockRefunds runs the tests of the mock provider's refunds on a real server.
func TestPostgresMockRefunds(t *testing.T) {
	t.Parallel()
	ledgertest.MockRefunds(t, func(t *testing.T, prefix string) sale.Ledger {
		return openPostgres(t, newDatabase(t, &ledgers), ledger.Config{Mock: prefix})
	})
}

// TestPostgresPrograms runs two programs that place the same batches and expire the orders: each
// becomes one order and expires once.
func TestPostgresPrograms(t *testing.T) {
	t.Parallel()
	server, dsn := ledgers.use(t), newDatabase(t, &ledgers)
	programs := [2]*ledger.Ledger{openPostgres(t, dsn, ledger.Config{}), openPostgres(t, dsn, ledger.Config{})}
	s := stockedLedger(t, programs[0], 800)
	rs := someReservations(s, 1000)
	var all sync.WaitGroup
	var news, over atomic.Int64
	for i := range 4 {
		all.Go(func() {
			for batch := range slices.Chunk(rs, 100) {
				placed, err := programs[i%2].CreateOrders(t.Context(), 1, batch, postgresStart)
				if err != nil {
					t.Errorf("Place: %v", err)
				}
				for _, p := range placed {
					if p.New && p.State == sale.PendingPay {
						news.Add(1)
					}
				}
			}
		})
	}
	all.Wait()
	if got := checkTotals(t, programs[0], s); got.Pending != 800 || got.Rejected != 0 || news.Load() != 800 {
		t.Fatalf("%+v, %d new, want 800 orders", got, news.Load())
	}
	var once sync.Map
	for i := range 4 {
		all.Go(func() {
			for {
				due, err := programs[i%2].Expire(t.Context(), postgresStart.Add(time.Hour), 30)
				if err != nil {
					t.Errorf("Expire: %v", err)
					return
				}
				if len(due) == 0 {
					return
				}
				for _, o := range due {
					if _, twice := once.LoadOrStore(o.ID, true); twice {
						t.Errorf("order %s expired twice", o.ID)
					}
					over.Add(1)
				}
			}
		})
	}
	all.Wait()
	if got := checkTotals(t, programs[1], s); got.Expired != 800 || over.Load() != 800 || got.Movements != 800 {
		t.Fatalf("%+v, %d expired, want 800", got, over.Load())
	}
	if strings.Contains(server.Log(), "deadlock detected") {
		t.Error("there was a deadlock")
	}
}

// TestPostgresPayAndExpire pays and expires orders within 5 ms of their deadlines.
func TestPostgresPayAndExpire(t *testing.T) {
	t.Parallel()
	ledgertest.Race(t, openPostgres(t, newDatabase(t, &ledgers), ledger.Config{}), count(300, 10_000))
}

// TestPostgresRandom compares random commands with a model.
func TestPostgresRandom(t *testing.T) {
	t.Parallel()
	random.Run(t, openPostgres(t, newDatabase(t, &ledgers), ledger.Config{}), 0, count(1_000, 100_000))
}
