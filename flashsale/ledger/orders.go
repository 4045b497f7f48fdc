package ledger

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/floodweir/weir/flashsale/crashpoint"
	"github.com/floodweir/weir/flashsale/ledger/internal/coalesce"
	"github.com/floodweir/weir/flashsale/ledger/internal/database"
	"github.com/floodweir/weir/flashsale/ledger/internal/outbox"
	"github.com/floodweir/weir/flashsale/sale"
	"github.com/floodweir/weir/flashsale/webhook"
)

// orders implements sale.OrderLedger without its payments.
type orders struct {
	db    *database.DB
	crash crashpoint.Hook
	mock  mock
	reads coalesce.Queue[string, sale.Order]
}

// orderColumns lists the columns of the table orders that scanOrder reads.
const orderColumns = `orders.reservation, orders.sale, orders.epoch, orders.usr, orders.slot, orders.ticket, orders.key, orders.at, orders.pay_by, orders.state, orders.price, orders.quantity, orders.placed, orders.changed,
	coalesce(orders.payment, ''), (SELECT count(*) FROM payments p WHERE p.reservation = orders.reservation AND p.state = 'refund_due'), orders.name, orders.phone, orders.address,
	(SELECT count(*) FROM refunds f WHERE f.reservation = orders.reservation AND f.state = 'done'),
	CASE WHEN orders.note = '` + refundedNote + `' THEN 1 ELSE 0 END`

func scanOrder(scan func(...any) error) (sale.Order, error) {
	var o sale.Order
	var at, payBy, placed, changed, wasPaid int64
	var address string
	err := scan(&o.ID, &o.Sale, &o.Epoch, &o.User, &o.Slot, &o.Ticket, &o.Key, &at, &payBy, &o.State, &o.Price, &o.Quantity, &placed, &changed, &o.Payment, &o.Refunds, &o.Contact.Name, &o.Contact.Phone, &address, &o.Refunded, &wasPaid)
	o.WasPaid = wasPaid == 1
	if err == nil {
		o.Contact.Address, err = addressOf(address)
	}
	o.At, o.PayBy, o.CreatedAt, o.ChangedAt = database.TimeOf(at), database.TimeOf(payBy), database.TimeOf(placed), database.TimeOf(changed)
	return o, err
}

func order(x *database.Tx, reservation, lock string) (sale.Order, error) {
	o, err := scanOrder(x.Row("SELECT "+orderColumns+" FROM orders WHERE orders.reservation = $1 "+lock, database.Storable(reservation)).Scan)
	if errors.Is(err, sql.ErrNoRows) {
		err = fmt.Errorf("reservation %s: %w", quote(reservation), sale.ErrNotFound)
	}
	return o, err
}

// Order implements sale.Ledger. Concurrent reads share one statement.
func (l *orders) Order(ctx context.Context, reservation string) (sale.Order, error) {
	o, err := l.reads.Submit(ctx, reservation)
	if err != nil {
		return sale.Order{}, fail("order", err)
	}
	return o, nil
}

const (
	maxOrderReads = 4   // statements in progress at once
	maxOrderBatch = 200 // orders that one statement reads

	// batchWait is longer than a statement or a transaction usually takes. One after the other,
	// they have larger batches and cost half as much; beside a slow one, another starts.
	batchWait = 30 * time.Millisecond

	// gatherFor makes batches larger under load. It is short beside the 300 ms after which a page
	// reads an order again.
	gatherFor = 5 * time.Millisecond

	// gatherLoaded is for payments, each batch of which costs several statements and a sync. The
	// batches of several processes are as large as those of one only if they gather for longer.
	gatherLoaded = 6 * gatherFor
)

// readBatch reads the orders of a batch.
func (l *orders) readBatch(batch []*coalesce.Request[string, sale.Order]) {
	if len(batch) == 1 {
		q := batch[0]
		q.Err = l.db.Do(context.Background(), database.ReadKeyed, func(x *database.Tx) (err error) {
			q.Result, err = order(x, q.Arg, "")
			return err
		})
		return
	}
	all := make([]string, len(batch))
	for i, q := range batch {
		all[i] = database.Storable(q.Arg)
	}
	byID := make(map[string]sale.Order, len(batch))
	err := l.db.Do(context.Background(), database.ReadKeyed, func(x *database.Tx) error {
		orders, err := database.List(x, scanOrder, "SELECT "+orderColumns+" FROM orders WHERE orders.reservation {among:1}", x.Among(all))
		for _, o := range orders {
			byID[o.ID] = o
		}
		return err
	})
	for _, q := range batch {
		o, ok := byID[q.Arg]
		q.Result, q.Err = o, err
		if err == nil && !ok {
			q.Err = fmt.Errorf("reservation %s: %w", quote(q.Arg), sale.ErrNotFound)
		}
	}
}

