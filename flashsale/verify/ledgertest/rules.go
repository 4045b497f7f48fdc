package ledgertest

import (
	"fmt"
	"testing"
	"time"

	"github.com/floodweir/weir/flashsale/sale"
)

func rule1(t *testing.T, d *tester) {
	s := d.exposed(3, 1)
	d.place(batch(s, 2), fresh, fresh)
	d.check(s)
	more := batch(s, 3)
	d.place(more, fresh, noUnit, noUnit)
	d.place(more, again, noUnit, noUnit)
	if got := d.check(s); got.Sale.Sold != 3 || got.Rejected != 0 {
		t.Fatalf("%+v, want 3 sold and none rejected", got)
	}
}

func rule2(_ *testing.T, d *tester) {
	s := d.exposed(5, 1)
	now := Start().Add(3 * time.Second)
	rs := batch(s, 4)
	d.place(rs, fresh, fresh, fresh, fresh)
	d.check(s)
	_, err := d.Cancel(d.ctx, rs[0].User, rs[0].ID, now)
	d.must(err)
	d.check(s)
	d.pay(rs[1], "p1", now)
	d.check(s)
	_, err = d.AddStock(d.ctx, "shop", s.ID, "k", 2, now)
	d.must(err)
	d.check(s)
	_, err = d.Expire(d.ctx, rs[2].PayBy.Add(time.Millisecond), 10)
	d.must(err)
	if got := d.check(s); got.Sale.Stock != 7 || got.Sale.Sold != 1 || got.Movements != 6 || got.Expired != 2 || got.Cancelled != 1 {
		d.t.Fatalf("%+v, want 7 units, 1 sold, 6 free", got)
	}
}

func rule3(_ *testing.T, d *tester) {
	s := d.exposed(10, 2)
	a := Reservation(s, "u", 1)
	d.place([]sale.Reservation{a}, fresh)
	d.place([]sale.Reservation{a, a}, again, again) // delivered again
	ticket := Reservation(s, "u", 2)
	ticket.Ticket = a.Ticket
	d.place([]sale.Reservation{ticket}, rejected)
	d.place([]sale.Reservation{ticket}, refused)
	slot := Reservation(s, "u", 1)
	d.place([]sale.Reservation{slot, slot}, rejected, refused)
	none := Reservation(s, "u", 3)
	zero := Reservation(s, "u", 0)
	d.place([]sale.Reservation{none, zero}, rejected, rejected)
	b := Reservation(s, "u", 2)
	c := Reservation(s, "u", 2)
	c2 := Reservation(s, "v", 1)
	c2.Ticket = b.Ticket
	d.place([]sale.Reservation{b, b, c, c2}, fresh, again, rejected, rejected) // in one batch
	// A slot is free again after its order ends, a ticket is not.
	_, err := d.Cancel(d.ctx, "u", a.ID, Start().Add(3*time.Second))
	d.must(err)
	slot = Reservation(s, "u", 1)
	used := Reservation(s, "v", 1)
	used.Ticket = a.Ticket
	d.place([]sale.Reservation{slot, used, a}, fresh, rejected, sale.OrderResult{State: sale.Cancelled})
	// The same ticket and slot can be used in another sale.
	other := d.exposed(1, 1)
	x := Reservation(other, "u", 1)
	x.Ticket = b.Ticket
	d.place([]sale.Reservation{x}, fresh)
	d.check(s)
	d.check(other)
}

// rule4 tries every change in every state.
func rule4(t *testing.T, d *tester) {
	s := d.exposed(100, 1)
	late := Start().Add(time.Hour)
	reach := map[sale.OrderState]func(r sale.Reservation){
		sale.Paid:      func(r sale.Reservation) { d.pay(r, "p"+r.ID, r.PayBy) },
		sale.Cancelled: func(r sale.Reservation) { _, err := d.Cancel(d.ctx, r.User, r.ID, r.At); d.must(err) },
		sale.Expired:   func(sale.Reservation) { _, err := d.Expire(d.ctx, late, 100); d.must(err) },
	}
	for state, f := range reach {
		r := d.pendingOrder(s, "u"+string(state))
		f(r)
		_, err := d.Cancel(d.ctx, r.User, r.ID, r.At)
		if state == sale.Cancelled {
			d.must(err)
		} else {
			d.wantError("Cancel", err, sale.ErrConflict)
		}
		over, err := d.Expire(d.ctx, late, 100)
		d.must(err)
		for _, o := range over {
			if o.ID == r.ID {
				t.Fatalf("%s expired", state)
			}
		}
		if got := d.pay(r, "again"+r.ID, r.At); !got.RefundDue || got.Order.State != state || got.Order.Refunds != 1 {
			t.Fatalf("Pay of %s = %+v, want a refund", state, got)
		}
		d.place([]sale.Reservation{r}, sale.OrderResult{State: state})
		o, err := d.Order(d.ctx, r.ID)
		d.must(err)
		if o.State != state {
			t.Fatalf("%s became %s", state, o.State)
		}
		d.check(s)
	}
}

