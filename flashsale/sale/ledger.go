package sale

import (
	"context"
	"time"
)

// A Ledger is the truth about sales. It is safe for concurrent use, by several processes if
// the database is a server. A method that changes something does it in one transaction,
// durable when it returns. Errors wrap ErrNotFound, ErrConflict, ErrInvalid or
// ErrUnavailable.
//
// The rules, which the suite in ledgertest checks by number:
//
//  1. Sold is the number of pending and paid orders, and is between 0 and Stock, always.
//  2. The movements of a sale add up to Stock − Sold, and those of kind "stock" to Stock.
//  3. One order per reservation ID, and per (sale, ticket); of pending and paid orders one
//     per (sale, user, slot).
//  4. An order changes state by compare and set: PENDING_PAY to PAID, EXPIRED or CANCELLED,
//     and no state follows these.
//  5. A payment is taken once by its ID; what was not accepted is REFUND_DUE.
//  6. The contact of an order is what its buyer said last while it was pending or paid, and
//     nothing else changes it.
type Ledger interface {
	// Create makes a draft. A draft with a fault is an error that wraps ErrInvalid.
	Create(ctx context.Context, merchant string, d Draft, now time.Time) (Sale, error)

	// Edit replaces the draft of a sale that is at version and not exposed yet.
	Edit(ctx context.Context, merchant, id string, version int64, d Draft) (Sale, error)

	// Sale returns a sale.
	Sale(ctx context.Context, id string) (Sale, error)

	// Sales returns the sales of a merchant, or of all that buyers see if it is empty, the
	// newest first, up to 100 after the sale of ID after (of the first page: empty).
	Sales(ctx context.Context, merchant, after string) ([]Sale, error)

	// Live returns the sales that are exposed or paused.
	LiveSales(ctx context.Context) ([]Sale, error)

	// SetState changes the state of a sale that is in one of from. Its audit log says who.
	// Exposing a draft gives it epoch 1 and its first movement.
	SetState(ctx context.Context, actor, id string, to State, why string, now time.Time, from ...State) (Sale, error)

	// AddStock adds units to a sale that is exposed or paused, once for each key of it.
	AddStock(ctx context.Context, actor, id, key string, units int64, now time.Time) (Sale, error)

	// NextEpoch gives a sale that is at epoch the next one, and says that it recovers: of
	// several that ask, one gets it, and the others ErrConflict. Of a sale that is paused by
	// its merchant, the recovery is noted beside.
	NextEpoch(ctx context.Context, id string, epoch int64, now time.Time) (Sale, error)

	// Recovered says that the Inventory of a sale has its state at epoch.
	MarkRecovered(ctx context.Context, id string, epoch int64, now time.Time) (Sale, error)

	// InitialState returns what the Inventory's state is built from.
	InitialState(ctx context.Context, id string) (InitialState, error)

	// Place makes reservations orders, and tells of each in their order what became of it.
	// One that is an order already stays as it is. Up to 1,000. If one cannot be placed for
	// its own sake, the error wraps ErrInvalid or ErrNotFound and its State is empty; the
	// others are placed all the same.
	CreateOrders(ctx context.Context, rs []Reservation, now time.Time) ([]OrderResult, error)

	// Order returns what became of a reservation: its order, or that it is Rejected or Lost.
	Order(ctx context.Context, reservation string) (Order, error)

	// Orders returns what became of the reservations of a user, the newest first, up to 100.
	Orders(ctx context.Context, user string) ([]Order, error)

	// Pay takes a payment: it pays a pending order before its time is over (until PayBy,
	// inclusive), and is REFUND_DUE otherwise. The same payment again returns what it got.
	// Of a reservation that the Ledger does not know yet it is ErrNotFound, and not taken.
	Pay(ctx context.Context, p Payment, now time.Time) (PayResult, error)

	// Cancel cancels a pending order of the user. One that is cancelled already is no error.
	Cancel(ctx context.Context, user, reservation string, now time.Time) (Order, error)

	// SetContact notes who is to get what an order of the user buys, while it is pending or
	// paid; in any other state it is ErrConflict. Of a reservation that the Ledger does not
	// know yet, and of another's, it is ErrNotFound. The contact is trimmed, and ErrInvalid
	// if it has a fault.
	SetContact(ctx context.Context, user, reservation string, c Contact, now time.Time) (Order, error)

	// Expire expires up to max pending orders whose time is over (now is after PayBy), and
	// returns them.
	Expire(ctx context.Context, now time.Time, max int) ([]Order, error)

	// Unreturned returns up to max orders that expired or were cancelled and whose units
	// have not been returned to the Inventory yet (MarkReturned).
	Unreturned(ctx context.Context, max int) ([]Order, error)

	// MarkReturned notes that the Inventory has the units of these orders back.
	MarkReturned(ctx context.Context, reservations ...string) error

	// Lose notes that an acknowledged reservation is lost. It is ErrConflict if it is an
	// order. Then it is no order ever: Place answers Lost for it.
	MarkLost(ctx context.Context, r Reservation, now time.Time) error

	// Bury keeps an entry of the stream that cannot become an order, with the reason.
	AddDeadLetter(ctx context.Context, sale string, epoch int64, e Entry, reason string, now time.Time) error

	// Tally counts the orders of a sale.
	Totals(ctx context.Context, id string) (OrderTotals, error)

	// Report writes what became of every order of a sale, oldest first, to row.
	EachOrder(ctx context.Context, id string, row func(Order) error) error

	// Recent returns the orders of a sale, the newest first, up to 100 after that of
	// reservation after (of the first page: empty).
	RecentOrders(ctx context.Context, id, after string) ([]Order, error)

	// Saw notes from where users bought, each user at each network of a sale once, up to
	// 1,000. What cannot be kept, such as one of a sale that is not known, is left out.
	RecordNetworks(ctx context.Context, seen []NetworkUse) error

	// Networks returns those from which several users bought at a sale, the one of most users
	// first, up to 100.
	SharedNetworks(ctx context.Context, id string) ([]SharedNetwork, error)

	// Log adds a line to the audit log, and Logged returns the last 200 of a sale, or of
	// all without one, the newest first.
	AppendAudit(ctx context.Context, actor, sale, what string, now time.Time) error
	AuditLog(ctx context.Context, sale string) ([]AuditEntry, error)

	// AddMerchant adds a merchant, or replaces the password's hash of one.
	AddMerchant(ctx context.Context, name, hash string) error

	// MerchantHash returns the password's hash of a merchant.
	MerchantHash(ctx context.Context, name string) (string, error)

	// Ping says whether the database answers.
	Ping(ctx context.Context) error

	Close() error
}

