package shop_test

import (
	"context"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/floodweir/weir"
	"github.com/floodweir/weir/flashsale/ledger"
	"github.com/floodweir/weir/flashsale/meminventory"
	"github.com/floodweir/weir/flashsale/pass"
	"github.com/floodweir/weir/flashsale/sale"
	"github.com/floodweir/weir/flashsale/shop"
	"github.com/floodweir/weir/memstore"
)

// A world is shops over one Inventory and one Ledger, both real, in the time of a synctest bubble.
type world struct {
	*testing.T
	ctx     context.Context
	gate    sale.Inventory // as the shops see it
	engine  *meminventory.Inventory
	ledger  *ledger.Ledger
	limits  weir.Store
	keys    *pass.Keys
	journal *ledger.Journal
	clock   func() time.Time
	step    sync.Mutex
	off     time.Duration
	log     *slog.Logger
	*shop.Shop
}

func logger() *slog.Logger {
	if os.Getenv("FLASHSALE_LOG") == "" {
		return slog.New(slog.DiscardHandler)
	}
	return slog.New(slog.NewTextHandler(os.Stderr, nil))
}

// inWorld runs f with everything but a started shop.
func inWorld(t *testing.T, f func(*world)) {
	dir := t.TempDir()
	synctest.Test(t, func(t *testing.T) {
		w := &world{T: t, ctx: context.Background(), log: logger()}
		w.clock = func() time.Time {
			w.step.Lock()
			defer w.step.Unlock()
			return time.Now().Add(w.off)
		}
		l, err := ledger.Open(w.ctx, "sqlite:"+filepath.Join(dir, "flashsale.db"), ledger.Config{})
		if err != nil {
			t.Fatal(err)
		}
		defer l.Close()
		w.ledger = l
		if w.journal, err = l.Journal(); err != nil {
			t.Fatal(err)
		}
		w.newEngine()
		defer func() { w.engine.Stop() }()
		m, err := memstore.New(memstore.Config{})
		if err != nil {
			t.Fatal(err)
		}
		defer m.Close()
		w.limits = m
		if w.keys, err = pass.NewKeys(make([]byte, 32)); err != nil {
			t.Fatal(err)
		}
		f(w)
	})
}

// newEngine makes the engine that comes after the death of one, if there was one.
func (w *world) newEngine() {
	w.Helper()
	if w.engine != nil {
		w.engine.Stop()
	}
	e, err := meminventory.New(meminventory.Config{Journal: w.journal, Clock: w.clock})
	if err != nil {
		w.Fatal(err)
	}
	w.engine, w.gate = e, e
}

// started makes a shop that is stopped at the end of the test.
func (w *world) started(name string, change ...func(*shop.Config)) *shop.Shop {
	w.Helper()
	c := shop.Config{Inventory: w.gate, Ledger: w.ledger, Limits: w.limits, Keys: w.keys, Worker: name, Clock: w.clock, Log: w.log}
	for _, f := range change {
		f(&c)
	}
	s, err := shop.New(c)
	if err != nil {
		w.Fatal(err)
	}
	if err := s.Start(w.ctx); err != nil {
		w.Fatal(err)
	}
	return s
}

// inShop runs f with one shop.
func inShop(t *testing.T, f func(*world)) {
	t.Helper()
	inWorld(t, func(w *world) {
		w.Shop = w.started("a")
		defer func() { w.Shop.Stop() }() // the one that is there then
		f(w)
	})
}

func draft(stock int64) sale.Draft {
	return sale.Draft{SKU: "sku-1", Title: "A thing", Price: 1999, Stock: stock,
		StartsAt: time.Now().Add(time.Second), EndsAt: time.Now().Add(time.Hour),
		PayWithin: 10 * time.Second, TokenFor: 2 * time.Second}
}

// exposed creates and exposes a sale.
func (w *world) exposed(d sale.Draft) sale.Sale {
	w.Helper()
	s, err := w.Create(w.ctx, "m", "", d)
	if err == nil {
		err = w.Warm(w.ctx, "m", s.ID)
	}
	if err == nil {
		s, err = w.Expose(w.ctx, "m", s.ID)
	}
	if err != nil {
		w.Fatal(err)
	}
	return s
}

func (w *world) opens(s sale.Sale) {
	after(time.Until(s.StartsAt) + 200*time.Millisecond)
}

// until polls f until it says yes, or a time is over.
func (w *world) until(what string, within time.Duration, f func() bool) {
	w.Helper()
	for end := time.Now().Add(within); !f(); after(20 * time.Millisecond) {
		if time.Now().After(end) {
			w.Fatalf("%s: not within %v", what, within)
		}
	}
}

// admitted waits in line until it is the user's turn or there is none.
func (w *world) admitted(desk sale.BuyerService, user, id string) sale.QueueStatus {
	t, err := desk.Join(w.ctx, user, id, "")
	for err == nil && t.Reason == sale.OK && t.State == sale.Waiting {
		after(t.Poll)
		t, err = desk.Status(w.ctx, user, id, t.Ticket)
	}
	if err != nil {
		w.Errorf("%s: %v", user, err)
	}
	return t
}

// buys goes the way of a buyer who wants one unit.
func (w *world) buys(desk sale.BuyerService, user, id string) sale.BuyResult {
	t := w.admitted(desk, user, id)
	if t.Reason != sale.OK || t.Token == "" {
		return sale.BuyResult{Reason: t.Reason, Layer: t.Layer}
	}
	b, err := desk.Buy(w.ctx, user, id, t.Token, "")
	if err != nil {
		w.Errorf("%s: %v", user, err)
	}
	return b
}

// order waits until a reservation is an order.
func (w *world) order(desk sale.BuyerService, user, receipt string) sale.Receipt {
	w.Helper()
	var r sale.Receipt
	w.until("order of "+user, 5*time.Second, func() bool {
		var err error
		if r, err = desk.Order(w.ctx, user, receipt); err != nil {
			w.Fatal(err)
		}
		return r.State != sale.Reserved
	})
	return r
}

func (w *world) pays(user, receipt string) {
	w.Helper()
	w.order(w.Shop, user, receipt)
	paid, err := w.Pay(w.ctx, receipt, "pay-"+user, 1999)
	if err != nil || paid.RefundDue || paid.Order.State != sale.Paid {
		w.Fatalf("%s pays: %+v, %v", user, paid, err)
	}
}

// agrees checks the invariants once no call is in progress: the sums of the ledger, and the
// equal state of the inventory.
func (w *world) agrees(id string) sale.OrderTotals {
	w.Helper()
	t, err := w.ledger.Totals(w.ctx, id)
	if err != nil {
		w.Fatal(err)
	}
	if t.Sale.Sold != t.PendingUnits+t.PaidUnits || t.Sale.Sold > t.Sale.Stock || t.Movements != t.Sale.Stock-t.Sale.Sold {
		w.Errorf("tally %+v", t)
	}
	if c, err := w.engine.Counts(w.ctx, id, t.Sale.Epoch); err == nil && c.Backlog == 0 && c.Free != t.Sale.Stock-t.Sale.Sold {
		w.Errorf("inventory has %d free of %d, ledger has sold %d of %d", c.Free, c.Stock, t.Sale.Sold, t.Sale.Stock)
	}
	return t
}

// concurrently runs f for many users at once.
func concurrently(n int, f func(user string)) {
	var wg sync.WaitGroup
	for i := range n {
		wg.Go(func() { f(fmt.Sprintf("user-%05d", i)) })
	}
	wg.Wait()
}

// after waits in the time of the bubble.
func after(d time.Duration) { <-time.After(d) }
