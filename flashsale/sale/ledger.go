package sale

import (
	"context"
	"time"

	"github.com/floodweir/weir/flashsale/account"
)

// Ledger is the source of truth for sales, orders and payments. It is safe for concurrent use,
// by several processes if the database is a server. A method changes data in one transaction,
// which is durable when the method returns. Errors wrap ErrNotFound, ErrConflict, ErrInvalid
// or ErrUnavailable.
//
// The rules, which the conformance suite ledgertest checks by number:
//
//  1. Sold is the number of units of pending and paid orders, and is between 0 and Stock, always.
//  2. The movements of a sale add up to Stock − Sold, and those of kind "stock" to Stock.
//  3. One order per reservation ID, and per (sale, ticket); of pending and paid orders one
//     per (sale, user, slot). A user's pending and paid orders have at most PerUser units, an
//     order at most MaxQuantity.
//  4. An order changes state by compare and set: PENDING_PAY to PAID, EXPIRED or CANCELLED. No
//     state follows these, except that RefundBy changes PAID to CANCELLED.
//  5. A payment is applied once by its ID. A payment that was not accepted is REFUND_DUE.
//  6. The contact of an order is the last one that its buyer set while it was pending or paid.
//     Its address is the last one that was set while it was pending.
//  7. A reservation becomes an order only while its sale is at the epoch of its stream.
//  8. Money that a provider reports pays an order once or is refunded once. No order expires
//     while its payment is open at a provider, for up to CloseGrace.
type Ledger interface {
	SaleLedger
	OrderLedger
	PaymentLedger
	RecordLedger

	// Ping returns an error if the database is unavailable.
	Ping(ctx context.Context) error

	Close() error
}

// SaleLedger is the part of a Ledger about sales and their epochs.
type SaleLedger interface {
	// Create creates a draft, once for each key of the merchant, or at each call if key is empty.
	// A repeated key returns the first sale as it is now. If that is unchanged and has another
	// draft, the error wraps ErrConflict. An invalid draft is an error that wraps ErrInvalid.
	// A campaign belongs to the merchant who named it first, and one of another merchant is
	// invalid.
	Create(ctx context.Context, merchant, key string, d Draft, now time.Time) (Sale, error)

	// Edit replaces the settings of a sale that is at version, as Sale.ValidateEdit allows. The
	// audit log has each change.
	Edit(ctx context.Context, merchant, id string, version int64, d Draft, now time.Time) (Sale, error)

	// Copy creates a draft from a sale of the merchant, with its product, once for each key of
	// the sale. A repeated key returns the first copy as it is now. If the sale has started,
	// the copy starts at the same time of day (UTC), on the first day where that is after now.
	Copy(ctx context.Context, merchant, id, key string, now time.Time) (Sale, error)

	// Sale returns a sale.
	Sale(ctx context.Context, id string) (Sale, error)

	// Sales returns up to 100 sales of a merchant, the newest first, or of all that buyers see
	// if merchant is empty. Paging continues after the sale with ID after; the first page has
	// an empty one.
	Sales(ctx context.Context, merchant, after string) ([]Sale, error)

	// Live returns the sales that are exposed or paused.
	LiveSales(ctx context.Context) ([]Sale, error)

	// SetState changes the state of a sale that is in one of from, and records the actor in the
	// audit log.
	// Exposing a draft gives it epoch 1 and its first movement.
	SetState(ctx context.Context, actor, id string, to State, why string, now time.Time, from ...State) (Sale, error)

	// AddStock adds units to a sale that is exposed or paused, once for each key of it.
	AddStock(ctx context.Context, actor, id, key string, units int64, now time.Time) (Sale, error)

	// NextEpoch assigns the next epoch to a sale at epoch and marks it as recovering. From then
	// on, reservations of the earlier epoch are fenced. One of several concurrent calls
	// succeeds, and the others return ErrConflict. A sale that its merchant paused stays
	// paused after the recovery.
	NextEpoch(ctx context.Context, id string, epoch int64, now time.Time) (Sale, error)

	// MarkRecovered records that the inventory has the state of a sale at epoch.
	MarkRecovered(ctx context.Context, id string, epoch int64, now time.Time) (Sale, error)

	// InitialState returns the state from which the inventory is built.
	InitialState(ctx context.Context, id string) (InitialState, error)

	// Payments returns how the units of a sale's orders are paid, with the first max ends of pending
	// ones.
	Payments(ctx context.Context, id string, max int) (Payments, error)
}

