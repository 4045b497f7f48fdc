package transport

import (
	"errors"
	"fmt"

	"github.com/floodweir/weir"
)

// ErrDenied and ErrUndecided are the errors that callers branch on.
var (
	// ErrDenied is wrapped by every *Denied.
	ErrDenied = errors.New("transport: denied")

	// ErrUndecided means that the store made no decision. The error that wraps it also
	// wraps the store's.
	ErrUndecided = errors.New("transport: no decision")
)

// errNoResponse reports a Base that breaks the contract of http.RoundTripper.
var errNoResponse = errors.New("transport: Base: got neither a response nor an error, want one")

// Denied reports a request that was not sent because of a limit or a pause. It wraps
// ErrDenied.
type Denied struct {
	// Key is the request's key. Quote it in logs.
	Key string

	// Decision is the decision of the limit with the longest RetryAfter. If too many requests
	// wait, RetryAfter is 0; if the server asked for a pause, Limit is zero.
	Decision weir.Decision

	// Server reports that the server asked for a pause.
	Server bool
}

// Error returns text such as
// `transport: denied: "api.example.com": 100/24h burst 100: retry after 3h`.
func (d *Denied) Error() string {
	reason := "too many requests wait"
	switch {
	case d.Server:
		reason = "the server asked for a pause"
	case !d.Decision.Limit.IsZero():
		reason = d.Decision.Limit.Brief()
	}
	switch after := d.Decision.RetryAfter; {
	case after == weir.Never:
		return fmt.Sprintf("%v: %.200q: %s: cost above capacity", ErrDenied, d.Key, reason)
	case after > 0:
		return fmt.Sprintf("%v: %.200q: %s: retry after %v", ErrDenied, d.Key, reason, after)
	}
	return fmt.Sprintf("%v: %.200q: %s", ErrDenied, d.Key, reason)
}

// Unwrap returns ErrDenied.
func (d *Denied) Unwrap() error { return ErrDenied }
