package ledgertest

import (
	"sync"
	"testing"
	"time"

	"github.com/floodweir/weir/flashsale/payments"
	"github.com/floodweir/weir/flashsale/sale"
)

// checkout opens a payment at the provider "bank" for a reservation.
func (d *tester) checkout(r sale.Reservation, ref string) sale.Checkout {
	d.t.Helper()
	c := sale.Checkout{
		Provider: "bank", Ref: ref, Reservation: r.ID, Sale: r.Sale, Receipt: "receipt-" + r.ID, Attempt: 1, Amount: 9900, Currency: "CNY",
		URL: "https://bank.example/" + ref, State: sale.CheckoutOpen, OpenedAt: r.At, PayBy: r.PayBy,
	}
	d.must(d.AddCheckout(d.ctx, c))
	return c
}

// paid is an event of a payment of the right amount.
func paid(r sale.Reservation, ref string) payments.Event {
	return payments.Event{ID: "evt", Ref: ref, Receipt: r.ID, Kind: payments.Paid, Amount: 9900, Currency: "CNY", At: r.At}
}

func (d *tester) event(e payments.Event, now time.Time) sale.EventResult {
	d.t.Helper()
	got, err := d.RecordEvent(d.ctx, "bank", e, now)
	d.must(err)
	return got
}

// wantOrder fails the test unless an order has a state, and as many refunds.
func (d *tester) wantOrder(r sale.Reservation, state sale.OrderState, refunds, refunded int) {
	d.t.Helper()
	o, err := d.Order(d.ctx, r.ID)
	d.must(err)
	if o.State != state || o.Refunds != refunds || o.Refunded != refunded {
		d.t.Fatalf("order is %s with %d refunds, %d of them done; want %s, %d, %d", o.State, o.Refunds, o.Refunded, state, refunds, refunded)
	}
}

// rule8 checks what becomes of money that a provider reports.
func rule8(t *testing.T, d *tester) {
	s := d.exposed(100, 1)
	a := d.pendingOrder(s, "a")
	c := d.checkout(a, "pi_a:1")
	late := a.PayBy.Add(10 * time.Second) // the order is still pending
	first := d.event(paid(a, c.Ref), late)
	if first.Unknown || first.Repeated || first.Waits || first.Pay.RefundDue || first.Pay.Order.State != sale.Paid || first.Pay.Order.Payment != c.ID() {
		t.Fatalf("RecordEvent = %+v, want paid by %s", first, c.ID())
	}
	if got := d.event(paid(a, c.Ref), late); !got.Repeated || got.Pay.RefundDue || got.Pay.Order.State != sale.Paid {
		t.Fatalf("a repeated event = %+v", got)
	}
	for _, k := range []payments.Kind{payments.Pending, payments.Failed, payments.Closed} { // they came late
		e := paid(a, c.Ref)
		e.Kind = k
		d.event(e, late)
	}
	d.wantOrder(a, sale.Paid, 0, 0)
	if all, err := d.Checkouts(d.ctx, a.ID); err != nil || len(all) != 1 || all[0].State != sale.CheckoutPaid || all[0].Receipt != c.Receipt || all[0].URL != c.URL || all[0].ID() != c.ID() {
		t.Fatalf("Checkouts = %+v, %v", all, err)
	}
	d.checkout(a, "again")
	if got := d.event(paid(a, "again"), a.At); !got.Pay.RefundDue || got.Pay.Order.State != sale.Paid {
		t.Fatalf("another payment = %+v, want a refund", got)
	}
	d.wantOrder(a, sale.Paid, 1, 0)

	for name, change := range map[string]func(*payments.Event){
		"amount": func(e *payments.Event) { e.Amount = 9899 }, "currency": func(e *payments.Event) { e.Currency = "USD" },
	} {
		b := d.pendingOrder(s, "b-"+name)
		d.checkout(b, name)
		e := paid(b, name)
		change(&e)
		if got := d.event(e, b.At); !got.Pay.RefundDue {
			t.Fatalf("another %s: %+v, want a refund", name, got)
		}
		d.wantOrder(b, sale.PendingPay, 1, 0)
	}

	// What no one has opened here changes nothing.
	x, y := d.pendingOrder(s, "x"), d.pendingOrder(s, "y")
	d.checkout(x, "x")
	unknown := func(what, provider string, e payments.Event) {
		t.Helper()
		if got, err := d.RecordEvent(d.ctx, provider, e, x.At); err != nil || !got.Unknown {
			t.Fatalf("%s: %+v, %v, want unknown", what, got, err)
		}
	}
	unknown("another ref", "bank", paid(x, "other"))
	unknown("another provider", "other", paid(x, "x"))
	unknown("another receipt", "bank", paid(y, "x"))
	d.wantOrder(x, sale.PendingPay, 0, 0)
	d.wantOrder(y, sale.PendingPay, 0, 0)
	for _, e := range []payments.Event{{Ref: "a b", Receipt: x.ID}, {Ref: "", Receipt: x.ID}, {Ref: "x", Receipt: ""}, {Ref: "x", Receipt: x.ID, Kind: 9}, {Ref: "x", Receipt: x.ID, Amount: -1}} {
		_, err := d.RecordEvent(d.ctx, "bank", e, x.At)
		d.wantError("an invalid event", err, sale.ErrInvalid)
	}
	d.check(s)
}

