package ledger

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/floodweir/weir/flashsale/crashpoint"
	"github.com/floodweir/weir/flashsale/sale"
)

// maxCharges is how many payments one transaction takes at most.
const maxCharges = 200

// A charge is a payment and when it came.
type charge struct {
	sale.Payment
	now time.Time
}

// keys keep two payments apart of which the one is decided by the other.
func (c charge) keys() []string { return []string{"order " + c.Reservation, "payment " + c.ID} }

// buys reports whether a payment pays an order.
func (c charge) buys(o *sale.Order) bool {
	return o.State == sale.PendingPay && milliUp(c.now) <= milli(o.PayBy) && c.Amount == o.Price
}

// A receipt is a charge as the database is told of it.
type receipt struct {
	Payment string `json:"payment"`
	ID      string `json:"id"` // of the reservation
	Amount  int64  `json:"amount"`
	State   string `json:"state"`
	At      int64  `json:"at"`
}

const receiptRows = "{rows:payment text, id text, amount bigint, state text, at bigint}"

// Pay takes a payment: it pays a pending order before its time is over (until PayBy,
// inclusive), and is REFUND_DUE otherwise. The same payment again returns what it got; one
// of the same ID for another reservation or amount is sale.ErrConflict. A reservation that
// the Ledger has not been told of yet is sale.ErrNotFound, and the payment is not taken.
//
// Payments that come while others are being taken are taken together, in one transaction:
// each changes the row of its sale, so that one by one they would wait for the disk in turn.
func (l *Ledger) Pay(ctx context.Context, p sale.Payment, now time.Time) (sale.PayResult, error) {
	err := word("payment", p.ID, 1, 64)
	if p.Amount < 0 {
		err = errors.Join(err, fmt.Errorf("%w: amount = %d, want 0 or more", sale.ErrInvalid, p.Amount))
	}
	if err != nil {
		return sale.PayResult{}, l.fail("pay", err)
	}
	paid, err := l.till.ask(ctx, charge{p, now})
	if err != nil {
		return sale.PayResult{}, l.fail("pay", err)
	}
	return paid, nil
}

// take takes the payments of a batch, of different orders and with different IDs.
func (l *Ledger) take(batch []*asked[charge, sale.PayResult]) {
	err := l.takeAll(batch)
	if err != nil && len(batch) > 1 && kindOf(err) == data { // which of them it is, is not said
		for i := range batch {
			if err := l.takeAll(batch[i : i+1]); err != nil {
				batch[i].b, batch[i].err = sale.PayResult{}, err
			}
		}
		return
	}
	if err != nil {
		for _, q := range batch {
			q.b, q.err = sale.PayResult{}, err
		}
	}
}

func (l *Ledger) takeAll(batch []*asked[charge, sale.PayResult]) error {
	var all []taken
	fresh := false
	err := l.change(context.Background(), func(x *tx) (err error) {
		all, fresh, err = l.takeIn(x, batch)
		return err
	})
	if err != nil {
		return err
	}
	if fresh {
		l.crash.At(crashpoint.PayCommitted)
	}
	for i, q := range batch {
		q.b, q.err = all[i].paid, all[i].err
	}
	return nil
}

// taken is what became of a payment, if the transaction is committed.
type taken struct {
	paid sale.PayResult
	err  error
}

// takeIn takes a batch of payments, and returns what became of each, and whether any is new.
// Whatever else it meets is the answer of the one that met it.
func (l *Ledger) takeIn(x *tx, batch []*asked[charge, sale.PayResult]) ([]taken, bool, error) {
	all := make([]taken, len(batch))
	ids := make([]string, len(batch))
	for i, q := range batch {
		ids[i] = known(q.a.Reservation)
	}
	slices.Sort(ids)
	// Whoever pays, cancels or expires one of these orders waits here for the other. They
	// are held in one order, so that two who hold several do not wait for each other.
	orders, err := list(x, scanOrder, "SELECT "+orderColumns+" FROM orders WHERE orders.reservation {among:1} ORDER BY orders.reservation {lock:orders}", x.l.among(ids))
	if err != nil {
		return nil, false, err
	}
	byID := make(map[string]*sale.Order, len(orders))
	for i := range orders {
		byID[orders[i].ID] = &orders[i]
	}
	var receipts []receipt
	for i, q := range batch {
		o := byID[q.a.Reservation]
		if o == nil {
			all[i].err = fmt.Errorf("reservation %s: %w", show(q.a.Reservation), sale.ErrNotFound)
			continue
		}
		r := receipt{Payment: q.a.ID, ID: o.ID, Amount: q.a.Amount, State: "refund_due", At: milli(q.a.now)}
		if q.a.buys(o) {
			r.State = "accepted"
		}
		receipts = append(receipts, r)
	}
	if len(receipts) == 0 {
		return all, false, nil
	}
	fresh, err := keep(x, receipts)
	if err != nil {
		return nil, false, err
	}
	if len(fresh) > 0 {
		l.crash.At(crashpoint.PayTaken)
	}
	var accepted, before []receipt
	for _, r := range receipts {
		switch {
		case !fresh[r.Payment]:
			before = append(before, r)
		case r.State == "accepted":
			accepted = append(accepted, r)
		}
	}
	soldOut := map[string]int64{} // the units of sales of which all are paid
	if len(accepted) > 0 {
		if err := mark(x, accepted, byID, soldOut); err != nil {
			return nil, false, err
		}
		l.crash.At(crashpoint.PayMarked)
	}
	kept, err := keptOf(x, before)
	if err != nil {
		return nil, false, err
	}
	if len(before) > 0 { // of sales that nothing was marked of, it is not known yet
		if err := allPaid(x, before, byID, soldOut); err != nil {
			return nil, false, err
		}
	}
	for i, q := range batch {
		o, t := byID[q.a.Reservation], &all[i]
		if o == nil {
			continue
		}
		if t.paid, t.err = paidOf(q.a, o, fresh[q.a.ID], kept); t.err == nil && !t.paid.RefundDue {
			t.paid.SoldOut = soldOut[o.Sale]
		}
	}
	return all, len(fresh) > 0, nil
}

