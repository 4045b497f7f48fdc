package share

import (
	"cmp"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/floodweir/weir"
)

// Config adjusts a Store. Its zero value works. Processes that share limits may have different
// values.
type Config struct {
	// Lease is the time after which another process takes the share of a process that died; from 1 s
	// to 1 h, DefaultLease if zero. A live process renews its shares three times as often. A process
	// uses its shares for at most a lease while the ledger is unavailable.
	Lease time.Duration

	// Interval is the time between two measurements of demand, from 10 ms to 10 s; DefaultInterval if
	// zero. It bounds the time for which a denial is repeated.
	Interval time.Duration

	// Threshold is the demand for a key, in tokens per second, from which a process gets a share, from
	// 1 on; DefaultThreshold if zero.
	Threshold int

	// Largest is the largest part of a limit, in percent, that this process gets, from 1 to 100; 100 if
	// zero. A sixteenth of a limit is never granted.
	Largest int

	// Drift bounds the difference between the rates of this process's clock and the ledger's, in parts
	// per million, from 1 to 10,000; DefaultDrift if zero. Shares refill by this part more slowly.
	Drift int

	// MaxKeys is the number of keys whose demand is measured, at most 2^24; DefaultMaxKeys if zero.
	// Requests for other keys are decided by the ledger.
	MaxKeys int

	// Timeout bounds a call of the ledger, from 1 ms to 1 h; DefaultTimeout if zero.
	Timeout time.Duration

	// InFlight bounds the calls of the ledger in flight, from 1 to 64; DefaultInFlight if zero. A
	// key always uses the same one of them.
	InFlight int

	// Terms, if not nil, returns whether the limits of a key are divided, and how. Those of other keys
	// go to the strict store. It is called for each request and may change its results, so it must be
	// quick and safe for concurrent use. A share whose key is no longer divided is returned when
	// idle.
	Terms func(key string) (Terms, bool)
}

// Terms limits the shares of the limits of a key. A zero field is that of Config. Values outside of
// its range count as the nearest one inside.
type Terms struct {
	Lease   time.Duration // as Config.Lease
	Largest int           // as Config.Largest
}

// The default values of fields of Config.
const (
	DefaultLease     = 10 * time.Second
	DefaultInterval  = 100 * time.Millisecond
	DefaultThreshold = 20
	DefaultDrift     = 1000
	DefaultMaxKeys   = 1 << 14
	DefaultTimeout   = 2 * time.Second
	DefaultInFlight  = 4
)

const minLease, maxLease = time.Second, time.Hour

func (c Config) normalize() (Config, error) {
	c.Lease, c.Interval = cmp.Or(c.Lease, DefaultLease), cmp.Or(c.Interval, DefaultInterval)
	c.Threshold, c.Largest = cmp.Or(c.Threshold, DefaultThreshold), cmp.Or(c.Largest, 100)
	c.Drift, c.MaxKeys = cmp.Or(c.Drift, DefaultDrift), cmp.Or(c.MaxKeys, DefaultMaxKeys)
	c.Timeout, c.InFlight = cmp.Or(c.Timeout, DefaultTimeout), cmp.Or(c.InFlight, DefaultInFlight)
	bad := func(field string, value any, want string) (Config, error) {
		return c, fmt.Errorf("share: %s: %w: got %v, want %s", field, weir.ErrInvalid, value, want)
	}
	switch {
	case c.Lease < minLease || c.Lease > maxLease:
		return bad("Lease", c.Lease, "1s to 1h")
	case c.Interval < 10*time.Millisecond || c.Interval > 10*time.Second:
		return bad("Interval", c.Interval, "10ms to 10s")
	case c.Threshold < 1:
		return bad("Threshold", c.Threshold, "1 or more")
	case c.Largest < 1 || c.Largest > 100:
		return bad("Largest", c.Largest, "1 to 100")
	case c.Drift < 1 || c.Drift > 10_000:
		return bad("Drift", c.Drift, "1 to 10000")
	case c.MaxKeys < 1 || c.MaxKeys > 1<<24:
		return bad("MaxKeys", c.MaxKeys, "1 to 16777216")
	case c.Timeout < time.Millisecond || c.Timeout > time.Hour:
		return bad("Timeout", c.Timeout, "1ms to 1h")
	case c.InFlight < 1 || c.InFlight > 64:
		return bad("InFlight", c.InFlight, "1 to 64")
	}
	return c, nil
}

// settings are a Config in the units of exchanges.
type settings struct {
	terms             // of a key without Terms of its own
	drift     int64   // parts per million
	interval  int64   // µs
	threshold float64 // tokens per µs
	of        func(key string) (Terms, bool)

	closing   atomic.Bool
	conflicts atomic.Int64
}

// terms are Terms in the units of exchanges.
type terms struct {
	lease, usable int64   // µs; of a lease, the local time for which a share is used
	largest       float64 // of the whole
}

func (c *Config) settings() *settings {
	s := &settings{
		drift: int64(c.Drift), interval: c.Interval.Microseconds(), threshold: float64(c.Threshold) / 1e6, of: c.Terms,
	}
	s.terms = s.units(Terms{c.Lease, c.Largest})
	return s
}

// units returns t in the units of exchanges. Its fields are in their ranges.
func (s *settings) units(t Terms) terms {
	lease := t.Lease.Microseconds()
	return terms{lease, lease - 2*lease*s.drift/1_000_000 - 1, float64(t.Largest) / 100}
}

// divided reports whether the limits of a key are divided.
func (s *settings) divided(key string) bool {
	if s.of == nil {
		return true
	}
	_, ok := s.of(key)
	return ok
}

// termsOf returns the terms of a key.
func (s *settings) termsOf(key string) terms {
	if s.of == nil {
		return s.terms
	}
	t, _ := s.of(key)
	own := s.terms
	if t.Lease != 0 {
		own = s.units(Terms{Lease: min(max(t.Lease, minLease), maxLease)})
		own.largest = s.largest
	}
	if t.Largest != 0 {
		own.largest = float64(min(max(t.Largest, 1), 100)) / 100
	}
	return own
}
