package ledger

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"time"

	"github.com/floodweir/weir/flashsale/crashpoint"
	"github.com/floodweir/weir/flashsale/ledger/internal/database"
	"github.com/floodweir/weir/flashsale/ledger/internal/outbox"
	provider "github.com/floodweir/weir/flashsale/payments"
	"github.com/floodweir/weir/flashsale/sale"
	"github.com/floodweir/weir/flashsale/webhook"
)

// refundedNote is the note of a cancelled order that was paid and that its merchant refunded.
const refundedNote = "refunded"

// RefundBy implements sale.Ledger. The order becomes cancelled and its payment REFUND_DUE. They
// are then as those of a payment that came after a cancellation, so the refund queue, the sweeper
// and a recovery need no other case. It was paid, so it does not count for sale.Penalty.
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
	o, err = refundPaid(x, l.crash, o, merchant, reason, l.mock.took(o.Payment), now)
	return o, true, err
}

// refundPaid cancels a paid order, whose row is locked, and makes its money due; returned says
// that it is back already.
func refundPaid(x *database.Tx, crash crashpoint.Hook, o sale.Order, actor, reason string, returned bool, now time.Time) (sale.Order, error) {
	payment := o.Payment
	back, err := queueRefund(x, payment, returned, now)
	if err != nil {
		return o, err
	}
	if err := execOne(x, "UPDATE orders SET state = 'cancelled', held = NULL, payment = NULL, note = $2, changed = $3 WHERE reservation = $1 AND state = 'paid'", o.ID, refundedNote, millis(now)); err != nil {
		return o, err
	}
	crash.At(crashpoint.CancelMarked)
	// Fewer paid units than before are a new version, so that older rows do not hide it.
	if err := execOne(x, "UPDATE sales SET paid = paid - $2, version = version + 1 WHERE id = $1", o.Sale, o.Units()); err != nil {
		return o, err
	}
	if o, err = order(x, o.ID, ""); err != nil {
		return o, err
	}
	if err := returnUnits(x, []sale.Order{o}, now); err != nil {
		return o, err
	}
	if err := appendAudit(x, actor, o.Sale, fmt.Sprintf("refunded order %s, payment %s: %s", o.ID, payment, reason), now); err != nil {
		return o, err
	}
	event := o
	event.Payment = payment
	if err := outbox.AppendOrders(x, webhook.OrderCancelled, []sale.Order{event}, now); err != nil {
		return o, err
	}
	if back {
		err = announceRefund(x, payment, o.ID, now)
	}
	return o, err
}

// queueRefund makes the accepted payment of a locked order due for a refund. It reports whether
// there is nothing to send: the money is returned, the price was 0, or the provider has reported that
// it returned the money. Any other payment that was not opened at a provider has no refund; it stays
// REFUND_DUE.
func queueRefund(x *database.Tx, payment string, returned bool, now time.Time) (back bool, err error) {
	if err := execOne(x, "UPDATE payments SET state = 'refund_due' WHERE id = $1 AND state = 'accepted'", payment); err != nil {
		return false, err
	}
	isBack := 0
	if returned {
		isBack = 1
	}
	states, err := database.List(x, database.ScanText, `INSERT INTO refunds (payment, reservation, state, due, changed)
		SELECT p.id, p.reservation, CASE WHEN p.amount = 0 OR $3 = 1 OR `+returnedBy("p.id", "")+` >= p.amount THEN 'done' ELSE 'due' END, $2, $2
		FROM payments p WHERE p.id = $1 AND (p.amount = 0 OR $3 = 1 OR EXISTS (SELECT 1 FROM checkouts c WHERE c.id = p.id)) RETURNING state`, payment, millis(now), isBack)
	return len(states) == 1 && states[0] == "done", err
}

// returnedBy is the money of a payment that the provider has returned, without what it took back.
// and adds a condition on the events e.
func returnedBy(payment, and string) string {
	return `(SELECT coalesce(sum(e.amount), 0) FROM payment_events e WHERE e.payment = ` + payment + ` AND e.kind = 'refunded' AND NOT EXISTS
		(SELECT 1 FROM payment_events b WHERE b.payment = e.payment AND b.kind = 'refund_failed' AND b.refund_key = e.refund_key)` + and + `)`
}

// byOthers leaves out the refund of sale.RefundKey.
const byOthers = " AND e.refund_key <> 'refund-' || e.payment"

// applyOthersRefund applies a refund that was made at the provider. Once the whole payment is
// back, it refunds the order o, if it is paid by it; part of the money changes no order.
func (l *checkouts) applyOthersRefund(x *database.Tx, a report, o *sale.Order) error {
	var amount, back int64
	err := x.Row("SELECT amount, "+returnedBy("p.id", "")+" FROM payments p WHERE id = $1", a.payment).Scan(&amount, &back)
	if errors.Is(err, sql.ErrNoRows) {
		return nil // settle finds the event when the payment is reported
	}
	if err != nil || o == nil {
		return err
	}
	what := fmt.Sprintf("the payment provider has returned %d of %d of payment %s for order %s", back, amount, a.payment, o.ID)
	switch {
	case a.Kind == provider.RefundFailed:
		what = "a refund has failed: " + what
		if _, err := x.Exec("UPDATE refunds SET state = 'failed', error = 'the provider reports that it failed', changed = $3 WHERE payment = $1 AND state = 'done' AND $2 < (SELECT amount FROM payments WHERE id = $1)", a.payment, back, millis(a.now)); err != nil {
			return err
		}
	case back < amount:
	case o.State == sale.Paid && o.Payment == a.payment:
		_, err := refundPaid(x, l.crash, *o, "payments", "at the payment provider", false, a.now)
		return err
	default:
		n, err := x.Exec("UPDATE refunds SET state = 'done', error = '', changed = $2 WHERE payment = $1 AND state <> 'done'", a.payment, millis(a.now))
		if err != nil || n == 0 {
			return err
		}
		return announceRefund(x, a.payment, a.Receipt, a.now)
	}
	return appendAudit(x, "payments", o.Sale, what, a.now)
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
