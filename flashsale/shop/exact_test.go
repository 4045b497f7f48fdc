package shop_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/floodweir/weir"
	"github.com/floodweir/weir/flashsale/sale"
	"github.com/floodweir/weir/flashsale/shop"
)

// A bent Ledger replaces some methods.
type bent struct {
	sale.Ledger
	recovered func(func() (sale.Sale, error)) (sale.Sale, error)
	place     func() error
	live      func() error
}

func (b *bent) MarkRecovered(ctx context.Context, id string, epoch int64, now time.Time) (sale.Sale, error) {
	do := func() (sale.Sale, error) { return b.Ledger.MarkRecovered(ctx, id, epoch, now) }
	if b.recovered == nil {
		return do()
	}
	return b.recovered(do)
}

func (b *bent) CreateOrders(ctx context.Context, epoch int64, rs []sale.Reservation, now time.Time) ([]sale.OrderResult, error) {
	if b.place != nil {
		if err := b.place(); err != nil {
			return nil, err
		}
	}
	return b.Ledger.CreateOrders(ctx, epoch, rs, now)
}

func (b *bent) LiveSales(ctx context.Context) ([]sale.Sale, error) {
	if b.live != nil {
		if err := b.live(); err != nil {
			return nil, err
		}
	}
	return b.Ledger.LiveSales(ctx)
}

// TestLostAgainWhileRecovering checks that an Inventory that loses its state after it was built again and
// before the Ledger knows of it is built at one more epoch.
func TestLostAgainWhileRecovering(t *testing.T) {
	inWorld(t, func(w *world) {
		var away atomic.Bool
		away.Store(true)
		b := &bent{Ledger: w.ledger}
		b.recovered = func(do func() (sale.Sale, error)) (sale.Sale, error) {
			if away.Load() {
				return sale.Sale{}, fmt.Errorf("%w: gone", sale.ErrUnavailable)
			}
			return do()
		}
		w.Shop = w.started("a", func(c *shop.Config) { c.Ledger = b })
		defer func() { w.Shop.Stop() }()
		s := w.exposed(draft(3))
		w.opens(s)
		if err := w.engine.Close(w.ctx, s.ID, 1); err != nil {
			t.Fatal(err)
		}
		w.until("the inventory at epoch 2", 5*time.Second, func() bool {
			_, err := w.engine.Counts(w.ctx, s.ID, 2)
			return err == nil
		})
		if err := w.engine.Close(w.ctx, s.ID, 2); err != nil { // as a failover does
			t.Fatal(err)
		}
		away.Store(false)
		w.until("the sale to be open", 5*time.Second, func() bool {
			v, err := w.View(w.ctx, s.ID)
			return err == nil && v.Phase == sale.Open
		})
		if got := w.buys(w, "alice", s.ID); got.Reason != sale.OK {
			t.Errorf("alice: %+v", got)
		}
	})
}

// mute is an Inventory whose first stream cannot be read.
type mute struct{ sale.Inventory }

func (g mute) Next(ctx context.Context, id string, epoch int64, worker string, max int, wait time.Duration) ([]sale.Entry, error) {
	if epoch > 1 {
		return g.Inventory.Next(ctx, id, epoch, worker, max, wait)
	}
	after(wait)
	return nil, fmt.Errorf("%w", sale.ErrStale)
}

// TestLostAgainAfterRecovery loses the inventory again when the ledger records the recovery.
// The inventory is rebuilt, and acknowledged reservations are transferred to it.
func TestLostAgainAfterRecovery(t *testing.T) {
	inWorld(t, func(w *world) {
		g := w.forgetful()
		w.gate = mute{g}
		b := &bent{Ledger: w.ledger}
		var once sync.Once
		b.recovered = func(do func() (sale.Sale, error)) (sale.Sale, error) {
			row, err := do()
			once.Do(func() { w.forgets(g) })
			return row, err
		}
		w.Shop = w.started("a", func(c *shop.Config) { c.Ledger = b })
		defer func() { w.Shop.Stop() }()
		s := w.exposed(draft(30))
		w.opens(s)
		concurrently(20, func(user string) {
			if got := w.buys(w, user, s.ID); got.Reason != sale.OK {
				t.Errorf("%s: %+v", user, got)
			}
		})
		w.forgets(g)
		w.until("the sale to be open at epoch 3", 10*time.Second, func() bool {
			v, err := w.View(w.ctx, s.ID)
			return err == nil && v.Phase == sale.Open && v.Sale.Epoch == 3
		})
		w.until("what was lost to be orders", 5*time.Second, func() bool {
			tally, err := w.ledger.Totals(w.ctx, s.ID)
			return err == nil && tally.Pending == 20 && tally.Lost == 0
		})
	})
}

