// Package cashier takes the payments of a flash sale: it opens payments at providers, applies
// what they report, closes payments whose time is up, and returns money that buys nothing.
//
//	c, err := cashier.New(cashier.Config{Ledger: l, Shop: s, Keys: keys, Providers: …})
//	…
//	c.Start()
//	defer c.Stop()
//
// # Guarantees
//
// An event is stored before it is acknowledged, and applied once. An order is paid or expires,
// never both. Money that pays no order is returned once: every try has the same key. This holds
// for several processes over one ledger, and when a process is killed.
package cashier

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/floodweir/weir/flashsale/crashpoint"
	"github.com/floodweir/weir/flashsale/pass"
	"github.com/floodweir/weir/flashsale/payments"
	"github.com/floodweir/weir/flashsale/sale"
)

// Default is the name of the provider of all merchants that have none of their own.
const Default = payments.Default

const (
	createWithin = 5 * time.Second
	storeWithin  = 5 * time.Second
	maxAttempts  = 20 // payments that are opened for one order
)

// Config configures a Cashier. Ledger, Shop and Keys are required.
type Config struct {
	Ledger sale.Ledger
	Shop   sale.BuyerService
	Keys   *pass.Keys

	// Providers are the payment providers, by the merchant whose orders they are for, or
	// Default. Without any, only orders of price 0 can be paid.
	Providers map[string]payments.Payments

	// Applied is called after the ledger has applied a payment. It can be nil.
	Applied func(sale.PayResult)

	Crash crashpoint.Hook
	Log   *slog.Logger // discards if nil
}

// Cashier takes payments. It is safe for concurrent use.
type Cashier struct {
	c     Config
	names []string // of the providers
	stats counters

	ctx    context.Context // of the background work
	cancel context.CancelFunc
	ended  sync.WaitGroup
}

type counters struct {
	opened, notices, forged, unknown, settled, closed, refunded, refundsFailed, errors atomic.Int64
}

// Stats holds counters of this Cashier since New.
type Stats struct {
	Opened                   int64 // payments at providers
	Notices, Forged, Unknown int64 // notifications; those not signed, and of payments not opened here
	Settled, Closed          int64 // payments whose outcome the provider was asked for, and that were closed
	Refunded, RefundsFailed  int64
	Errors                   int64 // calls of providers without an answer
}

// New returns a Cashier. Start starts its background work.
func New(c Config) (*Cashier, error) {
	if c.Ledger == nil || c.Shop == nil || c.Keys == nil {
		return nil, errors.New("cashier: want Ledger, Shop and Keys")
	}
	c.Log = cmp.Or(c.Log, slog.New(slog.DiscardHandler))
	k := &Cashier{c: c, names: slices.Sorted(maps.Keys(c.Providers))}
	k.ctx, k.cancel = context.WithCancel(context.Background())
	return k, nil
}

// Stats returns the counters.
func (k *Cashier) Stats() Stats {
	s := &k.stats
	return Stats{s.opened.Load(), s.notices.Load(), s.forged.Load(), s.unknown.Load(), s.settled.Load(), s.closed.Load(),
		s.refunded.Load(), s.refundsFailed.Load(), s.errors.Load()}
}

// provider returns the name and the provider of a merchant's orders; nil if there is none.
func (k *Cashier) provider(merchant string) (string, payments.Payments) {
	if merchant != Default {
		if p := k.c.Providers[merchant]; p != nil {
			return merchant, p
		}
	}
	return Default, k.c.Providers[Default]
}

