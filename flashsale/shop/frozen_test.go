package shop_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/floodweir/weir/flashsale/sale"
	"github.com/floodweir/weir/flashsale/shop"
)

// A freezer stops a process for a while, as SIGSTOP does: whatever it asks of its Inventory and
// its Ledger, and whatever they answer, waits.
type freezer struct{ until atomic.Int64 }

func (f *freezer) freeze(d time.Duration) { f.until.Store(time.Now().Add(d).UnixNano()) }

func (f *freezer) wait() {
	for {
		d := time.Until(time.Unix(0, f.until.Load()))
		if d <= 0 {
			return
		}
		after(d)
	}
}

func thaw1(f *freezer, do func() error) error {
	f.wait()
	defer f.wait()
	return do()
}

func thaw[T any](f *freezer, do func() (T, error)) (T, error) {
	f.wait()
	defer f.wait()
	return do()
}

type frozenGate struct {
	sale.Inventory
	*freezer
}

func (g frozenGate) Open(ctx context.Context, o sale.InitialState) error {
	return thaw1(g.freezer, func() error { return g.Inventory.Open(ctx, o) })
}
func (g frozenGate) Close(ctx context.Context, id string, epoch int64) error {
	return thaw1(g.freezer, func() error { return g.Inventory.Close(ctx, id, epoch) })
}
func (g frozenGate) SetPaused(ctx context.Context, id string, epoch int64, paused bool) error {
	return thaw1(g.freezer, func() error { return g.Inventory.SetPaused(ctx, id, epoch, paused) })
}
func (g frozenGate) SetStock(ctx context.Context, id string, epoch, stock int64) error {
	return thaw1(g.freezer, func() error { return g.Inventory.SetStock(ctx, id, epoch, stock) })
}
func (g frozenGate) SetTerms(ctx context.Context, id string, epoch int64, t sale.Terms) error {
	return thaw1(g.freezer, func() error { return g.Inventory.SetTerms(ctx, id, epoch, t) })
}
func (g frozenGate) SetPaid(ctx context.Context, id string, epoch, paid int64) error {
	return thaw1(g.freezer, func() error { return g.Inventory.SetPaid(ctx, id, epoch, paid) })
}
func (g frozenGate) Ack(ctx context.Context, id string, epoch int64, ids ...string) error {
	return thaw1(g.freezer, func() error { return g.Inventory.Ack(ctx, id, epoch, ids...) })
}
func (g frozenGate) Attend(ctx context.Context, worker string) (int, error) {
	return thaw(g.freezer, func() (int, error) { return g.Inventory.Attend(ctx, worker) })
}
func (g frozenGate) Join(ctx context.Context, j sale.JoinRequest) (sale.TicketStatus, error) {
	return thaw(g.freezer, func() (sale.TicketStatus, error) { return g.Inventory.Join(ctx, j) })
}
func (g frozenGate) Status(ctx context.Context, id string, epoch int64, user string) (sale.TicketStatus, error) {
	return thaw(g.freezer, func() (sale.TicketStatus, error) { return g.Inventory.Status(ctx, id, epoch, user) })
}
func (g frozenGate) Poll(ctx context.Context, p sale.PollRequest) (sale.TicketStatus, error) {
	return thaw(g.freezer, func() (sale.TicketStatus, error) { return g.Inventory.Poll(ctx, p) })
}
func (g frozenGate) Reserve(ctx context.Context, a sale.ReserveRequest) (sale.ReserveResult, error) {
	return thaw(g.freezer, func() (sale.ReserveResult, error) { return g.Inventory.Reserve(ctx, a) })
}
func (g frozenGate) Transfer(ctx context.Context, epoch int64, r sale.Reservation) (bool, error) {
	return thaw(g.freezer, func() (bool, error) { return g.Inventory.Transfer(ctx, epoch, r) })
}
func (g frozenGate) Return(ctx context.Context, id string, epoch int64, user, r string, unpaid bool) (bool, error) {
	return thaw(g.freezer, func() (bool, error) { return g.Inventory.Return(ctx, id, epoch, user, r, unpaid) })
}
func (g frozenGate) Counts(ctx context.Context, id string, epoch int64) (sale.Counts, error) {
	return thaw(g.freezer, func() (sale.Counts, error) { return g.Inventory.Counts(ctx, id, epoch) })
}
func (g frozenGate) Next(ctx context.Context, id string, epoch int64, worker string, max int, wait time.Duration) ([]sale.Entry, error) {
	return thaw(g.freezer, func() ([]sale.Entry, error) { return g.Inventory.Next(ctx, id, epoch, worker, max, wait) })
}

type frozenLedger struct {
	sale.Ledger
	*freezer
}

