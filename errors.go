package weir

import (
	"errors"
	"fmt"
	"time"

	"github.com/floodweir/weir/internal/fault"
)

// Errors on which callers branch. Every error of this package and of its stores wraps
// the one that is its cause.
var (
	// ErrInvalid reports a limit, key, cost or configuration that cannot be accepted.
	// The text names the field, the value and the accepted values.
	ErrInvalid = fault.ErrInvalid

	// ErrDenied reports a denial by a function that returns no Decision, such as
	// Limiter.Wait.
	ErrDenied = errors.New("denied")

	// ErrUnavailable reports that the store could not be reached, or that its response
	// was lost. In the second case the request may have been charged.
	ErrUnavailable = errors.New("store unavailable")

	// ErrOverloaded reports that this process has too much work to decide the request in
	// time. It is no evidence about the store and does not wrap ErrUnavailable. Every
	// caller refuses such a request or decides it by local limits. No caller admits it,
	// even if it admits requests while the store is unavailable. An interface answers
	// "503 Service Unavailable" or its equivalent, with RetryAfter of the *[OverloadError].
	ErrOverloaded = errors.New("overloaded")

	// ErrFull reports that the store has as many keys as it may have, all with debt or
	// in use.
	ErrFull = errors.New("store full")

	// ErrNoReservation reports a Commit or Cancel of an id that is not reserved: it was
	// never reserved, or its TTL passed and its tokens went back.
	ErrNoReservation = errors.New("no such reservation")

	// ErrClosed reports that the store was closed.
	ErrClosed = errors.New("closed")
)

// An OverloadError is an error that wraps ErrOverloaded. The request was not decided. It
// was not charged either, unless it was sent before the process was overloaded.
type OverloadError struct {
	// Reason says which part of the process has too much work, such as "store queue full".
	Reason string

	// RetryAfter estimates when the process can decide again; zero if it is unknown.
	RetryAfter time.Duration
}

// Error implements error.
func (e *OverloadError) Error() string {
	if e.RetryAfter <= 0 {
		return fmt.Sprintf("%v: %s", ErrOverloaded, e.Reason)
	}
	return fmt.Sprintf("%v: %s; retry after %v", ErrOverloaded, e.Reason, e.RetryAfter)
}

// Unwrap returns ErrOverloaded.
func (e *OverloadError) Unwrap() error { return ErrOverloaded }
