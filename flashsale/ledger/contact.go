package ledger

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	"github.com/floodweir/weir/flashsale/ledger/internal/database"
	"github.com/floodweir/weir/flashsale/sale"
)

// SetContact implements sale.Ledger. It does not change the time at which the order's state
// changed.
func (l *orders) SetContact(ctx context.Context, user, reservation string, c sale.Contact, _ time.Time) (sale.Order, error) {
	c = c.Trimmed()
	if err := c.Validate(); err != nil {
		return sale.Order{}, fail("contact", err)
	}
	update := "UPDATE orders SET name = $3, phone = $4 WHERE reservation = $1 AND usr = $2 AND state IN ('pending_pay', 'paid')"
	args := []any{database.Storable(reservation), database.Storable(user), c.Name, c.Phone}
	if c.Address != (sale.Address{}) {
		update = "UPDATE orders SET name = $3, phone = $4, address = $5 WHERE reservation = $1 AND usr = $2 AND (state = 'pending_pay' OR state = 'paid' AND address = $5)"
		args = append(args, addressText(c.Address))
	}
	var o sale.Order
	err := fail("contact", l.db.Do(ctx, database.Write, func(x *database.Tx) error {
		n, err := x.Exec(update, args...)
		if err != nil {
			return err
		}
		if o, err = order(x, reservation, ""); err != nil {
			return err
		}
		switch {
		case o.User != user:
			return fmt.Errorf("reservation %s: %w", quote(reservation), sale.ErrNotFound)
		case n == 0 && o.State == sale.Paid:
			return fmt.Errorf("%w: order %s is paid, and its address cannot change", sale.ErrConflict, o.ID)
		case n == 0:
			return fmt.Errorf("%w: order %s is %s, want pending_pay or paid", sale.ErrConflict, o.ID, o.State)
		}
		return nil
	}))
	if err != nil {
		return sale.Order{}, err
	}
	return o, nil
}

// storedAddress is the form of an address in the ledger, which never searches its fields.
type storedAddress struct {
	Country string `json:"country"`
	City    string `json:"city"`
	Street  string `json:"street"`
	Street2 string `json:"street2,omitempty"`
	Postal  string `json:"postal,omitempty"`
}

// addressText returns an address as JSON. Equal addresses have equal texts.
func addressText(a sale.Address) string {
	text, _ := json.Marshal(storedAddress(a)) // of strings alone: never an error
	return string(text)
}

// addressOf returns the address of an order; zero if the text is empty.
func addressOf(text string) (sale.Address, error) {
	if text == "" {
		return sale.Address{}, nil
	}
	var a storedAddress
	if err := json.Unmarshal([]byte(text), &a); err != nil {
		return sale.Address{}, fmt.Errorf("address: %w", err) // without the text
	}
	return sale.Address(a), nil
}

// RecentOrders implements sale.Ledger.
func (l *orders) RecentOrders(ctx context.Context, id, after string) ([]sale.Order, error) {
	var all []sale.Order
	err := fail("recent", l.db.Do(ctx, database.Read, func(x *database.Tx) error {
		k, err := load(x, id, false)
		if err != nil {
			return err
		}
		where, args := "orders.sale = $1", []any{k.ID}
		if after != "" {
			o, err := order(x, after, "")
			if err == nil && o.Sale != k.ID {
				err = fmt.Errorf("reservation %s: %w", quote(after), sale.ErrNotFound)
			}
			if err != nil {
				return err
			}
			where += " AND (orders.at, orders.reservation) < ($2, $3)"
			args = append(args, millis(o.At), o.ID)
		}
		all, err = database.List(x, scanOrder, "SELECT "+orderColumns+" FROM orders WHERE "+where+
			" AND orders.state IN ('pending_pay', 'paid', 'expired', 'cancelled') ORDER BY orders.at DESC, orders.reservation DESC LIMIT 100", args...)
		return err
	}))
	return all, err
}
