package shop_test

import (
	"context"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"github.com/floodweir/weir/flashsale/meminventory"
	"github.com/floodweir/weir/flashsale/sale"
	"github.com/floodweir/weir/flashsale/shop"
)

// A switched Inventory is the engine that is there now.
type switched struct {
	atomic.Pointer[meminventory.Inventory]
}

func (g *switched) Open(ctx context.Context, o sale.InitialState) error { return g.Load().Open(ctx, o) }
func (g *switched) Close(ctx context.Context, id string, epoch int64) error {
	return g.Load().Close(ctx, id, epoch)
}
func (g *switched) SetPaused(ctx context.Context, id string, epoch int64, paused bool) error {
	return g.Load().SetPaused(ctx, id, epoch, paused)
}
func (g *switched) SetStock(ctx context.Context, id string, epoch, stock int64) error {
	return g.Load().SetStock(ctx, id, epoch, stock)
}
func (g *switched) SetTerms(ctx context.Context, id string, epoch int64, t sale.Terms) error {
	return g.Load().SetTerms(ctx, id, epoch, t)
}
func (g *switched) SetPaid(ctx context.Context, id string, epoch, paid int64) error {
	return g.Load().SetPaid(ctx, id, epoch, paid)
}
func (g *switched) Join(ctx context.Context, j sale.JoinRequest) (sale.TicketStatus, error) {
	return g.Load().Join(ctx, j)
}
func (g *switched) Status(ctx context.Context, id string, epoch int64, user string) (sale.TicketStatus, error) {
	return g.Load().Status(ctx, id, epoch, user)
}
func (g *switched) Poll(ctx context.Context, p sale.PollRequest) (sale.TicketStatus, error) {
	return g.Load().Poll(ctx, p)
}
func (g *switched) Reserve(ctx context.Context, a sale.ReserveRequest) (sale.ReserveResult, error) {
	return g.Load().Reserve(ctx, a)
}
func (g *switched) Transfer(ctx context.Context, epoch int64, r sale.Reservation) (bool, error) {
	return g.Load().Transfer(ctx, epoch, r)
}
func (g *switched) Return(ctx context.Context, id string, epoch int64, user, r string, unpaid bool) (bool, error) {
	return g.Load().Return(ctx, id, epoch, user, r, unpaid)
}
func (g *switched) Counts(ctx context.Context, id string, epoch int64) (sale.Counts, error) {
	return g.Load().Counts(ctx, id, epoch)
}
func (g *switched) Next(ctx context.Context, id string, epoch int64, worker string, max int, wait time.Duration) ([]sale.Entry, error) {
	return g.Load().Next(ctx, id, epoch, worker, max, wait)
}
func (g *switched) Ack(ctx context.Context, id string, epoch int64, ids ...string) error {
	return g.Load().Ack(ctx, id, epoch, ids...)
}
func (g *switched) Attend(ctx context.Context, worker string) (int, error) {
	return g.Load().Attend(ctx, worker)
}
func (g *switched) Delete(ctx context.Context, id string, epoch int64) error {
	return g.Load().Delete(ctx, id, epoch)
}

// forgetful makes the inventory one that can forget, and that knows nothing yet.
func (w *world) forgetful() *switched {
	w.Helper()
	w.engine.Stop()
	g := &switched{}
	w.forgets(g)
	w.gate = g
	return g
}

// forgets replaces the engine by one that knows nothing, not even a journal: as a server
// whose data is gone.
func (w *world) forgets(g *switched) {
	w.Helper()
	e, err := meminventory.New(meminventory.Config{Clock: w.clock})
	if err != nil {
		w.Fatal(err)
	}
	old := g.Swap(e)
	w.engine = e
	if old != nil {
		old.Stop()
	}
}

