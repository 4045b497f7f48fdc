package shop

import (
	"context"
	"errors"
	"fmt"

	"github.com/floodweir/weir/flashsale/sale"
)

// SetContact implements sale.BuyerService.
func (s *Shop) SetContact(ctx context.Context, user, receipt string, c sale.Contact) (sale.Receipt, error) {
	c = c.Trimmed()
	if err := c.Validate(); err != nil {
		return sale.Receipt{}, fmt.Errorf("shop: contact: %w", err)
	}
	r, err := s.mine(user, receipt)
	if err != nil {
		return sale.Receipt{}, err
	}
	ask, cancel := s.within(ctx)
	defer cancel()
	o, err := s.Ledger.SetContact(ask, user, r.ID, c, s.now())
	if errors.Is(err, sale.ErrNotFound) {
		if o, err = s.order(ctx, r); err != nil {
			return sale.Receipt{}, err
		}
		if o.State == sale.Reserved {
			return sale.Receipt{}, fmt.Errorf("shop: contact: %w: the order is not written yet", sale.ErrUnavailable)
		}
		if o, err = s.Ledger.SetContact(ask, user, r.ID, c, s.now()); errors.Is(err, sale.ErrNotFound) {
			return sale.Receipt{}, fmt.Errorf("shop: contact: %w: it is no order", sale.ErrConflict)
		}
	}
	if err != nil {
		return sale.Receipt{}, away("contact", err)
	}
	return s.receiptOf(ctx, o), nil
}

// Recent implements sale.MerchantService.
func (s *Shop) RecentOrders(ctx context.Context, merchant, id, after string) ([]sale.Order, error) {
	if _, err := s.own(ctx, merchant, id); err != nil {
		return nil, err
	}
	ask, cancel := s.within(ctx)
	defer cancel()
	orders, err := s.Ledger.RecentOrders(ask, id, after)
	if err != nil {
		return nil, away("recent", err)
	}
	return orders, nil
}
