package sale

import (
	"context"
	"time"
)

// Inventory holds the waiting room and the free units of sales. It is safe for concurrent use.
// Every method except Open, Close and Attend returns ErrStale, and changes nothing, if there is no
// state of the sale at the epoch. After an error that wraps ErrUnavailable the operation may
// have happened. Arguments that are never valid (see the Validate methods) return an error
// that wraps ErrInvalid.
//
// The rules, which the conformance suite inventorytest checks by number:
//
//  1. Free units plus reservations equal the stock. Free is never negative.
//  2. A refused call changes nothing.
//  3. A user holds at most PerUser units. A Join, Poll or Reserve with MaxUnits reserves only
//     what leaves the user with at most MaxUnits. A reservation has all units of the requested
//     Quantity or is not made.
//  4. A ticket reserves at most once. A repeated call with the same ticket, or of the same user
//     with the same key, returns the first reservation with Repeated set. This holds after
//     that reservation was returned, and for the reservations of the InitialState.
//  5. The queue is ordered by rank; ranks in the queue are unique.
//  6. An acknowledged reservation stays in the stream until Ack. It is delivered again if its
//     worker does not acknowledge it within a time. It survives the end of the process or of
//     the server, as far as the server keeps its data.
//  7. Return returns all units of a reservation once, however often it is called.
//  8. Nothing is reserved before StartsAt, from EndsAt on, or while paused, by the inventory's
//     clock. The clock never goes back in one process and has milliseconds; finer parts of
//     times are cut off.
//  9. What a user can make it store is bounded: the last ticket, the units that the user holds,
//     and up to PerUser + MaxUnpaid reservations of an epoch. Those that were returned without
//     unpaid are not counted: a merchant returns them.
//  10. Join and Poll make a ticket present until its deadline: the time of the call plus
//     Grace(TicketStatus.Poll). TicketStatus.Poll is PollInterval for a waiting ticket and one
//     second for an admitted one. A ticket that was admitted by a Batch needs no presence.
//  11. From its deadline on, a ticket is absent. It has no position, is not counted, is not
//     admitted, and cannot reserve (NotAdmitted). An admitted ticket returns to the queue in
//     this way. Until ReclaimFor after the deadline, a Join or Poll restores the ticket at its
//     rank. After that its state is TicketExpired.
//  12. A ticket is admitted by its own Join or Poll alone, from StartsAt to EndsAt, unless the
//     sale is paused. The stream must have room for one entry of each present ticket ahead and
//     its own, MaxBacklog in total. With Reservation set, a ticket reserves its Quantity in the
//     same call if that leaves a unit for each present ticket ahead. Without it, a ticket with
//     fewer than Headroom × Free − Outstanding present tickets ahead is admitted for TokenFor. If
//     no present ticket is ahead of one that wants more units than are free, and some are, the
//     reason is FewLeft. A waiting ticket is absent from then on, so that it does not hold up
//     others. Its next Join or Poll restores it at its rank.
//  13. A user with u reservations that were returned as unpaid gets ranks that are Penalty(u, PayWithin) later than
//     those of users without. From MaxUnpaid on, Join refuses.
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

	// SetTerms sets the settings of a sale that was edited. Terms of a Version that is not later
	// than before change nothing; the InitialState has those of its sale.
	SetTerms(ctx context.Context, sale string, epoch int64, t Terms) error

	// SetPaid raises the number of paid units, 0 to 2^53. A smaller number than before
	// changes nothing. Return lowers it to the number of reserved units, because a paid order may
	// be refunded. An inventory only reports it in Counts. In this
	// way the process that takes the last payment reports to all others that the sale is
	// sold out, also while the ledger is unavailable.
	SetPaid(ctx context.Context, sale string, epoch int64, paid int64) error

	// Join gives a user a ticket in the queue, and then does what Poll does. A user keeps a
	// ticket that waits or can be restored, one whose admission is valid, and one with the
	// requested ID. If the requested ID has reserved before, the user keeps any ticket. A user
	// with another ticket, or with none, gets a new one. Join refuses, in this order,
	//
	//   - HasEnded: from EndsAt on;
	//   - IsPaused: with Batch, while the sale is paused;
	//   - NotStarted: before StartsAt; in a Shuffled sale, before StartsAt − Lobby (with
	//     Batch, before StartsAt);
	//   - PerUserLimit: with Quantity the user would hold more than PerUser or MaxUnits units, or
	//     left MaxUnpaid reservations unpaid;
	//   - QueueFull: without Batch, if Max is not 0 and Max or more wait; or if the inventory
	//     cannot store another user or another reservation.
	//
	// The ticket's rank is Rank if that is not 0 and the user had no ticket in this epoch yet.
	// The caller must know that the ticket of that Rank was not used, because a rebuilt
	// inventory does not. Otherwise it is Lot, if that is not 0, the sale is Shuffled and has
	// not started. Otherwise it is the clock in microseconds, or one more than the last rank if
	// that is later, plus the user's Penalty. Ranks with a penalty are not the last rank. If
	// another present ticket has the rank, the next free one above it is used.
	Join(ctx context.Context, j JoinRequest) (TicketStatus, error)

	// Poll makes a waiting or admitted ticket present, restores it if it is absent, and admits
	// it or reserves units if its turn has come (rules 10 to 12). It never makes a ticket. For
	// a user who cannot reserve so many units it returns PerUserLimit and changes nothing.
	Poll(ctx context.Context, p PollRequest) (TicketStatus, error)

	// Status returns the status of a user's ticket. It does not make the ticket present.
	Status(ctx context.Context, sale string, epoch int64, user string) (TicketStatus, error)

	// Reserve reserves units for an admitted ticket. It returns, in this order,
	//
	//   - what the user has reserved with this ticket, with Repeated set;
	//   - what the user has reserved with this key, with Repeated set; the ticket stays unused;
	//   - HasEnded: from EndsAt on;
	//   - IsPaused: while the sale is paused;
	//   - NotStarted: before StartsAt;
	//   - NotAdmitted: the ticket is not the user's current one, or it waits or is absent;
	//   - AdmissionExpired: the ticket was admitted, and its Until has come;
	//   - PerUserLimit: as Join;
	//   - IsAllTaken: no unit is free; the ticket stays admitted;
	//   - FewLeft: fewer than Quantity units are free; the ticket stays admitted;
	//   - the reservation, on the lowest free slot of the user. The ticket is spent.
	Reserve(ctx context.Context, r ReserveRequest) (ReserveResult, error)

	// Transfer takes free units at this epoch for a reservation of an earlier one, and adds it
	// to the stream of this epoch. The reservation keeps its ID, epoch, ticket, key and times,
	// and its slot if that is free. Transfer reports whether this epoch has the reservation
	// now; calling it again changes nothing. The time and a pause do not matter, because the
	// reservation was acknowledged before. It returns false, and changes nothing, if
	//
	//   - fewer units than it has are free;
	//   - the user would hold more than PerUser units;
	//   - the ticket or the key has made another reservation;
	//   - the inventory cannot store another user or another reservation.
	Transfer(ctx context.Context, epoch int64, r Reservation) (bool, error)

	// Return returns the units of a reservation, after its order expired, was cancelled or
	// refunded, or if it became no order. unpaid is whether the user left it unpaid, which counts
	// for Penalty. It reports whether this call did so: false for a reservation that is unknown or
	// another user's. The entry stays in the stream until Ack, and the ticket stays spent.
	Return(ctx context.Context, sale string, epoch int64, user, reservation string, unpaid bool) (bool, error)

	// Counts returns the counts of a sale. Tickets that became absent are counted as waiting
	// until a call removes them. Join, Poll and Status remove up to 64, and Counts up to 2,000.
	Counts(ctx context.Context, sale string, epoch int64) (Counts, error)

	// Next returns up to max entries of the stream, 1 to 1,000, that no worker has, the oldest
	// first. It waits up to wait for the first. worker is the caller's name: 1 to 64 letters,
	// digits, . _ -. After Close it works until every entry is acknowledged; then, and
	// without any state, it returns ErrStale. A closed stream is therefore drained when
	// Next returns ErrStale; no entries mean only that other workers have them.
	Next(ctx context.Context, sale string, epoch int64, worker string, max int, wait time.Duration) ([]Entry, error)

	// Ack removes entries from the stream. IDs that are not in it are ignored.
	Ack(ctx context.Context, sale string, epoch int64, ids ...string) error

	// Attend records that a worker's process works, and returns how many others have stopped:
	// those that called it before and not in the last WorkerFor. Each is counted once, for one
	// caller. If the inventory has lost the record of the worker, it counts as one more. Entries
	// of a process that has stopped are in streams, so the caller should read those of all sales.
	// Attend requires no state.
	Attend(ctx context.Context, worker string) (stopped int, err error)

	// Delete deletes the state of a sale at this epoch, after its end. While its stream has
	// entries, it returns an error that wraps ErrConflict.
	Delete(ctx context.Context, sale string, epoch int64) error
}

