package shop_test

import (
	"context"
	"fmt"
	"sync/atomic"
	"testing"
	"time"

	"github.com/floodweir/weir/flashsale/sale"
	"github.com/floodweir/weir/flashsale/shop"
)

// counted counts the calls of an Inventory that background work makes.
type counted struct {
	sale.Inventory
	calls atomic.Int64
}

func (c *counted) Counts(ctx context.Context, id string, epoch int64) (sale.Counts, error) {
	c.calls.Add(1)
	return c.Inventory.Counts(ctx, id, epoch)
}

func (c *counted) Next(ctx context.Context, id string, epoch int64, worker string, max int, wait time.Duration) ([]sale.Entry, error) {
	c.calls.Add(1)
	return c.Inventory.Next(ctx, id, epoch, worker, max, wait)
}

func (c *counted) Attend(ctx context.Context, worker string) (int, error) {
	c.calls.Add(1)
	return c.Inventory.Attend(ctx, worker)
}

// TestIdleSales checks that sales without requests cost a fixed number of calls, however many they
// are. A purchase after a long time is an order at once, and the sales end on time.
func TestIdleSales(t *testing.T) {
	inWorld(t, func(w *world) {
		g := &counted{Inventory: w.engine}
		w.gate = g
		w.Shop = w.started("a")
		defer w.Shop.Stop()
		sales := w.manyExposed()
		s := sales[7]
		before := g.calls.Load()
		after(time.Minute)
		if n := g.calls.Load() - before; n > 30 {
			t.Errorf("%d calls in a minute, want at most 30", n)
		}
		for _, user := range []string{"alice", "bob", "cat", "dan"} {
			b := w.buys(w, user, s.ID)
			if b.Reason != sale.OK {
				t.Fatalf("%s: %+v", user, b)
			}
			w.until("the order of "+user, 20*time.Millisecond, func() bool {
				r, err := w.Order(w.ctx, user, b.Receipt.Receipt)
				return err == nil && r.State == sale.PendingPay
			})
			w.pays(user, b.Receipt.Receipt)
		}
		after(time.Minute)
		before = g.calls.Load()
		after(time.Minute)
		if n := g.calls.Load() - before; n > 30 {
			t.Errorf("%d calls in the minute after the purchase, want at most 30", n)
		}
		w.agrees(s.ID)
		after(time.Until(s.EndsAt) + time.Second)
		for _, s := range sales {
			if row, err := w.ledger.Sale(w.ctx, s.ID); err != nil || row.State != sale.Ended {
				t.Errorf("a second after its end, the sale is %s, %v", row.State, err)
			}
		}
	})
}

// manyExposed exposes so many sales that it takes minutes until a patrol has checked each, and
// waits until they are quiet.
func (w *world) manyExposed() (sales []sale.Sale) {
	for range 50 {
		sales = append(sales, w.exposed(draft(5)))
	}
	w.opens(sales[49])
	after(5 * time.Second)
	return sales
}

// TestStoppedProcess checks that a reservation of a process that dies before it reads the stream
// becomes an order of another process, although that one has no request about the sale.
func TestStoppedProcess(t *testing.T) {
	inShop(t, func(w *world) {
		s := w.manyExposed()[49]
		if _, err := w.gate.Attend(w.ctx, "b"); err != nil {
			t.Fatal(err)
		}
		_, err := w.gate.Join(w.ctx, sale.JoinRequest{Sale: s.ID, Epoch: s.Epoch, User: "bob", Ticket: "ticket-0123456789", Batch: "b", Until: w.clock().Add(time.Minute)})
		if err != nil {
			t.Fatal(err)
		}
		r, err := w.gate.Reserve(w.ctx, sale.ReserveRequest{Sale: s.ID, Epoch: s.Epoch, User: "bob", Ticket: "ticket-0123456789", Reservation: "reservation-0123456789"})
		if err != nil || r.Reason != sale.OK {
			t.Fatalf("Reserve = %+v, %v", r, err)
		}
		w.until("the order of the stopped process", 2*sale.WorkerFor, func() bool {
			_, err := w.ledger.Order(w.ctx, r.Reservation.ID)
			return err == nil
		})
	})
}

// TestManySales checks that one round writes the orders of several sales, and that an entry that
// the ledger does not accept leaves the other sales' orders alone.
func TestManySales(t *testing.T) {
	inWorld(t, func(w *world) {
		w.Shop = w.started("a", func(c *shop.Config) { c.Workers = 1 })
		defer w.Shop.Stop()
		var ids []string
		var last sale.Sale
		for range 20 {
			last = w.exposed(draft(3))
			ids = append(ids, last.ID)
		}
		w.opens(last)
		concurrently(60, func(user string) {
			var i int
			fmt.Sscanf(user, "user-%d", &i)
			b := w.buys(w, user, ids[i%len(ids)])
			if b.Reason != sale.OK {
				t.Errorf("%s: %+v", user, b)
				return
			}
			w.order(w, user, b.Receipt.Receipt)
		})
		after(time.Second)
		for _, id := range ids {
			if tally := w.agrees(id); tally.Pending != 3 {
				t.Errorf("tally %+v", tally)
			}
		}
	})
}
