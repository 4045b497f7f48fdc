package shop

import (
	"context"
	"errors"
	"time"

	"github.com/floodweir/weir/flashsale/crashpoint"
	"github.com/floodweir/weir/flashsale/sale"
)

const sweepBatch = 500

// sweeper expires unpaid orders, and returns the units of expired and cancelled orders to the
// inventory.
type sweeper struct {
	*env
	catalog *catalog
	wake    chan struct{} // return units now
}

func (s *sweeper) run(ctx context.Context) {
	tick := time.NewTicker(sweepEvery)
	defer tick.Stop()
	for n := 0; ; n++ {
		woken := false
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		case <-s.wake:
			woken = true
		}
		// Units of orders that another process has expired are usually returned by that process.
		if s.expire(ctx) || woken || n%int(patrolEvery/sweepEvery) == 0 {
			s.returnAll(ctx)
		}
	}
}

// expire expires unpaid orders and reports whether there were any.
func (s *sweeper) expire(ctx context.Context) (found bool) {
	for ctx.Err() == nil {
		call, cancel := s.callToEnd(ctx)
		expired, err := s.ledger.Expire(call, s.now(), sweepBatch)
		cancel()
		if err != nil {
			s.stats.ledgerErrors.Add(1)
			return true
		}
		found = found || len(expired) > 0
		s.stats.expired.Add(int64(len(expired)))
		if len(expired) < sweepBatch {
			return found
		}
	}
	return found
}

func (s *sweeper) returnAll(ctx context.Context) {
	for ctx.Err() == nil {
		orders, err := s.unreturned(ctx)
		if err != nil || len(orders) == 0 {
			return
		}
		if n, err := s.returnUnits(ctx, orders); err != nil || n < len(orders) || n < sweepBatch {
			return
		}
	}
}

// returnSale returns the units of one sale's expired and cancelled orders.
func (s *sweeper) returnSale(ctx context.Context, id string) (int, error) {
	total := 0
	for {
		orders, err := s.unreturned(ctx)
		if err != nil {
			return total, err
		}
		var ofSale []sale.Order
		for _, o := range orders {
			if o.Sale == id {
				ofSale = append(ofSale, o)
			}
		}
		n, err := s.returnUnits(ctx, ofSale)
		total += n
		if err != nil || n == 0 || len(orders) < sweepBatch {
			return total, err
		}
	}
}

func (s *sweeper) unreturned(ctx context.Context) ([]sale.Order, error) {
	ctx, cancel := s.call(ctx)
	defer cancel()
	return s.ledger.Unreturned(ctx, sweepBatch)
}

// returnUnits returns units to the inventory and then records it in the ledger; returning a
// unit twice is harmless. After an error it skips the other orders of that sale. It returns
// how many orders it recorded.
func (s *sweeper) returnUnits(ctx context.Context, orders []sale.Order) (int, error) {
	var ids []string
	var failed error
	failing := map[string]bool{}
	for _, o := range orders {
		if ctx.Err() != nil {
			break
		}
		if failing[o.Sale] {
			continue
		}
		s.crash.At(crashpoint.ReturnAsked)
		if err := s.returnUnit(ctx, &o); err != nil {
			failed, failing[o.Sale] = err, true
			continue
		}
		ids = append(ids, o.ID)
	}
	if len(ids) == 0 {
		return 0, failed
	}
	s.crash.At(crashpoint.ReturnGiven)
	ctx, cancel := s.callToEnd(ctx)
	defer cancel()
	if err := s.ledger.MarkReturned(ctx, ids...); err != nil {
		return 0, err
	}
	s.crash.At(crashpoint.ReturnMarked)
	s.stats.returned.Add(int64(len(ids)))
	return len(ids), failed
}

// returnUnit returns one unit at the current epoch of the sale.
func (s *sweeper) returnUnit(ctx context.Context, o *sale.Order) error {
	l := s.catalog.get(o.Sale)
	p, err := s.catalog.find(ctx, o.Sale)
	if err != nil {
		return err
	}
	call, cancel := s.callToEnd(ctx)
	defer cancel()
	_, err = s.inventory.Return(call, o.Sale, p.sale.Epoch, o.User, o.ID, !o.WasPaid)
	switch {
	case err == nil:
		return nil
	case errors.Is(err, sale.ErrStale) && p.sale.State == sale.Ended:
		return nil // the sale has ended and has no inventory state
	case errors.Is(err, sale.ErrStale) && l != nil:
		signal(l.syncNow)
	}
	return err
}