// WorkerFor is the time after which a worker that does not call Attend has stopped.
const WorkerFor = 15 * time.Second

// InitialState is the state from which an inventory of a sale is built.
type InitialState struct {
	Sale     Sale          // with its epoch, stock, and how many are paid; paused if State is Paused
	Reserved []Reservation // of pending and paid orders: they hold their units
	Pending  []Reservation // entries of an earlier stream that are not orders yet; none if it was drained

	// Unpaid is the number of reservations of earlier epochs that each user left unpaid.
	Unpaid map[string]int
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

	Reservation string // as in PollRequest
	MaxBacklog  int64  // as in PollRequest
	MaxUnits    int    // as in PollRequest
	Quantity    int    // as in PollRequest
}

// PollRequest is one sign of a visitor's presence.
type PollRequest struct {
	Sale  string
	Epoch int64
	User  string

	// Reservation is the ID of a reservation to make when the ticket's turn has come: unique,
	// 16 to 64 letters, digits, -. If it is empty, the ticket is only admitted.
	Reservation string

	// MaxBacklog bounds the unacknowledged entries of the stream; 0 for no bound.
	MaxBacklog int64

	// MaxUnits bounds the units that this user holds, as PerUser does; 0 for PerUser alone.
	MaxUnits int

	// Quantity sets how many units to reserve, up to MaxQuantity; 0 for 1.
	Quantity int
}

