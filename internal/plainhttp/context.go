package plainhttp

import (
	"context"
	"sync"
)

// A requestContext is the context of one request. It makes one of package context when a caller
// wants to wait for its end, which most requests do not.
type requestContext struct {
	context.Context // of the connection

	mu    sync.Mutex
	real  context.Context // nil before Done
	stop  context.CancelFunc
	ended bool
}

// Done implements [context.Context].
func (c *requestContext) Done() <-chan struct{} {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.real == nil {
		c.real, c.stop = context.WithCancel(c.Context)
		if c.ended {
			c.stop()
		}
	}
	return c.real.Done()
}

// Err implements [context.Context].
func (c *requestContext) Err() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	switch {
	case c.real != nil:
		return c.real.Err()
	case c.ended:
		return context.Canceled
	}
	return c.Context.Err()
}

// Value implements [context.Context]. Package context finds the real one by it, so that contexts
// that are derived from c need no goroutine.
func (c *requestContext) Value(key any) any {
	c.mu.Lock()
	of := c.Context
	if c.real != nil {
		of = c.real
	}
	c.mu.Unlock()
	return of.Value(key)
}

// end ends c.
func (c *requestContext) end() {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.ended = true; c.stop != nil {
		c.stop()
	}
}