// Checkout returns the URL at which the buyer pays an order, the same until that payment is
// closed. An order of price 0 is paid at once and has no URL, nor has an order that is paid. An
// order that cannot be paid is sale.ErrConflict. returnURL is where the buyer goes afterwards.
func (k *Cashier) Checkout(ctx context.Context, user, receipt, returnURL string) (sale.Receipt, string, error) {
	r, err := k.c.Shop.Order(ctx, user, receipt)
	if err != nil {
		return r, "", err
	}
	in, err := k.c.Keys.OpenReceipt(receipt)
	if err != nil { // Order has opened it
		return r, "", fmt.Errorf("cashier: receipt: %w", sale.ErrNotFound)
	}
	switch {
	case r.State == sale.Paid:
		return r, "", nil
	case r.State != sale.Reserved && r.State != sale.PendingPay:
		return r, "", fmt.Errorf("cashier: %w: the order is %s", sale.ErrConflict, r.State)
	case k.c.Shop.Now().After(r.PayBy):
		return r, "", fmt.Errorf("cashier: %w: the time to pay is over", sale.ErrConflict)
	case r.Sale.Currency == "":
		return r, "", fmt.Errorf("cashier: %w: the sale cannot be read", sale.ErrUnavailable)
	}
	if err := r.Sale.CheckAddress(r.Contact.Address); err != nil {
		return r, "", fmt.Errorf("cashier: %w", err)
	}
	if r.Price == 0 {
		if _, err := k.c.Shop.Pay(ctx, receipt, "free-"+in.ID, 0); err != nil {
			return r, "", err
		}
		r, err = k.c.Shop.Order(ctx, user, receipt)
		return r, "", err
	}
	name, p := k.provider(r.Sale.Merchant)
	if p == nil {
		return r, "", fmt.Errorf("cashier: %w: this shop takes no payments", sale.ErrConflict)
	}
	opened, err := k.c.Ledger.Checkouts(ctx, in.ID)
	if err != nil {
		return r, "", err
	}
	for _, c := range opened {
		if c.State == sale.CheckoutOpen {
			return r, c.URL, nil
		}
	}
	if len(opened) >= maxAttempts {
		return r, "", fmt.Errorf("cashier: %w: %d payments of this order have failed", sale.ErrConflict, len(opened))
	}
	c := sale.Checkout{Provider: name, Reservation: in.ID, Sale: in.Sale, Receipt: receipt, Attempt: len(opened) + 1,
		Amount: r.Price, Currency: r.Sale.Currency, OpenedAt: k.c.Shop.Now(), PayBy: r.PayBy}
	if c.Ref, c.URL, err = k.open(ctx, p, c, r.Sale, returnURL); err != nil {
		k.stats.errors.Add(1)
		k.c.Log.Warn("payment not opened", "provider", name, "reservation", in.ID, "error", err)
		return r, "", fmt.Errorf("cashier: %w: the payment provider gives no answer", sale.ErrUnavailable)
	}
	k.c.Crash.At(crashpoint.CheckoutOpened)
	if err := k.c.Ledger.AddCheckout(ctx, c); err != nil {
		return r, "", err
	}
	k.stats.opened.Add(1)
	return r, c.URL, nil
}

// Returned reports that the buyer is back from the provider's page. If the order is not paid yet, its
// provider is asked soon: its notification may be lost. The wait is an eighth of the age of the
// payment, at least a second, so that repeated calls do not make many questions.
func (k *Cashier) Returned(ctx context.Context, user, receipt string) error {
	r, err := k.c.Shop.Order(ctx, user, receipt)
	if err != nil || r.State != sale.PendingPay {
		return err
	}
	in, err := k.c.Keys.OpenReceipt(receipt)
	if err != nil { // Order has opened it
		return fmt.Errorf("cashier: receipt: %w", sale.ErrNotFound)
	}
	opened, err := k.c.Ledger.Checkouts(ctx, in.ID)
	if err != nil {
		return err
	}
	now := k.c.Shop.Now()
	for _, c := range opened {
		soon := now.Add(max(time.Second, now.Sub(c.OpenedAt)/8))
		if c.State == sale.CheckoutOpen && soon.Before(c.Due) {
			if err := k.c.Ledger.PostponeCheckout(ctx, c.ID(), soon, false); err != nil {
				return err
			}
		}
	}
	return nil
}

