package ledgertest

import (
	"testing"
	"time"

	"github.com/floodweir/weir/flashsale/sale"
)

// orderUnits checks that an order has all its units or is none, from its creation to its refund.
func orderUnits(t *testing.T, d *tester) {
	draft := Draft(9, 4)
	draft.MaxQuantity = 3
	s, err := d.Create(d.ctx, "shop", "", draft, Start().Add(-time.Hour))
	d.must(err)
	s, err = d.SetState(d.ctx, "shop", s.ID, sale.Exposed, "", Start().Add(-time.Hour), sale.Drafted)
	d.must(err)
	of := func(user string, slot, quantity int) sale.Reservation {
		r := Reservation(s, user, slot)
		r.Quantity = quantity
		return r
	}
	want := func(what string, sold, paid int64) {
		t.Helper()
		if got := d.check(s); got.Sale.Sold != sold || got.Sale.Paid != paid {
			t.Fatalf("%s: %d units are sold and %d paid, want %d and %d", what, got.Sale.Sold, got.Sale.Paid, sold, paid)
		}
	}
	a, b := of("a", 1, 3), of("b", 1, 3)
	d.place([]sale.Reservation{a, of("a", 2, 2), b, of("c", 1, 4)}, fresh, rejected, fresh, rejected)
	d.place([]sale.Reservation{of("b", 2, 2)}, rejected) // with the order of before it has too many
	want("orders of 3 units", 6, 0)
	e, f := of("e", 1, 2), of("f", 1, 2)
	d.place([]sale.Reservation{e, f, of("a", 2, 1)}, fresh, noUnit, fresh)
	want("the last unit", 9, 0)

	o, err := d.Order(d.ctx, a.ID)
	d.must(err)
	if o.Price != 3*9900 || o.Quantity != 3 {
		t.Fatalf("order of 3 units = %+v, want 3 times the price", o)
	}
	now := Start().Add(3 * time.Second)
	pay := func(r sale.Reservation, id string, amount int64) sale.PayResult {
		t.Helper()
		p, err := d.Pay(d.ctx, sale.Payment{ID: id, Reservation: r.ID, Amount: amount}, now)
		d.must(err)
		return p
	}
	if p := pay(a, "one", 9900); !p.RefundDue {
		t.Fatalf("the price of one unit paid 3: %+v", p)
	}
	if p := pay(a, "three", 3*9900); p.RefundDue || p.SoldOut != 0 {
		t.Fatalf("the price of 3 units = %+v", p)
	}
	want("a paid order", 9, 3)
	paid, err := d.Payments(d.ctx, s.ID, 5) // pending: 3 units of b, 2 of e, 1 of a
	d.must(err)
	const steps = int64(len(paid.After))
	if want := min(int64(now.Sub(a.At))*steps/int64(a.PayBy.Sub(a.At)), steps-1); paid.After[want] != 3 || total(paid.After[:]) != 3 {
		t.Fatalf("Payments has paid units after %v, want three after step %d", paid.After, want)
	}
	if paid.Paid != 3 || paid.Unpaid != 0 || paid.PerOrder != 9.0/4 || len(paid.PayBy) != 5 {
		t.Fatalf("Payments = %+v, want 3 paid units, 2.25 units an order, and the first five of six that are pending", paid)
	}
	opened, err := d.InitialState(d.ctx, s.ID)
	d.must(err)
	if err := opened.Validate(); err != nil || opened.Units() != 9 {
		t.Fatalf("InitialState with %d units: %v", opened.Units(), err)
	}
	_, err = d.Cancel(d.ctx, "b", b.ID, now)
	d.must(err)
	want("a cancelled order", 6, 3)
	d.place([]sale.Reservation{f}, fresh)
	_, err = d.RefundBy(d.ctx, "shop", s.ID, a.ID, "asked for it", now)
	d.must(err)
	want("a refunded order", 5, 0)
	due, err := d.Expire(d.ctx, e.PayBy.Add(time.Millisecond), 10)
	d.must(err)
	if len(due) != 3 {
		t.Fatalf("%d orders expired, want 3", len(due))
	}
	want("expired orders", 0, 0)

	lost := of("g", 1, 2)
	d.must(d.MarkLost(d.ctx, lost, now))
	if o, err := d.Order(d.ctx, lost.ID); err != nil || o.Quantity != 2 || o.Price != 2*9900 {
		t.Fatalf("lost reservation of 2 units = %+v, %v", o, err)
	}
	for _, n := range []int{-1, sale.MaxQuantity + 1} {
		_, err := d.CreateOrders(d.ctx, 1, []sale.Reservation{of("h", 1, n)}, now)
		d.wantError("CreateOrders with an invalid quantity", err, sale.ErrInvalid)
	}
	old := of("i", 1, 0) // as a record of one unit may have it
	d.place([]sale.Reservation{old}, fresh)
	want("an order without a quantity", 1, 0)
}
