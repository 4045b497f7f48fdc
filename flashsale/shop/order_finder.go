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
// transfers it to the inventory's present epoch. If that has no unit for it, find marks it as
// lost, and it never becomes an order.
func (f *orderFinder) find(ctx context.Context, r sale.Reservation) (sale.Order, error) {
	if l := f.catalog.get(r.Sale); l != nil {
		f.touch(l)
	}
	return f.outcome(ctx, r)
}

// outcome is find for the background work, which does not make the sale busy.
func (f *orderFinder) outcome(ctx context.Context, r sale.Reservation) (sale.Order, error) {
	o, err := f.inLedger(ctx, r)
	if err != nil || o.State != sale.Reserved {
		if err == nil {
			f.settle(r)
		}
		return o, err
	}
	epoch, err := f.missing(ctx, r)
	if err != nil || epoch == 0 {
		return o, err
	}
	// It may have become an order in the meantime.
	if o, err = f.inLedger(ctx, r); err != nil || o.State != sale.Reserved {
		return o, err
	}
	call, cancel := f.call(ctx)
	defer cancel()
	if r.Epoch < epoch {
		switch ok, err := f.inventory.Transfer(call, epoch, r); {
		case errors.Is(err, sale.ErrStale) && f.catalog.get(r.Sale) != nil:
			return o, nil // the inventory is being recovered again
		case err != nil && !errors.Is(err, sale.ErrStale) && !errors.Is(err, sale.ErrInvalid):
			return o, wrap("order", err)
		case ok:
			f.stats.transferred.Add(1)
			if l := f.catalog.get(r.Sale); l != nil {
				f.streams.add(l)
			}
			return o, nil
		}
	}
	switch err := f.ledger.MarkLost(call, r, f.now()); {
	case errors.Is(err, sale.ErrConflict):
		return f.inLedger(ctx, r)
	case err != nil:
		return o, wrap("order", err)
	}
	f.stats.lost.Add(1)
	f.log.Warn("acknowledged reservation lost", "sale", r.Sale, "epoch", r.Epoch, "reservation", r.ID)
	f.settle(r)
	if p, err := f.catalog.find(ctx, r.Sale); err == nil {
		// If the inventory has the reservation after all, its unit is free again.
		f.inventory.Return(call, r.Sale, p.sale.Epoch, r.User, r.ID, false)
	}
	o.State = sale.Lost
	return o, nil
}

// settleEarlier finds the outcome of reservations that this process acknowledged in epochs
// before the given one, the oldest first, for up to within.
func (f *orderFinder) settleEarlier(ctx context.Context, l *liveSale, epoch int64, within time.Duration) {
	began := time.Now()
	for _, r := range l.unsettled(time.Time{}, epoch, maxAcknowledged) {
		if _, err := f.outcome(ctx, r); err != nil || time.Since(began) > within {
			return
		}
	}
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

// missing returns the epoch of the sale if a reservation that is not an order is not in the
// inventory either, and 0 otherwise.
func (f *orderFinder) missing(ctx context.Context, r sale.Reservation) (int64, error) {
	ctx, cancel := f.call(ctx)
	defer cancel()
	row, err := f.ledger.Sale(ctx, r.Sale)
	if err != nil {
		return 0, wrap("order", err)
	}
	if r.Epoch > row.Epoch {
		return 0, nil
	}
	ticket, err := f.inventory.Status(ctx, r.Sale, row.Epoch, r.User)
	switch {
	case errors.Is(err, sale.ErrStale):
		// The streams of a sale that has finished here are drained; those of any other will be.
		if row.State == sale.Ended && f.catalog.get(r.Sale) == nil {
			return row.Epoch, nil
		}
		return 0, nil
	case err != nil:
		return 0, wrap("order", err)
	}
	for _, held := range ticket.Reserved {
		if held.ID == r.ID {
			return 0, nil
		}
	}
	// The ledger accepts no reservation of an earlier epoch any more.
	if r.Epoch < row.Epoch || f.now().Sub(r.At) > settleWithin {
		return row.Epoch, nil
	}
	return 0, nil
}