// waitingEvents checks money for reservations that are not orders yet.
func waitingEvents(t *testing.T, d *tester) {
	s := d.exposed(100, 1)
	r, gone, twice := Reservation(s, "a", 1), Reservation(s, "b", 1), Reservation(s, "c", 1)
	for ref, r := range map[string]sale.Reservation{"r": r, "gone": gone, "twice": twice, "twice-2": twice} {
		d.checkout(r, ref)
		if got := d.event(paid(r, ref), r.At); !got.Waits || got.Unknown {
			t.Fatalf("before the order: %+v, want that it waits", got)
		}
		if got := d.event(paid(r, ref), r.At); !got.Waits || !got.Repeated {
			t.Fatalf("repeated before the order: %+v", got)
		}
	}
	if got, err := d.ApplyWaiting(d.ctx, r.At, 100); err != nil || len(got) != 0 {
		t.Fatalf("ApplyWaiting = %+v, %v, want none", got, err)
	}
	d.place([]sale.Reservation{r, twice}, fresh, fresh)
	d.wantOrder(r, sale.Paid, 0, 0)
	d.wantOrder(twice, sale.Paid, 1, 0)
	d.must(d.MarkLost(d.ctx, gone, r.At))
	got, err := d.ApplyWaiting(d.ctx, r.At, 100)
	if d.must(err); len(got) != 1 || !got[0].RefundDue || got[0].Order.State != sale.Lost {
		t.Fatalf("ApplyWaiting = %+v, want one refund", got)
	}
	if got, err := d.ApplyWaiting(d.ctx, r.At, 100); err != nil || len(got) != 0 {
		t.Fatalf("a second ApplyWaiting = %+v, %v, want none", got, err)
	}
	d.wantOrder(gone, sale.Lost, 1, 0)
	if got := d.check(s); got.Paid != 2 || got.RefundDue != 2 {
		t.Fatalf("%+v, want 2 paid and 2 refunds", got)
	}
}

