package ledgertest

import (
	"errors"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/floodweir/weir/flashsale/payments"
	"github.com/floodweir/weir/flashsale/sale"
)

// paidAt returns a paid order, whose payment was opened at the provider "bank".
func (d *tester) paidAt(s sale.Sale, user string) sale.Reservation {
	d.t.Helper()
	r := d.pendingOrder(s, user)
	d.checkout(r, "p-"+user)
	d.event(paid(r, "p-"+user), r.At)
	d.wantOrder(r, sale.Paid, 0, 0)
	return r
}

// refundBy checks what becomes of a paid order that its merchant refunds.
func refundBy(t *testing.T, d *tester) {
	s := d.exposed(2, 1)
	now := Start().Add(time.Minute)
	a := d.paidAt(s, "a")
	refund := func(merchant, id, reservation string, want error) sale.Order {
		t.Helper()
		o, err := d.RefundBy(d.ctx, merchant, id, reservation, "broken", now)
		d.wantError("RefundBy", err, want)
		return o
	}
	refund("other", s.ID, a.ID, sale.ErrNotFound)
	refund("shop", d.exposed(1, 1).ID, a.ID, sale.ErrNotFound)
	refund("shop", s.ID, id(), sale.ErrNotFound)
	_, err := d.RefundBy(d.ctx, "shop", s.ID, a.ID, "", now)
	d.wantError("RefundBy without a reason", err, sale.ErrInvalid)
	d.wantOrder(a, sale.Paid, 0, 0)

	pending := d.pendingOrder(s, "pending")
	refund("shop", s.ID, pending.ID, sale.ErrConflict)
	_, err = d.Cancel(d.ctx, "pending", pending.ID, now)
	d.must(err)
	refund("shop", s.ID, pending.ID, sale.ErrConflict)
	expired := d.pendingOrder(s, "expired")
	_, err = d.Expire(d.ctx, expired.PayBy.Add(time.Second), 10)
	d.must(err)
	refund("shop", s.ID, expired.ID, sale.ErrConflict)

	b := d.paidAt(s, "b")
	before, err := d.Sale(d.ctx, s.ID)
	d.must(err)
	for range 2 {
		if o := refund("shop", s.ID, a.ID, nil); o.State != sale.Cancelled || o.Refunds != 1 || o.Refunded != 0 || o.Payment != "" || !o.ChangedAt.Equal(now) {
			t.Fatalf("RefundBy = %+v", o)
		}
	}
	if got := d.check(s); got.Paid != 1 || got.Movements != 1 || got.RefundDue != 1 || got.Refunded != 0 || got.Returned != 0 || got.Sale.Version != before.Version+1 {
		t.Fatalf("%+v, want one paid, one free, one refund and a new version", got)
	}
	audit, err := d.AuditLog(d.ctx, s.ID)
	d.must(err)
	recorded := 0
	for _, e := range audit {
		if e.Actor == "shop" && strings.HasPrefix(e.Event, "refunded order "+a.ID) && strings.HasSuffix(e.Event, ": broken") {
			recorded++
		}
	}
	if recorded != 1 {
		t.Fatalf("%d entries in the audit log, want 1", recorded)
	}

	// Late events change nothing; other money goes back too.
	if got := d.event(paid(a, "p-a"), now); !got.Repeated || !got.Pay.RefundDue || got.Pay.Order.State != sale.Cancelled {
		t.Fatalf("the payment is reported again: %+v", got)
	}
	d.checkout(a, "second")
	if got := d.event(paid(a, "second"), now); !got.Pay.RefundDue {
		t.Fatalf("another payment: %+v, want a refund", got)
	}
	d.wantOrder(a, sale.Cancelled, 2, 0)
	d.place([]sale.Reservation{a}, sale.OrderResult{State: sale.Cancelled})

	// The unit is for sale again, also to the same user; the inventory has to know it.
	var unreturned []string
	orders, err := d.Unreturned(d.ctx, 100)
	d.must(err)
	for _, o := range orders {
		if o.WasPaid != (o.ID == a.ID) {
			t.Fatalf("%s: WasPaid %v", o.ID, o.WasPaid)
		}
		unreturned = append(unreturned, o.ID)
	}
	if !strings.Contains(strings.Join(unreturned, " "), a.ID) {
		t.Fatalf("Unreturned = %v, want %s", unreturned, a.ID)
	}
	if o, err := d.InitialState(d.ctx, s.ID); err != nil || o.Unpaid[a.User] != 0 {
		t.Fatalf("InitialState: %v unpaid orders, %v, want none: the refunded one was paid", o.Unpaid, err)
	}
	again := d.pendingOrder(s, "a")
	if got := d.pay(again, "p-again", now); got.RefundDue || got.SoldOut != 2 {
		t.Fatalf("the unit is bought again: %+v, want that all are paid", got)
	}

	// The refund queue has both payments, with their amounts.
	leased, err := d.LeaseRefunds(d.ctx, []string{"bank"}, now, now.Add(time.Minute), 100)
	if d.must(err); len(leased) != 2 || leased[0].Amount != 9900 || leased[0].State != sale.RefundDue {
		t.Fatalf("leased %+v, want two refunds", leased)
	}
	for _, r := range leased {
		r.State = sale.RefundDone
		d.must(d.SetRefund(d.ctx, r, now))
	}
	d.wantOrder(a, sale.Cancelled, 2, 2)
	d.wantOrder(b, sale.Paid, 0, 0)
	if got := d.check(s); got.Refunded != 2 || got.Returned != 2*9900 || got.RefundDue != 0 {
		t.Fatalf("%+v, want that the money of two payments was returned", got)
	}
	var returned int64
	d.must(d.EachOrder(d.ctx, s.ID, func(o sale.Order) error { returned += o.Returned; return nil }))
	if returned != 2*9900 {
		t.Fatalf("EachOrder: %d returned, want %d", returned, 2*9900)
	}
}

