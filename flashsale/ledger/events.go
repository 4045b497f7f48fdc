package ledger

import (
	"cmp"
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/floodweir/weir/flashsale/crashpoint"
	"github.com/floodweir/weir/flashsale/ledger/internal/coalesce"
	"github.com/floodweir/weir/flashsale/ledger/internal/database"
	"github.com/floodweir/weir/flashsale/ledger/internal/outbox"
	provider "github.com/floodweir/weir/flashsale/payments"
	"github.com/floodweir/weir/flashsale/sale"
	"github.com/floodweir/weir/flashsale/webhook"
)

// checkouts implements sale.PaymentLedger.
type checkouts struct {
	db     *database.DB
	crash  crashpoint.Hook
	events coalesce.Queue[report, sale.EventResult]
}

// report is an event of a payment and the time of its call.
type report struct {
	payment string // its ID in the ledger
	provider.Event
	now time.Time
}

// keys returns the keys of events whose results depend on each other.
func (r report) keys() []string { return []string{"order " + r.Receipt, "payment " + r.payment} }

// eventRow is a report as the statements read it.
type eventRow struct {
	Payment     string `json:"payment"`
	Kind        string `json:"kind"`
	RefundKey   string `json:"refund_key"`
	Event       string `json:"event"`
	Reservation string `json:"reservation"`
	Amount      int64  `json:"amount"`
	Currency    string `json:"currency"`
	At          int64  `json:"at"`
	Received    int64  `json:"received"`
	Waits       int    `json:"waits"`
}

const eventRows = "{rows:payment text, kind text, refund_key text, event text, reservation text, amount bigint, currency text, at bigint, received bigint, waits int}"

// RecordEvent implements sale.Ledger. Concurrent events share a transaction.
func (l *checkouts) RecordEvent(ctx context.Context, from string, e provider.Event, now time.Time) (sale.EventResult, error) {
	err := errors.Join(validateID("provider", from, 1, 64), validateRef(e.Ref))
	if refund := e.Kind == provider.Refunded || e.Kind == provider.RefundFailed; err == nil && refund && e.Receipt == "" {
		e.Receipt, err = l.receiptOf(ctx, sale.PaymentID(from, e.Ref))
	} else {
		err = errors.Join(err, validateID("receipt", e.Receipt, 1, 64))
	}
	switch {
	case e.Kind < provider.Pending || e.Kind > provider.RefundFailed:
		err = errors.Join(err, fmt.Errorf("%w: kind: got %v", sale.ErrInvalid, e.Kind))
	case e.Amount < 0:
		err = errors.Join(err, fmt.Errorf("%w: amount: got %d, want 0 or more", sale.ErrInvalid, e.Amount))
	case len(e.RefundKey) > 200:
		err = errors.Join(err, fmt.Errorf("%w: refund key: got %d bytes, want at most 200", sale.ErrInvalid, len(e.RefundKey)))
	}
	if err != nil {
		return sale.EventResult{}, fail("event", err)
	}
	a := report{sale.PaymentID(from, e.Ref), e, now}
	got, err := sale.EventResult{Unknown: true}, error(nil)
	if e.Receipt != "" {
		got, err = l.events.Submit(ctx, a)
	}
	if err == nil && got.Unknown && e.Kind >= provider.Paid {
		got, err = l.keepUnmatched(ctx, from, a)
	}
	if err != nil {
		return sale.EventResult{}, fail("event", err)
	}
	return got, nil
}

// validateRef returns an error if s cannot be a provider's ID of a payment.
func validateRef(s string) error {
	if !isID(s, 1, 120, "-_.:") {
		return fmt.Errorf("%w: ref: got %s, want 1 to 120 letters (a-z, A-Z), digits and the signs -, _, . and : only", sale.ErrInvalid, quote(s))
	}
	return nil
}

