package ledgertest

import (
	"testing"

	"github.com/floodweir/weir/flashsale/payments"
	"github.com/floodweir/weir/flashsale/sale"
)

// report records an event of any provider.
func (d *tester) report(provider string, e payments.Event) sale.EventResult {
	d.t.Helper()
	got, err := d.RecordEvent(d.ctx, provider, e, e.At)
	d.must(err)
	return got
}

// wantUnmatched fails the test unless the unmatched payments are these, the latest first.
func (d *tester) wantUnmatched(want ...string) {
	d.t.Helper()
	all, err := d.UnmatchedPayments(d.ctx, 100)
	d.must(err)
	var got []string
	for _, u := range all {
		got = append(got, u.Provider+":"+u.Ref+" "+u.Kind.String())
	}
	if len(got) != len(want) {
		d.t.Fatalf("unmatched payments %v, want %v", got, want)
	}
	for i := range want {
		if got[i] != want[i] {
			d.t.Fatalf("unmatched payments %v, want %v", got, want)
		}
	}
}

// unmatchedOrders checks money of payments that were not opened here, for reservations that the
// ledger has. "shop" is the merchant of the sale.
func unmatchedOrders(t *testing.T, d *tester) {
	s := d.exposed(100, 1)
	for _, provider := range []string{"shop", payments.Default} {
		r := d.pendingOrder(s, provider)
		ref := "first-" + provider
		if got := d.report(provider, paid(r, ref)); got.Unknown || got.Pay.RefundDue || got.Pay.Order.State != sale.Paid || got.Pay.Order.Payment != sale.PaymentID(provider, ref) {
			t.Fatalf("money for a pending order: %+v, want paid", got)
		}
		if got := d.report(provider, paid(r, ref)); !got.Repeated || got.Unknown || got.Pay.RefundDue {
			t.Fatalf("a repeated event: %+v", got)
		}
		if got := d.report(provider, paid(r, "second-"+provider)); got.Unknown || !got.Pay.RefundDue || got.Pay.Order.State != sale.Paid {
			t.Fatalf("another payment of a paid order: %+v, want a refund", got)
		}
		d.wantOrder(r, sale.Paid, 1, 0)
	}
	for name, change := range map[string]func(*payments.Event){
		"amount": func(e *payments.Event) { e.Amount = 9899 }, "currency": func(e *payments.Event) { e.Currency = "USD" },
	} {
		r := d.pendingOrder(s, name)
		e := paid(r, name)
		change(&e)
		if got := d.report("shop", e); got.Unknown || !got.Pay.RefundDue {
			t.Fatalf("another %s: %+v, want a refund", name, got)
		}
		d.wantOrder(r, sale.PendingPay, 1, 0)
	}
	ended, gone := d.pendingOrder(s, "ended"), Reservation(s, "gone", 1)
	_, err := d.Cancel(d.ctx, "ended", ended.ID, ended.At)
	d.must(err)
	d.must(d.MarkLost(d.ctx, gone, gone.At))
	for r, state := range map[sale.Reservation]sale.OrderState{ended: sale.Cancelled, gone: sale.Lost} {
		if got := d.report("shop", paid(r, string(state))); got.Unknown || !got.Pay.RefundDue || got.Pay.Order.State != state {
			t.Fatalf("an order that is %s: %+v, want a refund", state, got)
		}
		d.wantOrder(r, state, 1, 0)
	}
	d.wantUnmatched()
	// The refunds are sent to the providers that reported the money.
	due, err := d.LeaseRefunds(d.ctx, []string{"shop", payments.Default}, gone.PayBy, gone.PayBy, 100)
	if d.must(err); len(due) != 6 {
		t.Fatalf("%d refunds are due, want 6: %+v", len(due), due)
	}
	for _, f := range due {
		if f.Sale != s.ID || f.Amount < 9899 {
			t.Errorf("refund %+v, want one of sale %s", f, s.ID)
		}
	}
	e := paid(ended, "cancelled")
	e.Kind, e.RefundKey = payments.Refunded, sale.RefundKey("shop:cancelled")
	d.report("shop", e)
	d.wantOrder(ended, sale.Cancelled, 1, 1)
	d.check(s)
}

