package redisstore

import (
	"fmt"
	"time"

	"github.com/floodweir/weir"
	"github.com/floodweir/weir/internal/algo"
	"github.com/floodweir/weir/internal/bounds"
)

// Config adjusts a Store. Its zero value works.
type Config struct {
	// Prefix is the first part of every key, before the version of the format: 1 to 32
	// letters, digits, '.', '_', '-' or ':'; DefaultPrefix if empty. Stores with the same
	// prefix on one Redis share their state.
	Prefix string

	// Timeout bounds a round trip, from 1 ms to 1 h; DefaultTimeout if zero. A caller waits
	// for at most two: the one in flight and its own. A context that ends sooner ends the
	// wait.
	Timeout time.Duration

	// InFlight bounds the round trips in flight; further requests share the next one. 2 if
	// zero, or 8 on a cluster.
	InFlight int

	// MaxBatch bounds the requests of one round trip, from 1 to 1024; DefaultMaxBatch if
	// zero. Redis runs nothing else while it decides the requests of one slot.
	MaxBatch int

	// Slot returns the hash tag of a key. Keys with the same hash tag share a slot and are
	// decided atomically on a Redis Cluster, such as all keys of a tenant. If Slot is nil
	// or returns "", the tag is the key. Stores that share their state need the same Slot.
	Slot func(key string) string

	// Clock returns the time in µs since the epoch, for tests and for servers that refuse
	// TIME in scripts; the clock of Redis if nil. Two clocks at a constant offset
	// admit at most one burst more than one clock. If clocks differ by less than a limit
	// takes to refill, the one furthest ahead decides. Other differences count as jumps of
	// the clock: see docs/guarantees.md.
	Clock func() int64

	// Skew is the span by which the clocks of processes may differ if Clock is set: at most
	// a day; one minute if zero. It is added to every TTL.
	Skew time.Duration
}

// The default values of fields of Config.
const (
	DefaultPrefix   = "weir"
	DefaultTimeout  = time.Second
	DefaultMaxBatch = 128
)

func (c *Config) normalize(cluster bool) error {
	bad := func(field string, value any, want string) error {
		return fmt.Errorf("redisstore: %s: %w: got %v, want %s", field, weir.ErrInvalid, value, want)
	}
	defaults := bounds.Sharing{Prefix: DefaultPrefix, Timeout: DefaultTimeout, InFlight: 2, MaxBatch: DefaultMaxBatch}
	if cluster {
		defaults.InFlight = 8
	}
	s := bounds.Sharing{Prefix: c.Prefix, Timeout: c.Timeout, InFlight: c.InFlight, MaxBatch: c.MaxBatch}
	if err := s.Or(defaults, "redisstore", weir.ErrInvalid, ":"); err != nil {
		return err
	}
	c.Prefix, c.Timeout, c.InFlight, c.MaxBatch = s.Prefix, s.Timeout, s.InFlight, s.MaxBatch
	switch {
	case c.Skew < 0 || c.Skew > 24*time.Hour:
		return bad("Skew", c.Skew, "0 to 24h")
	case c.Skew != 0 && c.Clock == nil:
		return bad("Skew", c.Skew, "0 without a Clock")
	}
	if c.Clock != nil && c.Skew == 0 {
		c.Skew = time.Minute
	}
	return nil
}

// now returns the time for the script; 0 selects the clock of Redis.
func (c *Config) now() (int64, error) {
	if c.Clock == nil {
		return 0, nil
	}
	now := c.Clock()
	if now < 1 || now > algo.MaxInstant {
		return 0, fmt.Errorf("redisstore: Clock: %w: got %d, want 1 to %d µs", weir.ErrInvalid, now, int64(algo.MaxInstant))
	}
	return now, nil
}
