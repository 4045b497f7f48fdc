package respd

import (
	"crypto/tls"
	"fmt"
	"log/slog"
	"time"

	"github.com/floodweir/weir"
)

// Config is the configuration of a Server. Store is required.
type Config struct {
	// Store decides the requests.
	Store weir.Store

	// Password is the password of the user "default". Clients need none if empty.
	Password string

	// MaxConns is the maximum number of connections; DefaultMaxConns if zero. Further
	// connections get an error and are closed. Refused is called for each of them, if not
	// nil.
	MaxConns int
	Refused  func()

	// IdleTimeout closes a connection that sends nothing for this time;
	// DefaultIdleTimeout if zero, unlimited if negative.
	IdleTimeout time.Duration

	// TLS is the configuration of TLS; plain text if nil.
	TLS *tls.Config

	// Version is the version of the program, for INFO; left out if empty.
	Version string

	// Log receives errors of the store and of connections; nothing is logged if nil.
	Log *slog.Logger

	// Observe receives every CL.THROTTLE that reached the store, if not nil. It must be
	// fast and safe for concurrent use.
	Observe func(Event)
}

// Defaults of a Config.
const (
	DefaultMaxConns    = 10_000
	DefaultIdleTimeout = 10 * time.Minute
)

// An Event is one CL.THROTTLE that reached the store.
type Event struct {
	// Request is the request: a Take, a Peek or a Return.
	Request weir.Request
	// Decision is the decision, if Err is nil.
	Decision weir.Decision
	// Err is the error of the store.
	Err error
	// Took is the time that the store took.
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
	if c.Refused == nil {
		c.Refused = func() {}
	}
	if c.Log == nil {
		c.Log = slog.New(slog.DiscardHandler)
	}
	return nil
}
