package sale

import (
	"context"
	"io"
	"time"
)

// BuyerService provides the operations of buyers. Package shop implements it with an Inventory and a
// Ledger; package web serves it over HTTP. A result with a Reason is a refusal by its Layer.
// An error means that nothing was decided, or wraps ErrNotFound or ErrInvalid. Users are
// trusted: the caller takes them from verified sessions.
type BuyerService interface {
	// Now returns the time by which sales and orders are judged: the inventory's clock, once it
	// is known.
	Now() time.Time

	// List returns the sales that buyers see, the next to start first.
	List(ctx context.Context) ([]View, error)

	// View returns a sale from memory, at most 200 ms old.
	View(ctx context.Context, sale string) (View, error)

	// Join gives the user a ticket. ticket is QueueStatus.Ticket of an earlier call, or empty:
	// after a recovery it restores the user's position in the queue.
	Join(ctx context.Context, user, sale, ticket string) (QueueStatus, error)

	// Click is Join or Status of a user who wants to buy as soon as possible. If the quantity is
	// free for the ticket, it reserves it in the same call. With a key it is Join, and a
	// repeated key is the same click. Without a key it is Status, if there is a ticket.
	Click(ctx context.Context, user, sale, ticket, key string) (QueueStatus, error)

	// Status returns the status of the user's ticket, and shows that the user is present (see
	// Inventory.Poll). After a recovery, ticket restores it.
	Status(ctx context.Context, user, sale, ticket string) (QueueStatus, error)

	// Buy reserves units with an admission token. key is the Idempotency-Key, 1 to 64
	// printable characters, or empty.
	Buy(ctx context.Context, user, sale, token, key string) (BuyResult, error)

	// RecordNetwork records from which network a user bought, for the merchant. It returns at
	// once. A record that cannot be queued is dropped and counted; nothing depends on it.
	RecordNetwork(user, sale, network string)

	// Order returns the order of a receipt.
	Order(ctx context.Context, user, receipt string) (Receipt, error)

	// Orders returns the user's orders, the newest first.
	Orders(ctx context.Context, user string) ([]Receipt, error)

	// Cancel cancels a pending order.
	Cancel(ctx context.Context, user, receipt string) (Receipt, error)

	// SetContact sets the contact of a pending or paid order: see OrderLedger. An address that
	// the sale does not ask for is ErrInvalid. If the order is not written yet, it returns
	// ErrUnavailable.
	SetContact(ctx context.Context, user, receipt string, c Contact) (Receipt, error)

	// Pay applies a payment that a payment provider reports, for a receipt of any user.
	Pay(ctx context.Context, receipt, payment string, amount int64) (PayResult, error)

	// Limited returns the service for users who may hold at most so many units of a sale, 1 or
	// more, whatever its PerUser.
	Limited(units int) BuyerService

	// Quantity returns the service for a user who wants so many units in one order: with 1 it is
	// the service itself. Join, Click and Buy return ErrInvalid if that is not from 1 to the
	// MaxQuantity of the sale.
	Quantity(units int) BuyerService
}

