package pgstore

import (
	"fmt"
	"time"

	"github.com/floodweir/weir"
	"github.com/floodweir/weir/internal/algo"
	"github.com/floodweir/weir/internal/bounds"
)

// Config adjusts a Store. Its zero value works.
type Config struct {
	// Prefix begins the name of every row: 1 to 32 letters, digits, '.', '_' or '-';
	// DefaultPrefix if empty. Stores with the same prefix in one database share their state.
	Prefix string

	// Timeout bounds a function call, from 1 ms to 1 h; DefaultTimeout if zero. A caller
	// waits for at most three: the one in flight, its own and, for a request that the function
	// does not decide, another. A context that ends sooner ends the wait.
	Timeout time.Duration

	// InFlight bounds the function calls in flight; further requests share the next one. From
	// 1 to 1024; DefaultInFlight if zero. Each needs a connection.
	InFlight int

	// MaxBatch bounds the requests of one function call, from 1 to 1024; DefaultMaxBatch if
	// zero. Their rows are locked until it ends.
	MaxBatch int

	// Clock returns the time in µs since the epoch, for tests; the clock of the server if nil.
	Clock func() int64
}

// The default values of fields of Config.
const (
	DefaultPrefix   = "weir"
	DefaultTimeout  = 2 * time.Second
	DefaultInFlight = 4
	DefaultMaxBatch = 128
)

func (c *Config) normalize() error {
	s := bounds.Sharing{Prefix: c.Prefix, Timeout: c.Timeout, InFlight: c.InFlight, MaxBatch: c.MaxBatch}
	defaults := bounds.Sharing{Prefix: DefaultPrefix, Timeout: DefaultTimeout, InFlight: DefaultInFlight, MaxBatch: DefaultMaxBatch}
	err := s.Or(defaults, "pgstore", weir.ErrInvalid, "")
	c.Prefix, c.Timeout, c.InFlight, c.MaxBatch = s.Prefix, s.Timeout, s.InFlight, s.MaxBatch
	return err
}

// now returns the time for a call; 0 selects the clock of the server.
func (c *Config) now() (int64, error) {
	if c.Clock == nil {
		return 0, nil
	}
	now := c.Clock()
	if now < 1 || now > lastInstant {
		return 0, fmt.Errorf("pgstore: Clock: %w: got %d, want 1 to %d µs", weir.ErrInvalid, now, int64(lastInstant))
	}
	return now, nil
}

// lastInstant leaves room for a state that lasts a hundred years.
const lastInstant = algo.MaxInstant - algo.MaxSpan - 1