// openCheckouts checks when a payment is due, and that an order does not expire before its
// payment is closed.
func openCheckouts(t *testing.T, d *tester) {
	s := d.exposed(100, 1)
	open, closed, cancelled, other := d.pendingOrder(s, "open"), d.pendingOrder(s, "closed"), d.pendingOrder(s, "cancelled"), d.pendingOrder(s, "other")
	for ref, r := range map[string]sale.Reservation{"open": open, "closed": closed, "cancelled": cancelled} {
		d.checkout(r, ref)
	}
	c := d.checkout(other, "other")
	c.Provider = "elsewhere"
	d.must(d.AddCheckout(d.ctx, c))
	e := paid(closed, "closed")
	e.Kind = payments.Closed
	d.event(e, closed.At)
	lease := func(now time.Time, want ...string) {
		t.Helper()
		got, err := d.LeaseCheckouts(d.ctx, []string{"bank"}, now, now.Add(10*time.Second), 100)
		d.must(err)
		refs := map[string]sale.OrderState{}
		for _, c := range got {
			refs[c.Ref] = c.Order
		}
		if len(got) != len(want) {
			t.Fatalf("leased %v, want %v", refs, want)
		}
		for _, ref := range want {
			if refs[ref] == "" {
				t.Fatalf("leased %v, want %v", refs, want)
			}
		}
	}
	lease(open.At.Add(time.Second))
	_, err := d.Cancel(d.ctx, "cancelled", cancelled.ID, open.At.Add(time.Second))
	d.must(err)
	lease(open.At.Add(time.Second), "cancelled")
	lease(open.At.Add(2*time.Second), []string{}...) // leased
	lease(open.PayBy, "cancelled", "open", "other")
	d.must(d.PostponeCheckout(d.ctx, "bank:open", open.PayBy.Add(time.Hour), true))
	lease(open.PayBy.Add(30*time.Second), "cancelled", "other")
	if all, err := d.Checkouts(d.ctx, open.ID); err != nil || len(all) != 1 || all[0].Tries != 1 {
		t.Fatalf("Checkouts = %+v, %v, want one try", all, err)
	}

	expired := func(now time.Time, want sale.OrderState) {
		t.Helper()
		_, err := d.Expire(d.ctx, now, 100)
		d.must(err)
		d.wantOrder(open, want, 0, 0)
		d.wantOrder(closed, sale.Expired, 0, 0)
	}
	expired(open.PayBy.Add(time.Millisecond), sale.PendingPay)
	expired(open.PayBy.Add(sale.CloseGrace), sale.PendingPay)
	expired(open.PayBy.Add(sale.CloseGrace+time.Millisecond), sale.Expired)
	if got := d.event(paid(open, "open"), open.PayBy.Add(time.Hour)); !got.Pay.RefundDue {
		t.Fatalf("paid after it expired: %+v, want a refund", got)
	}
	if got := d.event(paid(cancelled, "cancelled"), open.PayBy); !got.Pay.RefundDue {
		t.Fatalf("paid after it was cancelled: %+v, want a refund", got)
	}
	d.check(s)
}

// refunds checks how money goes back.
func refunds(t *testing.T, d *tester) {
	s := d.exposed(100, 1)
	now := Start().Add(time.Hour)
	late := func(user string) sale.Reservation {
		r := d.pendingOrder(s, user)
		_, err := d.Cancel(d.ctx, user, r.ID, r.At)
		d.must(err)
		d.checkout(r, user)
		d.event(paid(r, user), now)
		return r
	}
	a, b := late("a"), late("b")
	lease := func(now time.Time, want int) []sale.Refund {
		t.Helper()
		got, err := d.LeaseRefunds(d.ctx, []string{"bank"}, now, now.Add(time.Minute), 100)
		if d.must(err); len(got) != want {
			t.Fatalf("leased %+v, want %d", got, want)
		}
		return got
	}
	got := lease(now, 2)
	lease(now.Add(time.Second), 0) // leased
	if r := got[0]; r.Amount != 9900 || r.Sale != s.ID || r.State != sale.RefundDue || r.Key() != "refund-"+r.Payment {
		t.Fatalf("refund %+v", r)
	}
	for _, r := range got {
		if r.State = sale.RefundDone; r.Reservation == b.ID {
			r.State, r.Tries, r.Error = sale.RefundFailed, 10, "no"
		}
		d.must(d.SetRefund(d.ctx, r, now))
	}
	d.wantOrder(a, sale.Cancelled, 1, 1)
	d.wantOrder(b, sale.Cancelled, 1, 0)
	if got := d.check(s); got.RefundDue != 0 || got.Refunded != 1 || got.RefundFailed != 1 {
		t.Fatalf("%+v, want one refunded and one failed", got)
	}
	lease(now.Add(time.Hour), 0)
	if n, err := d.RetryRefunds(d.ctx, "", now); err != nil || n != 1 {
		t.Fatalf("RetryRefunds = %d, %v, want 1", n, err)
	}
	lease(now, 1)
	// The provider says what became of it, in any order.
	e := paid(b, "b")
	e.Kind, e.RefundKey, e.Amount = payments.Refunded, "another's", 1 // not the whole payment
	d.event(e, now)
	d.wantOrder(b, sale.Cancelled, 1, 0)
	e.RefundKey, e.Amount = sale.RefundKey("bank:b"), 9900
	d.event(e, now)
	d.wantOrder(b, sale.Cancelled, 1, 1)
	e.Kind = payments.RefundFailed
	d.event(e, now)
	d.wantOrder(b, sale.Cancelled, 1, 0)

	// The merchant refunded it at the provider before its payment was reported.
	x := d.pendingOrder(s, "x")
	d.checkout(x, "x")
	e = paid(x, "x")
	e.Kind = payments.Refunded
	d.event(e, x.At)
	if got := d.event(paid(x, "x"), x.At); !got.Pay.RefundDue {
		t.Fatalf("paid after refunded: %+v, want that it is not accepted", got)
	}
	d.wantOrder(x, sale.PendingPay, 1, 1)
	d.check(s)
}

