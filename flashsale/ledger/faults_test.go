package ledger_test

import (
	"context"
	"crypto/rand"
	"database/sql"
	"errors"
	"fmt"
	"path/filepath"
	"runtime"
	"slices"
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

// TestFaultPoints ends calls at every point of the Ledger, as a process that dies would,
// opens the file again, and finds the change whole or not at all; the call asked again
// completes it.
func TestFaultPoints(t *testing.T) {
	late := start.Add(time.Hour)
	place := func(l *ledger.Ledger, rs []sale.Reservation) error {
		_, err := l.CreateOrders(t.Context(), rs, start)
		return err
	}
	pay := func(l *ledger.Ledger, rs []sale.Reservation) error {
		_, err := l.Pay(t.Context(), sale.Payment{ID: "p" + rs[0].ID, Reservation: rs[0].ID, Amount: 9900}, start)
		return err
	}
	cancel := func(l *ledger.Ledger, rs []sale.Reservation) error {
		_, err := l.Cancel(t.Context(), rs[0].User, rs[0].ID, start)
		return err
	}
	expire := func(l *ledger.Ledger, _ []sale.Reservation) error {
		_, err := l.Expire(t.Context(), late, 100)
		return err
	}
	for _, c := range []struct {
		do        func(*ledger.Ledger, []sale.Reservation) error
		points    []string // in the order in which they come
		committed string
		counts    func(sale.OrderTotals) int64
		before    int // orders placed before
	}{
		{place, []string{sale.PlaceInserted, sale.PlaceCounted, sale.PlaceCommitted}, sale.PlaceCommitted, func(t sale.OrderTotals) int64 { return t.Pending }, 0},
		{pay, []string{sale.PayTaken, sale.PayMarked, sale.PayCommitted}, sale.PayCommitted, func(t sale.OrderTotals) int64 { return t.Paid + t.RefundDue }, 1},
		{expire, []string{sale.ExpireMarked, sale.ExpireCounted, sale.ExpireCommitted}, sale.ExpireCommitted, func(t sale.OrderTotals) int64 { return t.Expired }, 1},
		{cancel, []string{sale.CancelMarked, sale.CancelCommitted}, sale.CancelCommitted, func(t sale.OrderTotals) int64 { return t.Cancelled }, 1},
	} {
		for i, point := range c.points {
			dsn := "sqlite:" + filepath.Join(t.TempDir(), "f.db")
			var came []string
			ends := ""
			l := openAt(t, dsn, ledger.Config{Fault: func(p string) {
				came = append(came, p)
				if p == ends {
					runtime.Goexit()
				}
			}})
			s, rs := stocked(t, l, 5, c.before)
			if c.before == 0 {
				rs = reservations(s, 1)
			}
			came, ends = nil, point
			answer := make(chan error, 1)
			go func() {
				defer close(answer)
				answer <- c.do(l, rs)
			}()
			if err, answered := <-answer; answered && !errors.Is(err, sale.ErrUnavailable) {
				t.Fatalf("%s did not come: %v", point, err)
			}
			if !slices.Equal(came, c.points[:i+1]) {
				t.Fatalf("points %v, want %v", came, c.points[:i+1])
			}
			again := openAt(t, dsn, ledger.Config{})
			want := int64(0)
			if point == c.committed {
				want = 1
			}
			for _, want := range []int64{want, 1, 1} { // then asked again, twice
				got, err := again.Totals(t.Context(), s.ID)
				if err != nil {
					t.Fatal(err)
				}
				if err := ledgertest.Agrees(got); err != nil || c.counts(got) != want {
					t.Fatalf("%s: %+v, %v, want %d", point, got, err, want)
				}
				if err := c.do(again, rs); err != nil {
					t.Fatalf("%s, asked again: %v", point, err)
				}
			}
		}
	}
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
		if got, full = l.CreateOrders(t.Context(), reservations(s, 50), start); full == nil {
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
	if _, err := l.CreateOrders(t.Context(), reservations(s, 50), start); err != nil {
		t.Fatalf("when there is space again: %v", err)
	}
}

// TestUnavailable asks a ledger that cannot answer now.
func TestUnavailable(t *testing.T) {
	path := filepath.Join(t.TempDir(), "u.db")
	l := openAt(t, "sqlite:"+path, ledger.Config{Timeout: 200 * time.Millisecond})
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
	if _, err := l.CreateOrders(t.Context(), reservations(s, 1), start); !errors.Is(err, sale.ErrUnavailable) {
		t.Errorf("Place while another program writes: %v, want unavailable", err)
	}
	if got, err := l.Order(t.Context(), rs[0].ID); err != nil || got.State != sale.PendingPay {
		t.Errorf("Order while another program writes: %+v, %v, want the order", got, err)
	}
	if _, err := held.ExecContext(t.Context(), "ROLLBACK"); err != nil {
		t.Fatal(err)
	}
	_ = held.Close()
	if _, err := l.CreateOrders(t.Context(), reservations(s, 1), start); err != nil {
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
		if _, err := l.CreateOrders(b.Context(), reservations(s, n), start); err != nil {
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
			if _, err := l.CreateOrders(b.Context(), more, start); err != nil {
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
