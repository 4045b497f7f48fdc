package shop

import (
	"context"
	"errors"
	"time"

	"github.com/floodweir/weir/flashsale/sale"
)

// settleWithin bounds how long a reservation may be in neither the inventory nor the ledger.
// After that it is lost.
const settleWithin = 10 * time.Second

// orderFinder finds the outcome of reservations.
type orderFinder struct {
	*env
	catalog *catalog
}

// find returns the order of a genuine reservation, or one in state Reserved. If the
// reservation is in neither the inventory nor the ledger and cannot be between them, find
// marks it as lost, and it never becomes an order.
func (f *orderFinder) find(ctx context.Context, r sale.Reservation) (sale.Order, error) {
	o, err := f.inLedger(ctx, r)
	if err != nil || o.State != sale.Reserved {
		if err == nil {
			f.settle(r)
		}
		return o, err
	}
	lost, err := f.isLost(ctx, r)
	if err != nil || !lost {
		return o, err
	}
	// It may have become an order in the meantime.
	if o, err = f.inLedger(ctx, r); err != nil || o.State != sale.Reserved {
		return o, err
	}
	call, cancel := f.call(ctx)
	defer cancel()
	switch err := f.ledger.MarkLost(call, r, f.now()); {
	case errors.Is(err, sale.ErrConflict):
		return f.inLedger(ctx, r)
	case err != nil:
		return o, wrap("order", err)
	}
	f.stats.lost.Add(1)
	f.settle(r)
	if p, err := f.catalog.find(ctx, r.Sale); err == nil {
		// If the inventory has the reservation after all, its unit is free again.
		f.inventory.Return(call, r.Sale, p.sale.Epoch, r.User, r.ID)
	}
	o.State = sale.Lost
	return o, nil
}

func (f *orderFinder) settle(r sale.Reservation) {
	if l := f.catalog.get(r.Sale); l != nil {
		l.settle(r.ID)
	}
}

// inLedger returns the order of a reservation, or one in state Reserved if there is none.
func (f *orderFinder) inLedger(ctx context.Context, r sale.Reservation) (sale.Order, error) {
	ctx, cancel := f.call(ctx)
	defer cancel()
	o, err := f.ledger.Order(ctx, r.ID)
	if errors.Is(err, sale.ErrNotFound) {
		return sale.Order{Reservation: r, State: sale.Reserved}, nil
	}
	if err != nil {
		return o, wrap("order", err)
	}
	return o, nil
}

// isLost reports whether a reservation that is not an order cannot become one.
func (f *orderFinder) isLost(ctx context.Context, r sale.Reservation) (bool, error) {
	ctx, cancel := f.call(ctx)
	defer cancel()
	row, err := f.ledger.Sale(ctx, r.Sale)
	if err != nil {
		return false, wrap("order", err)
	}
	if row.State == sale.Paused && row.StateReason == sale.Recovering || r.Epoch > row.Epoch {
		return false, nil
	}
	ticket, err := f.inventory.Status(ctx, r.Sale, row.Epoch, r.User)
	switch {
	case errors.Is(err, sale.ErrStale):
		// The streams of a sale that has finished here are drained; those of any other will be.
		return row.State == sale.Ended && f.catalog.get(r.Sale) == nil, nil
	case err != nil:
		return false, wrap("order", err)
	}
	for _, held := range ticket.Reserved {
		if held.ID == r.ID {
			return false, nil
		}
	}
	// The inventory has a state of this epoch, so the streams of earlier epochs are drained.
	return r.Epoch < row.Epoch || f.now().Sub(r.At) > settleWithin, nil
}
