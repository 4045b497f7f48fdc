package shop_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/floodweir/weir/flashsale/sale"
	"github.com/floodweir/weir/flashsale/shop"
)

func isInvalid(err error) bool     { return errors.Is(err, sale.ErrInvalid) }
func isNotFound(err error) bool    { return errors.Is(err, sale.ErrNotFound) }
func isUnavailable(err error) bool { return errors.Is(err, sale.ErrUnavailable) }

// A babbler is an Inventory that delivers every entry three times, in any order, and poison
// besides.
type babbler struct {
	sale.Inventory
	mu     sync.Mutex
	again  []sale.Entry
	poison []sale.Entry
	done   map[string]bool
}

func (b *babbler) Next(ctx context.Context, id string, epoch int64, worker string, max int, wait time.Duration) ([]sale.Entry, error) {
	b.mu.Lock()
	extra := b.again[:min(len(b.again), max/2)]
	b.again = b.again[len(extra):]
	b.mu.Unlock()
	es, err := b.Inventory.Next(ctx, id, epoch, worker, max-len(extra), wait)
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, e := range es {
		for d := range 2 {
			e.Deliveries = 2 + d
			b.again = append(b.again, e)
		}
	}
	for i := range b.poison {
		b.poison[i].Deliveries++
		if !b.done[b.poison[i].ID] && len(extra)+len(es) < max {
			es = append(es, b.poison[i])
		}
	}
	es = append(es, extra...)
	rand.Shuffle(len(b.again), func(i, j int) { b.again[i], b.again[j] = b.again[j], b.again[i] })
	rand.Shuffle(len(es), func(i, j int) { es[i], es[j] = es[j], es[i] })
	return es, err
}

// Counts counts what Next has yet to deliver.
func (b *babbler) Counts(ctx context.Context, id string, epoch int64) (sale.Counts, error) {
	c, err := b.Inventory.Counts(ctx, id, epoch)
	b.mu.Lock()
	defer b.mu.Unlock()
	c.Backlog += int64(len(b.again))
	for _, p := range b.poison {
		if !b.done[p.ID] {
			c.Backlog++
		}
	}
	return c, err
}

func (b *babbler) Ack(ctx context.Context, id string, epoch int64, ids ...string) error {
	b.mu.Lock()
	for _, id := range ids {
		b.done[id] = true
	}
	b.mu.Unlock()
	return b.Inventory.Ack(ctx, id, epoch, ids...)
}

// TestDuplicatesAndPoison checks that entries that come three times and in any order make one order
// each; what can be no order is buried, and holds nothing else up.
func TestDuplicatesAndPoison(t *testing.T) {
	inWorld(t, func(w *world) {
		b := &babbler{Inventory: w.engine, done: map[string]bool{}}
		w.gate = b
		w.Shop = w.started("a")
		defer w.Shop.Stop()
		s := w.exposed(draft(200))
		b.mu.Lock()
		b.poison = []sale.Entry{
			{ID: "poison-1", Corrupt: "no JSON: it ends too soon"},
			{ID: "poison-2", Reservation: sale.Reservation{ID: "0123456789abcdef", Sale: "another", Epoch: 1, User: "u"}},
			{ID: "poison-3", Reservation: sale.Reservation{ID: "x", Sale: s.ID, Epoch: 1}},
			{ID: "poison-4", Reservation: sale.Reservation{ID: "0123456789abcdeg", Sale: s.ID, Epoch: 1, User: "u\x00", Slot: 77}},
		}
		b.mu.Unlock()
		w.opens(s)
		concurrently(200, func(user string) {
			if got := w.buys(w, user, s.ID); got.Reason != sale.OK {
				t.Errorf("%s: %+v", user, got)
				return
			}
		})
		w.until("all orders", 5*time.Second, func() bool {
			tally, err := w.ledger.Totals(w.ctx, s.ID)
			return err == nil && tally.Pending == 200 && tally.DeadLetters == 4
		})
		after(time.Second)
		if tally := w.agrees(s.ID); tally.Pending != 200 || tally.DeadLetters != 4 || tally.Rejected != 0 {
			t.Errorf("tally %+v", tally)
		}
	})
}