// TestGateForgets rebuilds an inventory from the ledger after it has lost its data. Orders are
// kept, waiting users keep their positions, acknowledged reservations without an order are
// lost, and no unit is sold twice.
func TestGateForgets(t *testing.T) {
	inWorld(t, func(w *world) {
		g := w.forgetful()
		m := &moody{Ledger: w.ledger}
		w.Shop = w.started("a", func(c *shop.Config) { c.Ledger = m })
		defer w.Shop.Stop()
		d := draft(3)
		d.PayWithin = time.Minute
		s := w.exposed(d)
		w.opens(s)
		paid, pending := w.buys(w, "paid", s.ID), w.buys(w, "pending", s.ID)
		w.pays("paid", paid.Receipt.Receipt)
		w.order(w, "pending", pending.Receipt.Receipt)
		m.away.Store(true)
		turn := w.admitted(w, "lost", s.ID)
		lost, err := w.Buy(w.ctx, "lost", s.ID, turn.Token, "")
		if err != nil || lost.Reason != sale.OK {
			t.Fatalf("buy: %+v, %v", lost, err)
		}
		var places []string
		for _, user := range []string{"first", "second"} {
			turn, err := w.Join(w.ctx, user, s.ID, "")
			if err != nil || turn.State != sale.Waiting {
				t.Fatalf("join: %+v, %v", turn, err)
			}
			places = append(places, turn.Ticket)
		}
		w.forgets(g)
		after(time.Second)
		// It is away still: the sale is on hold, and no reservation is called lost yet.
		if b, err := w.Buy(w.ctx, "lost", s.ID, turn.Token, ""); err != nil || b.Reason != sale.IsPaused || b.RetryAfter <= 0 {
			t.Errorf("buy while the inventory is gone: %+v, %v", b, err)
		}
		m.away.Store(false)
		began := time.Now()
		w.until("recovery", 15*time.Second, func() bool {
			v, err := w.View(w.ctx, s.ID)
			return err == nil && v.Sale.Epoch == 2 && v.Phase != sale.PhasePaused
		})
		t.Logf("reopened after %v", time.Since(began))
		after(12 * time.Second) // the order writer that had it has tried again
		r, err := w.Order(w.ctx, "lost", lost.Receipt.Receipt)
		if err != nil {
			t.Fatal(err)
		}
		// Its order writer had the entry: it is an order, unless it was marked as lost before.
		if r.State != sale.Lost && r.State != sale.PendingPay {
			t.Errorf("reservation that the inventory forgot is %s", r.State)
		}
		// Who comes with a place gets it back: the second, who comes first, is second.
		if second, err := w.Status(w.ctx, "second", s.ID, places[1]); err != nil || second.State == sale.NoTicket {
			t.Errorf("second: %+v, %v", second, err)
		}
		if first, err := w.Status(w.ctx, "first", s.ID, places[0]); err != nil || first.State == sale.NoTicket || first.Ahead != 0 {
			t.Errorf("first: %+v, %v", first, err)
		}
		if turn, err := w.Status(w.ctx, "pending", s.ID, ""); err != nil || len(turn.Reserved) != 1 {
			t.Errorf("who has an order holds %+v, %v", turn.Reserved, err)
		}
		if b, err := w.Buy(w.ctx, "first", s.ID, turn.Token, ""); err != nil || b.Reason != sale.BadToken {
			t.Errorf("another's old token: %+v, %v", b, err)
		}
		after(10 * time.Second)
		w.agrees(s.ID)
	})
}

// TestLostIsReported checks that a reservation which only a lost inventory had is returned as lost
// and counted, if no unit is left for it.
func TestLostIsReported(t *testing.T) {
	inWorld(t, func(w *world) {
		g := w.forgetful()
		w.Shop = w.started("a")
		defer func() { w.Shop.Stop() }()
		s := w.exposed(draft(1))
		w.opens(s)
		w.Shop.Stop() // no process writes orders
		turn, err := g.Join(w.ctx, sale.JoinRequest{Sale: s.ID, Epoch: 1, User: "lost", Ticket: "0123456789abcdef"})
		if err != nil || turn.State != sale.Admitted {
			t.Fatal(turn, err)
		}
		out, err := g.Reserve(w.ctx, sale.ReserveRequest{Sale: s.ID, Epoch: 1, User: "lost", Ticket: turn.Ticket, Reservation: "0123456789abcdef0"})
		if err != nil || out.Reason != sale.OK {
			t.Fatal(out, err)
		}
		w.forgets(g)
		w.Shop = w.started("b")
		w.until("recovery", 15*time.Second, func() bool {
			v, err := w.View(w.ctx, s.ID)
			return err == nil && v.Sale.Epoch == 2 && v.Phase == sale.Open
		})
		w.order(w, "other", w.buys(w, "other", s.ID).Receipt.Receipt)
		receipt := w.keys.Receipt(out.Reservation)
		if r, err := w.Order(w.ctx, "lost", receipt); err != nil || r.State != sale.Lost {
			t.Errorf("order: %+v, %v; want lost", r, err)
		}
		for _, payment := range []string{"p", "p", "p2", "p", "p2"} {
			if p, err := w.Pay(w.ctx, receipt, payment, 1999); err != nil || !p.RefundDue {
				t.Errorf("pay: %+v, %v; want refund due", p, err)
			}
		}
		lines, err := w.ledger.AuditLog(w.ctx, s.ID)
		if err != nil {
			t.Fatal(err)
		}
		lines = slices.DeleteFunc(lines, func(l sale.AuditEntry) bool { return l.Actor != "payments" })
		if tally := w.agrees(s.ID); tally.RefundDue != 2 || len(lines) != 2 || w.Stats().RefundDue != 2 {
			t.Errorf("two payments, reported several times: %d refunds due, %d counted, lines %v; want 2 each", tally.RefundDue, w.Stats().RefundDue, lines)
		}
		if tally := w.agrees(s.ID); tally.Lost != 1 {
			t.Errorf("tally %+v", tally)
		}
	})
}