// open opens a payment at the provider and checks what it returns.
func (k *Cashier) open(ctx context.Context, p payments.Payments, c sale.Checkout, of sale.Sale, returnURL string) (ref, page string, err error) {
	ctx, cancel := context.WithTimeout(ctx, createWithin)
	defer cancel()
	made, err := p.Create(ctx, payments.Order{
		Receipt: c.Reservation, Attempt: c.Attempt, Amount: c.Amount, Currency: c.Currency,
		Title: of.Title, Merchant: of.Merchant, Sale: c.Sale, PayBy: c.PayBy, ReturnURL: returnURL,
	})
	if err != nil {
		return "", "", err
	}
	u, err := url.Parse(made.URL)
	if err != nil || u.Host == "" || u.Scheme != "https" && u.Scheme != "http" || len(made.URL) > 2048 {
		return "", "", fmt.Errorf("URL: got %.200q, want https://…", made.URL)
	}
	return made.Ref, made.URL, nil
}

// Notify handles a notification of a provider and returns the response.
func (k *Cashier) Notify(name string, r *http.Request, body []byte) payments.Reply {
	p := k.c.Providers[name]
	if p == nil {
		return payments.Reply{Status: http.StatusNotFound, Body: "unknown provider\n"}
	}
	n, err := p.Notify(r, body)
	if err != nil {
		k.stats.forged.Add(1)
		return payments.Reply{Status: http.StatusForbidden, Body: "the signature does not match, or is too old\n"}
	}
	k.stats.notices.Add(1)
	if n.OK.Status == 0 {
		n.OK = payments.Reply{Status: http.StatusOK, Body: "ok\n"}
	}
	if n.Retry.Status == 0 {
		n.Retry = payments.Reply{Status: http.StatusServiceUnavailable, Body: "not stored, send it again\n"}
	}
	if n.Event.Ref == "" {
		return n.OK
	}
	ctx, cancel := context.WithTimeout(r.Context(), storeWithin)
	defer cancel()
	if err := k.record(ctx, name, n.Event); err != nil {
		if errors.Is(err, sale.ErrInvalid) { // it would be refused again
			k.c.Log.Warn("notification refused", "provider", name, "error", err)
			return payments.Reply{Status: http.StatusBadRequest, Body: "the event is not valid\n"}
		}
		k.c.Log.Warn("notification not stored", "provider", name, "error", err)
		return n.Retry
	}
	return n.OK
}

// record stores and applies an event.
func (k *Cashier) record(ctx context.Context, name string, e payments.Event) error {
	got, err := k.c.Ledger.RecordEvent(ctx, name, e, k.c.Shop.Now())
	if err != nil {
		return err
	}
	switch {
	case got.Unknown:
		k.stats.unknown.Add(1)
		if e.Receipt == "" && !got.Unmatched { // of another system at the same provider
			return nil
		}
		k.c.Log.Warn("event of a payment that was not opened here", "provider", name, "ref", e.Ref, "receipt", e.Receipt, "kind", e.Kind, "kept", got.Unmatched)
	case got.Repeated || got.Waits || e.Kind != payments.Paid:
	default:
		k.applied(ctx, sale.PaymentID(name, e.Ref), got.Pay)
	}
	return nil
}

// applied reports a payment that the ledger has applied.
func (k *Cashier) applied(ctx context.Context, payment string, p sale.PayResult) {
	if k.c.Applied != nil {
		k.c.Applied(p)
	}
	if p.RefundDue {
		k.audit(ctx, p.Order.Sale, fmt.Sprintf("refund due: payment %s for reservation %s, which is %s", payment, p.Order.ID, p.Order.State))
	}
}

func (k *Cashier) audit(ctx context.Context, of, what string) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), storeWithin)
	defer cancel()
	if err := k.c.Ledger.AppendAudit(ctx, "payments", of, what, k.c.Shop.Now()); err != nil {
		k.c.Log.Warn("not recorded in the audit log", "sale", of, "event", what, "error", err)
	}
}