// TestTokensOfAnEpochThatIsOver checks that tokens of a lost inventory cannot buy, and that
// they do not delay other users.
func TestTokensOfAnEpochThatIsOver(t *testing.T) {
	inShop(t, func(w *world) {
		d := draft(2)
		d.Headroom, d.TokenFor = 1, 10*time.Minute
		s := w.exposed(d)
		w.opens(s)
		for _, user := range []string{"alice", "bob"} {
			if turn := w.admitted(w, user, s.ID); turn.Token == "" {
				t.Fatalf("%s: %+v", user, turn)
			}
		}
		if err := w.engine.Close(w.ctx, s.ID, 1); err != nil {
			t.Fatal(err)
		}
		w.until("recovery", 5*time.Second, func() bool {
			v, err := w.View(w.ctx, s.ID)
			return err == nil && v.Phase == sale.Open && v.Sale.Epoch == 2
		})
		if _, err := w.Join(w.ctx, "carol", s.ID, ""); err != nil {
			t.Fatal(err)
		}
		w.until("carol's turn", 5*time.Second, func() bool {
			turn, err := w.Status(w.ctx, "carol", s.ID, "")
			return err == nil && turn.Token != ""
		})
	})
}

// forgetful is a store that executes requests and returns an error while it is switched on.
type forgetful struct {
	weir.Store
	on atomic.Bool
}

func (f *forgetful) Do(ctx context.Context, r weir.Request) (weir.Decision, error) {
	d, err := f.Store.Do(ctx, r)
	if f.on.Load() && r.Verb == weir.Return {
		return weir.Decision{}, errors.New("no answer")
	}
	return d, err
}

// TestSlotsAreReturnedOnce checks that a slot whose return got no answer is not returned again: it
// would be that of another's token.
func TestSlotsAreReturnedOnce(t *testing.T) {
	inWorld(t, func(w *world) {
		f := &forgetful{Store: w.limits}
		f.on.Store(true)
		w.limits = f
		w.Shop = w.started("a")
		defer w.Shop.Stop()
		d := draft(20)
		d.Queue, d.Headroom, d.TokenFor, d.PayWithin = sale.Direct, 1, time.Minute, time.Hour
		s := w.exposed(d)
		w.opens(s)
		join := func(user string) sale.QueueStatus {
			turn, err := w.Join(w.ctx, user, s.ID, "")
			if err != nil {
				t.Error(err)
			}
			return turn
		}
		for i := range 20 {
			user := fmt.Sprint("first-", i)
			turn := join(user)
			if i >= 5 {
				continue
			}
			if b, err := w.Buy(w.ctx, user, s.ID, turn.Token, ""); err != nil || b.Reason != sale.OK {
				t.Fatalf("%s: %+v, %v", user, b, err)
			}
		}
		after(2 * time.Second)
		f.on.Store(false)
		after(2 * time.Second)
		for i := range 40 {
			join(fmt.Sprint("second-", i))
		}
		c, err := w.engine.Counts(w.ctx, s.ID, 1)
		if err != nil || c.Outstanding > 20 {
			t.Errorf("%d tokens are out, %v; want at most 20", c.Outstanding, err)
		}
	})
}

// TestNoDriftBeforeALook checks that no difference is reported while the ledger is unavailable.
func TestNoDriftBeforeALook(t *testing.T) {
	inWorld(t, func(w *world) {
		var blind atomic.Bool
		b := &bent{Ledger: w.ledger, live: func() error {
			if blind.Load() {
				return fmt.Errorf("%w: slow", sale.ErrUnavailable)
			}
			return nil
		}}
		w.Shop = w.started("a", func(c *shop.Config) { c.Ledger = b })
		defer w.Shop.Stop()
		d := draft(5)
		d.PayWithin = time.Minute
		s := w.exposed(d)
		w.opens(s)
		blind.Store(true)
		if got := w.buys(w, "alice", s.ID); got.Reason != sale.OK {
			t.Fatalf("%+v", got)
		}
		after(15 * time.Second)
		blind.Store(false)
		after(5 * time.Second)
		if v, err := w.View(w.ctx, s.ID); err != nil || v.Sale.Epoch != 1 || v.Sale.Sold != 1 {
			t.Errorf("epoch %d with %d sold, %v; want epoch 1: nothing was wrong", v.Sale.Epoch, v.Sale.Sold, err)
		}
		w.agrees(s.ID)
	})
}

// hanging is an Inventory that does not answer what is given back of one sale.
type hanging struct {
	sale.Inventory
	id atomic.Value
}

func (g *hanging) Return(ctx context.Context, id string, epoch int64, user, r string, unpaid bool) (bool, error) {
	if g.id.Load() == id {
		<-ctx.Done()
		return false, fmt.Errorf("%w: %w", sale.ErrUnavailable, ctx.Err())
	}
	return g.Inventory.Return(ctx, id, epoch, user, r, unpaid)
}