// keep keeps payments, and returns the IDs of those that were not kept before.
func keep(x *tx, receipts []receipt) (map[string]bool, error) {
	slices.SortFunc(receipts, func(a, b receipt) int { return cmp.Compare(a.Payment, b.Payment) })
	doc, err := json.Marshal(receipts)
	if err != nil {
		return nil, err
	}
	ids, err := list(x, scanText, `INSERT INTO payments (id, reservation, amount, state, at)
		SELECT payment, id, amount, state, at FROM `+receiptRows+` WHERE true ORDER BY payment ON CONFLICT (id) DO NOTHING RETURNING id`, string(doc))
	fresh := make(map[string]bool, len(ids))
	for _, id := range ids {
		fresh[id] = true
	}
	return fresh, err
}

func scanText(scan func(...any) error) (string, error) {
	var s string
	err := scan(&s)
	return s, err
}

// mark makes pending orders, whose rows are held, paid ones, and notes in soldOut the units
// of the sales of which all are paid then.
func mark(x *tx, accepted []receipt, byID map[string]*sale.Order, soldOut map[string]int64) error {
	doc, err := json.Marshal(accepted)
	if err != nil {
		return err
	}
	ids := make([]string, len(accepted))
	for i, r := range accepted {
		ids[i] = r.ID
	}
	// The state is not compared plainly: of a table that was never analyzed, PostgreSQL takes
	// the pending orders for a few, and reads all of them.
	n, err := x.exec(`UPDATE orders SET state = 'paid', payment = r.payment, changed = r.at FROM `+receiptRows+`
		WHERE orders.reservation {among:2} AND orders.reservation = r.id AND coalesce(orders.state, '') = 'pending_pay'`, string(doc), x.l.among(ids))
	if err == nil && n != int64(len(accepted)) {
		err = fmt.Errorf("%d of %d orders changed while they were held", int64(len(accepted))-n, len(accepted))
	}
	if err != nil {
		return err
	}
	paid := map[string]int64{}
	for _, r := range accepted {
		paid[byID[r.ID].Sale]++
	}
	for _, id := range sorted(paid) {
		var all, stock int64
		row := x.row("UPDATE sales SET paid = paid + $2 WHERE id = $1 RETURNING paid, stock", id, paid[id])
		if err := row.Scan(&all, &stock); err != nil {
			return err
		}
		if all >= stock {
			soldOut[id] = stock
		}
	}
	return nil
}

// allPaid notes in soldOut the units of those sales of some payments of which all are paid.
func allPaid(x *tx, of []receipt, byID map[string]*sale.Order, soldOut map[string]int64) error {
	ids := make([]string, len(of))
	for i, r := range of {
		ids[i] = byID[r.ID].Sale
	}
	slices.Sort(ids)
	type units struct {
		sale  string
		stock int64
	}
	rows, err := list(x, func(scan func(...any) error) (u units, err error) {
		err = scan(&u.sale, &u.stock)
		return u, err
	}, "SELECT id, stock FROM sales WHERE id {among:1} AND paid >= stock", x.l.among(slices.Compact(ids)))
	for _, u := range rows {
		soldOut[u.sale] = u.stock
	}
	return err
}

// keptOf is what is kept of payments that were taken before.
func keptOf(x *tx, before []receipt) (map[string]receipt, error) {
	if len(before) == 0 {
		return nil, nil
	}
	ids := make([]string, len(before))
	for i, r := range before {
		ids[i] = r.Payment
	}
	rows, err := list(x, func(scan func(...any) error) (receipt, error) {
		var r receipt
		err := scan(&r.Payment, &r.ID, &r.Amount, &r.State)
		return r, err
	}, "SELECT id, reservation, amount, state FROM payments WHERE id {among:1}", x.l.among(ids))
	kept := make(map[string]receipt, len(rows))
	for _, r := range rows {
		kept[r.Payment] = r
	}
	return kept, err
}

// paidOf is what a payment got: what it changed of its order, or what it got before.
func paidOf(c charge, o *sale.Order, fresh bool, kept map[string]receipt) (sale.PayResult, error) {
	if !fresh {
		r, ok := kept[c.ID]
		switch {
		case !ok:
			return sale.PayResult{}, fmt.Errorf("%w: payment %s is being taken", sale.ErrUnavailable, c.ID)
		case r.ID != c.Reservation || r.Amount != c.Amount:
			return sale.PayResult{}, fmt.Errorf("%w: payment %s was taken for another reservation or amount", sale.ErrConflict, c.ID)
		}
		return sale.PayResult{Order: *o, RefundDue: r.State == "refund_due", Repeated: true}, nil
	}
	after := *o
	accept := c.buys(o)
	if accept {
		after.State, after.Payment, after.ChangedAt = sale.Paid, c.ID, timeOf(milli(c.now))
	} else {
		after.Refunds++
	}
	return sale.PayResult{Order: after, RefundDue: !accept}, nil
}
