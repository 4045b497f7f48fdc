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
	after *hook // of AfterFunc, or nil
	ended bool
}

// A hook is a function to call when a context ends.
type hook struct{ f func() }

// AfterFunc does what [context.AfterFunc] does, without a context of its own for that of a request.
func AfterFunc(ctx context.Context, f func()) (stop func() bool) {
	if c, ok := ctx.(*requestContext); ok {
		return c.afterFunc(f)
	}
	return context.AfterFunc(ctx, f)
}

// afterFunc keeps one hook. Further ones are those of package context.
func (c *requestContext) afterFunc(f func()) (stop func() bool) {
	h := &hook{f}
	c.mu.Lock()
	keep := c.after == nil && !c.ended && c.Context.Err() == nil
	if keep {
		c.after = h
	}
	c.mu.Unlock()
	if !keep {
		return context.AfterFunc(c, f)
	}
	return func() bool {
		c.mu.Lock()
		defer c.mu.Unlock()
		stops := c.after == h
		if stops {
			c.after = nil
		}
		return stops
	}
}

// connEnded calls the hook when the context of the connection has ended.
func (c *requestContext) connEnded() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.callHook()
}

// callHook calls the hook. It requires mu.
func (c *requestContext) callHook() {
	if c.after != nil {
		go c.after.f()
		c.after = nil
	}
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
	c.callHook()
}
