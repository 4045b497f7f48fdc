package virtual

import (
	"container/heap"
	"context"
	"slices"
	"sync/atomic"
	"time"
)

// A Clock is virtual time for tasks that run one at a time. It advances only while every
// task waits. Only the running task and the goroutine of the clock change it.
type Clock struct {
	us      atomic.Int64 // since the epoch; the sweeper of a store reads it too
	waiting []*task      // in the order in which they began to wait
	timers  timers
	started uint64        // timers
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
	at   int64  // in µs
	n    uint64 // orders timers of one instant
	call func()
}

// timers are a heap of timers.
type timers []timer

func (t timers) Len() int      { return len(t) }
func (t timers) Swap(i, k int) { t[i], t[k] = t[k], t[i] }
func (t timers) Less(i, k int) bool {
	return t[i].at < t[k].at || t[i].at == t[k].at && t[i].n < t[k].n
}

// Push implements [heap.Interface].
func (t *timers) Push(x any) { *t = append(*t, x.(timer)) }

// Pop implements [heap.Interface].
func (t *timers) Pop() any {
	last := (*t)[len(*t)-1]
	(*t)[len(*t)-1] = timer{}
	*t = (*t)[:len(*t)-1]
	return last
}

// NewClock returns a clock that shows start.
func NewClock(start time.Time) *Clock {
	c := &Clock{yield: make(chan struct{})}
	c.us.Store(start.UnixMicro())
	return c
}

func (c *Clock) now() int64 { return c.us.Load() }

// Now returns the virtual time.
func (c *Clock) Now() time.Time { return time.UnixMicro(c.now()) }

// Sleep lets the running task wait for d, rounded up to a µs.
func (c *Clock) Sleep(ctx context.Context, d time.Duration) error {
	_, err := c.Await(ctx, nil, d)
	return err
}

// Await lets the running task wait until done is closed, for at most d, and reports whether
// it is closed. The simulated clients never disconnect, so it ignores the context.
func (c *Clock) Await(_ context.Context, done <-chan struct{}, d time.Duration) (bool, error) {
	t := &task{resume: make(chan struct{}), until: c.later(d), done: done}
	if d > 0 && !t.ended() {
		c.waiting = append(c.waiting, t)
		c.yield <- struct{}{}
		<-t.resume
	}
	return t.ended(), nil
}

// later returns the instant after d.
func (c *Clock) later(d time.Duration) int64 {
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

// After calls f after d, while no task runs.
func (c *Clock) After(d time.Duration, f func()) {
	c.started++
	heap.Push(&c.timers, timer{c.later(d), c.started, f})
}

// Run starts f as a task, and returns when every task waits or has ended.
func (c *Clock) Run(f func()) {
	go func() {
		f()
		c.yield <- struct{}{}
	}()
	<-c.yield
	c.settle()
}

// settle resumes tasks until all wait for a later instant.
func (c *Clock) settle() {
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

// Advance moves the time to until, in µs since the epoch, and processes timers and waits on the way.
func (c *Clock) Advance(until int64) {
	for {
		next := until
		if len(c.timers) > 0 {
			next = min(next, c.timers[0].at)
		}
		for _, t := range c.waiting {
			next = min(next, t.until)
		}
		c.us.Store(max(next, c.now()))
		for len(c.timers) > 0 && c.timers[0].at <= c.now() {
			heap.Pop(&c.timers).(timer).call()
		}
		c.settle()
		if c.now() >= until {
			return
		}
	}
}

// Drain advances until no task waits.
func (c *Clock) Drain() {
	for len(c.waiting) > 0 {
		next := c.waiting[0].until
		for _, t := range c.waiting {
			next = min(next, t.until)
		}
		c.Advance(next)
	}
}
