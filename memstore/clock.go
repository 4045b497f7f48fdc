package memstore

import (
	"sync/atomic"
	"time"
)

// A clock shows µs since the epoch and never goes back.
type clock struct {
	start time.Time
	base  int64 // what it showed at start

	read func() int64 // if not nil, the clock that was asked for
	high atomic.Int64 // the largest instant that it showed
}

func (c *clock) begin(read func() int64) {
	c.start, c.read = time.Now(), read
	c.base = c.start.UnixMicro()
}

func (c *clock) now() int64 {
	if c.read == nil {
		return c.base + int64(time.Since(c.start))/int64(time.Microsecond)
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
