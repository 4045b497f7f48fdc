//go:build crashpoints

package ledger_test

import (
	"errors"
	"path/filepath"
	"runtime"
	"slices"
	"testing"
	"time"

	"github.com/floodweir/weir/flashsale/crashpoint"
	"github.com/floodweir/weir/flashsale/ledger"
	"github.com/floodweir/weir/flashsale/payments"
	"github.com/floodweir/weir/flashsale/sale"
	"github.com/floodweir/weir/flashsale/verify/ledgertest"
)

// TestCrashPoints ends calls at every crash point of the ledger, as a killed process would,
// and opens the file again. It finds the whole change or none of it, and a repeated call
// completes the change.
func TestCrashPoints(t *testing.T) {
	late := start.Add(time.Hour)
	place := func(l *ledger.Ledger, rs []sale.Reservation) error {
		_, err := l.CreateOrders(t.Context(), 1, rs, start)
		return err
	}
	pay := func(l *ledger.Ledger, rs []sale.Reservation) error {
		_, err := l.Pay(t.Context(), sale.Payment{ID: "p" + rs[0].ID, Reservation: rs[0].ID, Amount: 9900}, start)
		return err
	}
	report := func(l *ledger.Ledger, rs []sale.Reservation) error {
		if err := l.AddCheckout(t.Context(), sale.Checkout{Provider: "bank", Ref: "p", Reservation: rs[0].ID, Sale: rs[0].Sale, Attempt: 1, Amount: 9900, Currency: "CNY",
			URL: "https://bank.example", OpenedAt: start, PayBy: rs[0].PayBy}); err != nil {
			return err
		}
		_, err := l.RecordEvent(t.Context(), "bank", payments.Event{Ref: "p", Receipt: rs[0].ID, Kind: payments.Paid, Amount: 9900, Currency: "CNY"}, start)
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
		points    []string // in the order in which they are reached
		committed string
		counts    func(sale.OrderTotals) int64
		before    int // orders placed before
	}{
		{place, []string{crashpoint.PlaceInserted, crashpoint.PlaceCounted, crashpoint.PlaceCommitted}, crashpoint.PlaceCommitted, func(t sale.OrderTotals) int64 { return t.Pending }, 0},
		{pay, []string{crashpoint.PayTaken, crashpoint.PayMarked, crashpoint.PayCommitted}, crashpoint.PayCommitted, func(t sale.OrderTotals) int64 { return t.Paid + t.RefundDue }, 1},
		{report, []string{crashpoint.EventTaken, crashpoint.EventMarked, crashpoint.EventCommitted}, crashpoint.EventCommitted, func(t sale.OrderTotals) int64 { return t.Paid + t.RefundDue }, 1},
		{expire, []string{crashpoint.ExpireMarked, crashpoint.ExpireCounted, crashpoint.ExpireCommitted}, crashpoint.ExpireCommitted, func(t sale.OrderTotals) int64 { return t.Expired }, 1},
		{cancel, []string{crashpoint.CancelMarked, crashpoint.CancelCommitted}, crashpoint.CancelCommitted, func(t sale.OrderTotals) int64 { return t.Cancelled }, 1},
	} {
		for i, point := range c.points {
			dsn := "sqlite:" + filepath.Join(t.TempDir(), "f.db")
			var reached []string
			ends := ""
			l := openAt(t, dsn, ledger.Config{Crash: crashpoint.New(func(p string) {
				reached = append(reached, p)
				if p == ends {
					runtime.Goexit()
				}
			})})
			s, rs := stocked(t, l, 5, c.before)
			if c.before == 0 {
				rs = reservations(s, 1)
			}
			reached, ends = nil, point
			answer := make(chan error, 1)
			go func() {
				defer close(answer)
				answer <- c.do(l, rs)
			}()
			if err, answered := <-answer; answered && !errors.Is(err, sale.ErrUnavailable) {
				t.Fatalf("%s was not reached: %v", point, err)
			}
			if !slices.Equal(reached, c.points[:i+1]) {
				t.Fatalf("points %v, want %v", reached, c.points[:i+1])
			}
			again := openAt(t, dsn, ledger.Config{})
			want := int64(0)
			if point == c.committed {
				want = 1
			}
			for _, want := range []int64{want, 1, 1} { // after a repeated call, and after another
				got, err := again.Totals(t.Context(), s.ID)
				if err != nil {
					t.Fatal(err)
				}
				if err := ledgertest.Agrees(got); err != nil || c.counts(got) != want {
					t.Fatalf("%s: %+v, %v, want %d", point, got, err, want)
				}
				if err := c.do(again, rs); err != nil {
					t.Fatalf("%s, repeated: %v", point, err)
				}
			}
		}
	}
}
