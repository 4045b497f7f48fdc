package ledger

import (
	"context"

	"github.com/floodweir/weir/flashsale/ledger/internal/database"
	"github.com/floodweir/weir/flashsale/sale"
)

// EachOrder implements sale.Ledger. It reads in pages and takes no lock: an order that changes
// meanwhile is passed as it is when it is read.
func (l *orders) EachOrder(ctx context.Context, id string, row func(sale.Order) error) error {
	const page = 1000
	err := fail("report", l.db.Do(ctx, database.ReadAll, func(x *database.Tx) error {
		_, err := load(x, id, false)
		return err
	}))
	if err != nil {
		return err
	}
	at, after := int64(-1<<62), ""
	for {
		var orders []sale.Order
		err := fail("report", l.db.Do(ctx, database.ReadOne, func(x *database.Tx) (err error) {
			orders, err = database.List(x, scanWithReturned, "SELECT "+orderColumns+returnedColumn+` FROM orders WHERE orders.sale = $1 AND (orders.at, orders.reservation) > ($2, $3)
			AND orders.state IN ('pending_pay', 'paid', 'expired', 'cancelled') ORDER BY orders.at, orders.reservation LIMIT $4`, id, at, after, page)
			return err
		}))
		if err != nil {
			return err
		}
		for _, o := range orders {
			if err := row(o); err != nil {
				return err
			}
			at, after = millis(o.At), o.ID
		}
		if len(orders) < page {
			return nil
		}
	}
}

// Totals implements sale.Ledger. It reads one snapshot.
func (l *orders) Totals(ctx context.Context, id string) (sale.OrderTotals, error) {
	var t sale.OrderTotals
	err := fail("tally", l.db.Do(ctx, database.Read, func(x *database.Tx) error {
		k, err := load(x, id, false)
		if err != nil {
			return err
		}
		t = sale.OrderTotals{Sale: k.Sale}
		of := map[sale.OrderState]*int64{
			sale.PendingPay: &t.Pending, sale.Paid: &t.Paid, sale.Expired: &t.Expired, sale.Cancelled: &t.Cancelled,
			sale.Rejected: &t.Rejected, sale.Lost: &t.Lost,
		}
		if _, err := database.List(x, func(scan func(...any) error) (struct{}, error) {
			var state sale.OrderState
			var n, units int64
			err := scan(&state, &n, &units)
			if p := of[state]; p != nil {
				*p = n
			}
			switch state {
			case sale.PendingPay:
				t.PendingUnits = units
			case sale.Paid:
				t.PaidUnits = units
			}
			return struct{}{}, err
		}, "SELECT state, count(*), sum(quantity) FROM orders WHERE sale = $1 GROUP BY state", k.ID); err != nil {
			return err
		}
		return x.Row(`SELECT
			(SELECT count(*) FROM payments p JOIN orders o ON o.reservation = p.reservation LEFT JOIN refunds f ON f.payment = p.id
				WHERE o.sale = $1 AND p.state = 'refund_due' AND coalesce(f.state, 'due') IN ('due', 'sent')),
			(SELECT count(*) FROM refunds f JOIN orders o ON o.reservation = f.reservation WHERE o.sale = $1 AND f.state = 'done'),
			(SELECT count(*) FROM refunds f JOIN orders o ON o.reservation = f.reservation WHERE o.sale = $1 AND f.state = 'failed'),
			(SELECT coalesce(sum(p.amount), 0) FROM refunds f JOIN payments p ON p.id = f.payment JOIN orders o ON o.reservation = f.reservation WHERE o.sale = $1 AND f.state = 'done'),
			(SELECT count(*) FROM buried WHERE sale = $1),
			(SELECT coalesce(sum(units), 0) FROM movements WHERE sale = $1 AND key IS NOT NULL) +
			(SELECT coalesce(sum(m.units), 0) FROM orders o JOIN movements m ON m.reservation = o.reservation AND m.sale = o.sale WHERE o.sale = $1)`, k.ID).Scan(&t.RefundDue, &t.Refunded, &t.RefundFailed, &t.Returned, &t.DeadLetters, &t.Movements)
	}))
	if err != nil {
		return sale.OrderTotals{}, err
	}
	return t, nil
}
