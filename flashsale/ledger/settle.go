package ledger

import (
	"context"
	"encoding/json"
	"slices"
	"time"

	"github.com/floodweir/weir/flashsale/crashpoint"
	"github.com/floodweir/weir/flashsale/ledger/internal/database"
	"github.com/floodweir/weir/flashsale/sale"
)

// settlement is money for an order whose row is locked.
type settlement struct {
	order    *sale.Order
	payment  string
	amount   int64
	currency bool // it is the one of the sale
	now      time.Time
}

// settle pays pending orders, and makes any other money due for a refund. It returns the results
// by payment.
func settle(x *database.Tx, crash crashpoint.Hook, all []settlement) (map[string]sale.PayResult, error) {
	if len(all) == 0 {
		return nil, nil
	}
	ids := make([]string, len(all))
	for i, s := range all {
		ids[i] = s.payment
	}
	// The provider or the merchant may have returned the money before its payment was reported.
	back, err := database.List(x, database.ScanText, "SELECT payment FROM payment_events WHERE payment {among:1} AND kind = 'refunded'", x.Among(ids))
	if err != nil {
		return nil, err
	}
	orders := map[string]*sale.Order{}
	taken := map[string]bool{}
	var receipts []receipt
	for _, s := range all {
		r := receipt{Payment: s.payment, ID: s.order.ID, Amount: s.amount, State: "refund_due", At: millis(s.now)}
		if s.order.State == sale.PendingPay && s.amount == s.order.Price && s.currency && !taken[s.order.ID] && !slices.Contains(back, s.payment) {
			r.State = "accepted"
			taken[s.order.ID] = true
		}
		orders[s.order.ID] = s.order
		receipts = append(receipts, r)
	}
	if _, err := insertPayments(x, receipts); err != nil {
		return nil, err
	}
	var accepted, due []receipt
	state := map[string]string{}
	for _, r := range receipts {
		state[r.Payment] = r.State
		if r.State == "accepted" {
			accepted = append(accepted, r)
			continue
		}
		r.State = "due"
		if slices.Contains(back, r.Payment) {
			r.State = "done"
		}
		due = append(due, r)
	}
	soldOut := map[string]int64{}
	if len(accepted) > 0 {
		if err := markPaid(x, accepted, orders, soldOut); err != nil {
			return nil, err
		}
		crash.At(crashpoint.EventMarked)
	}
	if err := insertRefunds(x, due); err != nil {
		return nil, err
	}
	results := make(map[string]sale.PayResult, len(all))
	for _, s := range all {
		after := *s.order
		r := sale.PayResult{RefundDue: state[s.payment] != "accepted"}
		if r.RefundDue {
			after.Refunds++
		} else {
			after.State, after.Payment, after.ChangedAt = sale.Paid, s.payment, database.TimeOf(millis(s.now))
			r.SoldOut = soldOut[after.Sale]
		}
		r.Order = after
		results[s.payment] = r
	}
	return results, nil
}

// insertRefunds inserts refunds of payments, with their states, and announces those that are done.
func insertRefunds(x *database.Tx, all []receipt) error {
	if len(all) == 0 {
		return nil
	}
	doc, err := json.Marshal(all)
	if err != nil {
		return err
	}
	if _, err := x.Exec("INSERT INTO refunds (payment, reservation, state, due, changed) SELECT payment, id, state, at, at FROM "+receiptRows, string(doc)); err != nil {
		return err
	}
	for _, r := range all {
		if r.State == "done" {
			if err := announceRefund(x, r.Payment, r.ID, database.TimeOf(r.At)); err != nil {
				return err
			}
		}
	}
	return nil
}

// applyWaiting applies the events that wait for these orders, whose rows are locked or new.
func applyWaiting(x *database.Tx, crash crashpoint.Hook, reservations []string, now time.Time) ([]sale.PayResult, error) {
	type waiting struct {
		payment, reservation string
		amount               int64
		currency             bool
	}
	events, err := database.List(x, func(scan func(...any) error) (w waiting, err error) {
		var paid, want string
		err = scan(&w.payment, &w.reservation, &w.amount, &paid, &want)
		w.currency = paid == want
		return w, err
	}, `SELECT e.payment, e.reservation, e.amount, e.currency, c.currency FROM payment_events e JOIN checkouts c ON c.id = e.payment
		WHERE e.waits = 1 AND e.reservation {among:1} ORDER BY e.payment`, x.Among(reservations))
	if err != nil || len(events) == 0 {
		return nil, err
	}
	ids := make([]string, len(events))
	for i, e := range events {
		ids[i] = e.reservation
	}
	orders, err := lockOrders(x, ids)
	if err != nil {
		return nil, err
	}
	var all []settlement
	var paid []string
	for _, e := range events {
		if o := orders[e.reservation]; o != nil {
			all = append(all, settlement{o, e.payment, e.amount, e.currency, now})
			paid = append(paid, e.payment)
		}
	}
	settled, err := settle(x, crash, all)
	if err != nil {
		return nil, err
	}
	if _, err := x.Exec("UPDATE payment_events SET waits = 0 WHERE waits = 1 AND payment {among:1}", x.Among(paid)); err != nil {
		return nil, err
	}
	results := make([]sale.PayResult, len(paid))
	for i, p := range paid {
		results[i] = settled[p]
	}
	return results, nil
}

// ApplyWaiting implements sale.Ledger.
func (l *checkouts) ApplyWaiting(ctx context.Context, now time.Time, max int) ([]sale.PayResult, error) {
	var reservations []string
	err := fail("apply", l.db.Do(ctx, database.ReadOne, func(x *database.Tx) (err error) {
		reservations, err = database.List(x, database.ScanText, `SELECT e.reservation FROM payment_events e JOIN orders o ON o.reservation = e.reservation
			WHERE e.waits = 1 UNION SELECT u.reservation`+matchable+` LIMIT $1`, bound(max))
		return err
	}))
	if err != nil || len(reservations) == 0 {
		return nil, err
	}
	var results []sale.PayResult
	err = fail("apply", l.db.Do(ctx, database.Write, func(x *database.Tx) error {
		// An event that another process has applied meanwhile does not wait any more.
		if _, err := lockOrders(x, reservations); err != nil {
			return err
		}
		var err error
		if results, err = applyWaiting(x, l.crash, reservations, now); err != nil {
			return err
		}
		paid, err := l.match(x, reservations, now)
		for _, p := range paid {
			results = append(results, p.PayResult)
		}
		return err
	}))
	if err != nil {
		return nil, err
	}
	return results, nil
}
