package shop

import (
	"context"
	"errors"

	"github.com/floodweir/weir/flashsale/pass"
	"github.com/floodweir/weir/flashsale/sale"
)

// boughtBefore returns what a ticket bought, by the ledger, or reason.
func (v *visit) boughtBefore(ctx context.Context, t pass.Token, reason sale.Reason) (sale.BuyResult, error) {
	ctx, cancel := v.call(ctx)
	defer cancel()
	orders, err := v.ledger.Orders(ctx, t.User)
	if err != nil && !errors.Is(err, sale.ErrNotFound) {
		return sale.BuyResult{}, wrap("orders", err)
	}
	for _, o := range orders {
		if o.Sale == t.Sale && o.Ticket == t.Ticket {
			return v.bought(o.Reservation, true), nil
		}
	}
	return v.notBought(reason), nil
}

// returnedUnit returns the reservation that a key of the user made in an earlier epoch and
// whose unit was returned, or nil. A rebuilt inventory does not know it, and the key would
// buy another unit. While the ledger is unavailable, returnedUnit returns nil.
func (v *visit) returnedUnit(ctx context.Context, t pass.Token, key string) *sale.Reservation {
	if key == "" || v.sale().Epoch == 1 {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, v.timeout/10)
	defer cancel()
	orders, err := v.ledger.Orders(ctx, t.User)
	if err != nil {
		return nil
	}
	for _, o := range orders {
		if o.Sale == t.Sale && o.Key == key && o.Epoch < v.sale().Epoch && (o.State == sale.Expired || o.State == sale.Cancelled) {
			return &o.Reservation
		}
	}
	return nil
}