// Payments summarizes how the units of a sale's orders are paid.
type Payments struct {
	PayBy    []time.Time // of each unit of pending orders, in order
	Paid     int64       // units that are paid
	After    [16]int64   // these units by the part of the time to pay that had passed, in equal steps
	Unpaid   int64       // units whose orders expired or were cancelled
	PerOrder float64     // the mean units of an order; 1 without orders
}

// OrderLedger is the part of a Ledger about orders and payments.
type OrderLedger interface {
	// CreateOrders creates orders for up to 1,000 reservations from the stream of an epoch, and
	// returns a result for each, in their order. Existing orders stay as they are. If a reservation is not accepted, the
	// error wraps ErrInvalid or ErrNotFound, and none is created. State Reserved means that there is
	// no order and the ledger stores nothing. The sale is then at a later epoch than the
	// stream (Fenced), or too few units are left.
	CreateOrders(ctx context.Context, epoch int64, rs []Reservation, now time.Time) ([]OrderResult, error)

	// Order returns the order of a reservation, or one in state Rejected or Lost.
	Order(ctx context.Context, reservation string) (Order, error)

	// Orders returns the orders of up to 100 reservations of a user, the newest first.
	Orders(ctx context.Context, user string) ([]Order, error)

	// Pay applies a payment. It pays a pending order until PayBy, inclusive, and is REFUND_DUE
	// otherwise. A repeated payment returns the first result. If the ledger does not have the
	// reservation yet, Pay returns ErrNotFound and does not apply the payment.
	Pay(ctx context.Context, p Payment, now time.Time) (PayResult, error)

	// Cancel cancels a pending order of the user. It succeeds if the order is cancelled already.
	Cancel(ctx context.Context, user, reservation string, now time.Time) (Order, error)

	// CancelBy is Cancel by the merchant of the sale, with the reason in the audit log once.
	CancelBy(ctx context.Context, merchant, sale, reservation, reason string, now time.Time) (Order, error)

	// RefundBy refunds a paid order of a merchant's sale, with the reason in the audit log once.
	// The order becomes CANCELLED, its payment REFUND_DUE, and its units are free again. It
	// succeeds if it has refunded the order before. An order in another state is ErrConflict.
	RefundBy(ctx context.Context, merchant, sale, reservation, reason string, now time.Time) (Order, error)

	// SetContact sets the contact of a pending or paid order of the user. In any other state it
	// returns ErrConflict. If the ledger does not have the reservation yet, or if it is another
	// user's, it returns ErrNotFound. It trims the contact, and returns ErrInvalid if it is
	// not valid. A contact without an address keeps the one of the order. A paid order keeps its
	// address: another one is ErrConflict.
	SetContact(ctx context.Context, user, reservation string, c Contact, now time.Time) (Order, error)

	// Expire expires up to max pending orders whose PayBy is before now, and returns them.
	Expire(ctx context.Context, now time.Time, max int) ([]Order, error)

	// Unreturned returns up to max expired and cancelled orders whose units are not marked as
	// returned.
	Unreturned(ctx context.Context, max int) ([]Order, error)

	// MarkReturned records that the units of these orders were returned to the inventory.
	MarkReturned(ctx context.Context, reservations ...string) error

	// MarkLost records that an acknowledged reservation is lost. It returns ErrConflict if the
	// reservation has an order. Afterwards CreateOrders returns Lost for it.
	MarkLost(ctx context.Context, r Reservation, now time.Time) error

	// Totals returns the totals of a sale's orders.
	Totals(ctx context.Context, id string) (OrderTotals, error)

	// EachOrder calls row with every order of a sale, the oldest first, with Returned set.
	EachOrder(ctx context.Context, id string, row func(Order) error) error

	// RecentOrders returns up to 100 orders of a sale, the newest first. Paging continues after
	// the order of reservation after; the first page has an empty one.
	RecentOrders(ctx context.Context, id, after string) ([]Order, error)
}

