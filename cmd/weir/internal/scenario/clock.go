package scenario

import (
	"context"
	"slices"
	"sync/atomic"
	"time"
)

// A clock is virtual time for tasks that run one at a time. It advances only while every
// task waits. Only the running task and the goroutine of the clock change it.
type clock struct {
	us      atomic.Int64 // since the epoch; the sweeper of a store reads it too
	waiting []*task      // in the order in which they began to wait
	timers  []timer
	yield   chan struct{} // the running task waits or has ended
}

// A task is a goroutine that waits.
type task struct {
	resume chan struct{}
	until  int64           // in µs
	done   <-chan struct{} // ends the wait earlier; nil for none
}

// A timer is a function to call at an instant.
type timer struct {
	at   int64 // in µs
	call func()
}

func newClock(start time.Time) *clock {
	c := &clock{yield: make(chan struct{})}
	c.us.Store(start.UnixMicro())
	return c
}

func (c *clock) now() int64 { return c.us.Load() }

// Now returns the virtual time.
func (c *clock) Now() time.Time { return time.UnixMicro(c.now()) }

// Sleep lets the running task wait for d, rounded up to a µs.
func (c *clock) Sleep(ctx context.Context, d time.Duration) error {
	_, err := c.Await(ctx, nil, d)
	return err
}

// Await lets the running task wait until done is closed, for at most d, and reports whether
// it is closed. The simulated clients never disconnect, so it ignores the context.
func (c *clock) Await(_ context.Context, done <-chan struct{}, d time.Duration) (bool, error) {
	t := &task{resume: make(chan struct{}), until: c.later(d), done: done}
	if d > 0 && !t.ended() {
		c.waiting = append(c.waiting, t)
		c.yield <- struct{}{}
		<-t.resume
	}
	return t.ended(), nil
}

// later returns the instant after d.
func (c *clock) later(d time.Duration) int64 {
	return c.now() + int64((d+time.Microsecond-1)/time.Microsecond)
}

// ended reports whether done is closed.
func (t *task) ended() bool {
	select {
	case <-t.done:
		return true
	default:
		return false
	}
}

// after calls f after d, while no task runs.
func (c *clock) after(d time.Duration, f func()) {
	c.timers = append(c.timers, timer{c.later(d), f})
}

// run starts f as a task, and returns when every task waits or has ended.
func (c *clock) run(f func()) {
	go func() {
		f()
		c.yield <- struct{}{}
	}()
	<-c.yield
	c.settle()
}

// settle resumes tasks until all wait for a later instant.
func (c *clock) settle() {
	ready := func(t *task) bool { return t.until <= c.now() || t.ended() }
	for {
		i := slices.IndexFunc(c.waiting, ready)
		if i < 0 {
			return
		}
		t := c.waiting[i]
		c.waiting = slices.Delete(c.waiting, i, i+1)
		close(t.resume)
		<-c.yield
	}
}

// advance moves the time to until, and processes timers and waits on the way.
func (c *clock) advance(until int64) {
	for {
		next := until
		for _, t := range c.timers {
			next = min(next, t.at)
		}
		for _, t := range c.waiting {
			next = min(next, t.until)
		}
		c.us.Store(max(next, c.now()))
		for i := 0; i < len(c.timers); i++ {
			if t := c.timers[i]; t.at <= c.now() {
				c.timers = slices.Delete(c.timers, i, i+1)
				i--
				t.call()
			}
		}
		c.settle()
		if c.now() >= until {
			return
		}
	}
}

// drain advances until no task waits.
func (c *clock) drain() {
	for len(c.waiting) > 0 {
		next := c.waiting[0].until
		for _, t := range c.waiting {
			next = min(next, t.until)
		}
		c.advance(next)
	}
}
