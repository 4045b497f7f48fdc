package main

import (
	"context"
	"fmt"
	"html"
	"log"
	"net/http"
	"sync"
	"time"

	"github.com/floodweir/weir/flashsale/payments"
)

type event = payments.Event

// A till takes play money. It implements payments.Payments in memory; a real one has a database.
type till struct {
	url    string
	report func(context.Context, event) error // to the flash sale

	mu    sync.Mutex
	bills map[string]*bill // by ref
}

// A bill is one payment.
type bill struct {
	order   payments.Order
	kind    payments.Kind
	refunds map[string]bool // by key
}

var _ payments.Payments = (*till)(nil)

func newTill(url string, report func(context.Context, event) error) *till {
	return &till{url: url, report: report, bills: map[string]*bill{}}
}

// Create returns the same payment for the same receipt and attempt.
func (t *till) Create(_ context.Context, o payments.Order) (payments.Payment, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	ref := fmt.Sprintf("bill-%s-%d", o.Receipt, o.Attempt)
	if t.bills[ref] == nil {
		t.bills[ref] = &bill{order: o, refunds: map[string]bool{}}
	}
	return payments.Payment{Ref: ref, URL: t.url + "/pay/" + ref}, nil
}

// Notify is not called: the till reports events over HTTP, and the flash sale verifies them.
func (t *till) Notify(*http.Request, []byte) (payments.Notice, error) {
	return payments.Notice{}, payments.ErrForged
}

// Query returns the state of a payment.
func (t *till) Query(_ context.Context, ref string) (event, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	b := t.bills[ref]
	if b == nil {
		return event{}, payments.ErrNotFound
	}
	return b.event(ref), nil
}

// event returns the state of a bill. Requires mu.
func (b *bill) event(ref string) event {
	e := event{ID: ref + "-" + b.kind.String(), Ref: ref, Receipt: b.order.Receipt, Kind: b.kind, Currency: b.order.Currency, At: time.Now()}
	if b.kind == payments.Paid {
		e.Amount = b.order.Amount
	}
	return e
}

// Close closes a payment that is not paid.
func (t *till) Close(_ context.Context, ref string) error {
	t.mu.Lock()
	defer t.mu.Unlock()
	b := t.bills[ref]
	switch {
	case b == nil:
		return payments.ErrNotFound
	case b.kind == payments.Paid:
		return payments.ErrPaid
	}
	b.kind = payments.Closed
	return nil
}

// Refund returns the money of a payment, once for each key.
func (t *till) Refund(_ context.Context, ref string, amount int64, key string) (payments.RefundState, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	b := t.bills[ref]
	switch {
	case b == nil:
		return "", payments.ErrNotFound
	case b.kind != payments.Paid || amount > b.order.Amount:
		return "", payments.ErrRefused
	}
	b.refunds[key] = true
	return payments.RefundDone, nil
}

// page shows a bill to its buyer.
func (t *till) page(w http.ResponseWriter, r *http.Request) {
	t.mu.Lock()
	defer t.mu.Unlock()
	b := t.bills[r.PathValue("ref")]
	if b == nil {
		http.NotFound(w, r)
		return
	}
	rest := `<form method="post"><button id="pay">Pay with play money</button></form>`
	if b.kind == payments.Paid || b.kind == payments.Closed {
		rest = fmt.Sprintf(`<p>This bill is %v. <a href="%s">Back to the flash sale</a>`, b.kind, html.EscapeString(b.order.ReturnURL))
	}
	writePage(w, fmt.Sprintf(`<h1>%s</h1><p>%d.%02d %s%s`, html.EscapeString(b.order.Title), b.order.Amount/100, b.order.Amount%100, html.EscapeString(b.order.Currency), rest))
}

// pay pays a bill, reports it, and sends the buyer back to the flash sale.
func (t *till) pay(w http.ResponseWriter, r *http.Request) {
	t.mu.Lock()
	ref := r.PathValue("ref")
	b := t.bills[ref]
	if b == nil || b.kind == payments.Closed {
		t.mu.Unlock()
		http.Error(w, "this bill is closed", http.StatusConflict)
		return
	}
	b.kind = payments.Paid
	e, back := b.event(ref), b.order.ReturnURL
	t.mu.Unlock()
	go t.deliver(e)
	http.Redirect(w, r, back, http.StatusSeeOther)
}

// deliver reports an event until the flash sale has stored it. If it stops before, the flash sale
// asks.
func (t *till) deliver(e event) {
	for wait := time.Second; wait < time.Minute; wait *= 2 {
		ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
		err := t.report(ctx, e)
		cancel()
		if err == nil {
			return
		}
		log.Printf("event %s: %v", e.ID, err)
		time.Sleep(wait)
	}
}
