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

// A call is one question to the store. It is asked on a goroutine of its own, since
// nobody can leave a function that does not return. The goroutine stays with the call
// and serves the next one: a new one each time costs more than twice as much, most of
// it for a stack that has to grow.
type call struct {
	job   chan struct{} // to the goroutine; closed to end it
	done  chan struct{} // from it
	timer *time.Timer
	state atomic.Uint32

	ctx      *callContext
	turn     turn
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
	waiting  = iota // somebody waits for it
	answered        // it is back
	left            // nobody waits for it any more
)

// calls are the calls of a store. At most max are under way, those included whose
// caller has left.
type calls struct {
	store weir.Store
	max   int64
	late  func(*call) // is told of a call that is back after its caller has left

	flying atomic.Int64

	mu     sync.Mutex
	idle   []*call     // the one that was used last at the end
	spare  int         // how many of idle nobody has used since the last reap
	armed  bool        // a reap is to come
	closed atomic.Bool // set with mu held
}

// idleTime is after how long without use the goroutine of a call ends: after one to
// two of it.
const idleTime = time.Second

var errClosed = fmt.Errorf("failover: %w", weir.ErrClosed)

// take is a call to be used, or nil if max are under way.
func (p *calls) take() *call {
	if p.flying.Add(1) > p.max {
		p.flying.Add(-1)
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

// put takes back a call that was answered.
func (p *calls) put(c *call) {
	c.ctx, c.r, c.d, c.err, c.panicked = nil, weir.Request{}, weir.Decision{}, nil, nil
	clear(c.rs)
	clear(c.ds)
	c.rs, c.ds = c.rs[:0], c.ds[:0]
	p.flying.Add(-1)
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

// reap ends the goroutines that were idle since the last reap. It comes again as long
// as there are any, so that a store that nobody uses any more holds none.
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

// close ends the goroutines that are idle, and those of calls that are under way as
// soon as they are back.
func (p *calls) close() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.closed.Store(true)
	for _, c := range p.idle {
		close(c.job)
	}
	p.idle, p.spare = nil, 0
}

// serve asks the store, one question after the other. It ends with a call whose caller
// has left.
func (p *calls) serve(c *call) {
	for range c.job {
		c.ask(p.store)
		if !c.state.CompareAndSwap(waiting, answered) {
			c.ctx.end(context.Canceled)
			p.flying.Add(-1)
			p.late(c)
			return
		}
		c.done <- struct{}{}
	}
}

// ask asks the store. A panic of the store is the caller's, as it would be without a
// goroutine between them.
func (c *call) ask(store weir.Store) {
	defer func() {
		if v := recover(); v != nil {
			c.panicked = fmt.Sprintf("failover: the store panicked: %v\n\n%s", v, debug.Stack())
		}
	}()
	if c.batch {
		c.ok, c.err = store.DoAll(c.ctx, c.rs, c.ds)
		return
	}
	c.d, c.err = store.Do(c.ctx, c.r)
}

// single makes c ask one request. The store may go on reading it when the caller has
// left and uses its slice again.
func (c *call) single(r *weir.Request) {
	c.batch, c.r = false, *r
	c.r.From = slices.Clone(r.From)
}

// together makes c ask requests together.
func (c *call) together(rs []weir.Request) {
	c.batch = true
	c.rs = append(c.rs[:0], rs...)
	for i := range c.rs {
		c.rs[i].From = slices.Clone(c.rs[i].From)
	}
	c.ds = slices.Grow(c.ds[:0], len(rs))[:len(rs)]
}

// begin sends c on its way, with a context that ends at the latest at until. After d
// its caller leaves.
func (c *call) begin(ctx context.Context, until time.Time, d time.Duration) {
	c.ctx = &callContext{Context: ctx, deadline: until}
	c.state.Store(waiting)
	c.timer.Reset(d)
	c.job <- struct{}{}
}

// wait waits for the answer to c, at most until its caller leaves. If it returns false
// nobody waits any more, and c belongs to its goroutine: its context ends now or, of
// one that tries whether the store is back, when it said that it would.
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
	given, trial := c.ctx, c.turn.trial
	switch {
	case !c.state.CompareAndSwap(waiting, left):
		<-c.done // it came just now
		given.end(context.Canceled)
		return true
	case trial:
		time.AfterFunc(time.Until(given.deadline), func() { given.end(context.DeadlineExceeded) })
	default:
		given.end(reason)
	}
	return false
}
