package ledger_test

import (
	"errors"
	"flag"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/floodweir/weir/flashsale/ledger"
	"github.com/floodweir/weir/flashsale/sale"
	"github.com/floodweir/weir/flashsale/verify/ledgertest"
	"github.com/floodweir/weir/flashsale/verify/ledgertest/random"
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

var seed = flag.Uint64("seed", 0, "of TestRandom; 0 is a random one")

// TestRandom compares random commands with a small model.
func TestRandom(t *testing.T) {
	random.Run(t, open(t, ledger.Config{}), *seed, count(5_000, 100_000))
}

// TestAddStockField adds more units than a sale may have: the error names the field units.
func TestAddStockField(t *testing.T) {
	l, now := open(t, ledger.Config{}), time.Date(2030, 1, 1, 0, 0, 0, 0, time.UTC)
	d := sale.Draft{SKU: "a", Title: "A", Price: 1, Stock: sale.MaxStock - 1, StartsAt: now, EndsAt: now.Add(time.Hour)}
	s, err := l.Create(t.Context(), "shop", "", d.WithDefaults(), now)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := l.SetState(t.Context(), "shop", s.ID, sale.Exposed, "", now, sale.Drafted); err != nil {
		t.Fatal(err)
	}
	_, err = l.AddStock(t.Context(), "shop", s.ID, "key", 5, now)
	want := sale.FieldError{Field: "units", Value: "5", Want: "1 to 1", Code: sale.OutOfRange, Min: 1, Max: 1}
	if e, ok := errors.AsType[*sale.FieldError](err); !ok || *e != want {
		t.Errorf("AddStock(5) = %v, want %+v", err, want)
	}
}

// TestMockRefunds runs the tests of the mock provider's refunds.
func TestMockRefunds(t *testing.T) {
	ledgertest.MockRefunds(t, func(t *testing.T, prefix string) sale.Ledger { return open(t, ledger.Config{Mock: prefix}) })
}
