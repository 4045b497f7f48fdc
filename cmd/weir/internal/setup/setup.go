// Package setup has the error of a store that cannot keep limits until its configuration changes.
package setup

import "github.com/floodweir/weir"

// An Error is a problem that remains until the configuration of the program or of its store
// changes. It wraps weir.ErrUnavailable.
type Error struct {
	Problem string // what is wrong, without secrets
	Fix     string // what to change
}

// New returns an Error.
func New(problem, fix string) *Error { return &Error{problem, fix} }

// Error implements error.
func (e *Error) Error() string { return e.Problem + ": " + e.Fix }

// Unwrap returns weir.ErrUnavailable.
func (e *Error) Unwrap() error { return weir.ErrUnavailable }
