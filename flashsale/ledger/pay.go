package ledger

import (
	"cmp"
	"context"
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

// maxPayBatch bounds the payments of one transaction.
const maxPayBatch = 200

// payments implements the payments of sale.OrderLedger.
type payments struct {
	db      *database.DB
	crash   crashpoint.Hook
	mock    mock
	batches coalesce.Queue[charge, sale.PayResult]
}

// charge is a payment and the time of its call.
type charge struct {
	sale.Payment
	now time.Time
}

// keys returns the keys of payments whose results depend on each other.
func (c charge) keys() []string { return []string{"order " + c.Reservation, "payment " + c.ID} }

// buys reports whether the payment pays an order.
func (c charge) buys(o *sale.Order) bool {
	return o.State == sale.PendingPay && millisUp(c.now) <= millis(o.PayBy) && c.Amount == o.Price
}

// receipt is a charge as the statements read it.
type receipt struct {
	Payment string `json:"payment"`
	ID      string `json:"id"` // of the reservation
	Amount  int64  `json:"amount"`
	State   string `json:"state"`
	At      int64  `json:"at"`
}

const receiptRows = "{rows:payment text, id text, amount bigint, state text, at bigint}"

// Pay implements sale.Ledger. A payment with a known ID for another reservation or amount is
// sale.ErrConflict.
//
// Concurrent payments share a transaction. Each changes the row of its sale, so in separate
// transactions each would wait for the disk sync of the one before.
func (l *payments) Pay(ctx context.Context, p sale.Payment, now time.Time) (sale.PayResult, error) {
	err := validateID("payment", p.ID, 1, 64)
	if p.Amount < 0 {
		err = errors.Join(err, fmt.Errorf("%w: amount: got %d, want 0 or more", sale.ErrInvalid, p.Amount))
	}
	if err != nil {
		return sale.PayResult{}, fail("pay", err)
	}
	paid, err := l.batches.Submit(ctx, charge{p, now})
	if err != nil {
		return sale.PayResult{}, fail("pay", err)
	}
	return paid, nil
}

// payBatch applies a batch of payments, which have different orders and IDs.
func (l *payments) payBatch(batch []*coalesce.Request[charge, sale.PayResult]) {
	applyBatch(l.db, batch, func() { l.crash.At(crashpoint.PayCommitted) }, l.takeIn)
}

// takeIn applies a batch of payments in a transaction. It returns the result of each, and
// whether any is new. An error of one payment is in its result.
func (l *payments) takeIn(x *database.Tx, batch []*coalesce.Request[charge, sale.PayResult]) ([]outcome[sale.PayResult], bool, error) {
	all := make([]outcome[sale.PayResult], len(batch))
	ids := make([]string, len(batch))
	for i, q := range batch {
		ids[i] = database.Storable(q.Arg.Reservation)
	}
	byID, err := lockOrders(x, ids) // against other payments, cancellations and expiry
	if err != nil {
		return nil, false, err
	}
	var receipts []receipt
	for i, q := range batch {
		o := byID[q.Arg.Reservation]
		if o == nil {
			all[i].err = fmt.Errorf("reservation %s: %w", quote(q.Arg.Reservation), sale.ErrNotFound)
			continue
		}
		r := receipt{Payment: q.Arg.ID, ID: o.ID, Amount: q.Arg.Amount, State: "refund_due", At: millis(q.Arg.now)}
		if q.Arg.buys(o) {
			r.State = "accepted"
		}
		receipts = append(receipts, r)
	}
	if len(receipts) == 0 {
		return all, false, nil
	}
	fresh, err := insertPayments(x, receipts)
	if err != nil {
		return nil, false, err
	}
	if len(fresh) > 0 {
		l.crash.At(crashpoint.PayTaken)
	}
	var accepted, before, returned []receipt
	for _, r := range receipts {
		switch {
		case !fresh[r.Payment]:
			before = append(before, r)
		case r.State == "accepted":
			accepted = append(accepted, r)
		case l.mock.took(r.Payment):
			r.State = "done"
			returned = append(returned, r)
		}
	}
	if err := insertRefunds(x, returned); err != nil {
		return nil, false, err
	}
	soldOut := map[string]int64{} // the stock of sales whose units are all paid
	if len(accepted) > 0 {
		if err := markPaid(x, accepted, byID, soldOut); err != nil {
			return nil, false, err
		}
		l.crash.At(crashpoint.PayMarked)
	}
	kept, err := earlierPayments(x, before)
	if err != nil {
		return nil, false, err
	}
	if len(before) > 0 { // for sales of which markPaid marked no order
		if err := allPaid(x, before, byID, soldOut); err != nil {
			return nil, false, err
		}
	}
	for i, q := range batch {
		o, t := byID[q.Arg.Reservation], &all[i]
		if o == nil {
			continue
		}
		if t.result, t.err = resultOf(q.Arg, o, fresh[q.Arg.ID], kept); t.err == nil && !t.result.RefundDue {
			t.result.SoldOut = soldOut[o.Sale]
		}
	}
	return all, len(fresh) > 0, nil
}

// insertPayments inserts payments and returns the IDs of the new ones.
func insertPayments(x *database.Tx, receipts []receipt) (map[string]bool, error) {
	slices.SortFunc(receipts, func(a, b receipt) int { return cmp.Compare(a.Payment, b.Payment) })
	rows, args := x.Rows(1, database.Texts("payment", receipts, func(r *receipt) string { return r.Payment }),
		database.Texts("id", receipts, func(r *receipt) string { return r.ID }),
		database.Numbers("amount", receipts, func(r *receipt) int64 { return r.Amount }),
		database.Texts("state", receipts, func(r *receipt) string { return r.State }),
		database.Numbers("at", receipts, func(r *receipt) int64 { return r.At }))
	ids, err := database.List(x, database.ScanText, `INSERT INTO payments (id, reservation, amount, state, at)
		SELECT payment, id, amount, state, at FROM `+rows+` WHERE true ORDER BY payment ON CONFLICT (id) DO NOTHING RETURNING id`, args...)
	fresh := make(map[string]bool, len(ids))
	for _, id := range ids {
		fresh[id] = true
	}
	return fresh, err
}

// markPaid sets pending orders, whose rows are locked, to paid. It adds the stock of sales
// whose units are all paid then to soldOut.
func markPaid(x *database.Tx, accepted []receipt, byID map[string]*sale.Order, soldOut map[string]int64) error {
	rows, args := x.Rows(1, database.Texts("payment", accepted, func(r *receipt) string { return r.Payment }),
		database.Texts("id", accepted, func(r *receipt) string { return r.ID }),
		database.Numbers("at", accepted, func(r *receipt) int64 { return r.At }))
	from := ""
	if x.IsPostgres() { // the IDs again, by which it reads; SQLite would read all receipts for each order
		from = "orders.reservation = ANY ($2::text[]) AND "
	}
	// The state is not compared directly: on a table without statistics, PostgreSQL assumes few
	// pending orders and would read all of them.
	n, err := x.Exec(`UPDATE orders SET state = 'paid', payment = r.payment, changed = r.at FROM `+rows+`
		WHERE `+from+`orders.reservation = r.id AND coalesce(orders.state, '') = 'pending_pay'`, args...)
	if err == nil && n != int64(len(accepted)) {
		err = fmt.Errorf("%d of %d locked orders have changed", int64(len(accepted))-n, len(accepted))
	}
	if err != nil {
		return err
	}
	paid := map[string]int64{}
	for _, r := range accepted {
		paid[byID[r.ID].Sale] += byID[r.ID].Units()
	}
	for _, id := range sorted(paid) {
		var all, stock int64
		row := x.Row("UPDATE sales SET paid = paid + $2 WHERE id = $1 RETURNING paid, stock", id, paid[id])
		if err := row.Scan(&all, &stock); err != nil {
			return err
		}
		if all >= stock {
			soldOut[id] = stock
		}
	}
	return announcePaid(x, accepted, byID, sorted(soldOut))
}

// announcePaid stores the events of orders that are paid, and of sales whose last unit was paid.
func announcePaid(x *database.Tx, accepted []receipt, byID map[string]*sale.Order, soldOut []string) error {
	paid, now := make([]sale.Order, len(accepted)), int64(0)
	for i, r := range accepted {
		paid[i] = *byID[r.ID]
		paid[i].State, paid[i].Payment = sale.Paid, r.Payment
		now = max(now, r.At)
	}
	if err := outbox.AppendOrders(x, webhook.OrderPaid, paid, database.TimeOf(now)); err != nil || len(soldOut) == 0 {
		return err
	}
	return outbox.AppendSales(x, webhook.SaleSoldOut, database.TimeOf(now), soldOut...)
}

// allPaid adds the stock of sales whose units are all paid to soldOut.
func allPaid(x *database.Tx, of []receipt, byID map[string]*sale.Order, soldOut map[string]int64) error {
	ids := make([]string, len(of))
	for i, r := range of {
		ids[i] = byID[r.ID].Sale
	}
	slices.Sort(ids)
	type units struct {
		sale  string
		stock int64
	}
	rows, err := database.List(x, func(scan func(...any) error) (u units, err error) {
		err = scan(&u.sale, &u.stock)
		return u, err
	}, "SELECT id, stock FROM sales WHERE id {among:1} AND paid >= stock", x.Among(slices.Compact(ids)))
	for _, u := range rows {
		soldOut[u.sale] = u.stock
	}
	return err
}

// earlierPayments returns the stored payments with these IDs.
func earlierPayments(x *database.Tx, before []receipt) (map[string]receipt, error) {
	if len(before) == 0 {
		return nil, nil
	}
	ids := make([]string, len(before))
	for i, r := range before {
		ids[i] = r.Payment
	}
	rows, err := database.List(x, func(scan func(...any) error) (receipt, error) {
		var r receipt
		err := scan(&r.Payment, &r.ID, &r.Amount, &r.State)
		return r, err
	}, "SELECT id, reservation, amount, state FROM payments WHERE id {among:1}", x.Among(ids))
	kept := make(map[string]receipt, len(rows))
	for _, r := range rows {
		kept[r.Payment] = r
	}
	return kept, err
}

// resultOf returns the result of a payment: the change of its order, or the earlier result.
func resultOf(c charge, o *sale.Order, fresh bool, kept map[string]receipt) (sale.PayResult, error) {
	if !fresh {
		r, ok := kept[c.ID]
		switch {
		case !ok:
			return sale.PayResult{}, fmt.Errorf("%w: payment %s is in progress", sale.ErrUnavailable, c.ID)
		case r.ID != c.Reservation || r.Amount != c.Amount:
			return sale.PayResult{}, fmt.Errorf("%w: payment %s was applied to another reservation or amount", sale.ErrConflict, c.ID)
		}
		return sale.PayResult{Order: *o, RefundDue: r.State == "refund_due", Repeated: true}, nil
	}
	after := *o
	accept := c.buys(o)
	if accept {
		after.State, after.Payment, after.ChangedAt = sale.Paid, c.ID, database.TimeOf(millis(c.now))
	} else {
		after.Refunds++
	}
	return sale.PayResult{Order: after, RefundDue: !accept}, nil
}
