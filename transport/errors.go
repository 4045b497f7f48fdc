package transport

import (
	"errors"
	"fmt"

	"github.com/floodweir/weir"
)

// Errors on which callers branch.
var (
	// ErrDenied is what every *Denied wraps.
	ErrDenied = errors.New("transport: denied")

	// ErrUndecided is a store that made no decision. The error that wraps it wraps the
	// store's too.
	ErrUndecided = errors.New("transport: no decision")
)

// errNoAnswer is what a Base must not do.
var errNoAnswer = errors.New("transport: Base: want a response or an error, got neither")

// Denied says that a request may not be sent, and was not. It wraps ErrDenied.
type Denied struct {
	// Key is the key that the request was judged by. Quote it in logs.
	Key string

	// Decision is that of the limit which holds the request back longest. Its
	// RetryAfter is set whoever denies, and 0 if others that wait are in the way; its
	// Limit is zero if it is the server.
	Decision weir.Decision

	// Server says that the server asked to be left alone.
	Server bool
}

// Error is such as `transport: denied: "api.example.com": 100/24h burst 100: retry after 3h`.
func (d *Denied) Error() string {
	who := "too many wait already"
	switch {
	case d.Server:
		who = "the server asked for a pause"
	case !d.Decision.Limit.IsZero():
		who = d.Decision.Limit.String()
	}
	switch after := d.Decision.RetryAfter; {
	case after == weir.Never:
		return fmt.Sprintf("%v: %.200q: %s: costs more than the limit ever gives", ErrDenied, d.Key, who)
	case after > 0:
		return fmt.Sprintf("%v: %.200q: %s: retry after %v", ErrDenied, d.Key, who, after)
	}
	return fmt.Sprintf("%v: %.200q: %s", ErrDenied, d.Key, who)
}

// Unwrap is ErrDenied.
func (d *Denied) Unwrap() error { return ErrDenied }
