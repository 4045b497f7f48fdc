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
	armed   time.Duration // when the next tick was armed
	bound   time.Duration // of the clock until that tick; 0 if none is armed
}

// now returns the time since the epoch without the delays. A tick that is overdue stops the
// clock: its delay is not measured yet.
func (c *processClock) now() time.Duration {
	now := time.Since(c.epoch) - c.delayed
	if c.bound > 0 {
		now = min(now, c.bound)
	}
	return now
}

// arm expects a tick after an interval.
func (c *processClock) arm(interval time.Duration) {
	c.armed = c.now()
	c.bound = c.armed + interval + interval/2
}

// stop expects no tick.
func (c *processClock) stop() { c.bound = 0 }

// tick ends the interval with its delay, and stops the clock until the next one is armed. If
// the process was delayed for half of the time or more, none of it counts: a goroutine may wait
// for longer than the one that measures.
func (c *processClock) tick(delay, interval time.Duration) {
	now, ran := time.Since(c.epoch)-c.delayed, time.Duration(0)
	switch {
	case delay < interval/2:
		ran = c.now() - c.armed
	case delay < interval:
		ran = min(now-delay, c.bound) - c.armed
	}
	c.bound = c.armed + max(0, ran)
	c.delayed += now - c.bound
}

// schedulingDelay returns how late the calling goroutine is: the time since due, and the
// time until it runs again after it has let all others run.
func schedulingDelay(due time.Time) time.Duration {
	late := max(0, time.Since(due))
	before := time.Now()
	runtime.Gosched()
	return late + time.Since(before)
}
