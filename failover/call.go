package failover

import (
	"context"
	"sync"
	"time"

	"github.com/floodweir/weir/internal/roundtrip"
)

// A call is one call of the store, and the context of that call. The store reports to it
// when the request is queued, when it is sent and when its reply was read.
type call struct {
	context.Context // of the caller

	s *Store

	// Guarded by s.mu.
	prev, next *call
	active     bool          // in s.calls
	queued     bool          // in the queue of the store; otherwise it was sent
	since      time.Duration // of the process clock: when it was queued or sent
	began      time.Time     // the same by the clock of the machine
	late       bool          // it counts as a failure already
	cause      error         // why the Store ended the context; nil if it did not

	mu   sync.Mutex
	done chan struct{} // nil until Done is called
	err  error
	stop func() bool // ends the watch of the caller's context
}

// Done implements [context.Context].
func (c *call) Done() <-chan struct{} {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.done != nil {
		return c.done
	}
	c.done = make(chan struct{})
	switch {
	case c.err != nil:
		close(c.done)
	case c.Context.Done() != nil:
		c.stop = context.AfterFunc(c.Context, func() { c.end(c.Context.Err()) })
	}
	return c.done
}

// Err implements [context.Context].
func (c *call) Err() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.err == nil {
		c.err = c.Context.Err()
		if c.err != nil && c.done != nil {
			close(c.done)
		}
	}
	return c.err
}

// Value implements [context.Context].
func (c *call) Value(key any) any {
	if key == roundtrip.Key {
		return c
	}
	return c.Context.Value(key)
}

// end ends the context with err, unless it has ended.
func (c *call) end(err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.err != nil {
		return
	}
	c.err = err
	if c.done != nil {
		close(c.done)
	}
}

// release ends the context and its watch of the caller's context.
func (c *call) release() {
	c.end(context.Canceled)
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.stop != nil {
		c.stop()
	}
}

// Queued implements [roundtrip.Observer].
func (c *call) Queued() { c.moved(true) }

// Sent implements [roundtrip.Observer].
func (c *call) Sent() { c.moved(false) }

func (c *call) moved(queued bool) {
	c.s.mu.Lock()
	defer c.s.mu.Unlock()
	if c.active {
		c.queued, c.since, c.began = queued, c.s.clock.now(), time.Now()
	}
}

// Replied implements [roundtrip.Observer].
func (c *call) Replied() {
	c.s.mu.Lock()
	now := c.s.clock.now()
	c.s.breaker.reply(now)
	c.s.breaker.slow = now-c.since >= c.s.c.Deadline
	if !c.active || c.late {
		c.s.lateReplies++
	}
	c.queued = c.active // what follows is not this round trip
	c.since, c.began = c.s.clock.now(), time.Now()
	c.s.unlock()
}

// callList holds the calls in progress. It requires the mutex of the Store.
type callList struct {
	head call // its next is the first
	n    int
}

func (l *callList) add(c *call) {
	c.active, c.prev, c.next = true, &l.head, l.head.next
	if c.next != nil {
		c.next.prev = c
	}
	l.head.next = c
	l.n++
}

func (l *callList) remove(c *call) {
	c.prev.next = c.next
	if c.next != nil {
		c.next.prev = c.prev
	}
	c.active, c.prev, c.next = false, nil, nil
	l.n--
}
