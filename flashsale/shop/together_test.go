package shop_test

import (
	"context"
	"sync"
	"testing"
	"time"

	"github.com/floodweir/weir/flashsale/sale"
	"github.com/floodweir/weir/flashsale/shop"
)

// A slowGate takes its time to open a sale, and to take units back.
type slowGate struct{ sale.Inventory }

func (g slowGate) Open(ctx context.Context, o sale.InitialState) error {
	after(2 * time.Second)
	return g.Inventory.Open(context.WithoutCancel(ctx), o)
}

func (g slowGate) Return(ctx context.Context, id string, epoch int64, user, r string, unpaid bool) (bool, error) {
	after(300 * time.Millisecond)
	return g.Inventory.Return(ctx, id, epoch, user, r, unpaid)
}

// TestReconcileWhileUnitsReturn checks that a unit that is on its way back is no difference.
func TestReconcileWhileUnitsReturn(t *testing.T) {
	inWorld(t, func(w *world) {
		w.Shop = w.started("a", func(c *shop.Config) { c.Inventory = slowGate{w.gate} })
		defer w.Shop.Stop()
		s := w.exposed(draft(5))
		w.opens(s)
		b := w.buys(w, "alice", s.ID)
		w.order(w, "alice", b.Receipt.Receipt)
		var wg sync.WaitGroup
		wg.Go(func() {
			r, err := w.Reconcile(w.ctx, "m", s.ID)
			if err != nil || r.Dropped != 0 || r.Free < 4 {
				t.Errorf("reconcile: %+v, %v; want nothing dropped", r, err)
			}
		})
		after(10 * time.Millisecond)
		if _, err := w.Cancel(w.ctx, "alice", b.Receipt.Receipt); err != nil {
			t.Fatal(err)
		}
		wg.Wait()
		after(time.Second)
		if tally := w.agrees(s.ID); tally.Sale.Epoch != 1 || tally.Sale.Sold != 0 {
			t.Errorf("tally %+v; want epoch 1, nothing sold", tally)
		}
	})
}

// TestExposedSlowly checks that another shop that knows of a sale before the Inventory does has patience.
func TestExposedSlowly(t *testing.T) {
	inWorld(t, func(w *world) {
		w.Shop = w.started("a", func(c *shop.Config) { c.Inventory = slowGate{w.gate} })
		defer w.Shop.Stop()
		other := w.started("b")
		defer other.Stop()
		s := w.exposed(draft(5))
		after(5 * time.Second)
		for name, desk := range map[string]*shop.Shop{"a": w.Shop, "b": other} {
			if v, err := desk.View(w.ctx, s.ID); err != nil || v.Sale.Epoch != 1 || v.Phase != sale.Open || desk.Stats().Recoveries != 0 {
				t.Errorf("shop %s: %+v, %v; want it open at epoch 1", name, v, err)
			}
		}
	})
}
