// Package sale is the words of a flash sale: what a sale, a ticket, a reservation and an
// order are, which states they have, and what the two parts that keep them promise.
//
// An Inventory is fast and may forget: it says who waits, whose turn it is, and who has a unit
// reserved. A Ledger is the truth: it keeps sales, orders, payments, and every movement of
// a unit. What the Inventory reserved becomes an order when the Ledger has it, and the Ledger
// never has more orders than units, whatever an Inventory says.
//
// # A buyer's way
//
//	WAITING → ADMITTED → RESERVED → PENDING_PAY → PAID | EXPIRED | CANCELLED
//
// A ticket waits in the line of a sale until the Inventory admits it: its holder is given an
// admission token and may reserve one unit with it, once, while it is valid. The
// reservation stands in the Inventory's stream until it is an order of the Ledger. An order that
// is not paid in time expires and its unit returns: first in the Ledger, then to the Inventory.
// Money that comes too late is to be refunded, and never buys a unit. A reservation that
// was acknowledged by an Inventory which then forgot it is lost: its buyer is told, and it is
// counted.
//
// # Epochs
//
// The state of a sale in an Inventory belongs to an epoch, a number that the Ledger hands out.
// An Inventory that has no state of the epoch it is asked about answers ErrStale. Then the sale
// is paused, gets the next epoch, and its state is built again from the Ledger (InitialState).
//
// # Time
//
// An Inventory and a Ledger judge by their own clock or by the time they are given, never by a
// buyer's. A sale is open from StartsAt on and before EndsAt.
package sale

import "errors"

var (
	// ErrStale: the Inventory has no state of this sale at this epoch.
	ErrStale = errors.New("sale: no state at this epoch")

	// ErrNotFound: the Ledger does not know what was asked about.
	ErrNotFound = errors.New("sale: not found")

	// ErrConflict: what was to be changed has changed meanwhile, or is in no state from
	// which this change is possible. The error's text says which.
	ErrConflict = errors.New("sale: conflict")

	// ErrInvalid: a field has a value that is not accepted. The error's text names the
	// field, the value and what was expected.
	ErrInvalid = errors.New("sale: invalid")

	// ErrUnavailable: the Inventory or the Ledger cannot be asked now. What was asked may have
	// happened. Its cause is wrapped.
	ErrUnavailable = errors.New("sale: unavailable")
)
