package shop_test

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/floodweir/weir/flashsale/sale"
	"github.com/floodweir/weir/flashsale/shop"
)

// reportWithin is the maximum time until a buyer sees that a reservation is lost.
const reportWithin = 2 * time.Second

// cutOff is an inventory that a process cannot reach while its ledger is away.
type cutOff struct {
	sale.Inventory
	*moody
}

func (g cutOff) Transfer(ctx context.Context, epoch int64, r sale.Reservation) (bool, error) {
	if err := g.mood(ctx); err != nil {
		return false, err
	}
	return g.Inventory.Transfer(ctx, epoch, r)
}

// TestKeptBatch lets one process keep a batch of epoch 1 while another recovers the sale to
// epoch 2 and sells units. The ledger does not accept the batch. Its reservations get the units
// that are left, under their receipts; the others are lost, and their buyers see it. None is
// rejected.
func TestKeptBatch(t *testing.T) {
	for _, sold := range []int{0, 3, 5} { // by the other process, of 5
		t.Run(fmt.Sprintf("%d sold", sold), func(t *testing.T) {
			inWorld(t, func(w *world) {
				g := w.forgetful()
				m := &moody{Ledger: w.ledger}
				first := w.started("a", func(c *shop.Config) { c.Inventory, c.Ledger = cutOff{g, m}, m })
				defer first.Stop()
				w.Shop = first
				s := w.exposed(draft(5))
				w.opens(s)
				m.away.Store(true)
				receipts := map[string]string{}
				// Another process acknowledged this one, and has ended.
				r := sale.Reservation{ID: "0123456789abcdef0", Sale: s.ID, Epoch: 1, User: "kept-3", Slot: 1, Ticket: "0123456789abcdef", At: first.Now().Truncate(time.Millisecond)}
				r.PayBy = r.At.Add(s.PayWithin)
				if ok, err := g.Transfer(w.ctx, 1, r); err != nil || !ok {
					t.Fatal(ok, err)
				}
				receipts[r.User] = w.keys.Receipt(r)
				after(time.Second) // one of its order writers has it
				for i := range 3 {
					user := fmt.Sprintf("kept-%d", i)
					b := w.buys(first, user, s.ID)
					if b.Reason != sale.OK {
						t.Fatalf("buy: %+v", b)
					}
					receipts[user] = b.Receipt.Receipt
				}
				after(time.Second) // the other one has the first
				w.forgets(g)
				other := w.started("b")
				defer other.Stop()
				w.Shop = other
				w.until("recovery", 10*time.Second, func() bool {
					v, err := other.View(w.ctx, s.ID)
					return err == nil && v.Sale.Epoch == 2 && v.Phase == sale.Open
				})
				for i := range sold {
					user := fmt.Sprintf("new-%d", i)
					if b := w.buys(other, user, s.ID); b.Reason != sale.OK {
						t.Fatalf("buy: %+v", b)
					} else if r := w.order(other, user, b.Receipt.Receipt); r.State != sale.PendingPay {
						t.Fatalf("order: %+v", r)
					}
				}
				m.away.Store(false)
				after(reportWithin)
				if o, err := w.ledger.Order(w.ctx, r.ID); err != nil {
					t.Errorf("order that no buyer has asked for: %+v, %v; want one", o, err)
				}
				states := map[sale.OrderState]int{}
				for user, receipt := range receipts {
					r, err := first.Order(w.ctx, user, receipt)
					if err != nil {
						t.Fatal(err)
					}
					states[r.State]++
					if b, err := other.Status(w.ctx, user, s.ID, ""); err != nil || r.State == sale.PendingPay && (len(b.Reserved) != 1 || b.Reserved[0].Receipt != receipt) {
						t.Errorf("%s has the order %+v and holds %+v, %v; want the same receipt", user, r, b.Reserved, err)
					}
				}
				kept := min(4, 5-sold)
				tally := w.agrees(s.ID)
				if states[sale.PendingPay] != kept || states[sale.Lost] != 4-kept || tally.Rejected != 0 || tally.Lost != int64(4-kept) {
					t.Errorf("the kept reservations are %v, %+v; want %d orders and %d lost", states, tally, kept, 4-kept)
				}
			})
		})
	}
}

// withheld is an inventory to which nothing can be transferred for a while.
type withheld struct {
	sale.Inventory
	yes atomic.Bool
}

func (g *withheld) Transfer(ctx context.Context, epoch int64, r sale.Reservation) (bool, error) {
	if g.yes.Load() {
		return false, sale.ErrUnavailable
	}
	return g.Inventory.Transfer(ctx, epoch, r)
}

