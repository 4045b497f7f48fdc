package shop_test

import (
	"testing"
	"time"

	"github.com/floodweir/weir/flashsale/sale"
)

// TestEditWhileItRuns checks that an edit of an open sale reaches all processes and the inventory.
func TestEditWhileItRuns(t *testing.T) {
	inShop(t, func(w *world) {
		other := w.started("b")
		defer other.Stop()
		s := w.exposed(draft(5))
		w.opens(s)
		ann := w.buys(other, "ann", s.ID)
		w.order(other, "ann", ann.Receipt.Receipt)
		edit := func(change func(*sale.Draft)) {
			t.Helper()
			row, err := w.Sale(w.ctx, "m", s.ID)
			if err != nil {
				t.Fatal(err)
			}
			change(&row.Draft)
			if row, err = w.Edit(w.ctx, "m", s.ID, row.Version, row.Draft); err != nil {
				t.Fatal(err)
			}
			for name, desk := range map[string]sale.BuyerService{"a": w.Shop, "b": other} {
				w.until("shop "+name+" has the new settings", 3*time.Second, func() bool {
					v, err := desk.View(w.ctx, s.ID)
					return err == nil && v.Sale.Draft == row.Draft
				})
			}
		}
		edit(func(d *sale.Draft) {
			d.Title, d.PerUser, d.PayWithin, d.Work, d.Campaign = "Another thing", 2, time.Minute, 0, "spring"
		})
		if c, err := w.engine.Counts(w.ctx, s.ID, 1); err != nil || c.Reserved != 1 {
			t.Errorf("inventory has %+v, %v, want the same state", c, err)
		}
		again := w.buys(other, "ann", s.ID)
		if r := again.Receipt; again.Reason != sale.OK || r.PayBy.Sub(r.At) != time.Minute {
			t.Errorf("ann buys a second unit: %+v, want a minute to pay", again)
		}

		// It ends at its new end, in every process, and not before.
		old := s.EndsAt
		edit(func(d *sale.Draft) { d.EndsAt = old.Add(10 * time.Minute) })
		after(time.Until(old) + time.Minute)
		if b := w.buys(other, "bob", s.ID); b.Reason != sale.OK {
			t.Errorf("bob buys after the old end: %+v", b)
		}
		edit(func(d *sale.Draft) { d.EndsAt = time.Now().Add(2 * time.Minute).Truncate(time.Millisecond) })
		after(2*time.Minute + 3*time.Second)
		for name, desk := range map[string]sale.BuyerService{"a": w.Shop, "b": other} {
			if v, err := desk.View(w.ctx, s.ID); err != nil || v.Phase != sale.PhaseEnded {
				t.Errorf("shop %s: %s, %v, want ended", name, v.Phase, err)
			}
		}
		if row, err := w.Sale(w.ctx, "m", s.ID); err != nil || row.State != sale.Ended {
			t.Errorf("the sale is %s, %v, want ended", row.State, err)
		}
		w.agrees(s.ID)
	})
}

// TestEditReachesTheInventory checks that the process which edits a sale can fail before it has
// set the inventory: any process does so.
func TestEditReachesTheInventory(t *testing.T) {
	inShop(t, func(w *world) {
		s := w.exposed(draft(5))
		w.opens(s)
		row, err := w.ledger.Sale(w.ctx, s.ID)
		if err != nil {
			t.Fatal(err)
		}
		row.PerUser = 2
		if _, err := w.ledger.Edit(w.ctx, "m", s.ID, row.Version, row.Draft, time.Now()); err != nil {
			t.Fatal(err)
		}
		after(3 * time.Second)
		for i := range 3 {
			want := sale.OK
			if i == 2 {
				want = sale.PerUserLimit
			}
			if b := w.buys(w, "ann", s.ID); b.Reason != want {
				t.Errorf("unit %d: %+v, want %q", i+1, b, want)
			}
		}
	})
}
