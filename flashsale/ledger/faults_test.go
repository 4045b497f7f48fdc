package ledger_test

import (
	"context"
	"crypto/rand"
	"database/sql"
	"errors"
	"fmt"
	"path/filepath"
	"testing"
	"time"

	"github.com/floodweir/weir/flashsale/ledger"
	"github.com/floodweir/weir/flashsale/sale"
	"github.com/floodweir/weir/flashsale/verify/ledgertest"
)

func reservations(s sale.Sale, n int) []sale.Reservation {
	rs := make([]sale.Reservation, n)
	for i := range rs {
		rs[i] = sale.Reservation{
			ID: rand.Text(), Sale: s.ID, Epoch: 1, User: rand.Text(), Slot: 1, Ticket: rand.Text(), At: start, PayBy: start.Add(time.Minute),
		}
	}
	return rs
}

func openRaw(t testing.TB, path string) *sql.DB {
	t.Helper()
	db, err := sql.Open("sqlite", "file:"+path+"?_pragma=foreign_keys(1)&_pragma=busy_timeout(5000)")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = db.Close() })
	return db
}

// TestFullDisk fills a file up to its bound: what cannot be kept is unavailable, nothing is
// half there, and what can be read is read.
func TestFullDisk(t *testing.T) {
	path := filepath.Join(t.TempDir(), "full.db")
	l := openAt(t, "sqlite:"+path, ledger.Config{})
	s, _ := stocked(t, l, 1_000_000, 1)
	if err := l.Bound(t.Context(), 60); err != nil {
		t.Fatal(err)
	}
	var full error
	placed := int64(1)
	for full == nil {
		var got []sale.OrderResult
		if got, full = l.CreateOrders(t.Context(), 1, reservations(s, 50), start); full == nil {
			placed += int64(len(got))
		}
		if placed > 10_000 {
			t.Fatal("it is never full")
		}
	}
	if !errors.Is(full, sale.ErrUnavailable) {
		t.Fatalf("a full disk: %v, want that it is unavailable", full)
	}
	got, err := l.Totals(t.Context(), s.ID)
	if err != nil || got.Pending != placed || ledgertest.Agrees(got) != nil {
		t.Fatalf("%+v, %v, want %d orders", got, err, placed)
	}
	if err := l.Bound(t.Context(), 1<<30); err != nil {
		t.Fatal(err)
	}
	if _, err := l.CreateOrders(t.Context(), 1, reservations(s, 50), start); err != nil {
		t.Fatalf("when there is space again: %v", err)
	}
}

// TestUnavailable asks a ledger that cannot answer now.
func TestUnavailable(t *testing.T) {
	path := filepath.Join(t.TempDir(), "u.db")
	l := openAt(t, "sqlite:"+path, ledger.Config{Timeout: time.Minute})
	hasty := openAt(t, "sqlite:"+path, ledger.Config{Timeout: time.Second})
	s, rs := stocked(t, l, 5, 1)
	gone, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := l.Sale(gone, s.ID); !errors.Is(err, sale.ErrUnavailable) || !errors.Is(err, context.Canceled) {
		t.Errorf("Sale: %v, want unavailable and canceled", err)
	}
	db := openRaw(t, path)
	held, err := db.Conn(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if _, err := held.ExecContext(t.Context(), "BEGIN EXCLUSIVE"); err != nil {
		t.Fatal(err)
	}
	if _, err := hasty.CreateOrders(t.Context(), 1, reservations(s, 1), start); !errors.Is(err, sale.ErrUnavailable) {
		t.Errorf("Place while another program writes: %v, want unavailable", err)
	}
	if got, err := l.Order(t.Context(), rs[0].ID); err != nil || got.State != sale.PendingPay {
		t.Errorf("Order while another program writes: %+v, %v, want the order", got, err)
	}
	if _, err := held.ExecContext(t.Context(), "ROLLBACK"); err != nil {
		t.Fatal(err)
	}
	_ = held.Close()
	if _, err := l.CreateOrders(t.Context(), 1, reservations(s, 1), start); err != nil {
		t.Errorf("Place afterwards: %v", err)
	}
	raw(t, path, "DROP TABLE payments") // no kind of being away
	if _, err := l.Order(t.Context(), rs[0].ID); err == nil || errors.Is(err, sale.ErrUnavailable) {
		t.Errorf("Order without a table: %v, want an error that is not hidden", err)
	}
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	if _, err := l.Order(t.Context(), rs[0].ID); err == nil {
		t.Error("Order of a closed ledger: no error")
	}
}

func BenchmarkPlace(b *testing.B) {
	l := open(b, ledger.Config{})
	s, _ := stocked(b, l, 1_000_000, 0)
	const n = 200
	placed := 0
	for b.Loop() {
		if placed += n; placed > 1_000_000 {
			s, _ = stocked(b, l, 1_000_000, 0)
			placed = n
		}
		if _, err := l.CreateOrders(b.Context(), 1, reservations(s, n), start); err != nil {
			b.Fatal(err)
		}
	}
	b.ReportMetric(float64(n*b.N)/b.Elapsed().Seconds(), "orders/s")
}

func BenchmarkPay(b *testing.B) {
	l := open(b, ledger.Config{})
	s, _ := stocked(b, l, 1_000_000, 0)
	var rs []sale.Reservation
	for i := 0; b.Loop(); i++ {
		if i == len(rs) {
			b.StopTimer()
			more := reservations(s, 1000)
			if _, err := l.CreateOrders(b.Context(), 1, more, start); err != nil {
				b.Fatal(err)
			}
			rs = append(rs, more...)
			b.StartTimer()
		}
		if _, err := l.Pay(b.Context(), sale.Payment{ID: fmt.Sprint("p", i), Reservation: rs[i].ID, Amount: 9900}, start); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkAppend(b *testing.B) {
	j := journal(b, open(b, ledger.Config{}))
	s := sale.Sale{ID: "s"}
	for b.Loop() {
		rs := reservations(s, 20)
		ids := make([]string, len(rs))
		for i := range rs {
			ids[i] = rs[i].ID
		}
		if err := j.Append(b.Context(), "s", 1, rs); err != nil {
			b.Fatal(err)
		}
		if err := j.Remove(b.Context(), "s", ids...); err != nil {
			b.Fatal(err)
		}
	}
}
