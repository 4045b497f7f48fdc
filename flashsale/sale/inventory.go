package sale

import (
	"context"
	"time"
)

// An Inventory keeps the line and the free units of sales, fast. It is safe for concurrent use.
// Every method but Open and Close answers ErrStale if it has no state of the sale at the
// epoch, and changes nothing then; an error that wraps ErrUnavailable says that it may have
// happened. What cannot be right whatever the state (the Validate methods,
// a number out of its range) is an error that wraps ErrInvalid, before anything is looked at.
//
// The rules, which the suite in inventorytest checks by number:
//
//  1. Free units and reservations add up to the units it was opened with and was given
//     since; free is never negative.
//  2. A refused call changes nothing.
//  3. A user holds at most PerUser units.
//  4. A ticket reserves at most once. Asked again with the same ticket, or by the same user
//     with the same key, it answers with the first reservation, Again set; and this
//     holds also when that reservation was returned since, and of the reservations that it
//     was opened with.
//  5. The line is in order of rank; ranks are unique in the line.
//  6. A reservation that was acknowledged stands in the stream until Done, and is delivered
//     again if who took it did not say so within a while. If the process or the server
//     dies, what was acknowledged is still there (as far as the server keeps its data).
//  7. Return gives back a reservation's unit once, however often it is asked.
//  8. Nothing is reserved before StartsAt or from EndsAt on, or while paused, by the Inventory's
//     clock, which never runs back in one process. It counts in milliseconds; what is
//     finer of a time that it is given is cut off.
//  9. What a user can make it keep is bounded: the last ticket, and MaxReservations reservations of
//     an epoch, those that were returned and those that it was opened with among them.
type Inventory interface {
	// Open builds the state of o.Sale at its epoch, in place of that of any earlier epoch,
	// whose stream must have been read to its end: while entries are in it, it is an error
	// that wraps ErrConflict. It is idempotent: if there is a state of this epoch already,
	// nothing changes. If that is closed, or if there is a state of a later epoch, it is
	// ErrStale.
	Open(ctx context.Context, o InitialState) error

	// Close makes the state at this epoch refuse everything with ErrStale but Next, Done
	// and Drop, so that its stream can be read to its end. No state at all is no error here.
	Close(ctx context.Context, sale string, epoch int64) error

	// SetPaused pauses admission and reservation, or resumes them. One may join meanwhile.
	SetPaused(ctx context.Context, sale string, epoch int64, paused bool) error

	// SetStock says how many units there are in all. More than before are added to the free
	// ones; fewer than before is an error that wraps ErrInvalid.
	SetStock(ctx context.Context, sale string, epoch int64, stock int64) error

	// SetPaid says how many units are paid: 0 to 2^53. Fewer than it was told before, or was
	// opened with, changes nothing. An Inventory does nothing with it but tell it in Count: who
	// took the last payment of a sale tells by it all others that it is sold out, also while
	// the Ledger does not answer.
	SetPaid(ctx context.Context, sale string, epoch int64, paid int64) error

	// Join gives a user a ticket in the line, or tells where the user stands already: with
	// a ticket that waits, with one that is admitted and still valid, and with the ticket
	// of the ID that is asked for. Who has another ticket, spent or passed, or none, gets a
	// new one in its place. It is refused, in this order,
	//
	//   - HasEnded: from EndsAt on;
	//   - IsPaused: with Batch, while the sale is paused;
	//   - NotStarted: before StartsAt; in a Shuffled sale, before StartsAt − Lobby (with
	//     Batch, before StartsAt);
	//   - PerUserLimit: the user holds PerUser units, or has got MaxReservations in this epoch;
	//   - QueueFull: without Batch, if Max is not 0 and Max or more wait; or if the Inventory
	//     has no room for another user or another reservation.
	//
	// The ticket's rank is Rank if that is not 0 and the user had no ticket in this epoch
	// yet (whether the turn that Rank is of was used is for the caller to know: an Inventory that
	// was built again does not); else Lot if that is not 0, the sale is Shuffled and has not
	// started; else the clock in microseconds, or more: above every rank of this epoch. If a
	// Rank or a Lot is taken in the line, it is the next one above that is not.
	Join(ctx context.Context, j JoinRequest) (TicketStatus, error)

	// Look tells where a user stands. It changes nothing.
	Status(ctx context.Context, sale string, epoch int64, user string) (TicketStatus, error)

	// Admit admits the first n of the line, 1 to 1,000, or as many as there are, until
	// until, and returns how many. It admits nobody while the sale is paused, before
	// StartsAt, from EndsAt on, or until a time that is over.
	Admit(ctx context.Context, sale string, epoch int64, batch string, n int, until time.Time) (int, error)

	// Reserve reserves a unit for who was admitted. It answers, in this order,
	//
	//   - what the same user has got with this ticket, Again set;
	//   - what the same user has got with this key, Again set; the ticket stays as it is;
	//   - HasEnded: from EndsAt on;
	//   - IsPaused: while the sale is paused;
	//   - NotStarted: before StartsAt;
	//   - NotAdmitted: the ticket is not the one that the user has now, or it waits;
	//   - AdmissionExpired: the ticket was admitted, and its time is over (from Until on);
	//   - PerUserLimit: the user holds PerUser units, or has got MaxReservations in this epoch;
	//   - IsAllTaken: no unit is free; the ticket stays admitted;
	//   - the reservation, on the lowest slot of the user that is free. The ticket is spent.
	Reserve(ctx context.Context, r ReserveRequest) (ReserveResult, error)

	// Return gives the unit of a reservation back: of an order that expired or was
	// cancelled, or of a reservation that became no order. It returns whether this call
	// did: not of a reservation that it does not know, or of another user's. Its entry
	// stays in the stream until Done, and its ticket stays spent.
	Return(ctx context.Context, sale string, epoch int64, user, reservation string) (bool, error)

	// Count counts.
	Counts(ctx context.Context, sale string, epoch int64) (Counts, error)

	// Next returns up to max entries of the stream, 1 to 1,000, that nobody is busy with,
	// the oldest first, waiting up to wait for the first. worker names who asks: 1 to 64
	// letters, digits, . _ -. It answers also after Close, until every entry is done: then,
	// and without any state, it is ErrStale. So a closed stream is read to its end when
	// Next is ErrStale; none returned says only that others are busy with what there is.
	Next(ctx context.Context, sale string, epoch int64, worker string, max int, wait time.Duration) ([]Entry, error)

	// Done takes entries out of the stream. Those that are not in it are no error.
	Ack(ctx context.Context, sale string, epoch int64, ids ...string) error

	// Drop forgets the state of a sale at this epoch, after its end. While entries are in
	// its stream it is an error that wraps ErrConflict.
	Delete(ctx context.Context, sale string, epoch int64) error
}

