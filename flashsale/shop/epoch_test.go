package shop_test

import (
	"testing"
	"time"

	"github.com/floodweir/weir/flashsale/sale"
)

// TestOldTokens: a token of an epoch that is over buys nothing; but who has used it is told
// again what it got, though that is over too and the Gate that was built again knows nothing
// of it. Who had not used it stands where it stood, by its place.
func TestOldTokens(t *testing.T) {
	inWorld(t, func(w *world) {
		w.engine.Stop()
		g := &switched{}
		w.forgets(g)
		w.gate = g
		w.Shop = w.started("a")
		defer w.Shop.Stop()
		d := draft(2)
		d.PayWithin = 2 * time.Second
		s := w.exposed(d)
		w.opens(s)
		used := w.admitted(w, "used", s.ID)
		bought, err := w.Buy(w.ctx, "used", s.ID, used.Token, "key")
		if err != nil || bought.Reason != sale.OK {
			t.Fatalf("buy: %+v, %v", bought, err)
		}
		w.until("expiry", 10*time.Second, func() bool {
			r, err := w.Order(w.ctx, "used", bought.Receipt.Receipt)
			return err == nil && r.State == sale.Expired
		})
		unused := w.admitted(w, "unused", s.ID)
		w.forgets(g)
		w.until("recovery", 15*time.Second, func() bool {
			v, err := w.View(w.ctx, s.ID)
			return err == nil && v.Sale.Epoch == 2 && v.Phase == sale.Open
		})
		for _, key := range []string{"key", "", "other"} {
			b, err := w.Buy(w.ctx, "used", s.ID, used.Token, key)
			if err != nil || !b.Again || b.Receipt.Receipt != bought.Receipt.Receipt {
				t.Errorf("again with key %q: %+v, %v; want the first receipt", key, b, err)
			}
		}
		if b, err := w.Buy(w.ctx, "unused", s.ID, unused.Token, "key"); err != nil || b.Reason != sale.NotAdmitted || b.Receipt.Receipt != "" {
			t.Errorf("a token of an epoch that is over: %+v, %v; want not admitted", b, err)
		}
		if turn, err := w.Turn(w.ctx, "unused", s.ID, unused.Ticket); err != nil || turn.Reason != sale.OK || turn.Place != sale.Waiting && turn.Place != sale.Admitted {
			t.Errorf("who was admitted comes with its place: %+v, %v", turn, err)
		}
		w.agrees(s.ID)
	})
}
