package ledger

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/floodweir/weir/flashsale/crashpoint"
	"github.com/floodweir/weir/flashsale/ledger/internal/database"
	"github.com/floodweir/weir/flashsale/ledger/internal/outbox"
	"github.com/floodweir/weir/flashsale/sale"
	"github.com/floodweir/weir/flashsale/webhook"
)

// refundedNote is the note of a cancelled order that was paid and that its merchant refunded.
const refundedNote = "refunded"

// RefundBy implements sale.Ledger. The order becomes cancelled and its payment REFUND_DUE. They
// are then as those of a payment that came after a cancellation, so the refund queue, the sweeper
// and a recovery need no other case. As any returned reservation, it counts for sale.Penalty.
func (l *orders) RefundBy(ctx context.Context, merchant, id, reservation, reason string, now time.Time) (sale.Order, error) {
	if err := validateName("reason", reason); err != nil {
		return sale.Order{}, fail("refund", err)
	}
	var o sale.Order
	changed := false
	err := fail("refund", l.db.Do(ctx, database.Write, func(x *database.Tx) (err error) {
		o, changed, err = l.refundIn(x, merchant, id, reservation, reason, now)
		return err
	}))
	if err != nil {
		return sale.Order{}, err
	}
	if changed {
		l.crash.At(crashpoint.CancelCommitted)
	}
	return o, nil
}

// refundIn refunds an order in a transaction, and reports whether it was not refunded before.
func (l *orders) refundIn(x *database.Tx, merchant, id, reservation, reason string, now time.Time) (o sale.Order, changed bool, err error) {
	if o, err = order(x, reservation, "{lock:orders}"); err != nil {
		return o, false, err
	}
	k, err := load(x, o.Sale, false)
	if err != nil {
		return o, false, err
	}
	if o.Sale != id || k.Merchant != merchant {
		return o, false, fmt.Errorf("reservation %s: %w", quote(reservation), sale.ErrNotFound)
	}
	if o.State != sale.Paid {
		var note string
		if err := x.Row("SELECT note FROM orders WHERE reservation = $1", o.ID).Scan(&note); err != nil {
			return o, false, err
		}
		if note == refundedNote {
			return o, false, nil
		}
		return o, false, fmt.Errorf("%w: order %s is %s, want paid", sale.ErrConflict, o.ID, o.State)
	}
	payment := o.Payment
	back, err := queueRefund(x, payment, now)
	if err != nil {
		return o, false, err
	}
	if err := execOne(x, "UPDATE orders SET state = 'cancelled', payment = NULL, note = $2, changed = $3 WHERE reservation = $1 AND state = 'paid'", o.ID, refundedNote, millis(now)); err != nil {
		return o, false, err
	}
	l.crash.At(crashpoint.CancelMarked)
	// Fewer paid units than before are a new version, so that older rows do not hide it.
	if err := execOne(x, "UPDATE sales SET paid = paid - 1, version = version + 1 WHERE id = $1", o.Sale); err != nil {
		return o, false, err
	}
	if o, err = order(x, reservation, ""); err != nil {
		return o, false, err
	}
	if err := returnUnits(x, []sale.Order{o}, now); err != nil {
		return o, false, err
	}
	if err := appendAudit(x, merchant, o.Sale, fmt.Sprintf("refunded order %s, payment %s: %s", o.ID, payment, reason), now); err != nil {
		return o, false, err
	}
	event := o
	event.Payment = payment
	if err := outbox.AppendOrders(x, webhook.OrderCancelled, []sale.Order{event}, now); err != nil {
		return o, false, err
	}
	if back {
		err = announceRefund(x, payment, o.ID, now)
	}
	return o, true, err
}

// queueRefund makes the accepted payment of a locked order due for a refund. It reports whether
// there is nothing to send: the price was 0, or the provider has reported that it returned the
// money. A payment that was not opened at a provider has no refund; it stays REFUND_DUE.
func queueRefund(x *database.Tx, payment string, now time.Time) (back bool, err error) {
	if err := execOne(x, "UPDATE payments SET state = 'refund_due' WHERE id = $1 AND state = 'accepted'", payment); err != nil {
		return false, err
	}
	states, err := database.List(x, database.ScanText, `INSERT INTO refunds (payment, reservation, state, due, changed)
		SELECT p.id, p.reservation, CASE WHEN p.amount = 0 OR EXISTS (SELECT 1 FROM payment_events e
			WHERE e.payment = p.id AND e.kind = 'refunded' AND e.amount >= p.amount) THEN 'done' ELSE 'due' END, $2, $2
		FROM payments p WHERE p.id = $1 AND (p.amount = 0 OR EXISTS (SELECT 1 FROM checkouts c WHERE c.id = p.id)) RETURNING state`, payment, millis(now))
	return len(states) == 1 && states[0] == "done", err
}

// execOne executes a statement that must change one row, which is locked.
func execOne(x *database.Tx, text string, args ...any) error {
	n, err := x.Exec(text, args...)
	if err == nil && n != 1 {
		err = errors.New("a locked row has changed")
	}
	return err
}

// returnedColumn follows orderColumns where the money that went back is wanted.
const returnedColumn = `, (SELECT coalesce(sum(p.amount), 0) FROM refunds f JOIN payments p ON p.id = f.payment
	WHERE f.reservation = orders.reservation AND f.state = 'done')`

func scanWithReturned(scan func(...any) error) (sale.Order, error) {
	var returned int64
	o, err := scanOrder(func(to ...any) error { return scan(append(to, &returned)...) })
	o.Returned = returned
	return o, err
}
