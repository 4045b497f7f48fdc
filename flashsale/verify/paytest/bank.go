// Package paytest is a payment provider for tests, with the faults of real ones.
package paytest

import (
	"context"
	"errors"
	"fmt"
	"html"
	"net/http"
	"sync"
	"time"

	"github.com/floodweir/weir/flashsale/payments"
	"github.com/floodweir/weir/flashsale/payments/httpform"
)

// Faults selects the faults of a Bank from now on.
type Faults struct {
	Delay       time.Duration // of every notification
	Duplicate   int           // additional copies of each
	Reorder     bool          // what happened before the payment is reported after it
	Lose        bool          // notifications are not sent
	WrongAmount int64         // added to what the buyer pays
	After       bool          // Create, Close and Refund do their work, and return an error
	Down        bool          // every call fails and does nothing
	LatePay     bool          // a closed payment can be paid
	Refuse      bool          // Refund refuses
}

var errFault = errors.New("paytest: a fault of the bank")

// A Bank is a payments.Payments in memory. It is safe for concurrent use.
type Bank struct {
	// URL is the base of its pages.
	URL string

	// Send sends a notification. An error means that it is sent again, 100 ms later, up to 100
	// times. If it is nil, none is sent.
	Send func(e payments.Event) error

	mu       sync.Mutex
	faults   Faults
	payments map[string]*account
	calls    map[string]int
	sending  sync.WaitGroup
}

// account is one payment.
type account struct {
	order   payments.Order
	kind    payments.Kind
	amount  int64            // that was paid
	refunds map[string]int64 // by key
}

var _ payments.Payments = (*Bank)(nil)

// Set changes the faults.
func (b *Bank) Set(f Faults) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.faults = f
}

// begin counts a call. It returns an error while the bank is down.
func (b *Bank) begin(call string) error {
	if b.calls == nil {
		b.calls, b.payments = map[string]int{}, map[string]*account{}
	}
	b.calls[call]++
	if b.faults.Down {
		return errFault
	}
	return nil
}

// end returns the error of a call that has done its work.
func (b *Bank) end() error {
	if b.faults.After {
		return errFault
	}
	return nil
}

// Create implements payments.Payments.
func (b *Bank) Create(_ context.Context, o payments.Order) (payments.Payment, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if err := b.begin("create"); err != nil {
		return payments.Payment{}, err
	}
	ref := fmt.Sprintf("bank_%s_%d", o.Receipt, o.Attempt)
	if b.payments[ref] == nil {
		b.payments[ref] = &account{order: o, refunds: map[string]int64{}}
	}
	return payments.Payment{Ref: ref, URL: b.URL + "/pay/" + ref}, b.end()
}

// Notify implements payments.Payments. The HTTP form has it instead.
func (b *Bank) Notify(*http.Request, []byte) (payments.Notice, error) {
	return payments.Notice{}, payments.ErrForged
}

// Query implements payments.Payments.
func (b *Bank) Query(_ context.Context, ref string) (payments.Event, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if err := b.begin("query"); err != nil {
		return payments.Event{}, err
	}
	a := b.payments[ref]
	if a == nil {
		return payments.Event{}, payments.ErrNotFound
	}
	return a.event(ref, a.kind), nil
}

func (a *account) event(ref string, k payments.Kind) payments.Event {
	return payments.Event{ID: "evt_" + ref + "_" + k.String(), Ref: ref, Receipt: a.order.Receipt, Kind: k, Amount: a.amount, Currency: a.order.Currency, At: time.Now()}
}

// Close implements payments.Payments.
func (b *Bank) Close(_ context.Context, ref string) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	if err := b.begin("close"); err != nil {
		return err
	}
	a := b.payments[ref]
	switch {
	case a == nil:
		return payments.ErrNotFound
	case a.kind >= payments.Paid:
		return payments.ErrPaid
	}
	a.kind = payments.Closed
	return b.end()
}

// Refund implements payments.Payments.
func (b *Bank) Refund(_ context.Context, ref string, amount int64, key string) (payments.RefundState, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if err := b.begin("refund"); err != nil {
		return "", err
	}
	a := b.payments[ref]
	switch {
	case a == nil:
		return "", payments.ErrNotFound
	case a.kind < payments.Paid || amount > a.amount || b.faults.Refuse:
		return "", payments.ErrRefused
	}
	a.refunds[key] = amount
	return payments.RefundDone, b.end()
}

// Ref returns the payment of a receipt that was created last.
func (b *Bank) Ref(receipt string) string {
	b.mu.Lock()
	defer b.mu.Unlock()
	last := ""
	for ref, a := range b.payments {
		if a.order.Receipt == receipt && (last == "" || a.order.Attempt > b.payments[last].order.Attempt) {
			last = ref
		}
	}
	return last
}

// Pay pays a payment as its buyer does, and notifies.
func (b *Bank) Pay(ref string) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	a := b.payments[ref]
	if a == nil {
		return payments.ErrNotFound
	}
	if a.kind >= payments.Paid || a.kind == payments.Closed && !b.faults.LatePay {
		return fmt.Errorf("paytest: the payment is %v", a.kind)
	}
	a.kind, a.amount = payments.Paid, a.order.Amount+b.faults.WrongAmount
	f := b.faults
	if f.Lose || b.Send == nil {
		return nil
	}
	events := []payments.Event{a.event(ref, payments.Paid)}
	if f.Reorder {
		events = append(events, a.event(ref, payments.Pending), a.event(ref, payments.Failed), a.event(ref, payments.Closed))
	}
	for range f.Duplicate {
		events = append(events, events[0])
	}
	for i, e := range events {
		b.sending.Go(func() {
			<-time.After(f.Delay + time.Duration(i)*10*time.Millisecond)
			for range 100 {
				if b.Send(e) == nil {
					return
				}
				<-time.After(100 * time.Millisecond)
			}
		})
	}
	return nil
}

// Wait waits until all notifications are sent.
func (b *Bank) Wait() { b.sending.Wait() }

// Calls returns how often a method was called: create, query, close or refund.
func (b *Bank) Calls(method string) int {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.calls[method]
}

// Balance returns what was paid for a payment, and what of it was refunded.
func (b *Bank) Balance(ref string) (paid, refunded int64) {
	b.mu.Lock()
	defer b.mu.Unlock()
	a := b.payments[ref]
	if a == nil {
		return 0, 0
	}
	for _, n := range a.refunds {
		refunded += n
	}
	return a.amount, refunded
}

// Handler serves the HTTP form, and the pages on which buyers pay: GET and POST /pay/{ref}.
func (b *Bank) Handler(keys httpform.Keys) http.Handler {
	mux := http.NewServeMux()
	mux.Handle("/", httpform.Handler(b, keys))
	mux.HandleFunc("GET /pay/{ref}", func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "text/html; charset=utf-8")
		fmt.Fprintf(w, `<!doctype html><title>Bank</title><h1>Bank</h1><p>%s<form method="post"><button id="pay">Pay</button></form>`, html.EscapeString(r.PathValue("ref")))
	})
	mux.HandleFunc("POST /pay/{ref}", func(w http.ResponseWriter, r *http.Request) {
		ref := r.PathValue("ref")
		if err := b.Pay(ref); err != nil {
			http.Error(w, err.Error(), http.StatusConflict)
			return
		}
		b.mu.Lock()
		back := b.payments[ref].order.ReturnURL
		b.mu.Unlock()
		http.Redirect(w, r, back, http.StatusSeeOther)
	})
	return mux
}
