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
	after func() // of AfterFunc, or nil
	hooks int    // the number of AfterFunc that set after, from 1
	ended bool
}

// A Hook is a function that AfterFunc has registered. Its zero value is none.
type Hook struct {
	c     *requestContext // nil: other is that of package context
	n     int
	other func() bool
}

// Stop does what the function does that [context.AfterFunc] returns.
func (h Hook) Stop() bool {
	if h.c == nil {
		return h.other != nil && h.other()
	}
	h.c.mu.Lock()
	defer h.c.mu.Unlock()
	stops := h.c.after != nil && h.c.hooks == h.n
	if stops {
		h.c.after = nil
	}
	return stops
}

// AfterFunc does what [context.AfterFunc] does, without memory for the context of a request.
func AfterFunc(ctx context.Context, f func()) Hook {
	if c, ok := ctx.(*requestContext); ok {
		if n := c.keep(f); n > 0 {
			return Hook{c: c, n: n}
		}
	}
	return Hook{other: context.AfterFunc(ctx, f)}
}

// keep makes f the hook of c, unless it has one or has ended. It returns the number of the hook, or 0.
func (c *requestContext) keep(f func()) int {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.after != nil || c.ended || c.Context.Err() != nil {
		return 0
	}
	c.after = f
	c.hooks++
	return c.hooks
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
		go c.after()
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
