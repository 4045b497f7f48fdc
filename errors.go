package weir

import (
	"errors"

	"github.com/floodweir/weir/internal/fault"
)

// Errors on which callers branch. Every error of this package and of its stores
// that has one of these causes wraps it.
var (
	// ErrInvalid is a limit, key, cost or configuration that cannot be accepted.
	// The text names the field, the value and what was expected.
	ErrInvalid = fault.ErrInvalid

	// ErrDenied is a denial, of functions that return no Decision, such as
	// Limiter.Wait.
	ErrDenied = errors.New("denied")

	// ErrUnavailable is a store that could not be asked, or whose answer was lost.
	// In the second case the request may have been charged.
	ErrUnavailable = errors.New("store unavailable")

	// ErrFull is a store at its cap of keys, all of which owe.
	ErrFull = errors.New("store full")

	// ErrNoReservation is a Commit or Cancel of an id that is not reserved: it was
	// never made, or its time ran out and its tokens went back.
	ErrNoReservation = errors.New("no such reservation")

	// ErrClosed is a store or limiter that was closed.
	ErrClosed = errors.New("closed")
)
