package shop

import (
	"context"
	"errors"
	"time"

	"github.com/floodweir/weir/flashsale/crashpoint"
	"github.com/floodweir/weir/flashsale/sale"
)

const sweepBatch = 500

// sweeper expires orders that were not paid, and gives back the units of those that are
// over.
func (s *Shop) sweeper(ctx context.Context) {
	tick := time.NewTicker(sweepEvery)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		case <-s.returns:
		}
		s.expire(ctx)
		s.giveBackAll(ctx)
	}
}

func (s *Shop) expire(ctx context.Context) {
	for ctx.Err() == nil {
		ask, cancel := s.inHand(ctx)
		gone, err := s.Ledger.Expire(ask, s.now(), sweepBatch)
		cancel()
		if err != nil {
			s.tally.ledgerAway.Add(1)
			return
		}
		s.tally.expired.Add(int64(len(gone)))
		if len(gone) < sweepBatch {
			return
		}
	}
}

func (s *Shop) giveBackAll(ctx context.Context) {
	for ctx.Err() == nil {
		ask, cancel := s.within(ctx)
		orders, err := s.Ledger.Unreturned(ask, sweepBatch)
		cancel()
		if err != nil || len(orders) == 0 {
			return
		}
		if n, err := s.giveBackThese(ctx, orders); err != nil || n < len(orders) || n < sweepBatch {
			return
		}
	}
}

// giveBackThese gives units back, and notes it: first the Inventory, then the Ledger, for a
// Inventory that gives a unit back twice is no harm. A sale whose Inventory does not take one is not
// asked for the others. It returns for how many it is noted.
func (s *Shop) giveBackThese(ctx context.Context, orders []sale.Order) (int, error) {
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
		s.Crash.At(crashpoint.ReturnAsked)
		if err := s.giveUnit(ctx, o.Reservation); err != nil {
			failed, failing[o.Sale] = err, true
			continue
		}
		ids = append(ids, o.ID)
	}
	if len(ids) == 0 {
		return 0, failed
	}
	s.Crash.At(crashpoint.ReturnGiven)
	ctx, cancel := s.inHand(ctx)
	defer cancel()
	if err := s.Ledger.MarkReturned(ctx, ids...); err != nil {
		return 0, err
	}
	s.Crash.At(crashpoint.ReturnMarked)
	s.tally.returned.Add(int64(len(ids)))
	return len(ids), failed
}

// giveUnit gives the unit of an order that is over to the Inventory, at the epoch that it is at.
func (s *Shop) giveUnit(ctx context.Context, r sale.Reservation) error {
	l := s.live(r.Sale)
	p, err := s.saleOf(ctx, r.Sale)
	if err != nil {
		return err
	}
	ask, cancel := s.inHand(ctx)
	defer cancel()
	_, err = s.Inventory.Return(ask, r.Sale, p.sale.Epoch, r.User, r.ID)
	switch {
	case err == nil:
		if l != nil {
			kick(l.wake)
		}
		return nil
	case errors.Is(err, sale.ErrStale) && p.sale.State == sale.Ended:
		return nil // there is nothing to sell, and nothing to give it back to
	case errors.Is(err, sale.ErrStale) && l != nil:
		kick(l.kept)
	}
	return err
}
