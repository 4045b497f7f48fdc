package ledger_test

import (
	"errors"
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

// TestRandom compares random commands with a small model.
func TestRandom(t *testing.T) {
	random.Run(t, open(t, ledger.Config{}), count(20_000, 100_000))
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

// TestMockRefunds checks that a refund of the mock provider's payment is done at once. Without the
// mock provider it stays due, as that of any payment that was not opened at a provider.
func TestMockRefunds(t *testing.T) {
	for prefix, refunded := range map[string]int64{"mock-": 2, "": 0} {
		l, now := open(t, ledger.Config{Mock: prefix}), ledgertest.Start()
		s, err := l.Create(t.Context(), "shop", "", ledgertest.Draft(5, 1), now)
		if err == nil {
			s, err = l.SetState(t.Context(), "shop", s.ID, sale.Exposed, "", now, sale.Drafted)
		}
		a, b := ledgertest.Reservation(s, "a", 1), ledgertest.Reservation(s, "b", 1)
		if err == nil {
			_, err = l.CreateOrders(t.Context(), s.Epoch, []sale.Reservation{a, b}, now)
		}
		if err != nil {
			t.Fatal(err)
		}
		for payment, r := range map[string]sale.Reservation{"mock-a": a, "mock-b": b, "other": b} { // the second of b is due
			for range 2 { // once
				if _, err := l.Pay(t.Context(), sale.Payment{ID: payment, Reservation: r.ID, Amount: 9900}, now); err != nil {
					t.Fatal(err)
				}
			}
		}
		if _, err := l.RefundBy(t.Context(), "shop", s.ID, a.ID, "asked for it", now); err != nil {
			t.Fatal(err)
		}
		if _, err := l.Pay(t.Context(), sale.Payment{ID: "mock-late", Reservation: a.ID, Amount: 9900}, now); err != nil {
			t.Fatal(err)
		}
		got, err := l.Totals(t.Context(), s.ID)
		if err != nil {
			t.Fatal(err)
		}
		o, err := l.Order(t.Context(), a.ID)
		if err != nil || o.Refunds != 2 || int64(o.Refunded) != refunded {
			t.Errorf("prefix %q: the order of a = %+v, %v, want 2 refunds, %d done", prefix, o, err, refunded)
		}
		other, err := l.Order(t.Context(), b.ID)
		if err != nil {
			t.Fatal(err)
		}
		done := refunded + int64(other.Refunded)
		if got.Refunded != done || got.RefundDue != 3-done || other.Refunds != 1 || got.Returned != 9900*done {
			t.Errorf("prefix %q: %+v, and b %+v, want %d of 3 refunds done", prefix, got, other, done)
		}
	}
}
