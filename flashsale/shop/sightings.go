package shop

import (
	"context"
	"time"

	"github.com/floodweir/weir/flashsale/sale"
)

const (
	sightings     = 10_000                 // that may wait to be written
	sightingBatch = 500                    // written at once
	sightingEvery = 250 * time.Millisecond // or after so long
)

// Saw implements sale.BuyerService.
func (s *Shop) RecordNetwork(user, id, network string) {
	select {
	case s.sighted <- sale.NetworkUse{Sale: id, User: user, Network: network, At: s.now()}:
	default:
		s.tally.unseen.Add(1)
	}
}

// watcher writes from where users bought, some at once, until ctx is done; then what waits.
func (s *Shop) watcher(ctx context.Context) {
	var seen []sale.NetworkUse
	tick := time.NewTicker(sightingEvery)
	defer tick.Stop()
	for {
		select {
		case one := <-s.sighted:
			if seen = append(seen, one); len(seen) < sightingBatch {
				continue
			}
		case <-tick.C:
		case <-ctx.Done():
			for {
				select {
				case one := <-s.sighted:
					seen = append(seen, one)
					continue
				default:
				}
				s.saw(ctx, seen)
				return
			}
		}
		s.saw(ctx, seen)
		seen = seen[:0]
	}
}

// saw writes them. They are dropped if the Ledger does not take them: what a merchant is
// shown may be less than there was, and nothing waits for it.
func (s *Shop) saw(ctx context.Context, seen []sale.NetworkUse) {
	if len(seen) == 0 {
		return
	}
	ask, cancel := s.inHand(ctx)
	defer cancel()
	if err := s.Ledger.RecordNetworks(ask, seen); err != nil {
		s.tally.ledgerAway.Add(1)
		s.tally.unseen.Add(int64(len(seen)))
		s.Log.Warn("it is not noted from where users bought", "users", len(seen), "error", err)
	}
}

// Networks implements sale.MerchantService.
func (s *Shop) SharedNetworks(ctx context.Context, merchant, id string) ([]sale.SharedNetwork, error) {
	if _, err := s.own(ctx, merchant, id); err != nil {
		return nil, err
	}
	ask, cancel := s.within(ctx)
	defer cancel()
	all, err := s.Ledger.SharedNetworks(ask, id)
	if err != nil {
		return nil, away("networks", err)
	}
	return all, nil
}
