package shop_test

import (
	"testing"
	"time"

	"github.com/floodweir/weir/flashsale/sale"
)

// TestOldTokens checks that a token of an earlier epoch buys nothing. A user who has used it
// gets the earlier result again, although the rebuilt inventory does not know it. A user who
// has not used it keeps the queue position of the ticket.
func TestOldTokens(t *testing.T) {
	inWorld(t, func(w *world) {
		g := w.forgetful()
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
			if err != nil || !b.Repeated || b.Receipt.Receipt != bought.Receipt.Receipt {
				t.Errorf("again with key %q: %+v, %v; want the first receipt", key, b, err)
			}
		}
		if b, err := w.Buy(w.ctx, "unused", s.ID, unused.Token, "key"); err != nil || b.Reason != sale.NotAdmitted || b.Receipt.Receipt != "" {
			t.Errorf("a token of an epoch that is over: %+v, %v; want not admitted", b, err)
		}
		if turn, err := w.Status(w.ctx, "unused", s.ID, unused.Ticket); err != nil || turn.Reason != sale.OK || turn.State != sale.Waiting && turn.State != sale.Admitted {
			t.Errorf("who was admitted comes with its place: %+v, %v", turn, err)
		}
		w.agrees(s.ID)
	})
}

// TestUsedPlaces checks that a place comes back to who waited, after a recovery, and not to who has
// bought with it: also if that order is over.
func TestUsedPlaces(t *testing.T) {
	inWorld(t, func(w *world) {
		g := w.forgetful()
		w.Shop = w.started("a")
		defer w.Shop.Stop()
		d := draft(2)
		d.PayWithin = 10 * time.Minute
		s := w.exposed(d)
		w.opens(s)
		used := w.admitted(w, "used", s.ID)
		b, err := w.Buy(w.ctx, "used", s.ID, used.Token, "")
		if err != nil || b.Reason != sale.OK {
			t.Fatalf("buy: %+v, %v", b, err)
		}
		w.order(w.Shop, "used", b.Receipt.Receipt)
		if _, err := w.Cancel(w.ctx, "used", b.Receipt.Receipt); err != nil {
			t.Fatal(err)
		}
		for _, user := range []string{"one", "two"} {
			w.order(w.Shop, user, w.buys(w, user, s.ID).Receipt.Receipt)
		}
		patient, err := w.Join(w.ctx, "patient", s.ID, "")
		if err != nil || patient.State != sale.Waiting {
			t.Fatalf("join: %+v, %v; want a place in line", patient, err)
		}
		after(time.Second)
		w.forgets(g)
		w.until("recovery", 15*time.Second, func() bool {
			v, err := w.View(w.ctx, s.ID)
			return err == nil && v.Sale.Epoch == 2 && v.Phase == sale.AllTaken
		})
		if turn, err := w.Status(w.ctx, "used", s.ID, used.Ticket); err != nil || turn.State != sale.NoTicket {
			t.Errorf("who has used its place comes with it: %+v, %v; want none", turn, err)
		}
		if turn, err := w.Status(w.ctx, "patient", s.ID, patient.Ticket); err != nil || turn.State != sale.Waiting || turn.Ahead != 0 {
			t.Errorf("who waited comes back: %+v, %v; want the first place", turn, err)
		}
		if turn, err := w.Join(w.ctx, "used", s.ID, used.Ticket); err != nil || turn.State != sale.Waiting || turn.Ahead != 1 {
			t.Errorf("who has used its place joins with it: %+v, %v; want the last place", turn, err)
		}
		w.agrees(s.ID)
	})
}
