package sale

import (
	"context"
	"time"

	"github.com/floodweir/weir/flashsale/payments"
)

// CloseGrace bounds how long after its PayBy an order stays pending while its provider does
// not say whether it was paid.
const CloseGrace = 15 * time.Second

// PaymentLedger is the part of a Ledger about payments at providers.
type PaymentLedger interface {
	// AddCheckout stores a payment that was opened at a provider. It changes nothing if the
	// ledger has it.
	AddCheckout(ctx context.Context, c Checkout) error

	// Checkouts returns the payments that were opened for a reservation, the first first.
	Checkouts(ctx context.Context, reservation string) ([]Checkout, error)

	// RecordEvent stores what a provider reports about a payment that was opened there, once
	// for each kind and refund key, and applies it in the same transaction. Money pays a
	// pending order with its price and currency, also after PayBy; otherwise the result is
	// RefundDue. Money for a reservation that the ledger does not have yet waits for it.
	// Money of a payment that was not opened there is applied alike, if the ledger has its
	// reservation, and if its provider is the merchant's or payments.Default. If not, it is unmatched.
	RecordEvent(ctx context.Context, provider string, e payments.Event, now time.Time) (EventResult, error)

	// ApplyWaiting applies up to max events that wait and whose reservations the ledger has now.
	// CreateOrders applies them too, except for unmatched payments.
	ApplyWaiting(ctx context.Context, now time.Time, max int) ([]PayResult, error)

	// UnmatchedPayments returns up to max unmatched payments, the latest first.
	UnmatchedPayments(ctx context.Context, max int) ([]payments.Unmatched, error)

	// LeaseCheckouts returns up to max open payments of these providers that are due, and makes
	// them due again at the time until. A payment is due when it was open for a while, when its
	// order has ended, and at PayBy.
	LeaseCheckouts(ctx context.Context, providers []string, now, until time.Time, max int) ([]Checkout, error)

	// PostponeCheckout makes an open payment due at another time, and counts a failed try.
	PostponeCheckout(ctx context.Context, id string, due time.Time, failed bool) error

	// LeaseRefunds returns up to max refunds of these providers that are due, and makes them
	// due again at the time until.
	LeaseRefunds(ctx context.Context, providers []string, now, until time.Time, max int) ([]Refund, error)

	// SetRefund stores the State, Due, Tries and Error of a refund that is not RefundDone.
	SetRefund(ctx context.Context, r Refund, now time.Time) error

	// RetryRefunds makes failed refunds due again, and returns how many. An empty payment
	// stands for all.
	RetryRefunds(ctx context.Context, payment string, now time.Time) (int64, error)

	// AddPaymentKey adds an encrypted key of a provider, and removes all but the newest keep.
	AddPaymentKey(ctx context.Context, provider, sealed string, keep int, now time.Time) error

	// PaymentKeys returns the encrypted keys of a provider, the newest first.
	PaymentKeys(ctx context.Context, provider string) ([]string, error)
}

// CheckoutState is the state of a payment that was opened at a provider.
type CheckoutState string

const (
	CheckoutOpen   CheckoutState = "open"
	CheckoutClosed CheckoutState = "closed"
	CheckoutPaid   CheckoutState = "paid"
)

// Checkout is a payment that was opened at a provider.
type Checkout struct {
	Provider, Ref string
	Reservation   string
	Sale          string
	Receipt       string // signed
	Attempt       int
	Amount        int64
	Currency      string
	URL           string
	State         CheckoutState
	OpenedAt      time.Time
	PayBy         time.Time
	Due           time.Time  // when to ask the provider
	Tries         int        // failed ones
	Order         OrderState // of LeaseCheckouts: the state of its order; Reserved if there is none
}

// ID returns the ID of the payment in the ledger.
func (c *Checkout) ID() string { return PaymentID(c.Provider, c.Ref) }

// PaymentID returns the ID in the ledger of a provider's payment.
func PaymentID(provider, ref string) string { return provider + ":" + ref }

// EventResult is the result of RecordEvent.
type EventResult struct {
	Unknown   bool      // no such payment was opened for this reservation
	Unmatched bool      // Unknown, and stored; otherwise an unknown event is ignored
	Repeated  bool      // an earlier call stored it
	Waits     bool      // for the order
	Pay       PayResult // of an event Paid that does not wait
}

// RefundState is the state of a refund.
type RefundState string

const (
	RefundDue    RefundState = "due"
	RefundSent   RefundState = "sent" // the provider has it in progress
	RefundDone   RefundState = "done"
	RefundFailed RefundState = "failed" // a dead letter: see RetryRefunds
)

// Refund is a payment that goes back to its buyer.
type Refund struct {
	Payment     string // its ID in the ledger
	Reservation string
	Sale        string
	Amount      int64
	State       RefundState
	Tries       int // failed ones
	Due         time.Time
	Error       string // of the last try
}

// Key returns the key of a refund at the provider, which is the same in every try.
func (r *Refund) Key() string { return RefundKey(r.Payment) }

// RefundKey returns the key of the refund of a payment.
func RefundKey(payment string) string { return "refund-" + payment }
