package shop

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/floodweir/weir/flashsale/sale"
)

// steadyWithin bounds how long Reconcile waits for a busy sale.
const steadyWithin = 5 * time.Second

// Reconcile implements sale.MerchantService. It first returns the units of expired and
// cancelled orders. Then it sets the stock and the pause of the inventory to those of the
// ledger. If both sides still differ while the stream is empty, it rebuilds the inventory from
// the ledger. While new reservations keep coming, it fails with ErrConflict: pause the sale
// first.
func (m *merchants) Reconcile(ctx context.Context, merchant, id string) (sale.ReconcileResult, error) {
	var r sale.ReconcileResult
	if _, err := m.Sale(ctx, merchant, id); err != nil {
		return r, err
	}
	l := m.catalog.get(id)
	if l == nil {
		return r, nil // finished: there is no inventory state
	}
	c, err := m.count(ctx, id, l.snapshot.Load().sale.Epoch)
	if errors.Is(err, sale.ErrStale) {
		signal(l.syncNow)
		return r, fmt.Errorf("shop: reconcile: %w: the inventory is being recovered", sale.ErrConflict)
	}
	if err != nil {
		return r, wrap("reconcile", err)
	}
	r.FreeBefore = c.Free
	if r.Returned, err = m.sweeper.returnSale(ctx, id); err != nil {
		return r, wrap("reconcile", err)
	}
	row, c, err := m.awaitSteady(ctx, l, &r)
	if err != nil {
		return r, err
	}
	r.Changed = r.Returned
	lessStock, otherPause := c.Stock < row.Stock, c.Paused != (row.State != sale.Exposed)
	if lessStock {
		r.Changed++
	}
	if otherPause {
		r.Changed++
	}
	if lessStock || otherPause {
		m.follow(ctx, row)
		if row, c, err = m.awaitSteady(ctx, l, &r); err != nil {
			return r, err
		}
	}
	r.Free = c.Free
	if diff := c.Reserved - row.Sold; diff != 0 && row.State != sale.Ended {
		if _, err := m.recovery(l).rebuild(ctx, row); err != nil {
			return r, wrap("reconcile", err)
		}
		if _, c, err = m.awaitSteady(ctx, l, &r); err != nil {
			return r, err
		}
		r.Dropped = int(max(0, diff))
		r.Changed += int(max(diff, -diff))
		r.Free = c.Free
	}
	return r, nil
}

// awaitSteady waits until the stream of a sale is empty and neither side changes, so that
// both can be compared. While they differ it returns units and adds them to r.Returned,
// because an order that expires meanwhile does so in the ledger first.
func (m *merchants) awaitSteady(ctx context.Context, l *liveSale, r *sale.ReconcileResult) (sale.Sale, sale.Counts, error) {
	ctx, cancel := context.WithTimeout(ctx, steadyWithin)
	defer cancel()
	tick := time.NewTicker(50 * time.Millisecond)
	defer tick.Stop()
	var lastRow sale.Sale
	var last sale.Counts
	allReturned := false // since the last read there was no unit to return
	for n := 0; ; n++ {
		row, err := m.ledger.Sale(ctx, l.id)
		if err != nil {
			return row, last, wrap("reconcile", err)
		}
		c, err := m.inventory.Counts(ctx, l.id, row.Epoch)
		if err != nil && !errors.Is(err, sale.ErrStale) {
			return row, c, wrap("reconcile", err)
		}
		same := n > 0 && err == nil && c.Backlog == 0 && row.Sold == lastRow.Sold && row.Epoch == lastRow.Epoch &&
			c.Free == last.Free && c.Reserved == last.Reserved && c.Stock == last.Stock
		if same && (allReturned || c.Reserved == row.Sold) {
			return row, c, nil
		}
		lastRow, last, allReturned = row, c, false
		if err == nil && c.Reserved != row.Sold {
			returned, err := m.sweeper.returnSale(ctx, l.id)
			r.Returned += returned
			if allReturned = returned == 0 && err == nil; err != nil && !errors.Is(err, sale.ErrStale) {
				return row, c, wrap("reconcile", err)
			}
		}
		select {
		case <-ctx.Done():
			return row, c, fmt.Errorf("shop: reconcile: %w: the sale is busy: pause it first", sale.ErrConflict)
		case <-tick.C:
		}
	}
}