// MaxLot is the largest lot. Ranks of tickets after the start are above it.
const MaxLot = 1 << 40

// TicketState is the state of a ticket.
type TicketState string

const (
	NoTicket      TicketState = "none"
	Waiting       TicketState = "waiting"  // in the queue, or absent and restorable
	Admitted      TicketState = "admitted" // can reserve a unit
	Spent         TicketState = "spent"    // has reserved a unit
	TicketExpired TicketState = "passed"   // did not reserve in time, or was absent too long; the user can join again
)

// TicketStatus is the status of a user in an inventory.
type TicketStatus struct {
	State    TicketState
	Reason   Reason        // why Join or Poll refused
	Left     int64         // FewLeft: how many units are free
	Ticket   string        // empty with NoTicket
	Rank     int64         // the ticket's position in the order of the queue
	Ahead    int64         // Waiting: how many present tickets are before it
	Poll     time.Duration // Waiting and Admitted: when to poll again
	Absent   bool          // Waiting: the ticket is absent
	Restored bool          // of Join and Poll: the ticket was absent
	NewTurn  bool          // of Join and Poll: this call admitted the ticket, or reserved units for it in the queue
	Batch    string        // Admitted: the batch that admitted it
	Until    time.Time     // Admitted: when the admission expires
	Reserved []Reservation // of this sale, which the user holds
	Last     *Reservation  // what this ticket reserved, if Spent
}

// ReserveRequest asks for units.
type ReserveRequest struct {
	Sale        string
	Epoch       int64
	User        string
	Ticket      string
	Key         string // the Idempotency-Key; empty for none
	Reservation string // the ID of the reservation: unique, 16 to 64 letters, digits, -
	MaxUnits    int    // as in PollRequest
	Quantity    int    // as in PollRequest
}

// ReserveResult is a reservation, or the reason why there is none.
type ReserveResult struct {
	Reason      Reason // OK if there is one
	Left        int64  // FewLeft: how many units are free
	Repeated    bool   // the ticket or the key had reserved it before
	Reservation Reservation
}

// Reservation is one or more units that are kept for a user. They have no identity of their own:
// they are reserved, sold and returned together.
type Reservation struct {
	ID     string    `json:"id"`
	Sale   string    `json:"sale"`
	Epoch  int64     `json:"epoch"`
	User   string    `json:"user"`
	Slot   int       `json:"slot"` // which of the user's reservations: 1 to PerUser; reused after a return
	Ticket string    `json:"ticket"`
	Key    string    `json:"key,omitempty"`
	At     time.Time `json:"at"`     // by the inventory's clock, whole milliseconds
	PayBy  time.Time `json:"pay_by"` // At + PayWithin

	Quantity int `json:"quantity,omitempty"` // units; 0 for 1, as records of one unit may have it
}

// Units returns the number of units of r.
func (r *Reservation) Units() int64 { return int64(max(1, r.Quantity)) }

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
	Waiting     int64 // present tickets in the queue
	Outstanding int64 // tickets whose admission is valid and unused
	Reserved    int64 // units of reservations that were not returned
	Paid        int64 // the largest number that SetPaid set: see there
	Backlog     int64 // unacknowledged entries of the stream
	Turns       int64 // tickets that were admitted, in this epoch
	Left        int64 // waiting tickets that became absent and were not restored, in this epoch
	Paused      bool
}
