package shop_test

import (
	"testing"
	"time"

	"github.com/floodweir/weir/flashsale/sale"
	"github.com/floodweir/weir/flashsale/shop"
)

// TestSoldOutWhileTheLedgerIsSlow checks that the process which takes the last payment reports
// it to all others through the inventory while the ledger is slow. Units that are added later
// are for sale.
func TestSoldOutWhileTheLedgerIsSlow(t *testing.T) {
	inWorld(t, func(w *world) {
		slow := &freezer{}
		reads := func(c *shop.Config) { c.Ledger = frozenLedger{w.ledger, slow} } // payments are taken
		w.Shop = w.started("a", reads)
		defer w.Shop.Stop()
		other := w.started("b", reads)
		defer other.Stop()
		s := w.exposed(draft(2))
		w.opens(s)
		ann, bob := w.buys(w.Shop, "ann", s.ID), w.buys(other, "bob", s.ID)
		w.pays("ann", ann.Receipt.Receipt)
		w.order(w.Shop, "bob", bob.Receipt.Receipt)
		if eve, err := other.Join(w.ctx, "eve", s.ID, ""); err != nil || eve.State != sale.Waiting {
			t.Fatalf("eve stands at %+v, %v", eve, err)
		}

		slow.freeze(time.Minute)
		for range 2 { // the same payment is reported again
			if paid, err := w.Pay(w.ctx, bob.Receipt.Receipt, "pay-bob", 1999); err != nil || paid.RefundDue {
				t.Fatalf("bob pays: %+v, %v", paid, err)
			}
		}
		paid := time.Now()
		for name, desk := range map[string]sale.BuyerService{"a": w.Shop, "b": other} {
			w.until("shop "+name+" reports that all is sold", 300*time.Millisecond, func() bool {
				turn, err := desk.Status(w.ctx, "eve", s.ID, "")
				return err == nil && turn.Reason == sale.IsSoldOut
			})
		}
		if took := time.Since(paid); took > 300*time.Millisecond {
			t.Errorf("it took %v", took)
		}

		if _, err := w.ledger.AddStock(w.ctx, "m", s.ID, "more", 1, time.Now()); err != nil {
			t.Fatal(err)
		}
		if err := w.engine.SetStock(w.ctx, s.ID, s.Epoch, 3); err != nil {
			t.Fatal(err)
		}
		w.until("the unit is for sale", 300*time.Millisecond, func() bool {
			turn, err := other.Status(w.ctx, "eve", s.ID, "")
			return err == nil && turn.Reason == sale.OK && turn.State == sale.Admitted
		})
	})
}

// TestRefundReopensTheSale checks that a unit whose paid order is refunded is for sale again in
// every process, and that both report when it is paid again.
func TestRefundReopensTheSale(t *testing.T) {
	inShop(t, func(w *world) {
		other := w.started("b")
		defer other.Stop()
		s := w.exposed(draft(1))
		w.opens(s)
		ann := w.buys(w.Shop, "ann", s.ID)
		w.pays("ann", ann.Receipt.Receipt)
		desks := map[string]sale.BuyerService{"a": w.Shop, "b": other}
		soldOut := func() {
			t.Helper()
			for name, desk := range desks {
				w.until("shop "+name+" reports that all is sold", time.Second, func() bool {
					turn, err := desk.Join(w.ctx, "eve-"+name, s.ID, "")
					return err == nil && turn.Reason == sale.IsSoldOut
				})
			}
		}
		soldOut()
		in, err := w.keys.OpenReceipt(ann.Receipt.Receipt)
		if err != nil {
			t.Fatal(err)
		}
		for range 2 {
			o, err := w.RefundOrder(w.ctx, "m", s.ID, in.ID, "broken")
			if err != nil || o.State != sale.Cancelled || o.Refunds != 1 {
				t.Fatalf("RefundOrder = %+v, %v", o, err)
			}
		}
		for name, desk := range desks {
			w.until("shop "+name+" sells the unit again", 3*time.Second, func() bool {
				v, err := desk.View(w.ctx, s.ID)
				return err == nil && v.Phase == sale.Open && v.Free == 1
			})
		}
		if o, err := w.Order(w.ctx, "ann", ann.Receipt.Receipt); err != nil || o.State != sale.Cancelled || o.Refunds != 1 {
			t.Errorf("ann has %+v, %v", o, err)
		}
		bob := w.buys(other, "bob", s.ID)
		w.order(w.Shop, "bob", bob.Receipt.Receipt)
		for name, desk := range desks {
			w.until("shop "+name+" has no free unit", 3*time.Second, func() bool {
				v, err := desk.View(w.ctx, s.ID)
				return err == nil && v.Phase == sale.AllTaken
			})
		}
		after(3 * time.Second) // no process takes the unit for paid
		for name, desk := range desks {
			if v, err := desk.View(w.ctx, s.ID); err != nil || v.Phase != sale.AllTaken {
				t.Errorf("shop %s reports %s, %v, want all taken", name, v.Phase, err)
			}
		}
		w.pays("bob", bob.Receipt.Receipt)
		soldOut()
		w.agrees(s.ID)
	})
}