// MerchantService provides the operations of merchants on their sales. Errors wrap ErrNotFound,
// ErrConflict, ErrInvalid or ErrUnavailable. A sale of another merchant is ErrNotFound.
type MerchantService interface {
	// Create creates a draft, once for each key of the merchant: see SaleLedger. key may be empty.
	Create(ctx context.Context, merchant, key string, d Draft) (Sale, error)

	// Edit replaces the settings of a sale at version, as Sale.ValidateEdit allows. All processes
	// use them within seconds.
	Edit(ctx context.Context, merchant, sale string, version int64, d Draft) (Sale, error)

	// Copy creates a draft from a sale of the merchant, once for each key of the sale: see
	// SaleLedger.
	Copy(ctx context.Context, merchant, sale, key string) (Sale, error)

	Sales(ctx context.Context, merchant, after string) ([]Sale, error)
	Sale(ctx context.Context, merchant, sale string) (Sale, error)

	// Check returns the problems of exposing a sale now: dates in the past, an inventory or a
	// ledger that is unavailable, more units than an admission limit can hold.
	Check(ctx context.Context, merchant, sale string) ([]string, error)

	// Warm prepares scripts, connections and caches for the first buyers. It fails if Check
	// finds a problem.
	Warm(ctx context.Context, merchant, sale string) error

	Expose(ctx context.Context, merchant, sale string) (Sale, error)
	Pause(ctx context.Context, merchant, sale string) (Sale, error)
	Resume(ctx context.Context, merchant, sale string) (Sale, error)
	AddStock(ctx context.Context, merchant, sale, key string, units int64) (Sale, error)

	// End ends a sale. With kill its StateReason is Killed. Pending orders can still be paid
	// until they expire.
	End(ctx context.Context, merchant, sale string, kill bool) (Sale, error)

	Dashboard(ctx context.Context, merchant, sale string) (Dashboard, error)

	// Report writes the orders of a sale as CSV, with a header and a line of totals. If it fails
	// after its first write, a line that begins with "error" is in the place of the totals. Without
	// contacts it masks the contact data of buyers.
	Report(ctx context.Context, merchant, sale string, contacts bool, w io.Writer) error

	// EachOrder calls row with every order of a sale, the oldest first: see OrderLedger.
	EachOrder(ctx context.Context, merchant, sale string, row func(Order) error) error

	// RecentOrders returns up to 100 orders of a sale, the newest first. Paging continues
	// after the order of reservation after; the first page has an empty one.
	RecentOrders(ctx context.Context, merchant, sale, after string) ([]Order, error)

	// CancelOrder cancels a pending order of a sale, with a reason for the audit log. It
	// succeeds if the order is cancelled already.
	CancelOrder(ctx context.Context, merchant, sale, reservation, reason string) (Order, error)

	// RefundOrder refunds a paid order of a sale, with a reason for the audit log. The unit is
	// free again, and its money goes back through the provider. It succeeds if the order is
	// refunded already.
	RefundOrder(ctx context.Context, merchant, sale, reservation, reason string) (Order, error)

	// SharedNetworks returns up to 100 networks from which several users bought, those of most
	// users first.
	SharedNetworks(ctx context.Context, merchant, sale string) ([]SharedNetwork, error)

	// Reconcile compares inventory and ledger, repairs the inventory, and returns the changes.
	Reconcile(ctx context.Context, merchant, sale string) (ReconcileResult, error)

	AuditLog(ctx context.Context, merchant, sale string) ([]AuditEntry, error)
}

// View is a sale as buyers see it.
type View struct {
	Sale    Sale
	Phase   Phase
	Now     time.Time // the server's clock
	Free    int64
	Waiting int64
	Poll    time.Duration // when to poll again
}

// QueueStatus is the status of a user's ticket as the user sees it.
type QueueStatus struct {
	Reason     Reason        // why there is no ticket, or why it cannot be used
	Left       int64         // FewLeft: how many units are free
	Layer      Layer         // the layer that refused
	RetryAfter time.Duration // after a refusal: when to retry, 0 for never
	View       View
	State      TicketState
	New        bool // of Join: this call made the ticket
	Ahead      int64
	ETA        time.Duration // Waiting: estimated time until admission; 0 if unknown
	Low, High  time.Duration // Waiting: the range of ETA
	Unlikely   bool          // Waiting: the units may run out first
	Restored   bool          // the user was absent and has its position again
	Bought     bool          // this call made the newest reservation of Reserved
	Poll       time.Duration // when to poll again
	Ticket     string        // signed; an argument of Join and Status
	Token      string        // Admitted: the admission token for Buy
	Until      time.Time     // Admitted: when Token expires
	Reserved   []Receipt     // of this sale, which the user holds
}

// BuyResult is the result of Buy.
type BuyResult struct {
	Reason     Reason
	Left       int64 // as in QueueStatus
	Layer      Layer
	RetryAfter time.Duration
	Repeated   bool // an earlier call made the reservation
	Receipt    Receipt
}

// Receipt is a reservation as its buyer sees it.
type Receipt struct {
	Receipt string // signed; names the reservation, its sale, epoch and user
	Order   string // the ID of the reservation, which merchants see
	Sale    Sale   // of List and Orders: with ID, SKU, Title, Price and Currency at least
	State   OrderState
	At      time.Time
	PayBy   time.Time
	Refunds int

	Quantity int   // units
	Price    int64 // of all units

	Contact  Contact // of Order, Orders and SetContact; zero if there is none
	Refunded int     // number of Refunds whose money is returned
}

// Dashboard is the live state of a sale for its merchant.
type Dashboard struct {
	View      View
	Counts    Counts
	Totals    OrderTotals
	Layers    map[Layer]map[Reason]int64 // refusals of this process
	Admitted  int64                      // tickets that this process admitted
	DrainRate float64                    // orders per second that the order writers can write
	Lag       time.Duration              // age of the oldest entry of the stream
	Workers   int
	Curves    []CurvePoint // see Curves
}

// ReconcileResult is the result of Reconcile.
type ReconcileResult struct {
	Free, FreeBefore int64 // units that are free in the inventory
	Returned         int   // units of expired and cancelled orders that were returned
	Dropped          int   // reservations in the inventory that had no order and no stream entry
	Changed          int   // all changes; 0 means that both sides agreed
}