// unmatchedReservations checks money of payments that were not opened here and of reservations
// that the ledger does not have.
func unmatchedReservations(t *testing.T, d *tester) {
	s := d.exposed(100, 1)
	r, back := Reservation(s, "a", 1), Reservation(s, "b", 1)
	kept := func(what, provider string, e payments.Event, want sale.EventResult) {
		t.Helper()
		if got := d.report(provider, e); got != want {
			t.Fatalf("%s: %+v, want %+v", what, got, want)
		}
	}
	unmatched, ignored := sale.EventResult{Unknown: true, Unmatched: true}, sale.EventResult{Unknown: true}
	kept("before the order", "shop", paid(r, "r"), unmatched)
	kept("repeated", "shop", paid(r, "r"), sale.EventResult{Unknown: true, Unmatched: true, Repeated: true})
	kept("money", "shop", paid(back, "back"), unmatched)
	for _, k := range []payments.Kind{payments.Pending, payments.Failed, payments.Closed} { // no money
		e := paid(r, "r")
		e.Kind = k
		kept(k.String(), "shop", e, ignored)
	}
	refund := paid(back, "back")
	refund.Kind, refund.Receipt, refund.RefundKey = payments.Refunded, "", "key"
	kept("its refund", "shop", refund, unmatched)
	refund.Ref = "foreign"
	kept("a refund of another system", "shop", refund, ignored)

	x := d.pendingOrder(s, "x")
	d.checkout(x, "x")
	y := d.pendingOrder(s, "y")
	kept("another merchant's provider", "other", paid(x, "y"), unmatched)
	kept("a payment that was opened for another order", "bank", paid(y, "x"), unmatched)
	d.wantOrder(x, sale.PendingPay, 0, 0)
	d.wantOrder(y, sale.PendingPay, 0, 0)
	all := []string{"bank:x paid", "other:y paid", "shop:back paid", "shop:back refunded", "shop:r paid"}
	d.wantUnmatched(all...)
	if got, err := d.UnmatchedPayments(d.ctx, 1); err != nil || len(got) != 1 || got[0].Receipt != y.ID || got[0].ID != "evt" || got[0].Amount != 9900 || got[0].Currency != "CNY" || !got[0].At.Equal(y.At) || !got[0].ReceivedAt.Equal(y.At) {
		t.Fatalf("UnmatchedPayments = %+v, %v", got, err)
	}

	if got, err := d.ApplyWaiting(d.ctx, r.At, 100); err != nil || len(got) != 0 {
		t.Fatalf("ApplyWaiting = %+v, %v, want none", got, err)
	}
	d.place([]sale.Reservation{r, back}, fresh, fresh)
	got, err := d.ApplyWaiting(d.ctx, r.At, 100)
	if d.must(err); len(got) != 2 {
		t.Fatalf("ApplyWaiting = %+v, want two", got)
	}
	d.wantOrder(r, sale.Paid, 0, 0)
	d.wantOrder(back, sale.Cancelled, 1, 1) // the provider has returned the money
	d.wantUnmatched(all[:2]...)
	if got, err := d.ApplyWaiting(d.ctx, r.At, 100); err != nil || len(got) != 0 {
		t.Fatalf("a second ApplyWaiting = %+v, %v, want none", got, err)
	}
	d.check(s)
}

// unmatchedLater checks that a payment which is opened here after its money was reported is applied
// once.
func unmatchedLater(t *testing.T, d *tester) {
	s := d.exposed(100, 1)
	r := Reservation(s, "a", 1)
	d.report("bank", paid(r, "r"))
	d.checkout(r, "r")
	if got := d.report("bank", paid(r, "r")); !got.Waits || got.Unknown {
		t.Fatalf("after it is opened: %+v, want that it waits", got)
	}
	d.place([]sale.Reservation{r}, fresh)
	d.wantOrder(r, sale.Paid, 0, 0)
	d.wantUnmatched("bank:r paid")
	if got, err := d.ApplyWaiting(d.ctx, r.At, 100); err != nil || len(got) != 0 {
		t.Fatalf("ApplyWaiting = %+v, %v, want none", got, err)
	}
	d.wantUnmatched()
	d.wantOrder(r, sale.Paid, 0, 0)
	x := d.pendingOrder(s, "x")
	d.report("shop", paid(x, "x")) // "bank" is not the provider of the merchant
	d.wantOrder(x, sale.Paid, 0, 0)
	d.check(s)
}
