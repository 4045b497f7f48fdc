package flashsale_test

import (
	"os"
	"testing"

	"github.com/floodweir/weir/e2e/pgtest"
	"github.com/floodweir/weir/flashsale/ledger"
	"github.com/floodweir/weir/flashsale/ledgertest"
	"github.com/floodweir/weir/flashsale/sale"
)

// openPostgres opens a ledger in a database of a server.
func openPostgres(t testing.TB, s *pgtest.Server, db string, c ledger.Config) *ledger.Ledger {
	t.Helper()
	l, err := ledger.Open(t.Context(), s.DSN(db), c)
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

// postgresCount is the short number, or the long one if FLASHSALE_LONG is 1.
func postgresCount(short, long int) int {
	if os.Getenv("FLASHSALE_LONG") == "1" {
		return long
	}
	return short
}

// TestPostgresLedger runs the suite of ledgers on a real server.
func TestPostgresLedger(t *testing.T) {
	s := pgtest.Start(t)
	ledgertest.Run(t, func(t *testing.T) sale.Ledger { return openPostgres(t, s, s.NewDB(t), ledger.Config{}) })
}

// TestPostgresPayAndExpire pays and expires orders within 5 ms of the end of their time.
func TestPostgresPayAndExpire(t *testing.T) {
	s := pgtest.Start(t)
	ledgertest.Race(t, openPostgres(t, s, s.NewDB(t), ledger.Config{}), postgresCount(500, 10_000))
}

// TestPostgresRandom compares random commands with a small model.
func TestPostgresRandom(t *testing.T) {
	s := pgtest.Start(t)
	ledgertest.Random(t, openPostgres(t, s, s.NewDB(t), ledger.Config{}), postgresCount(2_000, 100_000))
}