// TestRepeatedBeforeTransfer repeats a purchase of epoch 1 while the inventory of epoch 2 is open and
// does not have its reservation yet. The result is the same.
func TestRepeatedBeforeTransfer(t *testing.T) {
	inWorld(t, func(w *world) {
		g := w.forgetful()
		m, held := &moody{Ledger: w.ledger}, &withheld{Inventory: g}
		first := w.started("a", func(c *shop.Config) { c.Inventory, c.Ledger = held, m })
		defer first.Stop()
		w.Shop = first
		s := w.exposed(draft(5))
		w.opens(s)
		m.away.Store(true)
		turn := w.admitted(first, "ann", s.ID)
		bought, err := first.Buy(w.ctx, "ann", s.ID, turn.Token, "")
		if err != nil || bought.Reason != sale.OK {
			t.Fatalf("buy: %+v, %v", bought, err)
		}
		held.yes.Store(true)
		w.forgets(g)
		other := w.started("b")
		defer other.Stop()
		reopened := func(desk sale.BuyerService) {
			t.Helper()
			w.until("recovery", 15*time.Second, func() bool {
				v, err := desk.View(w.ctx, s.ID)
				return err == nil && v.Sale.Epoch == 2 && v.Phase == sale.Open
			})
		}
		reopened(other)
		m.away.Store(false)
		reopened(first)
		again, err := first.Buy(w.ctx, "ann", s.ID, turn.Token, "")
		if err != nil || again.Reason != sale.OK || !again.Repeated || again.Receipt.Receipt != bought.Receipt.Receipt {
			t.Errorf("buy again: %+v, %v; want the same receipt", again, err)
		}
		held.yes.Store(false)
		w.until("an order", 15*time.Second, func() bool {
			r, err := first.Order(w.ctx, "ann", bought.Receipt.Receipt)
			return err == nil && r.State == sale.PendingPay
		})
		w.agrees(s.ID)
	})
}

// TestNoUnit gives the inventory more units than the ledger has. The first reservation without
// a unit closes the sale and rebuilds it. Those reservations are lost, and the sale goes on.
func TestNoUnit(t *testing.T) {
	inShop(t, func(w *world) {
		d := draft(2)
		d.PayWithin = 10 * time.Minute
		s := w.exposed(d)
		w.opens(s)
		if err := w.engine.SetStock(w.ctx, s.ID, 1, 5); err != nil {
			t.Fatal(err)
		}
		var users, receipts []string
		tokens := map[string]string{}
		for i := range 5 {
			user := fmt.Sprintf("user-%d", i)
			tokens[user] = w.admitted(w, user, s.ID).Token
		}
		for user, token := range tokens {
			b, err := w.Buy(w.ctx, user, s.ID, token, "")
			if err != nil {
				t.Fatal(err)
			}
			if b.Reason == sale.OK {
				users, receipts = append(users, user), append(receipts, b.Receipt.Receipt)
			}
		}
		after(reportWithin)
		states := map[sale.OrderState]int{}
		for i, user := range users {
			r, err := w.Order(w.ctx, user, receipts[i])
			if err != nil {
				t.Fatal(err)
			}
			states[r.State]++
		}
		row, err := w.ledger.Sale(w.ctx, s.ID)
		if err != nil || row.Epoch != 2 || row.State != sale.Exposed {
			t.Errorf("the sale is %s at epoch %d, %v; want exposed at 2", row.State, row.Epoch, err)
		}
		if tally := w.agrees(s.ID); len(users) < 3 || states[sale.PendingPay] != 2 || states[sale.Lost] != len(users)-2 || tally.Rejected != 0 {
			t.Errorf("%d acknowledged reservations are %v, %+v; want 2 orders, and the others lost", len(users), states, tally)
		}
		for i, user := range users {
			if _, err := w.Cancel(w.ctx, user, receipts[i]); err == nil {
				break
			}
		}
		if b := w.buys(w, "next", s.ID); b.Reason != sale.OK {
			t.Errorf("after a cancelled order: %+v", b)
		}
	})
}

// paused calls before, once, before the first sale is paused.
type paused struct {
	sale.Inventory
	once   sync.Once
	before func()
}

func (p *paused) SetPaused(ctx context.Context, id string, epoch int64, on bool) error {
	if on {
		p.once.Do(p.before)
	}
	return p.Inventory.SetPaused(ctx, id, epoch, on)
}

// TestNoUnitAtTheEnd ends a sale whose inventory acknowledges more units than the ledger has.
// There is no next epoch: these reservations are lost at once, and the order writers go on.
func TestNoUnitAtTheEnd(t *testing.T) {
	inWorld(t, func(w *world) {
		g := &paused{Inventory: w.engine}
		w.gate = g
		w.Shop = w.started("a")
		defer w.Shop.Stop()
		s := w.exposed(draft(1))
		other := w.exposed(draft(1))
		w.opens(s)
		w.pays("first", w.buys(w, "first", s.ID).Receipt.Receipt)
		r := sale.Reservation{ID: "0123456789abcdef0", Sale: s.ID, Epoch: 1, User: "late", Slot: 1, Ticket: "0123456789abcdef", At: time.Now().Truncate(time.Millisecond)}
		r.PayBy = r.At.Add(time.Minute)
		// The ledger has ended the sale. No process finishes it before its inventory is paused.
		g.before = func() {
			err := w.engine.SetStock(w.ctx, s.ID, 1, 2)
			if err == nil {
				_, err = w.engine.Transfer(w.ctx, 1, r)
			}
			if err != nil {
				t.Error(err)
			}
		}
		if _, err := w.End(w.ctx, "m", s.ID, true); err != nil {
			t.Fatal(err)
		}
		after(reportWithin)
		if o, err := w.ledger.Order(w.ctx, r.ID); err != nil || o.State != sale.Lost {
			t.Errorf("order: %+v, %v; want lost", o, err)
		}
		if o := w.order(w, "buyer", w.buys(w, "buyer", other.ID).Receipt.Receipt); o.State != sale.PendingPay {
			t.Errorf("order of another sale: %+v", o)
		}
		w.agrees(s.ID)
	})
}
