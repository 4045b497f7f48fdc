//go:build crashpoints

package shop_test

import (
	"context"
	"fmt"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/floodweir/weir/flashsale/crashpoint"
	"github.com/floodweir/weir/flashsale/sale"
	"github.com/floodweir/weir/flashsale/shop"
)

// TestDiesAnywhere kills a shop at every crash point of a purchase, once or repeatedly, with
// its inventory or without. The next process completes what it left.
func TestDiesAnywhere(t *testing.T) {
	for _, point := range []string{crashpoint.ReserveAsked, crashpoint.ReserveGranted, crashpoint.WriterTook, crashpoint.WriterPlaced, crashpoint.WriterDone,
		crashpoint.ReturnAsked, crashpoint.ReturnGiven, crashpoint.ReturnMarked, crashpoint.AdmitTaken, crashpoint.AdmitDone,
		crashpoint.RecoverEpoch, crashpoint.RecoverClosed, crashpoint.RecoverDrained, crashpoint.RecoverOpened, crashpoint.StockLedger} {
		t.Run(point, func(t *testing.T) {
			inWorld(t, func(w *world) {
				g := &switched{}
				g.Store(w.engine)
				w.gate = g
				w.Shop = w.started("z")
				var mu sync.Mutex
				granted := map[string]string{} // receipts, by user
				d := draft(20)
				d.PayWithin = 5 * time.Second
				s := w.exposed(d)
				for life, dies := range []bool{true, true, true, false} {
					w.Shop.Stop()
					w.newEngine() // with the journal of the one before
					g.Store(w.engine)
					w.gate = g
					var dead atomic.Bool
					var times atomic.Int64
					name := string(rune('a' + life))
					w.Shop = w.started(name, func(c *shop.Config) {
						c.Crash = crashpoint.New(func(p string) {
							if dead.Load() || dies && p == point && times.Add(1) > int64(3*life) {
								dead.Store(true)
								runtime.Goexit() // every other goroutine ends at its next point
							}
						})
					})
					if life == 0 {
						w.opens(s)
					}
					concurrently(10, func(user string) {
						user = name + user
						turn, err := w.Join(w.ctx, user, s.ID, "")
						for range 20 {
							if err != nil || turn.State == sale.Admitted {
								break
							}
							after(200 * time.Millisecond)
							if turn.State == sale.NoTicket {
								turn, err = w.Join(w.ctx, user, s.ID, "")
							} else {
								turn, err = w.Status(w.ctx, user, s.ID, turn.Ticket)
							}
						}
						if turn.Token != "" {
							if b, err := w.Buy(w.ctx, user, s.ID, turn.Token, ""); err == nil && b.Reason == sale.OK {
								mu.Lock()
								granted[user] = b.Receipt.Receipt
								mu.Unlock()
							}
						}
					})
					concurrently(1, func(string) { w.AddStock(w.ctx, "m", s.ID, "more-"+name, 1) })
					after(8 * time.Second)
				}
				defer func() { w.Shop.Stop() }()
				var at string
				defer func() {
					if t.Failed() {
						t.Log("at the end:", at)
					}
				}()
				w.until("everything to come to its end", 30*time.Second, func() bool {
					tally, err := w.ledger.Totals(w.ctx, s.ID)
					c, err2 := w.engine.Counts(w.ctx, s.ID, tally.Sale.Epoch)
					at = fmt.Sprintf("%+v, %v; %+v, %v", tally, err, c, err2)
					return err == nil && err2 == nil && tally.Pending == 0 && c.Backlog == 0 && c.Free == tally.Sale.Stock && c.Stock == tally.Sale.Stock
				})
				if tally := w.agrees(s.ID); tally.Rejected != 0 || tally.Lost != 0 {
					t.Errorf("tally %+v", tally)
				}
				for user, receipt := range granted {
					if r, err := w.Order(w.ctx, user, receipt); err != nil || r.State != sale.Expired {
						t.Errorf("%s was granted what became %s, %v", user, r.State, err)
					}
				}
				// And every unit can be bought.
				stock := int(w.agrees(s.ID).Sale.Stock)
				got := 0
				concurrently(stock, func(user string) {
					if b := w.buys(w, "last-"+user, s.ID); b.Reason == sale.OK {
						mu.Lock()
						got++
						mu.Unlock()
					}
				})
				if got != stock {
					t.Errorf("%d of %d units could be bought", got, stock)
				}
			})
		})
	}
}

// A lateLedger returns a sale that is being recovered only after the recovery.
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

// TestRecoveredMeanwhile checks that a process does not start another recovery when the one
// that it was about to continue has completed.
func TestRecoveredMeanwhile(t *testing.T) {
	for _, point := range []string{crashpoint.RecoverEpoch, crashpoint.RecoverOpened} {
		t.Run(point, func(t *testing.T) {
			inWorld(t, func(w *world) {
				g := w.forgetful()
				looked := make(chan struct{})
				w.Shop = w.started("a", func(c *shop.Config) {
					c.Crash = crashpoint.New(func(p string) {
						if p == point {
							<-looked
						}
					})
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
