package failover

import (
	"runtime"
	"time"
)

// A processClock measures the time in which this process ran. It leaves out the delays of
// the scheduler: while goroutines wait for a processor, a reply may have arrived that no
// goroutine has read. Its methods require the mutex of the Store.
type processClock struct {
	epoch   time.Time
	delayed time.Duration // the sum of the delays
}

// now returns the time since the epoch without the delays.
func (c *processClock) now() time.Duration { return time.Since(c.epoch) - c.delayed }

// schedulingDelay returns how late the calling goroutine is: the time since due, and the
// time until it runs again after it has let all others run.
func schedulingDelay(due time.Time) time.Duration {
	late := max(0, time.Since(due))
	before := time.Now()
	runtime.Gosched()
	return late + time.Since(before)
}