// TestOneSaleHoldsUpNoOther checks that an Inventory that does not take back the units of one sale holds up
// neither the end of other sales' orders nor their units.
func TestOneSaleHoldsUpNoOther(t *testing.T) {
	inWorld(t, func(w *world) {
		g := &hanging{Inventory: w.engine}
		w.gate = g
		w.Shop = w.started("a")
		defer w.Shop.Stop()
		d := draft(30)
		d.PayWithin = 2 * time.Second
		one, other := w.exposed(d), w.exposed(d)
		g.id.Store(one.ID)
		w.opens(one)
		concurrently(30, func(user string) {
			if got := w.buys(w, user, one.ID); got.Reason != sale.OK {
				t.Errorf("%s: %+v", user, got)
			}
		})
		after(4 * time.Second)
		if got := w.buys(w, "alice", other.ID); got.Reason != sale.OK {
			t.Fatalf("%+v", got)
		}
		w.until("alice's order to be over and its unit free", 10*time.Second, func() bool {
			tally, err := w.ledger.Totals(w.ctx, other.ID)
			c, err2 := w.engine.Counts(w.ctx, other.ID, 1)
			return err == nil && err2 == nil && tally.Expired == 1 && c.Free == 30
		})
	})
}

// TestLedgerAtFault checks that no reservation is lost while the ledger fails for reasons of
// its own.
func TestLedgerAtFault(t *testing.T) {
	inWorld(t, func(w *world) {
		var broken atomic.Bool
		b := &bent{Ledger: w.ledger, place: func() error {
			if broken.Load() {
				return errors.New("permission denied for table orders")
			}
			return nil
		}}
		w.Shop = w.started("a", func(c *shop.Config) { c.Ledger = b })
		defer w.Shop.Stop()
		d := draft(5)
		d.PayWithin = time.Hour
		s := w.exposed(d)
		w.opens(s)
		broken.Store(true)
		concurrently(5, func(user string) {
			if got := w.buys(w, user, s.ID); got.Reason != sale.OK {
				t.Errorf("%s: %+v", user, got)
			}
		})
		after(2 * time.Minute)
		broken.Store(false)
		w.until("all orders", 15*time.Second, func() bool {
			tally, err := w.ledger.Totals(w.ctx, s.ID)
			return err == nil && tally.Pending == 5
		})
		if tally := w.agrees(s.ID); tally.Lost != 0 || tally.DeadLetters != 0 {
			t.Errorf("tally %+v", tally)
		}
	})
}

// TestKeyAfterRecovery checks that a key that has got a unit gets no other, also when its order is over
// and the Inventory was built again since.
func TestKeyAfterRecovery(t *testing.T) {
	inShop(t, func(w *world) {
		d := draft(5)
		d.PayWithin = 2 * time.Second
		s := w.exposed(d)
		w.opens(s)
		buy := func() sale.BuyResult {
			turn := w.admitted(w, "alice", s.ID)
			b, err := w.Buy(w.ctx, "alice", s.ID, turn.Token, "one wish")
			if err != nil || b.Reason != sale.OK {
				t.Fatalf("buy: %+v, %v", b, err)
			}
			return b
		}
		first := buy()
		w.until("its end", 10*time.Second, func() bool {
			r, err := w.Order(w.ctx, "alice", first.Receipt.Receipt)
			return err == nil && r.State == sale.Expired
		})
		after(time.Second)
		if err := w.engine.Close(w.ctx, s.ID, 1); err != nil {
			t.Fatal(err)
		}
		w.until("recovery", 5*time.Second, func() bool {
			v, err := w.View(w.ctx, s.ID)
			return err == nil && v.Phase == sale.Open && v.Sale.Epoch == 2
		})
		if again := buy(); !again.Repeated || again.Receipt.Receipt != first.Receipt.Receipt {
			t.Errorf("the same key got %+v, want what it had got", again)
		}
	})
}

// deaf is an Inventory whose Counts blocks after a while.
type deaf struct {
	sale.Inventory
	asked atomic.Int64
	after int64
}

func (g *deaf) Counts(ctx context.Context, id string, epoch int64) (sale.Counts, error) {
	if g.after > 0 && g.asked.Add(1) == g.after {
		<-time.After(10 * time.Second) // one look hangs, whatever its deadline
	}
	return g.Inventory.Counts(ctx, id, epoch)
}

// TestDirectWhileTheKeeperWaits checks that who joins a sale without a line gets a token that is valid
// for as long as it should be, however old the last count is.
func TestDirectWhileTheKeeperWaits(t *testing.T) {
	inWorld(t, func(w *world) {
		g := &deaf{Inventory: w.engine, after: 40}
		w.gate = g
		w.Shop = w.started("a")
		defer w.Shop.Stop()
		d := draft(5)
		d.Queue = sale.Direct
		s := w.exposed(d)
		w.opens(s)
		w.until("the keeper to hang", 10*time.Second, func() bool {
			_, err := w.View(w.ctx, s.ID) // the counts of a sale without requests are not read
			return err == nil && g.asked.Load() >= 40
		})
		after(5 * time.Second)
		if b := w.buys(w, "alice", s.ID); b.Reason != sale.OK || b.Receipt.Receipt == "" {
			t.Errorf("alice: %+v", b)
		}
	})
}
