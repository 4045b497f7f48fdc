package shop_test

import (
	"context"
	"sync"
	"testing"
	"time"

	"github.com/floodweir/weir/flashsale/sale"
	"github.com/floodweir/weir/flashsale/shop"
)

// A lateLedger tells of a sale that is being recovered only when it is no more.
type lateLedger struct {
	sale.Ledger
	asked func()
}

func (l lateLedger) Sale(ctx context.Context, id string) (sale.Sale, error) {
	row, err := l.Ledger.Sale(ctx, id)
	for l.asked(); err == nil && row.StateReason == sale.Recovering; {
		after(time.Millisecond)
		row, err = l.Ledger.Sale(ctx, id)
	}
	return row, err
}

// TestRecoveredMeanwhile: a shop that is about to go on with a recovery does not begin
// another when the one that began it has come to its end, before it opened the Inventory or after.
func TestRecoveredMeanwhile(t *testing.T) {
	for _, point := range []string{sale.RecoverDrained, sale.RecoverOpened} {
		t.Run(point, func(t *testing.T) {
			inWorld(t, func(w *world) {
				g := w.forgetful()
				looked := make(chan struct{})
				w.Shop = w.started("a", func(c *shop.Config) {
					c.Fault = func(p string) {
						if p == point {
							<-looked
						}
					}
				})
				defer w.Shop.Stop()
				s := w.exposed(draft(3))
				w.opens(s)
				w.forgets(g)
				w.until("the beginning of a recovery", 5*time.Second, func() bool {
					row, err := w.ledger.Sale(w.ctx, s.ID)
					return err == nil && row.StateReason == sale.Recovering
				})
				other := w.started("b", func(c *shop.Config) {
					c.Ledger = lateLedger{w.ledger, sync.OnceFunc(func() { close(looked) })}
				})
				defer other.Stop()
				w.until("recovery", 15*time.Second, func() bool {
					v, err := w.View(w.ctx, s.ID)
					return err == nil && v.Sale.Epoch > 1 && v.Phase == sale.Open
				})
				after(5 * time.Second)
				if row, err := w.ledger.Sale(w.ctx, s.ID); err != nil || row.Epoch != 2 || row.State != sale.Exposed {
					t.Errorf("the sale is %s at epoch %d, %v; want exposed at 2", row.State, row.Epoch, err)
				}
				if n := w.Stats().Recoveries + other.Stats().Recoveries; n != 1 {
					t.Errorf("%d recoveries, want 1", n)
				}
				w.agrees(s.ID)
			})
		})
	}
}

// A slowGate takes its time to open a sale, and to take units back.
type slowGate struct{ sale.Inventory }

func (g slowGate) Open(ctx context.Context, o sale.InitialState) error {
	after(2 * time.Second)
	return g.Inventory.Open(context.WithoutCancel(ctx), o)
}

func (g slowGate) Return(ctx context.Context, id string, epoch int64, user, r string) (bool, error) {
	after(300 * time.Millisecond)
	return g.Inventory.Return(ctx, id, epoch, user, r)
}

// TestReconcileWhileUnitsReturn: a unit that is on its way back is no difference.
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

// TestExposedSlowly: another shop that knows of a sale before the Inventory does has patience.
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
