package shop

import (
	"context"
	"errors"
	"fmt"

	"github.com/floodweir/weir/flashsale/sale"
)

// SetContact implements sale.BuyerService.
func (b *buyers) SetContact(ctx context.Context, user, receipt string, c sale.Contact) (sale.Receipt, error) {
	c = c.Trimmed()
	if err := c.Validate(); err != nil {
		return sale.Receipt{}, fmt.Errorf("shop: contact: %w", err)
	}
	r, err := b.openReceipt(user, receipt)
	if err != nil {
		return sale.Receipt{}, err
	}
	if c.Address != (sale.Address{}) {
		p, err := b.catalog.find(ctx, r.Sale)
		if err == nil {
			err = p.sale.CheckAddress(c.Address)
		}
		if err != nil {
			return sale.Receipt{}, fmt.Errorf("shop: contact: %w", err)
		}
	}
	call, cancel := b.call(ctx)
	defer cancel()
	o, err := b.ledger.SetContact(call, user, r.ID, c, b.now())
	if errors.Is(err, sale.ErrNotFound) {
		if o, err = b.finder.find(ctx, r); err != nil {
			return sale.Receipt{}, err
		}
		if o.State == sale.Reserved {
			return sale.Receipt{}, fmt.Errorf("shop: contact: %w: the order is not written yet", sale.ErrUnavailable)
		}
		if o, err = b.ledger.SetContact(call, user, r.ID, c, b.now()); errors.Is(err, sale.ErrNotFound) {
			return sale.Receipt{}, fmt.Errorf("shop: contact: %w: the reservation has no order", sale.ErrConflict)
		}
	}
	if err != nil {
		return sale.Receipt{}, wrap("contact", err)
	}
	return b.receiptOf(ctx, o), nil
}