// recordBatch records a batch of events, which have different orders and payments.
func (l *checkouts) recordBatch(batch []*coalesce.Request[report, sale.EventResult]) {
	applyBatch(l.db, batch, func() { l.crash.At(crashpoint.EventCommitted) }, l.recordIn)
}

// checkoutRow holds what decides about an event.
type checkoutRow struct{ id, reservation, currency string }

// recordIn stores and applies a batch of events in a transaction. It returns the result of each,
// and whether any is new.
func (l *checkouts) recordIn(x *database.Tx, batch []*coalesce.Request[report, sale.EventResult]) ([]outcome[sale.EventResult], bool, error) {
	all := make([]outcome[sale.EventResult], len(batch))
	reservations, ids := make([]string, len(batch)), make([]string, len(batch))
	for i, q := range batch {
		reservations[i], ids[i] = q.Arg.Receipt, q.Arg.payment
	}
	orders, err := lockOrders(x, reservations)
	if err != nil {
		return nil, false, err
	}
	rows, err := database.List(x, func(scan func(...any) error) (c checkoutRow, err error) {
		err = scan(&c.id, &c.reservation, &c.currency)
		return c, err
	}, "SELECT id, reservation, currency FROM checkouts WHERE id {among:1} ORDER BY id {lock:checkouts}", x.Among(ids))
	if err != nil {
		return nil, false, err
	}
	known := map[string]checkoutRow{}
	for _, c := range rows {
		known[c.id] = c
	}
	var store []eventRow
	for i, q := range batch {
		a := q.Arg
		if c, ok := known[a.payment]; !ok || c.reservation != a.Receipt {
			all[i].result.Unknown = true
			continue
		}
		row := eventRow{Payment: a.payment, Kind: a.Kind.String(), RefundKey: database.Storable(a.RefundKey), Event: database.Storable(a.ID),
			Reservation: a.Receipt, Amount: a.Amount, Currency: database.Storable(a.Currency), At: millis(a.At), Received: millis(a.now)}
		if a.Kind == provider.Paid && orders[a.Receipt] == nil {
			row.Waits = 1
		}
		store = append(store, row)
	}
	fresh, err := insertEvents(x, store)
	if err != nil {
		return nil, false, err
	}
	if len(fresh) > 0 {
		l.crash.At(crashpoint.EventTaken)
	}
	var paid []settlement
	var before []receipt
	for i, q := range batch {
		a := q.Arg
		switch {
		case all[i].result.Unknown:
		case !fresh[a.payment]:
			all[i].result.Repeated = true
			if a.Kind == provider.Paid {
				before = append(before, receipt{Payment: a.payment})
			}
		default:
			o := orders[a.Receipt]
			if err := l.applyState(x, a, o); err != nil {
				return nil, false, err
			}
			if a.Kind == provider.Paid && o != nil {
				paid = append(paid, settlement{o, a.payment, a.Amount, a.Currency == known[a.payment].currency, a.now})
			}
			all[i].result.Waits = a.Kind == provider.Paid && o == nil
		}
	}
	settled, err := settle(x, l.crash, paid)
	if err != nil {
		return nil, false, err
	}
	kept, err := earlierPayments(x, before)
	if err != nil {
		return nil, false, err
	}
	for i, q := range batch {
		if r, ok := settled[q.Arg.payment]; ok {
			all[i].result.Pay = r
		} else if all[i].result.Repeated && q.Arg.Kind == provider.Paid {
			r, ok := kept[q.Arg.payment]
			if o := orders[q.Arg.Receipt]; ok && o != nil {
				all[i].result.Pay = sale.PayResult{Order: *o, RefundDue: r.State == "refund_due", Repeated: true}
			} else {
				all[i].result.Waits = true
			}
		}
	}
	return all, len(fresh) > 0, nil
}

