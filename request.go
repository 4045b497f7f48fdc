package weir

import (
	"fmt"
	"time"

	"github.com/floodweir/weir/internal/bounds"
)

// A Verb names an operation on a key.
type Verb uint8

const (
	// Take consumes N tokens if all of them fit. N = 0 is a Peek.
	Take Verb = iota
	// TakeUpTo consumes as many of N tokens as fit; it is denied when none does.
	TakeUpTo
	// Peek consumes nothing, and returns what Take would return.
	Peek
	// Charge consumes N tokens whether they fit or not; what does not fit is debt.
	Charge
	// Return gives N tokens back, never beyond the capacity. If At is set, it gives
	// back only tokens that were charged at that instant and still count. A bucket does
	// not distinguish charges, and ignores At.
	Return
	// Reset deletes the state of the key: it is as if never used.
	Reset
	// Reserve is a Take of N tokens under ID. They go back after TTL unless Commit or
	// Cancel settles them. Reserving an ID again returns the first result and charges
	// nothing. On a concurrency limit it takes the slot named ID, or renews it for
	// another TTL.
	Reserve
	// Commit settles the reservation ID at N tokens: fewer than reserved go back,
	// more are charged, into debt if need be. Settling again changes nothing.
	Commit
	// Cancel settles the reservation ID at 0 tokens.
	Cancel
)

var verbs = [...]string{"take", "take_up_to", "peek", "charge", "return", "reset", "reserve", "commit", "cancel"}

// String returns the name of the verb, such as "take_up_to".
func (v Verb) String() string {
	if int(v) < len(verbs) {
		return verbs[v]
	}
	return fmt.Sprintf("verb(%d)", uint8(v))
}

// A Request is one operation on one key under one limit. Key and Limit together name
// the state that it uses. Two different limits of a key have separate states, unless
// both are Shared.
type Request struct {
	Verb  Verb
	Key   string // who is limited; not empty
	Limit Limit
	N     int64 // tokens, not negative

	ID  string        // Reserve, Commit, Cancel: the reservation
	TTL time.Duration // Reserve: its life, from 1 µs to 30 days

	Borrowed bool // Return: the Decision of the charge was Borrowed, so the tokens are no tenant's own

	At time.Time // Return: the instant of the charge to give back; zero for the newest

	// From are former limits of this key, newest first. If the key has no state under
	// Limit, its state under the newest former limit that has one is carried over, as
	// Carry selects, in the same step. This precedes the decision, in DoAll the
	// first one. It stays even if the request is denied, so that a denied key refills
	// by Limit from then on. An error, a Peek, a Take of 0 tokens, Commit and Cancel
	// carry nothing over.
	From  []Limit
	Carry Carry
}

// A Carry selects what a key keeps after its limit changed: what it used, or a number of
// tokens left.
type Carry uint8

const (
	// CarryUsage keeps what was used: the state itself moves, with the instants and the
	// reservations in it. No wait grows when a limit is raised, and every token that
	// counted still counts when it is lowered.
	CarryUsage Carry = iota
	// CarryProportional keeps the share of the capacity that was left.
	CarryProportional
	// CarryAsIs keeps the number of tokens left, up to the new capacity.
	CarryAsIs
	// CarryAdditive adds the growth of the capacity to the tokens left.
	CarryAdditive
	// CarryReset starts the key afresh under the new limit.
	CarryReset
)

var errEmptyKey = fmt.Errorf("weir: key: %w: want a key of at least 1 byte, got an empty one", ErrInvalid)

// Validate returns an error that wraps ErrInvalid if r cannot be decided. Stores call
// it first.
func (r *Request) Validate() error {
	switch {
	case r.Limit.IsZero():
		return fmt.Errorf("weir: limit: %w: a request needs a limit, got the zero Limit", ErrInvalid)
	case r.Key == "":
		return errEmptyKey
	case len(r.Key) > bounds.MaxKey:
		return fmt.Errorf("weir: key: %w: want at most %d bytes, got %d", ErrInvalid, bounds.MaxKey, len(r.Key))
	case r.N < 0:
		return fmt.Errorf("weir: cost: %w: want 0 or more tokens, got %d", ErrInvalid, r.N)
	case int(r.Verb) >= len(verbs):
		return fmt.Errorf("weir: verb: %w: want a constant of type Verb, got %d", ErrInvalid, r.Verb)
	case r.Carry > CarryReset:
		return fmt.Errorf("weir: carry: %w: want a constant of type Carry, got %d", ErrInvalid, r.Carry)
	case r.Verb >= Reserve:
		return r.validateReservation()
	}
	return nil
}

func (r *Request) validateReservation() error {
	switch {
	case r.ID == "" || len(r.ID) > bounds.MaxID:
		return fmt.Errorf("weir: id: %w: %s wants an id of 1 to %d bytes, got %d", ErrInvalid, r.Verb, bounds.MaxID, len(r.ID))
	case r.Verb == Reserve && (r.TTL < time.Microsecond || r.TTL > bounds.MaxTTL):
		return fmt.Errorf("weir: ttl: %w: reserve wants 1µs to %v, got %v", ErrInvalid, bounds.MaxTTL, r.TTL)
	case r.Verb == Reserve && r.N == 0:
		return fmt.Errorf("weir: cost: %w: reserve wants at least 1 token, got 0", ErrInvalid)
	}
	return nil
}
