package sale

import (
	"context"
	"time"
)

// Inventory holds the waiting room and the free units of sales. It is safe for concurrent use.
// Every method except Open and Close returns ErrStale, and changes nothing, if there is no
// state of the sale at the epoch. After an error that wraps ErrUnavailable the operation may
// have happened. Arguments that are never valid (see the Validate methods) return an error
// that wraps ErrInvalid.
//
// The rules, which the conformance suite inventorytest checks by number:
//
//  1. Free units plus reservations equal the stock. Free is never negative.
//  2. A refused call changes nothing.
//  3. A user holds at most PerUser units.
//  4. A ticket reserves at most once. A repeated call with the same ticket, or of the same user
//     with the same key, returns the first reservation with Repeated set. This holds after
//     that reservation was returned, and for the reservations of the InitialState.
//  5. The queue is ordered by rank; ranks in the queue are unique.
//  6. An acknowledged reservation stays in the stream until Ack. It is delivered again if its
//     worker does not acknowledge it within a time. It survives the end of the process or of
//     the server, as far as the server keeps its data.
//  7. Return returns a reservation's unit once, however often it is called.
//  8. Nothing is reserved before StartsAt, from EndsAt on, or while paused, by the inventory's
//     clock. The clock never goes back in one process and has milliseconds; finer parts of
//     times are cut off.
//  9. What a user can make it store is bounded: the last ticket, and MaxReservations
//     reservations of an epoch, including returned ones and those of the InitialState.
type Inventory interface {
	// Open builds the state of o.Sale at its epoch and replaces that of any earlier epoch. While
	// an earlier stream has entries, it returns an error that wraps ErrConflict. If there is
	// a state of this epoch already, nothing changes. If that state is closed, or if there
	// is a state of a later epoch, it returns ErrStale.
	Open(ctx context.Context, o InitialState) error

	// Close makes the state at this epoch refuse everything with ErrStale except Next, Ack
	// and Delete, so that its stream can be drained. It succeeds if there is no state.
	Close(ctx context.Context, sale string, epoch int64) error

	// SetPaused pauses or resumes admission and reservation. Users can join meanwhile.
	SetPaused(ctx context.Context, sale string, epoch int64, paused bool) error

	// SetStock sets the number of units. More than before are added to the free ones; fewer
	// than before is an error that wraps ErrInvalid.
	SetStock(ctx context.Context, sale string, epoch int64, stock int64) error

	// SetPaid raises the number of paid units, 0 to 2^53. A smaller number than before
	// changes nothing. An inventory only reports it in Counts. In this
	// way the process that takes the last payment reports to all others that the sale is
	// sold out, also while the ledger is unavailable.
	SetPaid(ctx context.Context, sale string, epoch int64, paid int64) error

	// Join gives a user a ticket in the queue. A user keeps a ticket that waits, one whose
	// admission is valid, and one with the requested ID; Join returns its status. A user with
	// any other ticket, or with none, gets a new one. Join refuses, in this order,
	//
	//   - HasEnded: from EndsAt on;
	//   - IsPaused: with Batch, while the sale is paused;
	//   - NotStarted: before StartsAt; in a Shuffled sale, before StartsAt − Lobby (with
	//     Batch, before StartsAt);
	//   - PerUserLimit: the user holds PerUser units, or has made MaxReservations in this epoch;
	//   - QueueFull: without Batch, if Max is not 0 and Max or more wait; or if the inventory
	//     cannot store another user or another reservation.
	//
	// The ticket's rank is Rank if that is not 0 and the user had no ticket in this epoch yet.
	// The caller must know that the ticket of that Rank was not used, because a rebuilt
	// inventory does not. Otherwise it is Lot, if that is not 0, the sale is Shuffled and has
	// not started. Otherwise it is the clock in microseconds or more: above every rank of this
	// epoch. If a Rank or a Lot is taken, the next free one above it is used.
	Join(ctx context.Context, j JoinRequest) (TicketStatus, error)

	// Status returns the status of a user's ticket. It changes nothing.
	Status(ctx context.Context, sale string, epoch int64, user string) (TicketStatus, error)

	// Admit admits the first n tickets of the queue, 1 to 1,000, or as many as there are, until
	// the given time, and returns how many. It admits none while the sale is paused, before
	// StartsAt, from EndsAt on, or if until is in the past.
	Admit(ctx context.Context, sale string, epoch int64, batch string, n int, until time.Time) (int, error)

	// Reserve reserves a unit for an admitted ticket. It returns, in this order,
	//
	//   - what the user has reserved with this ticket, with Repeated set;
	//   - what the user has reserved with this key, with Repeated set; the ticket stays unused;
	//   - HasEnded: from EndsAt on;
	//   - IsPaused: while the sale is paused;
	//   - NotStarted: before StartsAt;
	//   - NotAdmitted: the ticket is not the user's current one, or it waits;
	//   - AdmissionExpired: the ticket was admitted, and its Until has come;
	//   - PerUserLimit: the user holds PerUser units, or has made MaxReservations in this epoch;
	//   - IsAllTaken: no unit is free; the ticket stays admitted;
	//   - the reservation, on the lowest free slot of the user. The ticket is spent.
	Reserve(ctx context.Context, r ReserveRequest) (ReserveResult, error)

	// Return returns the unit of a reservation, after its order expired or was cancelled, or if
	// it became no order. It reports whether this call did so: false for a reservation that
	// is unknown or another user's. The entry stays in the stream until Ack, and the ticket
	// stays spent.
	Return(ctx context.Context, sale string, epoch int64, user, reservation string) (bool, error)

	// Counts returns the counts of a sale.
	Counts(ctx context.Context, sale string, epoch int64) (Counts, error)

	// Next returns up to max entries of the stream, 1 to 1,000, that no worker has, the oldest
	// first. It waits up to wait for the first. worker is the caller's name: 1 to 64 letters,
	// digits, . _ -. After Close it works until every entry is acknowledged; then, and
	// without any state, it returns ErrStale. A closed stream is therefore drained when
	// Next returns ErrStale; no entries mean only that other workers have them.
	Next(ctx context.Context, sale string, epoch int64, worker string, max int, wait time.Duration) ([]Entry, error)

	// Ack removes entries from the stream. IDs that are not in it are ignored.
	Ack(ctx context.Context, sale string, epoch int64, ids ...string) error

	// Delete deletes the state of a sale at this epoch, after its end. While its stream has
	// entries, it returns an error that wraps ErrConflict.
	Delete(ctx context.Context, sale string, epoch int64) error
}