// Orders implements sale.Ledger.
func (l *orders) Orders(ctx context.Context, user string) ([]sale.Order, error) {
	return l.list(ctx, "orders", "WHERE orders.usr = $1 ORDER BY orders.at DESC, orders.reservation DESC LIMIT 100", database.Storable(user))
}

// Unreturned implements sale.Ledger. It returns the oldest orders of each sale first, and
// divides max among the sales, so that a sale whose units cannot be returned does not block
// others.
func (l *orders) Unreturned(ctx context.Context, max int) ([]sale.Order, error) {
	const over = "orders.state IN ('expired', 'cancelled') AND orders.returned = 0"
	max = bound(max)
	var all []sale.Order
	err := fail("unreturned", l.db.Do(ctx, database.Read, func(x *database.Tx) error {
		all = nil
		// Step through the sales with such orders, by the index.
		sales, err := database.List(x, database.ScanText, `WITH RECURSIVE of (sale) AS (
			SELECT min(sale) FROM orders WHERE `+over+`
			UNION ALL SELECT (SELECT min(orders.sale) FROM orders WHERE `+over+` AND orders.sale > of.sale) FROM of WHERE of.sale IS NOT NULL)
			SELECT sale FROM of WHERE sale IS NOT NULL LIMIT $1`, max)
		if err != nil || len(sales) == 0 {
			return err
		}
		parts := make([][]sale.Order, len(sales))
		part := func(i, n int) error {
			parts[i], err = database.List(x, scanOrder, "SELECT "+orderColumns+" FROM orders WHERE "+over+" AND orders.sale = $1 ORDER BY orders.changed LIMIT $2", sales[i], n)
			return err
		}
		share, left := max/len(sales), max
		for i := range sales {
			if err := part(i, share); err != nil {
				return err
			}
			left -= len(parts[i])
		}
		for i := range sales { // sales with few orders leave the rest to the others
			if n := len(parts[i]); n == share && left > 0 {
				if err := part(i, n+left); err != nil {
					return err
				}
				left -= len(parts[i]) - n
			}
		}
		all = slices.Concat(parts...)
		return nil
	}))
	return all, err
}

// list returns the orders of a query.
func (l *orders) list(ctx context.Context, what, where string, args ...any) ([]sale.Order, error) {
	var all []sale.Order
	err := fail(what, l.db.Do(ctx, database.ReadOne, func(x *database.Tx) (err error) {
		all, err = database.List(x, scanOrder, "SELECT "+orderColumns+" FROM orders "+where, args...)
		return err
	}))
	return all, err
}

// bound limits max to the size of one call.
func bound(n int) int { return min(max(n, 0), 1000) }

// MarkReturned implements sale.Ledger. It ignores orders that are neither expired nor cancelled.
func (l *orders) MarkReturned(ctx context.Context, reservations ...string) error {
	for part := range slices.Chunk(reservations, 1000) {
		all := make([]string, len(part))
		for i, id := range part {
			all[i] = database.Storable(id)
		}
		// Rows are locked in the same order as in Pay, so that two transactions cannot deadlock.
		err := l.db.Do(ctx, database.WriteOne, func(x *database.Tx) error {
			_, err := x.Exec(`WITH these AS (SELECT reservation FROM orders WHERE reservation {among:1}
				AND returned = 0 AND state IN ('expired', 'cancelled') ORDER BY reservation {lock})
			UPDATE orders SET returned = 1 WHERE returned = 0 AND state IN ('expired', 'cancelled')
			AND reservation IN (SELECT reservation FROM these)`, x.Among(all))
			return err
		})
		if err != nil {
			return fail("mark returned", err)
		}
	}
	return nil
}

// Cancel implements sale.Ledger.
func (l *orders) Cancel(ctx context.Context, user, reservation string, now time.Time) (sale.Order, error) {
	return l.cancel(ctx, reservation, now, func(_ *database.Tx, o *sale.Order) (bool, error) { return o.User == user, nil }, nil)
}

// CancelBy implements sale.Ledger.
func (l *orders) CancelBy(ctx context.Context, merchant, id, reservation, reason string, now time.Time) (sale.Order, error) {
	if err := validateName("reason", reason); err != nil {
		return sale.Order{}, fail("cancel", err)
	}
	return l.cancel(ctx, reservation, now, func(x *database.Tx, o *sale.Order) (bool, error) {
		if o.Sale != id {
			return false, nil
		}
		k, err := load(x, id, false)
		return k.Merchant == merchant, err
	}, func(x *database.Tx) error {
		return appendAudit(x, merchant, id, fmt.Sprintf("cancelled order %s: %s", reservation, reason), now)
	})
}