func (l frozenLedger) CreateOrders(ctx context.Context, epoch int64, rs []sale.Reservation, now time.Time) ([]sale.OrderResult, error) {
	after(300 * time.Millisecond) // so that something is in the stream most of the time
	return thaw(l.freezer, func() ([]sale.OrderResult, error) { return l.Ledger.CreateOrders(ctx, epoch, rs, now) })
}
func (l frozenLedger) Sale(ctx context.Context, id string) (sale.Sale, error) {
	return thaw(l.freezer, func() (sale.Sale, error) { return l.Ledger.Sale(ctx, id) })
}
func (l frozenLedger) LiveSales(ctx context.Context) ([]sale.Sale, error) {
	return thaw(l.freezer, func() ([]sale.Sale, error) { return l.Ledger.LiveSales(ctx) })
}
func (l frozenLedger) NextEpoch(ctx context.Context, id string, epoch int64, now time.Time) (sale.Sale, error) {
	return thaw(l.freezer, func() (sale.Sale, error) { return l.Ledger.NextEpoch(ctx, id, epoch, now) })
}
func (l frozenLedger) InitialState(ctx context.Context, id string) (sale.InitialState, error) {
	return thaw(l.freezer, func() (sale.InitialState, error) { return l.Ledger.InitialState(ctx, id) })
}
func (l frozenLedger) MarkRecovered(ctx context.Context, id string, epoch int64, now time.Time) (sale.Sale, error) {
	return thaw(l.freezer, func() (sale.Sale, error) { return l.Ledger.MarkRecovered(ctx, id, epoch, now) })
}
func (l frozenLedger) Order(ctx context.Context, id string) (sale.Order, error) {
	return thaw(l.freezer, func() (sale.Order, error) { return l.Ledger.Order(ctx, id) })
}
func (l frozenLedger) MarkLost(ctx context.Context, r sale.Reservation, now time.Time) error {
	return thaw1(l.freezer, func() error { return l.Ledger.MarkLost(ctx, r, now) })
}
func (l frozenLedger) Expire(ctx context.Context, now time.Time, max int) ([]sale.Order, error) {
	return thaw(l.freezer, func() ([]sale.Order, error) { return l.Ledger.Expire(ctx, now, max) })
}
func (l frozenLedger) Unreturned(ctx context.Context, max int) ([]sale.Order, error) {
	return thaw(l.freezer, func() ([]sale.Order, error) { return l.Ledger.Unreturned(ctx, max) })
}
func (l frozenLedger) MarkReturned(ctx context.Context, ids ...string) error {
	return thaw1(l.freezer, func() error { return l.Ledger.MarkReturned(ctx, ids...) })
}

// TestFrozenShops runs two shops that freeze now and then, on an inventory that loses its state
// but no stream. Every acknowledged reservation becomes an order, and no unit is sold twice or
// missing.
func TestFrozenShops(t *testing.T) {
	rounds := uint64(2)
	if os.Getenv("FLASHSALE_LONG") == "1" {
		rounds = 100
	}
	for seed := range rounds {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			inWorld(t, func(w *world) { frozen(w, rand.New(rand.NewPCG(seed, 1))) })
		})
	}
}

func frozen(w *world, rnd *rand.Rand) {
	var shops [2]*shop.Shop
	var ices [2]*freezer
	for i := range shops {
		f := &freezer{}
		ices[i] = f
		shops[i] = w.started(string(rune('a'+i)), func(c *shop.Config) {
			c.Inventory, c.Ledger = frozenGate{w.engine, f}, frozenLedger{w.ledger, f}
		})
		defer shops[i].Stop()
	}
	w.Shop = shops[0]
	d := draft(8)
	d.PayWithin = 6 * time.Second
	if rnd.IntN(2) == 0 {
		d.StartsAt = time.Now().Add(-time.Second)
	}
	s := w.exposed(d)
	w.opens(s)
	var mu sync.Mutex
	receipts := map[string]string{}
	var stop atomic.Bool
	var buyers sync.WaitGroup
	for i := range 24 {
		mine := rand.New(rand.NewPCG(rnd.Uint64(), 2))
		buyers.Go(func() {
			for n := 0; !stop.Load(); n++ {
				user, desk := fmt.Sprintf("user-%d-%d", i, n), shops[mine.IntN(2)]
				turn, err := desk.Join(w.ctx, user, s.ID, "")
				for tries := 0; tries < 20 && err == nil && turn.State == sale.Waiting; tries++ {
					after(turn.Poll)
					turn, err = shops[mine.IntN(2)].Status(w.ctx, user, s.ID, turn.Ticket)
				}
				if err == nil && turn.Token != "" {
					if b, err := shops[mine.IntN(2)].Buy(w.ctx, user, s.ID, turn.Token, ""); err == nil && b.Reason == sale.OK {
						mu.Lock()
						receipts[b.Receipt.Receipt] = user
						mu.Unlock()
					}
				}
				after(200 * time.Millisecond)
			}
		})
	}
	for range 12 {
		after(time.Duration(rnd.IntN(6000)) * time.Millisecond)
		if rnd.IntN(4) > 0 {
			row, err := w.ledger.Sale(w.ctx, s.ID)
			if err != nil {
				w.Fatal(err)
			}
			if err := w.engine.Close(w.ctx, s.ID, row.Epoch); err != nil {
				w.Fatal(err)
			}
		}
		after(time.Duration(rnd.IntN(600)) * time.Millisecond)
		ices[rnd.IntN(2)].freeze(time.Duration(rnd.IntN(30_000)) * time.Millisecond)
	}
	after(45 * time.Second)
	stop.Store(true)
	buyers.Wait()
	w.until("all to come to its end", time.Minute, func() bool {
		tally, err := w.ledger.Totals(w.ctx, s.ID)
		c, err2 := w.engine.Counts(w.ctx, s.ID, tally.Sale.Epoch)
		return err == nil && err2 == nil && tally.Pending == 0 && c.Backlog == 0 && c.Free == 8
	})
	states := map[sale.OrderState]int{}
	for receipt, user := range receipts {
		r, err := shops[1].Order(w.ctx, user, receipt)
		if err != nil {
			w.Error(err)
		}
		states[r.State]++
	}
	tally := w.agrees(s.ID)
	w.Logf("epoch %d, %d acknowledged: %v; %+v", tally.Sale.Epoch, len(receipts), states, tally)
	if states[sale.Expired] != len(receipts) || tally.Rejected != 0 || tally.Lost != 0 || len(receipts) < 20 {
		w.Errorf("%d acknowledged became %v; %d rejected, %d lost; want all of them expired orders", len(receipts), states, tally.Rejected, tally.Lost)
	}
}
