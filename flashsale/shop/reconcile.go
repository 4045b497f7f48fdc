package shop

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/floodweir/weir/flashsale/sale"
)

// steadyFor is how long Reconcile waits for a sale whose stream is busy.
const steadyFor = 5 * time.Second

// Reconcile implements sale.MerchantService. First what is on its way comes to its end:
// orders that are over give their units back, the Inventory gets the units and the pause that the
// Ledger has. What differs then though the stream is empty is mended by building the Inventory's
// state again from the Ledger. While reservations come in all the time it is ErrConflict:
// pause the sale.
func (s *Shop) Reconcile(ctx context.Context, merchant, id string) (sale.ReconcileResult, error) {
	var r sale.ReconcileResult
	if _, err := s.own(ctx, merchant, id); err != nil {
		return r, err
	}
	l := s.live(id)
	if l == nil {
		return r, nil // over: there is nothing at the Inventory
	}
	p := l.snap.Load()
	c, err := s.count(ctx, id, p.sale.Epoch)
	if errors.Is(err, sale.ErrStale) {
		kick(l.kept)
		return r, fmt.Errorf("shop: reconcile: %w: the inventory is being built again", sale.ErrConflict)
	}
	if err != nil {
		return r, away("reconcile", err)
	}
	r.FreeBefore = c.Free
	if r.Returned, err = s.returnOf(ctx, id); err != nil {
		return r, away("reconcile", err)
	}
	row, c, err := s.steady(ctx, l, &r)
	if err != nil {
		return r, err
	}
	r.Changed = r.Returned
	if c.Stock < row.Stock {
		r.Changed++
	}
	if c.Paused != (row.State != sale.Exposed) {
		r.Changed++
	}
	if c.Stock < row.Stock || c.Paused != (row.State != sale.Exposed) {
		s.gateFollows(ctx, row)
		if row, c, err = s.steady(ctx, l, &r); err != nil {
			return r, err
		}
	}
	r.Free = c.Free
	if diff := c.Reserved - row.Sold; diff != 0 && row.State != sale.Ended {
		k := &keeper{Shop: s, live: l}
		if err := k.buildAgain(ctx, row); err != nil {
			return r, away("reconcile", err)
		}
		if _, c, err = s.steady(ctx, l, &r); err != nil {
			return r, err
		}
		r.Dropped = int(max(0, diff))
		r.Changed += int(max(diff, -diff))
		r.Free = c.Free
	}
	return r, nil
}

// returnOf gives back the units of one sale's orders that are over.
func (s *Shop) returnOf(ctx context.Context, id string) (int, error) {
	total := 0
	for {
		ask, cancel := s.within(ctx)
		orders, err := s.Ledger.Unreturned(ask, sweepBatch)
		cancel()
		if err != nil {
			return total, err
		}
		var mine []sale.Order
		for _, o := range orders {
			if o.Sale == id {
				mine = append(mine, o)
			}
		}
		n, err := s.giveBackThese(ctx, mine)
		total += n
		if err != nil || n == 0 || len(orders) < sweepBatch {
			return total, err
		}
	}
}

// steady waits until the stream of a sale is empty and neither side changes, so that both
// can be compared. While they differ it gives units back and adds them to r.Returned: an
// order that ends meanwhile is over in the Ledger first.
func (s *Shop) steady(ctx context.Context, l *live, r *sale.ReconcileResult) (sale.Sale, sale.Counts, error) {
	ctx, cancel := context.WithTimeout(ctx, steadyFor)
	defer cancel()
	tick := time.NewTicker(50 * time.Millisecond)
	defer tick.Stop()
	var lastRow sale.Sale
	var last sale.Counts
	settled := false // between the last look and this one every unit was given back
	for n := 0; ; n++ {
		row, err := s.Ledger.Sale(ctx, l.id)
		if err != nil {
			return row, last, away("reconcile", err)
		}
		c, err := s.Inventory.Counts(ctx, l.id, row.Epoch)
		if err != nil && !errors.Is(err, sale.ErrStale) {
			return row, c, away("reconcile", err)
		}
		same := n > 0 && err == nil && c.Backlog == 0 && row.Sold == lastRow.Sold && row.Epoch == lastRow.Epoch &&
			c.Free == last.Free && c.Reserved == last.Reserved && c.Stock == last.Stock
		if same && (settled || c.Reserved == row.Sold) {
			return row, c, nil
		}
		lastRow, last, settled = row, c, false
		if err == nil && c.Reserved != row.Sold {
			given, err := s.returnOf(ctx, l.id)
			r.Returned += given
			if settled = given == 0 && err == nil; err != nil && !errors.Is(err, sale.ErrStale) {
				return row, c, away("reconcile", err)
			}
		}
		select {
		case <-ctx.Done():
			return row, c, fmt.Errorf("shop: reconcile: %w: the sale is busy: pause it first", sale.ErrConflict)
		case <-tick.C:
		}
	}
}