// lockOrders locks and returns the orders of reservations. All transactions lock orders first,
// in the same order, so that they cannot deadlock.
func lockOrders(x *database.Tx, reservations []string) (map[string]*sale.Order, error) {
	ids := slices.Clone(reservations)
	slices.Sort(ids)
	orders, err := database.List(x, scanOrder, "SELECT "+orderColumns+" FROM orders WHERE orders.reservation {among:1} ORDER BY orders.reservation {lock:orders}", x.Among(ids))
	byID := make(map[string]*sale.Order, len(orders))
	for i := range orders {
		byID[orders[i].ID] = &orders[i]
	}
	return byID, err
}

// insertEvents inserts events and returns the payments of the new ones.
func insertEvents(x *database.Tx, rows []eventRow) (map[string]bool, error) {
	if len(rows) == 0 {
		return nil, nil
	}
	slices.SortFunc(rows, func(a, b eventRow) int { return cmp.Compare(a.Payment, b.Payment) })
	doc, err := json.Marshal(rows)
	if err != nil {
		return nil, err
	}
	ids, err := database.List(x, database.ScanText, `INSERT INTO payment_events (payment, kind, refund_key, event, reservation, amount, currency, at, received, waits)
		SELECT payment, kind, refund_key, event, reservation, amount, currency, at, received, waits FROM `+eventRows+`
		WHERE true ORDER BY payment ON CONFLICT (payment, kind, refund_key) DO NOTHING RETURNING payment`, string(doc))
	fresh := make(map[string]bool, len(ids))
	for _, id := range ids {
		fresh[id] = true
	}
	return fresh, err
}

// applyState applies a new event to the state of its payment and its refund. A lower kind never
// overwrites a higher one. o is the order, whose row is locked, or nil.
func (l *checkouts) applyState(x *database.Tx, a report, o *sale.Order) error {
	var text string
	switch a.Kind {
	case provider.Closed:
		text = "UPDATE checkouts SET state = 'closed' WHERE id = $1 AND state = 'open'"
	case provider.Paid:
		text = "UPDATE checkouts SET state = 'paid' WHERE id = $1"
	default:
		if a.RefundKey != sale.RefundKey(a.payment) {
			return l.applyOthersRefund(x, a, o)
		}
		return applyRefund(x, a)
	}
	_, err := x.Exec(text, a.payment)
	return err
}

// applyRefund applies what became of a refund of ours.
func applyRefund(x *database.Tx, a report) error {
	var err error
	switch a.Kind {
	case provider.Refunded:
		var n int64
		n, err = x.Exec("UPDATE refunds SET state = 'done', error = '', changed = $2 WHERE payment = $1 AND state IN ('due', 'sent', 'failed') AND "+
			"NOT EXISTS (SELECT 1 FROM payment_events e WHERE e.payment = $1 AND e.kind = 'refund_failed' AND e.refund_key = $3)", a.payment, millis(a.now), a.RefundKey)
		if err == nil && n > 0 {
			err = announceRefund(x, a.payment, a.Receipt, a.now)
		}
	case provider.RefundFailed:
		_, err = x.Exec("UPDATE refunds SET state = 'failed', error = 'the provider reports that it failed', changed = $2 WHERE payment = $1", a.payment, millis(a.now))
	}
	return err
}

// receiptOf returns the reservation of a payment; empty if it was not opened here.
func (l *checkouts) receiptOf(ctx context.Context, payment string) (reservation string, err error) {
	err = fail("event", l.db.Do(ctx, database.ReadOne, func(x *database.Tx) error {
		err := x.Row("SELECT reservation FROM checkouts WHERE id = $1", payment).Scan(&reservation)
		if errors.Is(err, sql.ErrNoRows) {
			err = nil
		}
		return err
	}))
	return reservation, err
}

// announceRefund stores the event of an order whose payment was returned.
func announceRefund(x *database.Tx, payment, reservation string, now time.Time) error {
	o, err := order(x, reservation, "{lock:orders}")
	if err != nil {
		return err
	}
	o.Payment = payment
	return outbox.AppendOrders(x, webhook.OrderRefunded, []sale.Order{o}, now)
}
