package ledger

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"time"

	"github.com/floodweir/weir/flashsale/sale"
)

// Pay takes a payment: it pays a pending order before its time is over (until PayBy,
// inclusive), and is REFUND_DUE otherwise. The same payment again returns what it got; one
// of the same ID for another reservation or amount is sale.ErrConflict. A reservation that
// the Ledger has not been told of yet is sale.ErrNotFound, and the payment is not taken.
func (l *Ledger) Pay(ctx context.Context, p sale.Payment, now time.Time) (sale.Paid, error) {
	err := word("payment", p.ID, 1, 64)
	if p.Amount < 0 {
		err = errors.Join(err, fmt.Errorf("%w: amount = %d, want 0 or more", sale.ErrInvalid, p.Amount))
	}
	if err != nil {
		return sale.Paid{}, l.fail("pay", err)
	}
	var paid sale.Paid
	err = l.write(ctx, "pay", "", func(x *tx) error {
		// Whoever pays, cancels or expires this order waits here for the other.
		o, err := order(x, p.Reservation, "{lock:orders}")
		if err != nil {
			return err
		}
		accept := o.State == sale.PendingPay && milliUp(now) <= milli(o.PayBy) && p.Amount == o.Price
		state := "refund_due"
		if accept {
			state = "accepted"
		}
		n, err := x.exec("INSERT INTO payments (id, reservation, amount, state, at) VALUES ($1, $2, $3, $4, $5) ON CONFLICT (id) DO NOTHING",
			p.ID, o.ID, p.Amount, state, milli(now))
		if err != nil {
			return err
		}
		if n == 0 {
			paid, err = taken(x, p, o)
			return err
		}
		l.fault.At(sale.PayTaken)
		if accept {
			if err := accepted(x, p, o, now); err != nil {
				return err
			}
			l.fault.At(sale.PayMarked)
		}
		o, err = order(x, p.Reservation, "")
		paid = sale.Paid{Order: o, RefundDue: !accept}
		return err
	})
	if err != nil {
		return sale.Paid{}, err
	}
	if !paid.Again {
		l.fault.At(sale.PayCommitted)
	}
	return paid, nil
}

// accepted makes a pending order, whose row is held, a paid one.
func accepted(x *tx, p sale.Payment, o sale.Order, now time.Time) error {
	n, err := x.exec("UPDATE orders SET state = 'paid', payment = $2, changed = $3 WHERE reservation = $1 AND state = 'pending_pay'", o.ID, p.ID, milli(now))
	if err == nil && n != 1 {
		err = fmt.Errorf("order %s changed while it was held", o.ID)
	}
	if err != nil {
		return err
	}
	_, err = x.exec("UPDATE sales SET paid = paid + 1 WHERE id = $1", o.Sale)
	return err
}

// taken returns what a payment got before.
func taken(x *tx, p sale.Payment, o sale.Order) (sale.Paid, error) {
	var reservation, state string
	var amount int64
	err := x.row("SELECT reservation, amount, state FROM payments WHERE id = $1", p.ID).Scan(&reservation, &amount, &state)
	switch {
	case errors.Is(err, sql.ErrNoRows):
		return sale.Paid{}, fmt.Errorf("%w: payment %s is being taken", sale.ErrUnavailable, p.ID)
	case err != nil:
		return sale.Paid{}, err
	case reservation != p.Reservation || amount != p.Amount:
		return sale.Paid{}, fmt.Errorf("%w: payment %s was taken for another reservation or amount", sale.ErrConflict, p.ID)
	}
	return sale.Paid{Order: o, RefundDue: state == "refund_due", Again: true}, nil
}