// An InitialState is what the state of a sale is built from.
type InitialState struct {
	Sale     Sale          // with its epoch, stock, and how many are paid; paused if State is Paused
	Reserved []Reservation // of the orders that are pending or paid: they hold their units
	Pending  []Reservation // entries of an earlier epoch's stream that are not orders yet: none if it was read to its end
}

// A Join asks for a ticket.
type JoinRequest struct {
	Sale   string
	Epoch  int64
	User   string
	Ticket string // the ID that a new ticket gets: unique, 16 to 64 letters, digits, -
	Rank   int64  // of an earlier epoch's ticket that this user had: its place in the line, up to 2^53; 0 for none
	Lot    int64  // in the lobby of a Shuffled sale: a random number from 1 to MaxLot
	Max    int64  // refuse with QueueFull if so many wait already; 0 for no bound

	// Batch and Until admit at once, behind nobody: of a Direct sale.
	Batch string
	Until time.Time
}

// MaxReservations is how many reservations of a sale a user gets in one epoch, whatever is returned: a
// Inventory keeps each of them until the epoch ends, for who asks again. It is ten times what
// anybody may hold, and who wants to buy does not cancel more often than that.
const MaxReservations = 100

// MaxLot is the largest lot. Ranks of who joined after the start are above it.
const MaxLot = 1 << 40

// A Place is where a ticket stands.
type TicketState string

const (
	NoTicket      TicketState = "none"     // no ticket
	Waiting       TicketState = "waiting"  // in line
	Admitted      TicketState = "admitted" // may reserve, with this ticket
	Spent         TicketState = "spent"    // has reserved with this ticket
	TicketExpired TicketState = "passed"   // was admitted and did not reserve in time; may join again
)

// A Standing is where a user stands.
type TicketStatus struct {
	State    TicketState
	Reason   Reason        // of a Join that was refused: why; Place is where the user stands
	Ticket   string        // not of NoTicket
	Rank     int64         // its place in the line; not of NoTicket
	Ahead    int64         // Waiting: how many are before it, exactly or at least to 1 %
	Batch    string        // Admitted: with whom
	Until    time.Time     // Admitted: until then
	Reserved []Reservation // what the user holds now: the units of this sale that were reserved and not returned
	Last     *Reservation  // what this ticket reserved, if Spent
}

// An Ask asks for a unit.
type ReserveRequest struct {
	Sale        string
	Epoch       int64
	User        string
	Ticket      string
	Key         string // the Idempotency-Key; empty for none
	Reservation string // the ID that the reservation gets: unique, 16 to 64 letters, digits, -
}

// An Outcome of Reserve is a reservation, or the reason why there is none.
type ReserveResult struct {
	Reason      Reason // OK if there is one
	Repeated    bool   // this is what the ticket or the key had got before
	Reservation Reservation
}

// A Reservation is one unit that is kept for a user.
type Reservation struct {
	ID     string    `json:"id"`
	Sale   string    `json:"sale"`
	Epoch  int64     `json:"epoch"`
	User   string    `json:"user"`
	Slot   int       `json:"slot"` // which of the user's units: 1 to PerUser; free again when it is returned
	Ticket string    `json:"ticket"`
	Key    string    `json:"key,omitempty"`
	At     time.Time `json:"at"`     // by the Inventory's clock, whole milliseconds
	PayBy  time.Time `json:"pay_by"` // At + PayWithin
}

// An Entry of the stream.
type Entry struct {
	ID          string // of the entry, for Done
	Deliveries  int    // how often it was delivered, with this time
	Reservation Reservation
	Corrupt     string // what cannot be read of it, and why; Reservation is empty then
}

// Counts of a sale in an Inventory.
type Counts struct {
	Now         time.Time // the Inventory's clock
	Stock       int64     // units in all
	Free        int64
	Waiting     int64 // tickets in line
	Outstanding int64 // tickets that are admitted, not used, and valid still
	Reserved    int64 // reservations not returned
	Paid        int64 // the most that SetPaid said: at least so many units are paid
	Backlog     int64 // entries of the stream that are not done
	Paused      bool
}
