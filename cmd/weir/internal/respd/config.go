package respd

import (
	"crypto/tls"
	"fmt"
	"log/slog"
	"time"

	"github.com/floodweir/weir"
)

// Config describes a Server. Store is required; the zero value of every other field
// is its default.
type Config struct {
	// Store decides.
	Store weir.Store

	// Password, if not empty, is asked of every client, for the user "default".
	Password string

	// MaxConns is the most connections at a time; DefaultMaxConns if zero. One more is
	// told so and closed.
	MaxConns int

	// IdleTimeout ends a connection that has sent nothing for so long;
	// DefaultIdleTimeout if zero, never if negative.
	IdleTimeout time.Duration

	// Certificate, if not nil, makes the door speak TLS.
	Certificate func(*tls.ClientHelloInfo) (*tls.Certificate, error)

	// Version is the program's, for INFO; left out if empty.
	Version string

	// Log gets what an operator should know; nothing is logged if nil.
	Log *slog.Logger

	// Observe, if not nil, is told of every CL.THROTTLE that the store was asked. It
	// has to be quick, and safe for concurrent use.
	Observe func(Event)
}

// The defaults of a Config.
const (
	DefaultMaxConns    = 10_000
	DefaultIdleTimeout = 10 * time.Minute
)

// An Event is one CL.THROTTLE that the store was asked.
type Event struct {
	// Request is what was asked: a Take, a Peek or a Return.
	Request weir.Request
	// Decision is the answer, if Err is nil.
	Decision weir.Decision
	// Err says why there was none.
	Err error
	// Took is how long the store needed.
	Took time.Duration
}

func (c *Config) check() error {
	switch {
	case c.Store == nil:
		return fmt.Errorf("respd: Store: %w: want a store, got nil", weir.ErrInvalid)
	case c.MaxConns < 0:
		return fmt.Errorf("respd: MaxConns: %w: want 0 or more, got %d", weir.ErrInvalid, c.MaxConns)
	}
	if c.MaxConns == 0 {
		c.MaxConns = DefaultMaxConns
	}
	if c.IdleTimeout == 0 {
		c.IdleTimeout = DefaultIdleTimeout
	}
	if c.Log == nil {
		c.Log = slog.New(slog.DiscardHandler)
	}
	return nil
}
