package sale

import (
	"context"
	"io"
	"time"
)

// A BuyerService is what buyers can do. Package shop implements it on an Inventory and a Ledger;
// package web gives it to browsers. A refusal is a Reason in the answer, with the Layer that
// refused; an error means that nothing was decided, or wraps ErrNotFound or ErrInvalid.
// users are trusted: they come from verified sessions.
type BuyerService interface {
	// Now is the time by which sales and orders are judged: the Inventory's, as far as a sale is
	// live or was.
	Now() time.Time

	// List returns the sales that buyers see, the next to start first.
	List(ctx context.Context) ([]View, error)

	// View returns a sale as buyers see it: at most 200 ms old, from memory.
	View(ctx context.Context, sale string) (View, error)

	// Join gives the user a ticket. place is what an earlier Turn of this user said, or
	// empty: who had a place in the line before a recovery gets it back by it.
	Join(ctx context.Context, user, sale, place string) (QueueStatus, error)

	// Turn tells the user where the ticket stands; of a user that an earlier epoch knew,
	// place restores the ticket.
	Status(ctx context.Context, user, sale, place string) (QueueStatus, error)

	// Buy reserves a unit with an admission token. key is the Idempotency-Key, 1 to 64
	// printable characters, or empty.
	Buy(ctx context.Context, user, sale, token, key string) (BuyResult, error)

	// Saw notes from which network a user bought, for the merchant to look at. It returns at
	// once: it is evidence and no decision, and is dropped and counted where it comes faster
	// than it can be written.
	RecordNetwork(user, sale, network string)

	// Order returns what became of a reservation of the user.
	Order(ctx context.Context, user, receipt string) (Receipt, error)

	// Orders returns the user's orders, the newest first.
	Orders(ctx context.Context, user string) ([]Receipt, error)

	// Cancel cancels an order that is pending.
	Cancel(ctx context.Context, user, receipt string) (Receipt, error)

	// SetContact notes who is to get what an order buys, while it is pending or paid. Of one
	// that is not written yet it is ErrUnavailable.
	SetContact(ctx context.Context, user, receipt string, c Contact) (Receipt, error)

	// Pay takes what a payment provider says about a receipt of any user.
	Pay(ctx context.Context, receipt, payment string, amount int64) (PayResult, error)
}

// A MerchantService is what merchants can do with their sales. Errors wrap ErrNotFound,
// ErrConflict, ErrInvalid or ErrUnavailable. A sale of another merchant is ErrNotFound.
type MerchantService interface {
	Create(ctx context.Context, merchant string, d Draft) (Sale, error)
	Edit(ctx context.Context, merchant, sale string, version int64, d Draft) (Sale, error)
	Sales(ctx context.Context, merchant, after string) ([]Sale, error)
	Sale(ctx context.Context, merchant, sale string) (Sale, error)

	// Check says what is wrong with exposing a sale now, or nothing: dates in the past, a
	// Inventory or a Ledger that does not answer, units that no admission limit can hold.
	Check(ctx context.Context, merchant, sale string) ([]string, error)

	// Warm prepares what the first buyers need: scripts, connections, caches; Check first.
	Warm(ctx context.Context, merchant, sale string) error

	Expose(ctx context.Context, merchant, sale string) (Sale, error)
	Pause(ctx context.Context, merchant, sale string) (Sale, error)
	Resume(ctx context.Context, merchant, sale string) (Sale, error)
	AddStock(ctx context.Context, merchant, sale, key string, units int64) (Sale, error)

	// End ends a sale; Kill is End that the board shows as the kill switch. Orders that are
	// pending can be paid until their time is over.
	End(ctx context.Context, merchant, sale string, kill bool) (Sale, error)

	// Board is the live board.
	Dashboard(ctx context.Context, merchant, sale string) (Dashboard, error)

	// Report writes the orders of a sale as CSV with a head line and a line of sums.
	Report(ctx context.Context, merchant, sale string, w io.Writer) error

	// Recent returns the orders of a sale, the newest first, up to 100 after that of
	// reservation after (of the first page: empty).
	RecentOrders(ctx context.Context, merchant, sale, after string) ([]Order, error)

	// Networks returns those from which several users bought, the one of most users first, up
	// to 100.
	SharedNetworks(ctx context.Context, merchant, sale string) ([]SharedNetwork, error)

	// Reconcile compares Inventory and Ledger, mends the Inventory, and says what it changed.
	Reconcile(ctx context.Context, merchant, sale string) (ReconcileResult, error)

	AuditLog(ctx context.Context, merchant, sale string) ([]AuditEntry, error)
}

// A View of a sale, as buyers see it.
type View struct {
	Sale    Sale
	Phase   Phase
	Now     time.Time // the server's clock
	Free    int64
	Waiting int64
	Poll    time.Duration // when to ask again
}

// A Turn tells a buyer where the ticket stands.
type QueueStatus struct {
	Reason     Reason        // why there is no ticket, or none any more
	Layer      Layer         // who refused
	RetryAfter time.Duration // of a refusal: when to ask again, 0 for never
	View       View
	State      TicketState
	New        bool // of Join: this call made the ticket
	Ahead      int64
	ETA        time.Duration // Waiting: about when the turn comes; 0 if not known
	Poll       time.Duration // when to ask again
	Ticket     string        // signed: what to give as place
	Token      string        // Admitted: what to buy with
	Until      time.Time     // Admitted: until then
	Reserved   []Receipt     // what the user has reserved in this sale and holds
}

// Bought is the answer to Buy.
type BuyResult struct {
	Reason     Reason
	Layer      Layer
	RetryAfter time.Duration
	Repeated   bool
	Receipt    Receipt
}

// A Receipt is a reservation as its buyer sees it.
type Receipt struct {
	Receipt string // signed; names the reservation, its sale, epoch and user
	Sale    Sale   // of List and Orders: with ID, SKU, Title, Price and Currency at least
	State   OrderState
	At      time.Time
	PayBy   time.Time
	Refunds int
	Contact Contact // of Order, Orders and SetContact; zero if there is none
}

// A Board is what a merchant watches.
type Dashboard struct {
	View      View
	Counts    Counts
	Totals    OrderTotals
	Layers    map[Layer]map[Reason]int64 // refused by this process since it began
	Admitted  int64                      // batches' tickets admitted by this process
	DrainRate float64                    // orders per second that the writers have shown
	Lag       time.Duration              // age of the oldest entry of the stream
	Workers   int
}

// Reconciled is what Reconcile found.
type ReconcileResult struct {
	Free, FreeBefore int64 // of the Inventory
	Returned         int   // units of orders that were over, given back now
	Dropped          int   // reservations of the Inventory without an order, stream entry or time left
	Changed          int   // how many rows changed in all; 0 says that both agree
}