// A moody Ledger is unavailable or slow on request.
type moody struct {
	sale.Ledger
	away atomic.Bool
	slow atomic.Int64
}

func (m *moody) mood(ctx context.Context) error {
	if d := time.Duration(m.slow.Load()); d > 0 {
		select {
		case <-time.After(d):
		case <-ctx.Done():
			return fmt.Errorf("%w: %w", sale.ErrUnavailable, ctx.Err())
		}
	}
	if m.away.Load() {
		return fmt.Errorf("%w: gone", sale.ErrUnavailable)
	}
	return nil
}

func (m *moody) CreateOrders(ctx context.Context, epoch int64, rs []sale.Reservation, now time.Time) ([]sale.OrderResult, error) {
	if err := m.mood(ctx); err != nil {
		return nil, err
	}
	return m.Ledger.CreateOrders(ctx, epoch, rs, now)
}

func (m *moody) LiveSales(ctx context.Context) ([]sale.Sale, error) {
	if err := m.mood(ctx); err != nil {
		return nil, err
	}
	return m.Ledger.LiveSales(ctx)
}

func (m *moody) Pay(ctx context.Context, p sale.Payment, now time.Time) (sale.PayResult, error) {
	if err := m.mood(ctx); err != nil {
		return sale.PayResult{}, err
	}
	return m.Ledger.Pay(ctx, p, now)
}

func (m *moody) Order(ctx context.Context, id string) (sale.Order, error) {
	if err := m.mood(ctx); err != nil {
		return sale.Order{}, err
	}
	return m.Ledger.Order(ctx, id)
}

func (m *moody) Sale(ctx context.Context, id string) (sale.Sale, error) {
	if err := m.mood(ctx); err != nil {
		return sale.Sale{}, err
	}
	return m.Ledger.Sale(ctx, id)
}

// TestLedgerAway checks that while the Ledger is away or slow one can reserve, and payments say that
// they cannot be taken; when it is back every reservation becomes an order.
func TestLedgerAway(t *testing.T) {
	for _, mood := range []string{"away", "slow"} {
		t.Run(mood, func(t *testing.T) {
			inWorld(t, func(w *world) {
				m := &moody{Ledger: w.ledger}
				w.Shop = w.started("a", func(c *shop.Config) { c.Ledger = m })
				defer w.Shop.Stop()
				d := draft(50)
				d.PayWithin = time.Minute
				s := w.exposed(d)
				w.opens(s)
				if mood == "away" {
					m.away.Store(true)
				} else {
					m.slow.Store(int64(5 * time.Second))
				}
				var mu sync.Mutex
				var receipts []string
				began := time.Now()
				concurrently(50, func(user string) {
					if b := w.buys(w, user, s.ID); b.Reason == sale.OK {
						mu.Lock()
						receipts = append(receipts, b.Receipt.Receipt)
						mu.Unlock()
					}
				})
				if took := time.Since(began); len(receipts) != 50 || took > 5*time.Second {
					t.Errorf("%d reservations in %v, want 50 at once", len(receipts), took)
				}
				began = time.Now()
				if _, err := w.Pay(w.ctx, receipts[0], "p", 1999); !isUnavailable(err) || time.Since(began) > 3*time.Second {
					t.Errorf("pay: %v after %v, want ErrUnavailable within 2 s", err, time.Since(began))
				}
				after(30 * time.Second)
				if c, _ := w.engine.Counts(w.ctx, s.ID, 1); mood == "away" && c.Backlog != 50 {
					t.Errorf("backlog %d, want 50", c.Backlog)
				}
				m.away.Store(false)
				m.slow.Store(0)
				w.until("all orders", 10*time.Second, func() bool {
					tally, err := w.ledger.Totals(w.ctx, s.ID)
					return err == nil && tally.Pending == 50
				})
				after(time.Second)
				w.agrees(s.ID)
			})
		})
	}
}
