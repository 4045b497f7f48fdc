package weir

import (
	"errors"

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

	// ErrFull reports that the store has as many keys as it may have, all with debt or
	// in use.
	ErrFull = errors.New("store full")

	// ErrNoReservation reports a Commit or Cancel of an id that is not reserved: it was
	// never reserved, or its TTL passed and its tokens went back.
	ErrNoReservation = errors.New("no such reservation")

	// ErrClosed reports that the store was closed.
	ErrClosed = errors.New("closed")
)
