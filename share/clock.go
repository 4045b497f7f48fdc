package share

import (
	"math"
	"sync/atomic"
	"time"
)

// A moment is an instant of a process. Its two clocks advance by µs.
type moment struct {
	// local never advances faster than the time of the ledger, for every clock whose rate is wrong
	// by at most Config.Drift. Buckets refill by it.
	local int64

	// ledger is an estimate of the ledger's time, which is not later. Windows begin by it. It is 0
	// before the first call.
	ledger int64
}

// A clock is the clock of a process.
type clock struct {
	start time.Time
	base  int64        // local at start
	drift int64        // parts per million
	read  func() int64 // µs since start; nil for the monotonic clock

	offset atomic.Int64 // ledger - local; unknown before the first call
}

const (
	unknown = math.MinInt64

	// maxLag is the lag of the estimate, in µs, at which it advances. In between, its offset does not
	// change, so that a Return finds the instant of its charge.
	maxLag = 10_000

	// maxAhead is the advance of the estimate, in µs, at which it is set back: the clock of the ledger
	// was.
	maxAhead = 1_000_000
)

func newClock(drift int64) *clock {
	now := time.Now()
	c := &clock{start: now, base: max(1, now.UnixMicro()), drift: drift}
	c.offset.Store(unknown)
	return c
}

func (c *clock) now() moment {
	var elapsed int64
	if c.read != nil {
		elapsed = c.read()
	} else {
		elapsed = int64(time.Since(c.start) / time.Microsecond)
	}
	// It never goes back: per µs it loses one at most.
	m := moment{local: c.base + elapsed - elapsed/1_000_000*c.drift - (elapsed%1_000_000*c.drift+999_999)/1_000_000}
	if offset := c.offset.Load(); offset != unknown {
		m.ledger = m.local + offset
	}
	return m
}

// adjust records the ledger's time, which was read between two moments.
func (c *clock) adjust(ledger int64, sent, received moment) {
	offset := c.offset.Load()
	least := ledger - received.local
	if offset == unknown || least > offset+maxLag || offset > ledger-sent.local+maxAhead {
		c.offset.Store(least)
	}
}
