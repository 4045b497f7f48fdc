package guard

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/floodweir/weir"
	"github.com/floodweir/weir/policy"
	"github.com/floodweir/weir/protect"
)

// ErrDenied is wrapped by every *Denied.
var ErrDenied = errors.New("guard: denied")

// Next is returned by an error handler in OnError to pass the error to the next one.
//
//lint:ignore ST1012 It is used as guard.Next, an instruction.
var Next = errors.New("guard: next")

// ErrCanceled is passed to the exit function of a Protection that admitted a call that another
// one refused. It wraps ErrDenied, as errors of functions may, so compare with this one.
var ErrCanceled = fmt.Errorf("guard: refused by another protection: %w: %w", ErrDenied, protect.ErrCanceled)

// errUnfinished is the error of a call that panicked or ended its goroutine.
var errUnfinished = errors.New("guard: the call did not return")

// The messages of a Resource without one.
const (
	messageLimited = "rate limit exceeded"
	messageRefused = "call refused" // by a Protection
)

// Denied reports a call that was refused. It wraps ErrDenied and Cause.
type Denied struct {
	Name     string        // of the guard
	Message  string        // for the caller
	Decision weir.Decision // of the limit that denied; zero if a Protection did
	Cause    error         // the error of the Protection, or nil

	whole bool // Message is that of the Resource
}

// Error returns Message if the Resource has one. Otherwise it adds the retry delay, if it is
// known: "rate limit exceeded: getId: retry after 3s". A delay of more than a millisecond is
// rounded up to milliseconds. For a Protection it adds its error: "call refused: getId: breaker:
// open".
func (d *Denied) Error() string {
	if d.whole {
		return d.Message
	}
	text := d.Message + ": " + d.Name
	switch retry := d.Decision.RetryAfter; {
	case d.Cause != nil:
		return text + ": " + d.Cause.Error()
	case retry == weir.Never:
		return text + ": cost above capacity"
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

// Unwrap returns ErrDenied and Cause.
func (d *Denied) Unwrap() []error {
	if d.Cause == nil {
		return []error{ErrDenied}
	}
	return []error{ErrDenied, d.Cause}
}

// StoreError reports that the store made no decision, or that the context of the call ended
// during a wait. It wraps Err. If Resource.HandlesStoreError is set, the guard returns it also for
// calls that the rule may admit, so that error handlers run first. FailsOpen is then true. If no
// handler handles the error, Enter decides by on_store_error.
type StoreError struct {
	Name      string
	FailsOpen bool
	Canceled  bool // the context of the call has ended: error handlers do not run
	Err       error

	guard *Guard // if FailsOpen
	key   string
	n     int64
	local bool // on_store_error is local
}

// Error returns "guard: getId: no decision: …".
func (u *StoreError) Error() string { return fmt.Sprintf("guard: %s: no decision: %v", u.Name, u.Err) }

// Unwrap returns Err.
func (u *StoreError) Unwrap() error { return u.Err }

// Enter decides by on_store_error about a call whose error was not handled, and asks the
// protections. The error is u if FailsOpen is false, or the *Denied of Options.Local or of a
// Protection. A call that goes on without Enter is not counted.
func (u *StoreError) Enter(ctx context.Context) (*Entry, error) {
	if !u.FailsOpen || u.guard == nil {
		return nil, u
	}
	if u.local {
		return u.guard.enter(ctx, u.key, u.n, false, nil)
	}
	e := new(Entry)
	e.init(ctx, u.guard)
	e.decision.Degraded = policy.Open
	if err := u.guard.enterProtections(e, u.guard.group.resolved.Load(), u.key); err != nil {
		return nil, err
	}
	e.begin()
	return e, nil
}

// FailsOpen reports whether err is a *StoreError whose Enter may admit the call.
func FailsOpen(err error) bool {
	var u *StoreError
	return errors.As(err, &u) && u.FailsOpen
}
