package ledger

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/floodweir/weir/flashsale/ledger/internal/database"
	"github.com/floodweir/weir/flashsale/sale"
)

// askAfter bounds how long a payment is open before it is due for the first time.
const askAfter = 2 * time.Minute

const checkoutColumns = "provider, id, reservation, sale, receipt, attempt, amount, currency, url, state, opened, pay_by, due, tries"

func scanCheckout(scan func(...any) error) (sale.Checkout, error) {
	var c sale.Checkout
	var id string
	var opened, payBy, due int64
	err := scan(&c.Provider, &id, &c.Reservation, &c.Sale, &c.Receipt, &c.Attempt, &c.Amount, &c.Currency, &c.URL, &c.State, &opened, &payBy, &due, &c.Tries)
	if n := len(c.Provider) + 1; n < len(id) {
		c.Ref = id[n:]
	}
	c.OpenedAt, c.PayBy, c.Due = database.TimeOf(opened), database.TimeOf(payBy), database.TimeOf(due)
	return c, err
}

// AddCheckout implements sale.Ledger. It sets Due.
func (l *checkouts) AddCheckout(ctx context.Context, c sale.Checkout) error {
	err := errors.Join(validateID("provider", c.Provider, 1, 64), validateRef(c.Ref), validateID("reservation", c.Reservation, 16, 64), validateID("sale", c.Sale, 1, 64))
	switch {
	case len(c.Receipt) > 2048 || len(c.URL) > 2048 || c.URL == "" || storableText(c.URL) != c.URL || storableText(c.Receipt) != c.Receipt:
		err = errors.Join(err, fmt.Errorf("%w: url or receipt: want text of up to 2048 bytes", sale.ErrInvalid))
	case c.Amount <= 0 || c.Attempt < 1 || c.Attempt > 100:
		err = errors.Join(err, fmt.Errorf("%w: amount %d, attempt %d: want more than 0, 1 to 100", sale.ErrInvalid, c.Amount, c.Attempt))
	}
	if err != nil {
		return fail("checkout", err)
	}
	due := c.OpenedAt.Add(askAfter)
	if c.PayBy.Before(due) {
		due = c.PayBy
	}
	err = l.db.Exec(ctx, "INSERT INTO checkouts ("+checkoutColumns+") VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, 'open', $10, $11, $12, 0) ON CONFLICT (id) DO NOTHING",
		c.Provider, c.ID(), c.Reservation, c.Sale, c.Receipt, c.Attempt, c.Amount, c.Currency, c.URL, millis(c.OpenedAt), millisUp(c.PayBy), millisUp(due))
	if database.IsRejected(err) {
		err = fmt.Errorf("%w: %w", sale.ErrInvalid, err)
	}
	return fail("checkout", err)
}

// Checkouts implements sale.Ledger.
func (l *checkouts) Checkouts(ctx context.Context, reservation string) ([]sale.Checkout, error) {
	var all []sale.Checkout
	err := fail("checkouts", l.db.Do(ctx, database.ReadOne, func(x *database.Tx) (err error) {
		all, err = database.List(x, scanCheckout, "SELECT "+checkoutColumns+" FROM checkouts WHERE reservation = $1 ORDER BY attempt, id", database.Storable(reservation))
		return err
	}))
	return all, err
}

// LeaseCheckouts implements sale.Ledger. Processes that call it at once get different ones.
func (l *checkouts) LeaseCheckouts(ctx context.Context, providers []string, now, until time.Time, max int) ([]sale.Checkout, error) {
	found := 0
	err := fail("checkouts", l.db.Do(ctx, database.ReadOne, func(x *database.Tx) error {
		return x.Row("SELECT count(*) FROM (SELECT 1 FROM checkouts WHERE state = 'open' AND due <= $1 LIMIT 1) AS due", millis(now)).Scan(&found)
	}))
	if err != nil || found == 0 { // most calls, which take no lock
		return nil, err
	}
	var all []sale.Checkout
	err = fail("checkouts", l.db.Do(ctx, database.Write, func(x *database.Tx) (err error) {
		all, err = database.List(x, func(scan func(...any) error) (sale.Checkout, error) {
			var state sale.OrderState
			c, err := scanCheckout(func(to ...any) error { return scan(append(to, &state)...) })
			c.Order = state
			return c, err
		}, `WITH due AS MATERIALIZED (
				SELECT id FROM checkouts WHERE state = 'open' AND due <= $1 AND provider {among:2} ORDER BY due LIMIT $3 {lock} {skip})
			UPDATE checkouts SET due = $4 WHERE state = 'open' AND id IN (SELECT id FROM due)
			RETURNING `+checkoutColumns+`, coalesce((SELECT o.state FROM orders o WHERE o.reservation = checkouts.reservation), 'reserved')`,
			millis(now), x.Among(providers), bound(max), millis(until))
		return err
	}))
	if err != nil {
		return nil, err
	}
	return all, nil
}

