package ledger_test

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/floodweir/weir/flashsale/ledger"
	"github.com/floodweir/weir/flashsale/sale"
	"github.com/floodweir/weir/flashsale/verify/ledgertest"
)

// open makes an empty ledger in a file.
func open(t testing.TB, c ledger.Config) *ledger.Ledger {
	t.Helper()
	return openAt(t, "sqlite:"+filepath.Join(t.TempDir(), "led ger?%.db"), c)
}

func openAt(t testing.TB, dsn string, c ledger.Config) *ledger.Ledger {
	t.Helper()
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

func TestLedger(t *testing.T) {
	ledgertest.Run(t, func(t *testing.T) sale.Ledger { return open(t, ledger.Config{}) })
}

func TestLedgerInMemory(t *testing.T) {
	ledgertest.Run(t, func(t *testing.T) sale.Ledger { return openAt(t, "sqlite::memory:", ledger.Config{}) })
}

// TestPayAndExpire pays and expires orders within 5 ms of the end of their time.
func TestPayAndExpire(t *testing.T) {
	ledgertest.Race(t, open(t, ledger.Config{}), count(500, 10_000))
}

// count is the short number, or the long one if FLASHSALE_LONG is 1.
func count(short, long int) int {
	if os.Getenv("FLASHSALE_LONG") == "1" {
		return long
	}
	return short
}

// TestRandom compares random commands with a small model.
func TestRandom(t *testing.T) {
	ledgertest.Random(t, open(t, ledger.Config{}), count(20_000, 100_000))
}
