package ledgertest

import (
	"fmt"
	"testing"

	"github.com/floodweir/weir/flashsale/sale"
)

// MockRefunds checks that a refund of the mock provider's payment is done at once. Without the mock
// provider it stays due, as that of any payment that was not opened at a provider. Open opens an
// empty ledger with the prefix of the mock provider's payments.
func MockRefunds(t *testing.T, open func(t *testing.T, prefix string) sale.Ledger) {
	for prefix, refunded := range map[string]int64{"mock-": 2, "": 0} {
		t.Run(fmt.Sprintf("prefix %q", prefix), func(t *testing.T) { mockRefunds(t, open(t, prefix), refunded) })
	}
}

// mockRefunds refunds a paid order, and pays orders twice. It wants refunded of the first order's
// two refunds to be done.
func mockRefunds(t *testing.T, l sale.Ledger, refunded int64) {
	now := Start()
	s, err := l.Create(t.Context(), "shop", "", Draft(5, 1), now)
	if err == nil {
		s, err = l.SetState(t.Context(), "shop", s.ID, sale.Exposed, "", now, sale.Drafted)
	}
	a, b := Reservation(s, "a", 1), Reservation(s, "b", 1)
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
		t.Errorf("the order of a = %+v, %v, want 2 refunds, %d done", o, err, refunded)
	}
	other, err := l.Order(t.Context(), b.ID)
	if err != nil {
		t.Fatal(err)
	}
	done := refunded + int64(other.Refunded)
	if got.Refunded != done || got.RefundDue != 3-done || other.Refunds != 1 || got.Returned != 9900*done {
		t.Errorf("%+v, and b %+v, want %d of 3 refunds done", got, other, done)
	}
}
