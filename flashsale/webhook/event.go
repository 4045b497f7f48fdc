package webhook

import (
	"context"
	"time"
)

// Type is the type of an event.
type Type string

// The types of events. The subject of an order event is its reservation, of a sale event its
// sale.
const (
	OrderReserved  Type = "order.reserved"
	OrderPaid      Type = "order.paid"
	OrderExpired   Type = "order.expired"
	OrderCancelled Type = "order.cancelled"
	OrderLost      Type = "order.lost"
	OrderRefunded  Type = "order.refunded"
	SaleSoldOut    Type = "sale.sold_out"
	SaleEnded      Type = "sale.ended"
)

// Types lists the types of events.
func Types() []Type {
	return []Type{OrderReserved, OrderPaid, OrderExpired, OrderCancelled, OrderLost, OrderRefunded, SaleSoldOut, SaleEnded}
}

// State is the state of a delivery.
type State string

const (
	Pending   State = "pending"
	Delivered State = "delivered"
	Dead      State = "dead"    // the last attempt failed; later events of the subject wait
	Skipped   State = "skipped" // by the merchant
)

// States lists the states of a delivery.
func States() []State { return []State{Pending, Delivered, Dead, Skipped} }

// The reasons why an endpoint is disabled.
const (
	Gone       = "gone"     // it returned 410
	ByMerchant = "merchant" // its merchant disabled it
)

// MaxEndpoints is the maximum number of endpoints of a merchant.
const MaxEndpoints = 10

// Endpoint is a URL that receives the events of a merchant's sales.
type Endpoint struct {
	ID, Merchant, URL string
	Disabled          string // Gone or ByMerchant; empty if the endpoint is enabled
	CreatedAt         time.Time

	// Secrets are the secrets that sign now, the newest first. Of Store.Endpoints it is empty.
	Secrets []string

	// Pending and Dead count the deliveries. Only Store.Endpoints sets them.
	Pending, Dead int64
}

// Delivery is the delivery of an event to an endpoint.
type Delivery struct {
	Endpoint string
	Event    string // its ID, in the header webhook-id
	Type     Type
	Subject  string // the reservation or the sale
	Seq      int64  // the position among the events of the subject, from 1
	Body     string // JSON
	State    State
	Attempts int   // since the event, or since the last replay
	Lease    int64 // number of the current lease
	Due      time.Time
	At       time.Time // when the event occurred
}

// Attempt is one request to an endpoint.
type Attempt struct {
	At       time.Time
	Status   int // 0 without a response
	Duration time.Duration
	Error    string // why there was no response
	Response string // the start of the body, up to 1 KiB
}

// Result is the result of a leased delivery. An Attempt with a zero At was not made; the
// delivery is due again then.
type Result struct {
	Delivery Delivery // with the new State, Attempts and Due
	Attempt  Attempt
	Gone     bool // disables the endpoint
}

// Filter selects deliveries. Its zero value selects the newest 100.
type Filter struct {
	State   State
	Type    Type
	Subject string
	After   string // the ID of the event after which the page begins
}

// Counts holds the number of open deliveries.
type Counts struct {
	Pending, Dead int64
	Oldest        time.Time // when the oldest pending event occurred; zero without one
}

// Store stores endpoints, events and deliveries. It is safe for concurrent use, by several
// processes if the ledger is. An empty merchant stands for all merchants. Errors wrap
// sale.ErrNotFound, sale.ErrConflict, sale.ErrInvalid or sale.ErrUnavailable.
type Store interface {
	// AddEndpoint adds an endpoint with a secret. A merchant has up to MaxEndpoints.
	AddEndpoint(ctx context.Context, merchant, url, secret string, now time.Time) (Endpoint, error)

	// Endpoints returns the endpoints of a merchant, the oldest first.
	Endpoints(ctx context.Context, merchant string) ([]Endpoint, error)

	// RotateSecret sets a new secret. The previous one signs too until the time until.
	RotateSecret(ctx context.Context, merchant, endpoint, secret string, until time.Time) error

	// SetDisabled disables an endpoint with a reason, or enables it if why is empty. Events
	// that occur while it is disabled are not stored for it.
	SetDisabled(ctx context.Context, merchant, endpoint, why string) error

	// RemoveEndpoint removes an endpoint with its deliveries.
	RemoveEndpoint(ctx context.Context, merchant, endpoint string) error

	// DueEndpoints returns up to 100 enabled endpoints with a delivery that is due.
	DueEndpoints(ctx context.Context, now time.Time) ([]Endpoint, error)

	// Lease leases up to max due deliveries of an endpoint until the time until. It skips those
	// of which an earlier event of the subject is pending or dead.
	Lease(ctx context.Context, endpoint string, now, until time.Time, max int) ([]Delivery, error)

	// Finish stores results. It ignores a failure of a lease that has expired and was given
	// again.
	Finish(ctx context.Context, now time.Time, results []Result) error

	// Sweep stores sale.ended for sales whose time is up. It removes some events from before
	// the time keep that no endpoint has open, and after 60 more days any event.
	Sweep(ctx context.Context, now, keep time.Time) error

	// Counts returns the number of open deliveries.
	Counts(ctx context.Context) (Counts, error)

	// Deliveries returns up to 100 deliveries of an endpoint, the newest first.
	Deliveries(ctx context.Context, merchant, endpoint string, f Filter) ([]Delivery, error)

	// Attempts returns a delivery and its last 50 attempts, the newest first.
	Attempts(ctx context.Context, merchant, endpoint, event string) (Delivery, []Attempt, error)

	// Replay makes a delivery pending and due, in any state.
	Replay(ctx context.Context, merchant, endpoint, event string, now time.Time) error

	// ReplaySince does so for all deliveries of events since a time, and returns how many.
	ReplaySince(ctx context.Context, merchant, endpoint string, since, now time.Time) (int64, error)

	// Skip ends a pending or dead delivery without sending it.
	Skip(ctx context.Context, merchant, endpoint, event string, now time.Time) error
}