// InitialState is the state from which an inventory of a sale is built.
type InitialState struct {
	Sale     Sale          // with its epoch, stock, and how many are paid; paused if State is Paused
	Reserved []Reservation // of pending and paid orders: they hold their units
	Pending  []Reservation // entries of an earlier stream that are not orders yet; none if it was drained
}

// JoinRequest asks for a ticket.
type JoinRequest struct {
	Sale   string
	Epoch  int64
	User   string
	Ticket string // the ID of a new ticket: unique, 16 to 64 letters, digits, -
	Rank   int64  // of the user's ticket of an earlier epoch, up to 2^53; 0 for none
	Lot    int64  // in the lobby of a Shuffled sale: a random number from 1 to MaxLot
	Max    int64  // refuse with QueueFull if so many wait already; 0 for no bound

	// Batch and Until admit the ticket at once. They are for Direct sales.
	Batch string
	Until time.Time
}

// MaxReservations bounds the reservations of a sale that a user can make in one epoch, returned
// ones included. An inventory stores each until the epoch ends, to answer repeated calls. It
// is ten times the largest PerUser.
const MaxReservations = 100

// MaxLot is the largest lot. Ranks of tickets after the start are above it.
const MaxLot = 1 << 40

// TicketState is the state of a ticket.
type TicketState string

const (
	NoTicket      TicketState = "none"
	Waiting       TicketState = "waiting"  // in the queue
	Admitted      TicketState = "admitted" // can reserve a unit
	Spent         TicketState = "spent"    // has reserved a unit
	TicketExpired TicketState = "passed"   // was admitted and did not reserve in time; the user can join again
)

// TicketStatus is the status of a user in an inventory.
type TicketStatus struct {
	State    TicketState
	Reason   Reason        // why Join refused
	Ticket   string        // empty with NoTicket
	Rank     int64         // the ticket's position in the order of the queue
	Ahead    int64         // Waiting: how many tickets are before it, exactly or within 1 %
	Batch    string        // Admitted: the batch that admitted it
	Until    time.Time     // Admitted: when the admission expires
	Reserved []Reservation // the units of this sale that the user holds
	Last     *Reservation  // what this ticket reserved, if Spent
}

// ReserveRequest asks for a unit.
type ReserveRequest struct {
	Sale        string
	Epoch       int64
	User        string
	Ticket      string
	Key         string // the Idempotency-Key; empty for none
	Reservation string // the ID of the reservation: unique, 16 to 64 letters, digits, -
}

// ReserveResult is a reservation, or the reason why there is none.
type ReserveResult struct {
	Reason      Reason // OK if there is one
	Repeated    bool   // the ticket or the key had reserved it before
	Reservation Reservation
}

// Reservation is one unit that is kept for a user.
type Reservation struct {
	ID     string    `json:"id"`
	Sale   string    `json:"sale"`
	Epoch  int64     `json:"epoch"`
	User   string    `json:"user"`
	Slot   int       `json:"slot"` // which of the user's units: 1 to PerUser; reused after a return
	Ticket string    `json:"ticket"`
	Key    string    `json:"key,omitempty"`
	At     time.Time `json:"at"`     // by the inventory's clock, whole milliseconds
	PayBy  time.Time `json:"pay_by"` // At + PayWithin
}

// Entry is an entry of the stream.
type Entry struct {
	ID          string // of the entry, for Ack
	Deliveries  int    // including this one
	Reservation Reservation
	Corrupt     string // why the entry cannot be decoded, and its content; Reservation is empty then
}

// Counts holds the counts of a sale in an inventory.
type Counts struct {
	Now         time.Time // the inventory's clock
	Stock       int64     // all units
	Free        int64
	Waiting     int64 // tickets in the queue
	Outstanding int64 // tickets whose admission is valid and unused
	Reserved    int64 // reservations that were not returned
	Paid        int64 // the largest number that SetPaid set
	Backlog     int64 // unacknowledged entries of the stream
	Paused      bool
}
