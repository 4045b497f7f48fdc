package shop_test

import (
	"errors"
	"testing"
	"time"

	"github.com/floodweir/weir/flashsale/sale"
)

// TestOrderOfSeveralUnits checks that an order has all its units or is none: one price, one
// payment, one refund, and a clear answer if fewer are left.
func TestOrderOfSeveralUnits(t *testing.T) {
	inShop(t, func(w *world) {
		d := draft(5)
		d.PerUser, d.MaxQuantity = 4, 3
		s := w.exposed(d)
		w.opens(s)
		for _, n := range []int{-1, 0, 4} {
			var f *sale.FieldError
			if _, err := w.Quantity(n).Click(w.ctx, "alice", s.ID, "", "k"); !errors.As(err, &f) || f.Field != "quantity" || f.Want != "1 to 3" {
				t.Errorf("Click for %d units: %v, want 1 to 3", n, err)
			}
			if _, err := w.Quantity(n).Buy(w.ctx, "alice", s.ID, "", "k"); !isInvalid(err) {
				t.Errorf("Buy of %d units: %v", n, err)
			}
			if _, err := w.Quantity(n).Join(w.ctx, "alice", s.ID, ""); !isInvalid(err) {
				t.Errorf("Join for %d units: %v", n, err)
			}
		}
		at, err := w.Quantity(3).Click(w.ctx, "alice", s.ID, "", "k")
		if err != nil || !at.Bought || len(at.Reserved) != 1 || at.Reserved[0].Quantity != 3 || at.Reserved[0].Price != 3*1999 {
			t.Fatalf("Click for 3 units = %+v, %v", at, err)
		}
		receipt := at.Reserved[0].Receipt
		if again, err := w.Quantity(1).Click(w.ctx, "alice", s.ID, "", "k"); err != nil || again.Bought || again.Reserved[0].Receipt != receipt {
			t.Errorf("the same click with another quantity = %+v, %v, want the first order", again, err)
		}
		if more, err := w.Quantity(2).Click(w.ctx, "alice", s.ID, "", "more"); err != nil || more.Reason != sale.PerUserLimit {
			t.Errorf("2 more units than PerUser = %+v, %v", more, err)
		}
		if guest, err := w.Limited(1).Quantity(2).Click(w.ctx, "guest", s.ID, "", "k"); err != nil || guest.Reason != sale.PerUserLimit {
			t.Errorf("2 units for a user who may hold one = %+v, %v", guest, err)
		}
		bob, err := w.Quantity(3).Click(w.ctx, "bob", s.ID, "", "k")
		if err != nil || bob.Reason != sale.FewLeft || bob.Left != 2 || bob.Layer != sale.LS || bob.RetryAfter <= 0 {
			t.Errorf("3 units of 2 = %+v, %v, want 2 left", bob, err)
		}
		// The next buyer does not wait for bob.
		if cat, err := w.Click(w.ctx, "cat", s.ID, "", "k"); err != nil || !cat.Bought {
			t.Errorf("a unit for the next buyer = %+v, %v", cat, err)
		}
		if bob, err = w.Click(w.ctx, "bob", s.ID, bob.Ticket, ""); err != nil || !bob.Bought || bob.Reserved[0].Quantity != 1 {
			t.Errorf("fewer units = %+v, %v, want one", bob, err)
		}
		order := w.order(w.Shop, "alice", receipt)
		if order.Quantity != 3 || order.Price != 3*1999 {
			t.Errorf("order = %+v, want 3 units for %d", order, 3*1999)
		}
		if paid, err := w.Pay(w.ctx, receipt, "less", 1999); err != nil || !paid.RefundDue {
			t.Errorf("the price of one unit for 3: %+v, %v", paid, err)
		}
		if paid, err := w.Pay(w.ctx, receipt, "all", 3*1999); err != nil || paid.RefundDue {
			t.Errorf("the price of 3 units: %+v, %v", paid, err)
		}
		after(time.Second)
		w.agrees(s.ID)
		if c, err := w.engine.Counts(w.ctx, s.ID, s.Epoch); err != nil || c.Reserved != 5 || c.Free != 0 {
			t.Errorf("Counts = %+v, %v, want 5 units reserved", c, err)
		}
		orders, err := w.RecentOrders(w.ctx, "m", s.ID, "")
		if err != nil {
			t.Fatal(err)
		}
		for _, o := range orders {
			if o.State == sale.Paid {
				if _, err := w.RefundOrder(w.ctx, "m", s.ID, o.ID, "asked for it"); err != nil {
					t.Error(err)
				}
			}
		}
		after(time.Second)
		w.agrees(s.ID)
		if c, err := w.engine.Counts(w.ctx, s.ID, s.Epoch); err != nil || c.Reserved != 2 || c.Free != 3 {
			t.Errorf("Counts after the refund = %+v, %v, want its 3 units free", c, err)
		}
	})
}