// An OrderState is the state of an order, or what else became of a reservation.
type OrderState string

const (
	Reserved   OrderState = "reserved" // in the Inventory's stream: an order soon
	PendingPay OrderState = "pending_pay"
	Paid       OrderState = "paid"
	Expired    OrderState = "expired"
	Cancelled  OrderState = "cancelled"
	Rejected   OrderState = "rejected" // the Ledger had no unit or no slot for it: never an order
	Lost       OrderState = "lost"     // acknowledged and then forgotten by the Inventory
)

// An Order is a reservation that the Ledger has.
type Order struct {
	Reservation
	State     OrderState
	Price     int64
	CreatedAt time.Time // when the Ledger had it
	ChangedAt time.Time // when its state changed last
	Payment   string    // of Paid: the payment's ID
	Refunds   int       // payments of it that are REFUND_DUE
	Contact   Contact   // zero if the buyer has said none
}

// Placed is what became of a reservation.
type OrderResult struct {
	State OrderState // of the order; or Rejected or Lost
	New   bool       // this call did it
}

// A Payment is what a payment provider says.
type Payment struct {
	ID          string // the provider's: 1 to 64 letters, digits, -
	Reservation string
	Amount      int64 // any but the order's price is REFUND_DUE
}

// Paid is what became of a payment.
type PayResult struct {
	Order     Order
	RefundDue bool // it bought nothing
	Repeated  bool // it had been taken before

	// SoldOut is the number of the sale's units if every one of them is paid now, with the
	// payment that a call accepted or had accepted before; 0 otherwise.
	SoldOut int64
}

// A Tally of the orders of a sale, by state, and what else there is.
type OrderTotals struct {
	Sale                                   Sale
	Pending, Paid, Expired, Cancelled      int64
	Rejected, Lost, RefundDue, DeadLetters int64
	Movements                              int64 // what they add up to: the free units
}

// Logged is a line of the audit log.
type AuditEntry struct {
	At    time.Time
	Actor string
	Sale  string
	Event string
}
