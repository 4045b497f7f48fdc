// Package setup has what the configurations of several stores share.
package setup

import (
	"strings"

	"github.com/floodweir/weir"
)

// Redis reports whether a store is in Redis: its URL is not checked. It is false for memory, which "" is too, and for
// PostgreSQL.
func Redis(store string) bool { return store != "" && store != "memory" && !Postgres(store) }

// Postgres reports whether a store is the URL of a PostgreSQL.
func Postgres(store string) bool {
	return strings.HasPrefix(store, "postgres://") || strings.HasPrefix(store, "postgresql://")
}

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
