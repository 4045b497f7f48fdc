package failover

import (
	"context"
	"fmt"
	"runtime/debug"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/floodweir/weir"
)

// A call is one call of the store. It runs on its own goroutine, because a caller cannot
// abandon a function that does not return. The goroutine is kept for the next call: a new
// one for each call costs more than twice as much, mostly for the growth of its stack.
type call struct {
	job   chan struct{} // to the goroutine; closed to end it
	done  chan struct{} // from it
	timer *time.Timer
	state atomic.Uint32

	ctx      *callContext
	permit   permit
	batch    bool
	r        weir.Request
	d        weir.Decision
	rs       []weir.Request // of a batch
	ds       []weir.Decision
	ok       bool
	err      error
	panicked any
}

// The states of a call.
const (
	waiting   = iota // the caller waits
	replied          // the store has returned
	abandoned        // the caller has returned
)

// calls runs the calls of a store. At most max are in flight, including abandoned calls.
type calls struct {
	store weir.Store
	max   int64
	late  func(*call) // is called at the end of an abandoned call

	inFlight atomic.Int64

	mu     sync.Mutex
	idle   []*call     // the most recently used last
	spare  int         // number of idle calls that were not used since the last reap
	armed  bool        // a reap is scheduled
	closed atomic.Bool // set with mu held
}

// idleTime is the interval of reap. The goroutine of a call ends after one to two of them
// without use.
const idleTime = time.Second

var errClosed = fmt.Errorf("failover: %w", weir.ErrClosed)

// take returns a call to use, or nil if max are in flight.
func (p *calls) take() *call {
	if p.inFlight.Add(1) > p.max {
		p.inFlight.Add(-1)
		return nil
	}
	p.mu.Lock()
	n := len(p.idle) - 1
	if n >= 0 {
		c := p.idle[n]
		p.idle[n] = nil
		p.idle = p.idle[:n]
		p.spare = min(p.spare, n)
		p.mu.Unlock()
		return c
	}
	p.mu.Unlock()
	c := &call{job: make(chan struct{}, 1), done: make(chan struct{}, 1), timer: time.NewTimer(idleTime)}
	c.timer.Stop()
	go p.serve(c)
	return c
}

// put releases a call that has returned.
func (p *calls) put(c *call) {
	c.ctx, c.r, c.d, c.err, c.panicked = nil, weir.Request{}, weir.Decision{}, nil, nil
	clear(c.rs)
	clear(c.ds)
	c.rs, c.ds = c.rs[:0], c.ds[:0]
	p.inFlight.Add(-1)
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.closed.Load() {
		close(c.job)
		return
	}
	p.idle = append(p.idle, c)
	if !p.armed {
		p.armed = true
		time.AfterFunc(idleTime, p.reap)
	}
}

// reap ends the goroutines that were idle since the last reap. It repeats while there are
// any, so a store without requests has none.
func (p *calls) reap() {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, c := range p.idle[:p.spare] {
		close(c.job)
	}
	p.idle = slices.Delete(p.idle, 0, p.spare)
	p.spare = len(p.idle)
	if p.armed = p.spare > 0; p.armed {
		time.AfterFunc(idleTime, p.reap)
	}
}

// close ends the idle goroutines, and those of calls in flight when the store returns.
func (p *calls) close() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.closed.Store(true)
	for _, c := range p.idle {
		close(c.job)
	}
	p.idle, p.spare = nil, 0
}

// serve runs one call after the other. It ends with an abandoned call.
func (p *calls) serve(c *call) {
	for range c.job {
		c.run(p.store)
		if !c.state.CompareAndSwap(waiting, replied) {
			c.ctx.end(context.Canceled)
			p.inFlight.Add(-1)
			p.late(c)
			return
		}
		c.done <- struct{}{}
	}
}

// run calls the store. It keeps a panic for the caller's goroutine.
func (c *call) run(store weir.Store) {
	defer func() {
		if v := recover(); v != nil {
			c.panicked = fmt.Sprintf("failover: store panicked: %v\n\n%s", v, debug.Stack())
		}
	}()
	if c.batch {
		c.ok, c.err = store.DoAll(c.ctx, c.rs, c.ds)
		return
	}
	c.d, c.err = store.Do(c.ctx, c.r)
}

// single prepares c for one request. It copies the slice: the store may read it after the
// caller has returned.
func (c *call) single(r *weir.Request) {
	c.batch, c.r = false, *r
	c.r.From = slices.Clone(r.From)
}

// together prepares c for a batch.
func (c *call) together(rs []weir.Request) {
	c.batch = true
	c.rs = append(c.rs[:0], rs...)
	for i := range c.rs {
		c.rs[i].From = slices.Clone(c.rs[i].From)
	}
	c.ds = slices.Grow(c.ds[:0], len(rs))[:len(rs)]
}

// begin starts c with a context that ends at until. The caller waits for d.
func (c *call) begin(ctx context.Context, until time.Time, d time.Duration) {
	c.ctx = &callContext{Context: ctx, deadline: until}
	c.state.Store(waiting)
	c.timer.Reset(d)
	c.job <- struct{}{}
}

// wait waits for the store, at most until the caller's time ends. If it returns false, c is
// abandoned and belongs to its goroutine. The context of c ends now or, for a probe, at its
// own deadline.
func (c *call) wait(ctx context.Context) bool {
	reason := context.DeadlineExceeded
	select {
	case <-c.done:
		c.timer.Stop()
		c.ctx.end(context.Canceled)
		return true
	case <-c.timer.C:
	case <-ctx.Done():
		c.timer.Stop()
		reason = ctx.Err()
	}
	given, probe := c.ctx, c.permit.probe
	switch {
	case !c.state.CompareAndSwap(waiting, abandoned):
		<-c.done // the store has just returned
		given.end(context.Canceled)
		return true
	case probe:
		time.AfterFunc(time.Until(given.deadline), func() { given.end(context.DeadlineExceeded) })
	default:
		given.end(reason)
	}
	return false
}
