package redisstore

import (
	"fmt"
	"strings"
	"time"

	"github.com/floodweir/weir"
	"github.com/floodweir/weir/internal/algo"
)

// Config adjusts a Store. Its zero value works.
type Config struct {
	// Prefix is what every key of the store begins with, before the version of the
	// format: 1 to 32 letters, digits, '.', '_', '-' or ':'. "weir" if empty. Stores
	// of one prefix on one Redis share their state.
	Prefix string

	// Timeout is the longest that a round trip may take, from 1 ms; one second if
	// zero. A caller waits at most for two: the one that is under way when it
	// comes, and its own. A context that ends sooner ends the wait.
	Timeout time.Duration

	// InFlight is how many round trips may be under way at a time; requests that
	// come meanwhile share the next one. 2 if zero, or 8 on a cluster.
	InFlight int

	// MaxBatch is the most requests that one round trip carries, from 1; 128 if
	// zero. Redis runs nothing else while it decides those of one slot.
	MaxBatch int

	// Slot gives the hash tag of a key. What has to be decided together in one
	// step on a Redis Cluster, such as all keys of a tenant, gets one tag. An empty
	// tag, and a nil Slot, stand for the key itself. Stores that share their state
	// need the same Slot.
	Slot func(key string) string

	// Clock tells the time in µs since the epoch, from 1 to algo.MaxInstant, in
	// place of Redis' own: for tests, and for servers that refuse TIME in scripts.
	// Then the clocks of all processes decide together: a limit is exact up to what
	// it gives in the span by which they differ.
	Clock func() int64

	// Skew is the span by which the clocks of processes may differ when Clock is
	// set; every TTL is longer by it. One minute if zero, at most a day.
	Skew time.Duration
}

// Defaults of Config.
const (
	DefaultPrefix   = "weir"
	DefaultTimeout  = time.Second
	DefaultMaxBatch = 128
)

func (c *Config) normalize(cluster bool) error {
	bad := func(field string, value any, want string) error {
		return fmt.Errorf("redisstore: %s: %w: want %s, got %v", field, weir.ErrInvalid, want, value)
	}
	if c.Prefix == "" {
		c.Prefix = DefaultPrefix
	}
	if c.Timeout == 0 {
		c.Timeout = DefaultTimeout
	}
	if c.InFlight == 0 {
		c.InFlight = 2
		if cluster {
			c.InFlight = 8
		}
	}
	if c.MaxBatch == 0 {
		c.MaxBatch = DefaultMaxBatch
	}
	switch {
	case len(c.Prefix) > 32 || strings.Trim(c.Prefix, prefixChars) != "":
		return bad("Prefix", fmt.Sprintf("%.40q", c.Prefix), "1 to 32 letters, digits, '.', '_', '-' or ':'")
	case c.Timeout < time.Millisecond || c.Timeout > time.Hour:
		return bad("Timeout", c.Timeout, "1ms to 1h")
	case c.InFlight < 1 || c.InFlight > 1024:
		return bad("InFlight", c.InFlight, "1 to 1024")
	case c.MaxBatch < 1 || c.MaxBatch > 1024:
		return bad("MaxBatch", c.MaxBatch, "1 to 1024")
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

const prefixChars = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._-:"

// now is what a script is told about the time: 0 to ask Redis.
func (c *Config) now() (int64, error) {
	if c.Clock == nil {
		return 0, nil
	}
	now := c.Clock()
	if now < 1 || now > algo.MaxInstant {
		return 0, fmt.Errorf("redisstore: Clock: %w: want 1 to %d µs, got %d", weir.ErrInvalid, int64(algo.MaxInstant), now)
	}
	return now, nil
}
