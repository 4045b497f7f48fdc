// Package sale defines the domain types of a flash sale: sales, tickets, reservations and
// orders with their states, and the interfaces of the two stores that keep them.
//
// An [Inventory] is fast and may lose its state. It holds the waiting room, the admitted
// tickets and the reserved units. A [Ledger] is the source of truth. It holds sales, orders,
// payments and every movement of a unit. A reservation becomes an order when the ledger has
// it. The ledger never has more orders than units, whatever an inventory reports.
//
// # States of a purchase
//
//	WAITING → ADMITTED → RESERVED → PENDING_PAY → PAID | EXPIRED | CANCELLED
//
// A ticket waits in the queue of a sale until the inventory admits it. Its holder then gets an
// admission token, which can reserve one unit while it is valid. The reservation stays in the
// inventory's stream until the ledger has its order. An order that is not paid in time
// expires, and its unit returns: first in the ledger, then in the inventory. A payment that
// is too late is refunded. If an inventory loses a reservation that it acknowledged, the
// reservation is marked as lost: it is counted, and its buyer sees it.
//
// # Epochs
//
// An inventory's state of a sale belongs to an epoch, a number that the ledger assigns. An
// inventory without a state of the requested epoch returns ErrStale. The sale is then paused,
// gets the next epoch, and its state is rebuilt from the ledger (InitialState).
//
// # Time
//
// An inventory and a ledger judge by their own clock or by the time that the caller passes,
// never by a buyer's. A sale is open from StartsAt, inclusive, to EndsAt, exclusive.
package sale

import "errors"

var (
	// ErrStale means that the inventory has no state of this sale at this epoch.
	ErrStale = errors.New("sale: no state at this epoch")

	// ErrNotFound means that the ledger does not have the requested sale, order or merchant.
	ErrNotFound = errors.New("sale: not found")

	// ErrConflict means that the entity has changed meanwhile, or that its state does not
	// allow the change. The error's text names which.
	ErrConflict = errors.New("sale: conflict")

	// ErrInvalid means that a value is not accepted. See FieldError.
	ErrInvalid = errors.New("sale: invalid")

	// ErrUnavailable means that the inventory or the ledger did not respond. The operation may
	// have happened. The cause is wrapped.
	ErrUnavailable = errors.New("sale: unavailable")
)