// TestDrift checks that an Inventory that has lost a hold without knowing it, as after a failover that lost
// the last write, is noticed and built again.
func TestDrift(t *testing.T) {
	inShop(t, func(w *world) {
		s := w.exposed(draft(5))
		w.opens(s)
		b := w.buys(w, "alice", s.ID)
		w.pays("alice", b.Receipt.Receipt)
		held, err := w.engine.Status(w.ctx, s.ID, 1, "alice")
		if err != nil || len(held.Reserved) != 1 {
			t.Fatal(held, err)
		}
		if ok, err := w.engine.Return(w.ctx, s.ID, 1, "alice", held.Reserved[0].ID, true); !ok || err != nil {
			t.Fatal(ok, err)
		}
		w.until("the inventory to be built again", 15*time.Second, func() bool {
			c, err := w.engine.Counts(w.ctx, s.ID, 2)
			return err == nil && c.Free == 4
		})
		after(time.Second)
		w.agrees(s.ID)
	})
}

// TestReconcile repairs a difference at once, and finds none the second time.
func TestReconcile(t *testing.T) {
	inShop(t, func(w *world) {
		s := w.exposed(draft(5))
		w.opens(s)
		b := w.buys(w, "alice", s.ID)
		w.pays("alice", b.Receipt.Receipt)
		held, _ := w.engine.Status(w.ctx, s.ID, 1, "alice")
		w.engine.Return(w.ctx, s.ID, 1, "alice", held.Reserved[0].ID, true)
		for i, want := range []int{1, 0} {
			r, err := w.Reconcile(w.ctx, "m", s.ID)
			if err != nil || r.Changed != want || r.Free != 4 {
				t.Errorf("reconcile %d: %+v, %v; want %d changed, 4 free", i, r, err, want)
			}
		}
		w.agrees(s.ID)
	})
}

// TestOldStreams checks that what stands in the stream of an epoch that a process left behind, when it
// died in the middle of a recovery, becomes an order.
func TestOldStreams(t *testing.T) {
	inShop(t, func(w *world) {
		s := w.exposed(draft(3))
		w.opens(s)
		w.Shop.Stop() // no process writes orders
		if _, err := w.engine.Join(w.ctx, sale.JoinRequest{Sale: s.ID, Epoch: 1, User: "alice", Ticket: "0123456789abcdef"}); err != nil {
			t.Fatal(err)
		}
		out, err := w.engine.Reserve(w.ctx, sale.ReserveRequest{Sale: s.ID, Epoch: 1, User: "alice", Ticket: "0123456789abcdef", Reservation: "0123456789abcdef0"})
		if err != nil || out.Reason != sale.OK {
			t.Fatal(out, err)
		}
		if _, err := w.ledger.NextEpoch(w.ctx, s.ID, 1, time.Now()); err != nil {
			t.Fatal(err)
		}
		w.newEngine()
		w.Shop = w.started("b")
		w.until("recovery", 5*time.Second, func() bool {
			v, err := w.View(w.ctx, s.ID)
			return err == nil && v.Sale.Epoch == 2 && v.Phase == sale.Open
		})
		if r := w.order(w, "alice", w.keys.Receipt(out.Reservation)); r.State != sale.PendingPay {
			t.Errorf("alice's order is %s, want pending_pay", r.State)
		}
		w.agrees(s.ID)
	})
}