// wantSoldOut checks which payments return that every unit is paid.
func wantSoldOut(t *testing.T, d *tester) {
	s, other := d.exposed(2, 1), d.exposed(1, 1)
	a, b, c := d.pendingOrder(s, "a"), d.pendingOrder(s, "b"), d.pendingOrder(other, "c")
	for _, step := range []struct {
		r       sale.Reservation
		payment string
		want    int64
	}{
		{a, "first", 0}, {a, "first", 0}, {a, "refund", 0}, {c, "other", 1},
		{b, "last", 2}, {b, "last", 2}, {a, "first", 2}, {a, "refund", 0}, {b, "more", 0},
	} {
		if got := d.pay(step.r, step.payment, step.r.At).SoldOut; got != step.want {
			t.Fatalf("payment %s: SoldOut = %d, want %d", step.payment, got, step.want)
		}
	}
	_, err := d.AddStock(d.ctx, "shop", s.ID, "more", 1, b.At)
	d.must(err)
	if got := d.pay(b, "last", b.At).SoldOut; got != 0 {
		t.Fatalf("after a unit was added: SoldOut = %d", got)
	}
}

func rule5(t *testing.T, d *tester) {
	s := d.exposed(100, 1)
	a, b := d.pendingOrder(s, "a"), d.pendingOrder(s, "b")
	first := d.pay(a, "p1", a.PayBy) // at its deadline, inclusive
	if first.RefundDue || first.Repeated || first.Order.State != sale.Paid || first.Order.Payment != "p1" || first.Order.Refunds != 0 {
		t.Fatalf("Pay = %+v, want paid", first)
	}
	if got := d.pay(a, "p1", a.PayBy.Add(time.Hour)); got.RefundDue || !got.Repeated || got.Order != first.Order {
		t.Fatalf("a repeated payment = %+v, want the first result", got)
	}
	for i := 2; i < 4; i++ { // two more payments of the same order
		if got := d.pay(a, fmt.Sprint("p", i), a.At); !got.RefundDue || got.Repeated || got.Order.Refunds != i-1 || got.Order.Payment != "p1" {
			t.Fatalf("another payment = %+v, want a refund", got)
		}
	}
	if got := d.pay(a, "p3", a.At); !got.RefundDue || !got.Repeated {
		t.Fatalf("a repeated refund = %+v", got)
	}
	_, err := d.Pay(d.ctx, sale.Payment{ID: "p1", Reservation: b.ID, Amount: 9900}, b.At)
	d.wantError("a used ID for another order", err, sale.ErrConflict)
	_, err = d.Pay(d.ctx, sale.Payment{ID: "p1", Reservation: a.ID, Amount: 9901}, b.At)
	d.wantError("a used ID for another amount", err, sale.ErrConflict)
	for i, amount := range []int64{0, 9899, 9901, 1 << 62} {
		got, err := d.Pay(d.ctx, sale.Payment{ID: fmt.Sprint("wrong", i), Reservation: b.ID, Amount: amount}, b.At)
		d.must(err)
		if !got.RefundDue || got.Order.State != sale.PendingPay {
			t.Fatalf("amount %d: %+v, want a refund", amount, got)
		}
	}
	if got := d.pay(b, "late", b.PayBy.Add(1)); !got.RefundDue || got.Order.State != sale.PendingPay {
		t.Fatalf("a nanosecond late: %+v, want a refund", got)
	}
	for _, p := range []sale.Payment{
		{ID: "", Reservation: b.ID}, {ID: "a b", Reservation: b.ID}, {ID: string(make([]byte, 65)), Reservation: b.ID},
		{ID: "é", Reservation: b.ID}, {ID: "p", Reservation: b.ID, Amount: -1},
	} {
		_, err := d.Pay(d.ctx, p, b.At)
		d.wantError(fmt.Sprintf("%+q", p.ID), err, sale.ErrInvalid)
	}
	for _, r := range []string{id(), "", "\x00", "' OR 1=1 --", "\xff"} {
		_, err := d.Pay(d.ctx, sale.Payment{ID: "p-unused", Reservation: r, Amount: 9900}, b.At)
		d.wantError("Pay of an unknown order", err, sale.ErrNotFound)
	}
	if got := d.pay(b, "p-unused", b.At); got.RefundDue { // the failed calls did not use it
		t.Fatalf("%+v, want paid", got)
	}
	wantSoldOut(t, d)
	if got := d.check(s); got.RefundDue != 7 {
		t.Fatalf("%d refunds, want 7", got.RefundDue)
	}
}
