package guard

import (
	"errors"

	"github.com/floodweir/weir"
)

// ErrDenied is what every *Denied wraps.
var ErrDenied = errors.New("guard: denied")

// Next is what a link of an error chain returns to pass on to the one after it.
var Next = errors.New("guard: next")

// Denied says that a call was refused. It wraps ErrDenied and Cause.
type Denied struct {
	Name     string        // of the guard
	Message  string        // for whoever called
	Decision weir.Decision // of the limit that denied; zero if a Ward did
	Cause    error         // what the Ward said, or nil
}

// Error is the message, and when to come again if that is known: "rate limit exceeded:
// getId: retry after 3s".
func (d *Denied) Error() string { panic("soon") }

// Unwrap is ErrDenied and Cause.
func (d *Denied) Unwrap() []error { panic("soon") }

// Undecided says that the store made no decision. It wraps Err. A guard whose
// Point.Answered is set returns it for calls that its rule lets through, too, so that
// whoever answers instead of the store is asked before: LetsThrough is then true, and the
// call may go on if nobody does.
type Undecided struct {
	Name        string
	LetsThrough bool
	Err         error
}

// Error is "guard: getId: no decision: …".
func (u *Undecided) Error() string { panic("soon") }

// Unwrap is Err.
func (u *Undecided) Unwrap() error { panic("soon") }

// LetsThrough reports whether err is an *Undecided whose rule lets the call through.
func LetsThrough(err error) bool { panic("soon") }