// refundNothing checks refunds for which no money is sent.
func refundNothing(t *testing.T, d *tester) {
	now := Start().Add(time.Minute)
	s := d.exposed(10, 1)
	done := func(s sale.Sale, r sale.Reservation) {
		t.Helper()
		o, err := d.RefundBy(d.ctx, "shop", s.ID, r.ID, "broken", now)
		if d.must(err); o.State != sale.Cancelled || o.Refunds != 1 || o.Refunded != 1 {
			t.Fatalf("RefundBy = %+v, want that it is done", o)
		}
	}
	// The merchant returned it at the provider.
	a := d.paidAt(s, "a")
	e := paid(a, "p-a")
	e.Kind = payments.Refunded
	d.event(e, now)
	done(s, a)
	// A part of it is not all of it.
	b := d.paidAt(s, "b")
	e = paid(b, "p-b")
	e.Kind, e.Amount = payments.Refunded, 9899
	d.event(e, now)
	_, err := d.RefundBy(d.ctx, "shop", s.ID, b.ID, "broken", now)
	d.must(err)
	d.wantOrder(b, sale.Cancelled, 1, 0)
	// Free.
	draft := Draft(1, 1)
	draft.Price = 0
	free, err := d.Create(d.ctx, "shop", "", draft, Start())
	d.must(err)
	free, err = d.SetState(d.ctx, "shop", free.ID, sale.Exposed, "", Start(), sale.Drafted)
	d.must(err)
	f := d.pendingOrder(free, "f")
	if p, err := d.Pay(d.ctx, sale.Payment{ID: "free-" + f.ID, Reservation: f.ID}, f.At); err != nil || p.RefundDue {
		t.Fatalf("Pay = %+v, %v", p, err)
	}
	done(free, f)
	// The ledger does not know the provider: the merchant returns it.
	c := d.pendingOrder(s, "c")
	d.pay(c, "elsewhere", c.At)
	_, err = d.RefundBy(d.ctx, "shop", s.ID, c.ID, "broken", now)
	d.must(err)
	d.wantOrder(c, sale.Cancelled, 1, 0)
	if got, err := d.LeaseRefunds(d.ctx, []string{"bank"}, now, now.Add(time.Minute), 100); err != nil || len(got) != 1 || got[0].Reservation != b.ID {
		t.Fatalf("leased %+v, %v, want the refund of b alone", got, err)
	}
	d.check(s)
	d.check(free)
}

// refundAtOnce refunds orders while they are paid and their payments are reported again.
func refundAtOnce(t *testing.T, d *tester) {
	const n = 10
	s := d.exposed(n, 1)
	rs := batch(s, n)
	var all sync.WaitGroup
	for _, r := range rs {
		d.checkout(r, r.ID)
		d.place([]sale.Reservation{r}, fresh)
		for i := range 4 {
			all.Go(func() {
				if i%2 == 0 {
					if _, err := d.RefundBy(d.ctx, "shop", s.ID, r.ID, "broken", r.At); err != nil && !errors.Is(err, sale.ErrConflict) {
						t.Error(err)
					}
				} else if _, err := d.RecordEvent(d.ctx, "bank", paid(r, r.ID), r.At); err != nil {
					t.Error(err)
				}
			})
		}
	}
	all.Wait()
	got := d.check(s)
	if got.Paid+got.Cancelled != n || got.RefundDue != got.Cancelled {
		t.Fatalf("%+v, want %d orders that are paid or have one refund", got, n)
	}
	for _, r := range rs {
		_, err := d.RefundBy(d.ctx, "shop", s.ID, r.ID, "broken", r.At)
		d.must(err)
		d.wantOrder(r, sale.Cancelled, 1, 0)
	}
	if got := d.check(s); got.Movements != n || got.RefundDue != n {
		t.Fatalf("%+v, want every unit and %d refunds", got, n)
	}
}
