package payments

import (
	"context"
	"errors"
	"net/http"
	"time"
)

// Default is the name of the provider of all merchants that have none of their own.
const Default = "default"

// Payments is a payment provider. An implementation keeps these rules:
//
//  1. Create with the same Receipt and Attempt returns the same Payment.
//  2. Notify accepts only what the provider has signed recently, and changes nothing.
//  3. Query returns the present state of a payment.
//  4. After Close returned nil, no money arrives. If money arrived first, Close returns ErrPaid.
//  5. Refund with the same key moves money once.
type Payments interface {
	// Create opens a payment for an order.
	Create(ctx context.Context, o Order) (Payment, error)

	// Notify verifies a notification of the provider and translates it. body is the body of r,
	// which has been read. A notification that the provider has not signed, or too long ago,
	// is ErrForged. A Notice without a Ref is genuine and about something else.
	Notify(r *http.Request, body []byte) (Notice, error)

	// Query returns the present state of a payment as an event. Its ID can be empty.
	Query(ctx context.Context, ref string) (Event, error)

	// Close prevents that a payment is paid. A closed payment stays closed, without an error.
	Close(ctx context.Context, ref string) error

	// Refund returns amount of a payment to its buyer. key has at most 200 letters, digits and
	// -_.: and is the same in every repetition. ErrRefused means that repeating it is useless.
	Refund(ctx context.Context, ref string, amount int64, key string) (RefundState, error)
}

var (
	// ErrForged means that a notification is not from the provider, or too old.
	ErrForged = errors.New("payments: signature does not match, or is too old")

	// ErrPaid means that a payment cannot be closed because it is paid.
	ErrPaid = errors.New("payments: paid already")

	// ErrNotFound means that the provider does not know a payment.
	ErrNotFound = errors.New("payments: unknown payment")

	// ErrRefused means that the provider refuses a call for good.
	ErrRefused = errors.New("payments: refused")
)

// Order describes what a buyer is to pay.
type Order struct {
	Receipt   string    `json:"receipt"`              // identifies the order: 16 to 64 letters, digits, -
	Attempt   int       `json:"attempt"`              // from 1; a new one after a payment was closed
	Amount    int64     `json:"amount"`               // in the smallest unit, above 0
	Currency  string    `json:"currency"`             // ISO 4217
	Title     string    `json:"title"`                // of the product
	Merchant  string    `json:"merchant"`             // who sells it
	Sale      string    `json:"sale"`                 // ID of the sale
	PayBy     time.Time `json:"pay_by"`               // the flash sale closes the payment then
	ReturnURL string    `json:"return_url,omitempty"` // where the buyer goes afterwards
}

// Payment is a payment that waits for its buyer.
type Payment struct {
	// Ref is the provider's ID of the payment: 1 to 120 letters, digits and -_.:
	Ref string `json:"ref"`

	// URL is the page on which the buyer pays: https, or http on this machine.
	URL string `json:"url"`
}

// Event is one thing that happened to a payment.
type Event struct {
	ID        string    `json:"id"`                   // the provider's ID of the event; may be empty
	Ref       string    `json:"ref"`                  // Payment.Ref
	Receipt   string    `json:"receipt"`              // Order.Receipt; may be empty for Refunded and RefundFailed
	RefundKey string    `json:"refund_key,omitempty"` // of Refunded and RefundFailed: the key of Refund, or another one for each refund that another made
	Kind      Kind      `json:"kind"`
	Amount    int64     `json:"amount"` // what was paid or refunded, in the smallest unit
	Currency  string    `json:"currency"`
	At        time.Time `json:"at"`
}

// Unmatched is an event of a payment that the flash sale has not opened, and whose order, its
// Receipt, it does not have.
type Unmatched struct {
	Provider string // its name
	Event
	ReceivedAt time.Time
}

// Notice is a verified notification and the provider's answers.
type Notice struct {
	Event Event
	OK    Reply // after the event is stored; 200 if zero
	Retry Reply // if it could not be stored; 503 if zero
}

// Reply is a response to a notification.
type Reply struct {
	Status      int
	ContentType string // text/plain if empty
	Body        string
}

// RefundState is the state of a refund.
type RefundState string

const (
	RefundPending RefundState = "pending" // the provider will notify, or a repeated Refund returns the outcome
	RefundDone    RefundState = "done"
)