// PostponeCheckout implements sale.Ledger.
func (l *checkouts) PostponeCheckout(ctx context.Context, id string, due time.Time, failed bool) error {
	n := 0
	if failed {
		n = 1
	}
	return fail("checkout", l.db.Exec(ctx, "UPDATE checkouts SET due = $2, tries = tries + $3 WHERE id = $1 AND state = 'open'", database.Storable(id), millisUp(due), n))
}

// LeaseRefunds implements sale.Ledger. Processes that call it at once get different ones.
func (l *checkouts) LeaseRefunds(ctx context.Context, providers []string, now, until time.Time, max int) ([]sale.Refund, error) {
	found := 0
	err := fail("refunds", l.db.Do(ctx, database.ReadOne, func(x *database.Tx) error {
		return x.Row("SELECT count(*) FROM (SELECT 1 FROM refunds WHERE state IN ('due', 'sent') AND due <= $1 LIMIT 1) AS due", millis(now)).Scan(&found)
	}))
	if err != nil || found == 0 {
		return nil, err
	}
	var all []sale.Refund
	err = fail("refunds", l.db.Do(ctx, database.Write, func(x *database.Tx) (err error) {
		all, err = database.List(x, func(scan func(...any) error) (r sale.Refund, err error) {
			var due int64
			err = scan(&r.Payment, &r.Reservation, &r.State, &r.Tries, &due, &r.Error, &r.Sale, &r.Amount)
			r.Due = database.TimeOf(due)
			return r, err
		}, `WITH due AS MATERIALIZED (
				SELECT f.payment FROM refunds f JOIN checkouts c ON c.id = f.payment
				WHERE f.state IN ('due', 'sent') AND f.due <= $1 AND c.provider {among:2} ORDER BY f.due LIMIT $3 {lock:f} {skip})
			UPDATE refunds SET due = $4 WHERE state IN ('due', 'sent') AND payment IN (SELECT payment FROM due)
			RETURNING payment, reservation, state, tries, due, error,
				(SELECT c.sale FROM checkouts c WHERE c.id = refunds.payment), (SELECT p.amount FROM payments p WHERE p.id = refunds.payment) - `+returnedBy("refunds.payment", byOthers),
			millis(now), x.Among(providers), bound(max), millis(until))
		return err
	}))
	if err != nil {
		return nil, err
	}
	return all, nil
}

// SetRefund implements sale.Ledger.
func (l *checkouts) SetRefund(ctx context.Context, r sale.Refund, now time.Time) error {
	err := l.db.Do(ctx, database.Write, func(x *database.Tx) error {
		if _, err := order(x, r.Reservation, "{lock:orders}"); err != nil {
			return err
		}
		n, err := x.Exec("UPDATE refunds SET state = $2, tries = $3, due = $4, error = $5, changed = $6 WHERE payment = $1 AND state <> 'done'",
			database.Storable(r.Payment), string(r.State), r.Tries, millisUp(r.Due), storableText(r.Error), millis(now))
		if err == nil && n > 0 && r.State == sale.RefundDone {
			err = announceRefund(x, r.Payment, r.Reservation, now)
		}
		return err
	})
	if database.IsRejected(err) {
		err = fmt.Errorf("%w: %w", sale.ErrInvalid, err)
	}
	return fail("refund", err)
}

// RetryRefunds implements sale.Ledger.
func (l *checkouts) RetryRefunds(ctx context.Context, payment string, now time.Time) (int64, error) {
	var n int64
	err := fail("refund", l.db.Do(ctx, database.WriteOne, func(x *database.Tx) (err error) {
		n, err = x.Exec("UPDATE refunds SET state = 'due', tries = 0, due = $2, changed = $2 WHERE state = 'failed' AND ($1 = '' OR payment = $1)", storableText(payment), millis(now))
		return err
	}))
	return n, err
}

// AddPaymentKey implements sale.Ledger.
func (l *checkouts) AddPaymentKey(ctx context.Context, provider, sealed string, keep int, now time.Time) error {
	if err := validateID("provider", provider, 1, 64); err != nil {
		return fail("payment key", err)
	}
	return fail("payment key", l.db.Do(ctx, database.Write, func(x *database.Tx) error {
		var last int64
		if err := x.Row("SELECT coalesce(max(id), 0) FROM payment_keys WHERE provider = $1", provider).Scan(&last); err != nil {
			return err
		}
		if _, err := x.Exec("INSERT INTO payment_keys (provider, id, sealed, created) VALUES ($1, $2, $3, $4)", provider, last+1, storableText(sealed), millis(now)); err != nil {
			return err
		}
		_, err := x.Exec("DELETE FROM payment_keys WHERE provider = $1 AND id <= $2", provider, last+1-int64(max(keep, 1)))
		return err
	}))
}

// PaymentKeys implements sale.Ledger.
func (l *checkouts) PaymentKeys(ctx context.Context, provider string) ([]string, error) {
	var all []string
	err := fail("payment keys", l.db.Do(ctx, database.ReadOne, func(x *database.Tx) (err error) {
		all, err = database.List(x, database.ScanText, "SELECT sealed FROM payment_keys WHERE provider = $1 ORDER BY id DESC", database.Storable(provider))
		return err
	}))
	return all, err
}