// cancel cancels a pending order that may reports as one of the caller. record can be nil; it
// runs in the transaction that changes the order.
func (l *orders) cancel(ctx context.Context, reservation string, now time.Time, may func(*database.Tx, *sale.Order) (bool, error), record func(*database.Tx) error) (sale.Order, error) {
	var o sale.Order
	changed := false
	err := fail("cancel", l.db.Do(ctx, database.Write, func(x *database.Tx) (err error) {
		if o, err = order(x, reservation, ""); err != nil {
			return err
		}
		own, err := may(x, &o)
		if err != nil {
			return err
		}
		if !own {
			return fmt.Errorf("reservation %s: %w", quote(reservation), sale.ErrNotFound)
		}
		n, err := x.Exec("UPDATE orders SET state = 'cancelled', held = NULL, changed = $2 WHERE reservation = $1 AND state = 'pending_pay'", o.ID, millis(now))
		if err != nil {
			return err
		}
		if o, err = order(x, reservation, ""); err != nil {
			return err
		}
		switch changed = n == 1; {
		case o.State != sale.Cancelled:
			return fmt.Errorf("%w: order %s is %s, want pending_pay", sale.ErrConflict, o.ID, o.State)
		case !changed:
			return nil
		}
		// Its payment at a provider is closed at once.
		if _, err := x.Exec("UPDATE checkouts SET due = $2 WHERE reservation = $1 AND state = 'open'", o.ID, millis(now)); err != nil {
			return err
		}
		if record != nil {
			if err := record(x); err != nil {
				return err
			}
		}
		l.crash.At(crashpoint.CancelMarked)
		if err := returnUnits(x, []sale.Order{o}, now); err != nil {
			return err
		}
		return outbox.AppendOrders(x, webhook.OrderCancelled, []sale.Order{o}, now)
	}))
	if err != nil {
		return sale.Order{}, err
	}
	if changed {
		l.crash.At(crashpoint.CancelCommitted)
	}
	return o, nil
}

// decided is true for an order whose payment is closed at its provider, and for one whose
// provider has had its time to say so.
const decided = "(pay_by < $2 OR NOT EXISTS (SELECT 1 FROM checkouts c WHERE c.reservation = orders.reservation AND c.state = 'open'))"

// Expire implements sale.Ledger. Processes that call it at once get different orders.
func (l *orders) Expire(ctx context.Context, now time.Time, max int) ([]sale.Order, error) {
	var due []sale.Order
	// Most calls find nothing to expire; those take no lock.
	any := 0
	err := fail("expire", l.db.Do(ctx, database.ReadOne, func(x *database.Tx) error {
		return x.Row("SELECT count(*) FROM (SELECT 1 FROM orders WHERE state = 'pending_pay' AND pay_by < $1 AND "+decided+" LIMIT 1) AS due", millisUp(now), millisUp(now.Add(-sale.CloseGrace))).Scan(&any)
	}))
	if err != nil || any == 0 {
		return nil, err
	}
	err = fail("expire", l.db.Do(ctx, database.Write, func(x *database.Tx) (err error) {
		due, err = database.List(x, scanOrder, `WITH due AS MATERIALIZED (
				SELECT reservation FROM orders WHERE state = 'pending_pay' AND pay_by < $1 AND `+decided+` ORDER BY pay_by LIMIT $3 {lock} {skip})
			UPDATE orders SET state = 'expired', held = NULL, changed = $1
			WHERE orders.state = 'pending_pay' AND orders.reservation IN (SELECT reservation FROM due)
			RETURNING `+orderColumns, millisUp(now), millisUp(now.Add(-sale.CloseGrace)), bound(max))
		if err != nil || len(due) == 0 {
			return err
		}
		l.crash.At(crashpoint.ExpireMarked)
		if err := returnUnits(x, due, now); err != nil {
			return err
		}
		l.crash.At(crashpoint.ExpireCounted)
		return outbox.AppendOrders(x, webhook.OrderExpired, due, now)
	}))
	if err != nil {
		return nil, err
	}
	if len(due) > 0 {
		l.crash.At(crashpoint.ExpireCommitted)
	}
	return due, nil
}

// returnUnits adds the units of expired or cancelled orders to their sales.
func returnUnits(x *database.Tx, orders []sale.Order, now time.Time) error {
	doc, err := idsOf(orders)
	if err != nil {
		return err
	}
	if _, err := x.Exec(`INSERT INTO movements (sale, kind, units, reservation, at)
		SELECT o.sale, 'returned', o.quantity, o.reservation, $2 FROM {rows:id text} JOIN orders o ON o.reservation = r.id`, doc, millis(now)); err != nil {
		return err
	}
	units := map[string]int64{}
	for _, o := range orders {
		units[o.Sale] += o.Units()
	}
	for _, id := range sorted(units) { // the same order in all transactions avoids deadlocks
		if _, err := x.Exec("UPDATE sales SET sold = sold - $2 WHERE id = $1", id, units[id]); err != nil {
			return err
		}
	}
	return nil
}
