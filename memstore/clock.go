package memstore

import (
	"context"
	"sync/atomic"
	"time"

	"github.com/floodweir/weir/internal/waitqueue"
)

// A clock shows µs since the epoch and never goes back.
type clock struct {
	start time.Time
	base  int64 // what it showed at start

	read func() int64 // Config.Clock, or nil
	high atomic.Int64 // the largest instant that it showed
}

func (c *clock) begin(read func() int64) {
	c.start, c.read = time.Now(), read
	c.base = c.start.UnixMicro()
}

// running returns the instant of a clock without Config.Clock. The compiler inlines it.
func (c *clock) running() int64 { return c.base + int64(time.Since(c.start))/int64(time.Microsecond) }

func (c *clock) now() int64 {
	if c.read == nil {
		return c.running()
	}
	now := min(max(c.read(), firstInstant), lastInstant)
	for {
		high := c.high.Load()
		if now <= high {
			return high
		}
		if c.high.CompareAndSwap(high, now) {
			return now
		}
	}
}

// pollPeriod is the time between two readings of Config.Clock in Sleep.
const pollPeriod = time.Millisecond

// Now returns the instant of the store's clock.
func (s *Store) Now() time.Time { return time.UnixMicro(s.clock.now()) }

// Sleep waits until the store's clock has advanced by d, or until ctx ends, and then
// returns the cause. Limiters of this store wait by it, so a test that advances
// Config.Clock ends their waits.
func (s *Store) Sleep(ctx context.Context, d time.Duration) error {
	if s.clock.read == nil {
		return waitqueue.Sleep(ctx, d)
	}
	for end := s.Now().Add(d); s.Now().Before(end); {
		if err := waitqueue.Sleep(ctx, pollPeriod); err != nil {
			return err
		}
	}
	return nil
}
