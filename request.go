package weir

import (
	"fmt"
	"time"

	"github.com/floodweir/weir/internal/bounds"
)

// A Verb is what a Request asks for.
type Verb uint8

const (
	// Take consumes N tokens if all of them fit. N = 0 is a Peek.
	Take Verb = iota
	// TakeUpTo consumes as many of N tokens as fit; it is denied when none does.
	TakeUpTo
	// Peek consumes nothing and says what Take would say.
	Peek
	// Charge consumes N tokens whether they fit or not; what does not fit is debt.
	Charge
	// Return gives N tokens back, never beyond the capacity. If At is set, only
	// tokens that were charged at that instant and still count are given back, as
	// far as the limit tells charges apart; a bucket does not.
	Return
	// Reset forgets the key: it is as if never used.
	Reset
	// Reserve is a Take of N tokens under ID that goes back by itself after TTL
	// unless it is settled by Commit or Cancel. Reserving an ID again answers as the
	// first time and charges nothing. On a concurrency limit it takes, or keeps
	// alive for another TTL, the slot named ID.
	Reserve
	// Commit settles the reservation ID at N tokens: fewer than reserved go back,
	// more are charged, into debt if need be. Settling again changes nothing.
	Commit
	// Cancel settles the reservation ID at 0 tokens.
	Cancel
)

var verbs = [...]string{"take", "take_up_to", "peek", "charge", "return", "reset", "reserve", "commit", "cancel"}

// String is the name of the verb, as in "take_up_to".
func (v Verb) String() string {
	if int(v) < len(verbs) {
		return verbs[v]
	}
	return fmt.Sprintf("verb(%d)", uint8(v))
}

// A Request asks one thing of one key under one limit. The state it is about is
// named by Key and the State of [Limit.Spec] together: two different limits share state if they are
// leaky buckets of one rate that say so, and never otherwise.
type Request struct {
	Verb  Verb
	Key   string // who is limited; not empty
	Limit Limit
	N     int64 // tokens, not negative

	ID  string        // Reserve, Commit, Cancel: the reservation
	TTL time.Duration // Reserve: its life, from 1 µs to 30 days

	At time.Time // Return: the instant of the charge to give back; zero for the newest

	// From are limits that used to govern this key, newest first. If the key has no
	// state under Limit but has one under one of them, that state is carried over
	// as Carry says, in the same step. That comes before the decision, in DoAll
	// before the first one, and stays even if the request is denied, so that who is
	// told to retry is refilled by Limit from then on; but not if it is an error, a
	// Peek, or a Take of nothing. Commit and Cancel carry nothing over.
	From  []Limit
	Carry Carry
}

// A Carry says what becomes of a key's tokens when its limit changes.
type Carry uint8

const (
	// CarryProportional keeps the share of the capacity that was left.
	CarryProportional Carry = iota
	// CarryAsIs keeps the number of tokens left, up to the new capacity.
	CarryAsIs
	// CarryAdditive adds to the tokens left what the capacity grew by.
	CarryAdditive
	// CarryReset starts the key afresh under the new limit.
	CarryReset
)

var errEmptyKey = fmt.Errorf("weir: key: %w: want a key of at least 1 byte, got an empty one", ErrInvalid)

// Validate reports the first thing that keeps r from being decided, as an error
// that wraps ErrInvalid. Stores call it before they do anything.
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
		return fmt.Errorf("weir: verb: %w: want one of the verbs, got %d", ErrInvalid, r.Verb)
	case r.Carry > CarryReset:
		return fmt.Errorf("weir: carry: %w: want one of the carries, got %d", ErrInvalid, r.Carry)
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