// paymentKeys checks that the newest keys are kept.
func paymentKeys(t *testing.T, d *tester) {
	for i, key := range []string{"one", "two", "three"} {
		d.must(d.AddPaymentKey(d.ctx, "bank", key, 2, Start().Add(time.Duration(i))))
	}
	d.must(d.AddPaymentKey(d.ctx, "other", "x", 1, Start()))
	if got, err := d.PaymentKeys(d.ctx, "bank"); err != nil || len(got) != 2 || got[0] != "three" || got[1] != "two" {
		t.Fatalf("PaymentKeys = %v, %v, want three, two", got, err)
	}
	d.wantError("a provider without a name", d.AddPaymentKey(d.ctx, "", "x", 1, Start()), sale.ErrInvalid)
}

// eventsAtOnce reports payments of orders many times at once, while they expire and are written.
func eventsAtOnce(t *testing.T, d *tester) {
	const n = 20
	s := d.exposed(n, 1)
	rs := batch(s, n)
	for i, r := range rs {
		d.checkout(r, "p"+r.ID)
		if i%2 == 0 {
			d.place([]sale.Reservation{r}, fresh)
		}
	}
	var all sync.WaitGroup
	for i, r := range rs {
		for range 3 {
			all.Go(func() {
				if _, err := d.RecordEvent(d.ctx, "bank", paid(r, "p"+r.ID), r.PayBy.Add(time.Minute)); err != nil {
					t.Error(err)
				}
			})
		}
		all.Go(func() {
			var err error
			if i%2 == 0 {
				_, err = d.Expire(d.ctx, r.PayBy.Add(time.Minute), n)
			} else {
				_, err = d.CreateOrders(d.ctx, 1, []sale.Reservation{r}, r.At)
			}
			if err != nil {
				t.Error(err)
			}
		})
	}
	all.Wait()
	_, err := d.ApplyWaiting(d.ctx, Start(), 100)
	d.must(err)
	got := d.check(s)
	if got.Pending != 0 && got.Paid+got.Expired+got.Pending != n || got.Paid+got.RefundDue != n {
		t.Fatalf("%+v, want %d payments, each accepted or to be refunded", got, n)
	}
	for _, r := range rs {
		o, err := d.Order(d.ctx, r.ID)
		d.must(err)
		if o.State == sale.Paid && o.Refunds != 0 || o.State == sale.Expired && o.Refunds != 1 {
			t.Errorf("order %s is %s with %d refunds", o.ID, o.State, o.Refunds)
		}
	}
}
