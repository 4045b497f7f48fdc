package guard

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/floodweir/weir"
	"github.com/floodweir/weir/policy"
)

// ErrDenied is what every *Denied wraps.
var ErrDenied = errors.New("guard: denied")

// Next is what a link of an error chain returns to pass on to the one after it.
//
//lint:ignore ST1012 It is read as guard.Next: an instruction, and not a failure.
var Next = errors.New("guard: next")

// ErrCalledOff ends a call with a Ward that let it through after another refused it. It
// wraps ErrDenied, as what a function returns may do too: compare with this one.
var ErrCanceled = fmt.Errorf("guard: refused by another ward: %w: %w", ErrDenied, context.Canceled)

// errUnfinished ends a call that panicked, or whose goroutine did.
var errUnfinished = errors.New("guard: the call did not return")

// The messages of a Point that has none.
const (
	limited = "rate limit exceeded"
	refused = "call refused" // by a Ward
)

// Denied says that a call was refused. It wraps ErrDenied and Cause.
type Denied struct {
	Name     string        // of the guard
	Message  string        // for whoever called
	Decision weir.Decision // of the limit that denied; zero if a Ward did
	Cause    error         // what the Ward said, or nil
}

// Error is the message, and when to come again if that is known: "rate limit exceeded:
// getId: retry after 3s". What is longer than a millisecond is rounded up to one. Of a
// Ward it is the message and what the Ward said: "call refused: getId: breaker: open".
func (d *Denied) Error() string {
	text := d.Message + ": " + d.Name
	switch retry := d.Decision.RetryAfter; {
	case d.Cause != nil:
		return text + ": " + d.Cause.Error()
	case retry == weir.Never:
		return text + ": costs more than the limit ever has"
	case retry > time.Millisecond:
		whole := retry.Truncate(time.Millisecond)
		if whole < retry && whole <= weir.Never-time.Millisecond {
			whole += time.Millisecond
		}
		return text + ": retry after " + whole.String()
	case retry > 0:
		return text + ": retry after " + retry.String()
	}
	return text
}

// Unwrap is ErrDenied and Cause.
func (d *Denied) Unwrap() []error {
	if d.Cause == nil {
		return []error{ErrDenied}
	}
	return []error{ErrDenied, d.Cause}
}

// Undecided says that the store made no decision, or that the context of the call ended
// before it did. It wraps Err. A guard whose Point.Answered is set returns it for calls
// that its rule lets through, too, so that whoever answers instead of the store is asked
// before: LetsThrough is then true, and the call may go on if nobody does.
type StoreError struct {
	Name      string
	FailsOpen bool
	Err       error

	guard *Guard // of one that lets through
	key   string
}

// Error is "guard: getId: no decision: …".
func (u *StoreError) Error() string { return fmt.Sprintf("guard: %s: no decision: %v", u.Name, u.Err) }

// Unwrap is Err.
func (u *StoreError) Unwrap() error { return u.Err }

// Enter lets a call go on for which nobody else has answered. What has a say beside the
// limits is asked: an error is u if u does not let the call through, or a *Denied of a
// Ward. A call that goes on without Enter is neither counted nor asked about.
func (u *StoreError) Enter(ctx context.Context) (*Entry, error) {
	if !u.FailsOpen || u.guard == nil {
		return nil, u
	}
	e := u.guard.newEntry(ctx)
	e.decision.Degraded = policy.Open
	if err := u.guard.askWards(e, u.guard.place.ruling.Load(), u.key); err != nil {
		return nil, err
	}
	return e.begin(), nil
}

// LetsThrough reports whether err is an *Undecided whose rule lets the call through.
func FailsOpen(err error) bool {
	var u *StoreError
	return errors.As(err, &u) && u.FailsOpen
}
