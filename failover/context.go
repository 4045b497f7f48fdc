package failover

import (
	"context"
	"slices"
	"sync"
	"time"
)

// A callContext is the context of one call of the store. The waiting caller has a timer and
// ends the context, so it needs no timer of its own. It makes a channel only if the store
// calls Done. A context of package context costs four allocations here.
type callContext struct {
	context.Context // the caller's, for its values

	deadline time.Time

	mu    sync.Mutex
	err   error
	done  chan struct{} // nil until Done is called
	after []*func()
}

// Deadline implements [context.Context].
func (c *callContext) Deadline() (time.Time, bool) { return c.deadline, true }

// Done implements [context.Context].
func (c *callContext) Done() <-chan struct{} {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.done == nil {
		c.done = make(chan struct{})
		if c.err != nil {
			close(c.done)
		}
	}
	return c.done
}

// Err implements [context.Context].
func (c *callContext) Err() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.err
}

// AfterFunc registers f, for package context: without it, every context that a store
// derives from this one would start a goroutine.
func (c *callContext) AfterFunc(f func()) (stop func() bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.err != nil {
		go f()
		return func() bool { return false }
	}
	at := &f
	c.after = append(c.after, at)
	return func() bool {
		c.mu.Lock()
		defer c.mu.Unlock()
		i := slices.Index(c.after, at)
		if i < 0 {
			return false
		}
		c.after = slices.Delete(c.after, i, i+1)
		return true
	}
}

// end ends the context with err, unless it has ended.
func (c *callContext) end(err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.err != nil {
		return
	}
	c.err = err
	if c.done != nil {
		close(c.done)
	}
	for _, f := range c.after {
		go (*f)()
	}
	c.after = nil
}
