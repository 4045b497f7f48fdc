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

func (c Config) normalize() (Config, error) {
	c.Lease, c.Interval = cmp.Or(c.Lease, DefaultLease), cmp.Or(c.Interval, DefaultInterval)
	c.Threshold, c.Largest = cmp.Or(c.Threshold, DefaultThreshold), cmp.Or(c.Largest, 100)
	c.Drift, c.MaxKeys = cmp.Or(c.Drift, DefaultDrift), cmp.Or(c.MaxKeys, DefaultMaxKeys)
	c.Timeout, c.InFlight = cmp.Or(c.Timeout, DefaultTimeout), cmp.Or(c.InFlight, DefaultInFlight)
	bad := func(field string, value any, want string) (Config, error) {
		return c, fmt.Errorf("share: %s: %w: got %v, want %s", field, weir.ErrInvalid, value, want)
	}
	switch {
	case c.Lease < time.Second || c.Lease > time.Hour:
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
	lease, usable int64   // µs; of a lease, the local time for which a share is used
	interval      int64   // µs
	threshold     float64 // tokens per µs
	largest       float64 // of the whole

	closing   atomic.Bool
	conflicts atomic.Int64
}

func (c *Config) settings() *settings {
	lease := c.Lease.Microseconds()
	return &settings{
		lease: lease, usable: lease - 2*lease*int64(c.Drift)/1_000_000 - 1, interval: c.Interval.Microseconds(),
		threshold: float64(c.Threshold) / 1e6, largest: float64(c.Largest) / 100,
	}
}