// RecordLedger is the part of a Ledger about dead letters, networks, the audit log and merchants with their accounts.
type RecordLedger interface {
	// AddDeadLetter stores an entry of the stream that cannot become an order, with the reason.
	AddDeadLetter(ctx context.Context, sale string, epoch int64, e Entry, reason string, now time.Time) error

	// RecordNetworks records up to 1,000 purchases by network, each user and network of a sale
	// once. It ignores records that cannot be stored, such as those of an unknown sale.
	RecordNetworks(ctx context.Context, seen []NetworkUse) error

	// SharedNetworks returns up to 100 networks from which several users bought at a sale,
	// those of most users first.
	SharedNetworks(ctx context.Context, id string) ([]SharedNetwork, error)

	// AppendAudit appends an entry to the audit log. If actor is a merchant and the context has
	// an account of it (account.With), the entry names the account. The same is true for every
	// method that records a merchant's action.
	AppendAudit(ctx context.Context, actor, sale, event string, now time.Time) error

	// AuditLog returns the last 200 entries of a sale, or of all sales if sale is empty, the
	// newest first.
	AuditLog(ctx context.Context, sale string) ([]AuditEntry, error)

	// AddMerchant adds a merchant with an account of the same name as its owner, or replaces the
	// password hash of that account.
	AddMerchant(ctx context.Context, name, hash string) error

	// Accounts returns the accounts of merchants.
	Accounts() account.Store
}

// OrderState is the state of a reservation and of its order.
type OrderState string

const (
	Reserved   OrderState = "reserved" // in the inventory's stream, no order yet
	PendingPay OrderState = "pending_pay"
	Paid       OrderState = "paid"
	Expired    OrderState = "expired"
	Cancelled  OrderState = "cancelled"
	Rejected   OrderState = "rejected" // its ticket or its slot has another order, or its user too many units; never an order
	Lost       OrderState = "lost"     // acknowledged, and lost in a fault; never an order
)

// Order is a reservation in the ledger.
type Order struct {
	Reservation
	State     OrderState
	Price     int64     // of all its units
	CreatedAt time.Time // when the ledger created the order
	ChangedAt time.Time // when the state changed last
	Payment   string    // of Paid: the payment's ID
	Refunds   int       // number of its payments that are REFUND_DUE
	Contact   Contact   // zero if the buyer has set none
	Refunded  int       // number of Refunds whose money is returned
	Returned  int64     // of EachOrder: the money of Refunded
	WasPaid   bool      // of Cancelled: it was paid, and then refunded
}

// OrderResult is the result of CreateOrders for one reservation.
type OrderResult struct {
	State  OrderState // of the order; Rejected or Lost; or Reserved, see CreateOrders
	New    bool       // this call set the state
	Fenced bool       // Reserved: the sale is at a later epoch; otherwise too few units are left
}

// Payment is a payment that a payment provider reports.
type Payment struct {
	ID          string // the provider's ID: 1 to 64 letters, digits, -
	Reservation string
	Amount      int64 // REFUND_DUE if it is not the order's price
}

// PayResult is the result of Pay.
type PayResult struct {
	Order     Order
	RefundDue bool // the payment was not accepted
	Repeated  bool // an earlier call applied the payment

	// SoldOut is the sale's stock if this payment was accepted and every unit is paid now; 0
	// otherwise.
	SoldOut int64
}

// OrderTotals holds the totals of a sale's orders and reservations by state.
type OrderTotals struct {
	Sale                                   Sale
	Pending, Paid, Expired, Cancelled      int64
	Rejected, Lost, RefundDue, DeadLetters int64
	Refunded, RefundFailed                 int64 // payments that were REFUND_DUE
	Returned                               int64 // the money of Refunded
	PendingUnits, PaidUnits                int64 // units of the orders in these states
	Movements                              int64 // sum of all movements: the free units
}

// AuditEntry is an entry of the audit log.
type AuditEntry struct {
	At    time.Time
	Actor string
	Sale  string
	Event string
}
