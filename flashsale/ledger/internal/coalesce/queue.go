// Package coalesce combines concurrent requests into batches.
package coalesce

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/floodweir/weir/flashsale/sale"
)

// Sizes of a batch. After one of LoadedSize or more the next one waits for Queue.Loaded, but not
// when it has EnoughSize: a larger one hardly costs less for each request.
const (
	LoadedSize = 4
	EnoughSize = 64
)

// Queue combines requests into batches. A request starts a batch at once if none is in progress
// and none has ended for Gather; otherwise it joins the next batch. A batch starts Gather after
// the end of the one before, or when it has EnoughSize or is full. While fewer than MaxCalls are in
// progress, it starts after at most Wait.
type Queue[A, B any] struct {
	MaxCalls int              // batches in progress at once
	MaxBatch int              // requests per batch
	Wait     time.Duration    // before another batch starts beside those in progress
	Gather   time.Duration    // between the end of a batch and the start of the next
	Loaded   time.Duration    // the same after a batch of LoadedSize or more that was not full; Gather if shorter
	Keys     func(A) []string // requests that share a key are never in one batch

	// Run sets the result of every request. It runs in its own goroutine, because callers can
	// return earlier; it may then still execute their requests.
	Run func([]*Request[A, B])

	mu        sync.Mutex
	calls     int // in progress
	waiting   []*Request[A, B]
	timed     bool      // startNext is going to be called
	gathering bool      // a batch starts when enough time has passed since ended
	ended     time.Time // of the last batch
	size      int       // of the last batch
}

// Request is an argument and, once done is closed, its result.
type Request[A, B any] struct {
	Arg    A
	Result B
	Err    error
	done   chan struct{} // closed when the result is set
}

// Submit adds a request to a batch and returns its result. When ctx ends first, it returns an
// error that wraps sale.ErrUnavailable; the request may still be executed.
func (c *Queue[A, B]) Submit(ctx context.Context, a A) (B, error) {
	q := &Request[A, B]{Arg: a, done: make(chan struct{})}
	if ctx.Err() != nil {
		return q.Result, canceled(ctx)
	}
	c.mu.Lock()
	c.waiting = append(c.waiting, q)
	switch {
	case c.calls == 0:
		c.startOrGather()
	case c.Wait == 0:
		c.start()
	case !c.timed && c.calls < c.MaxCalls:
		c.timed = true
		time.AfterFunc(c.Wait, c.startNext)
	}
	c.mu.Unlock()
	select {
	case <-q.done:
		return q.Result, q.Err
	case <-ctx.Done():
		c.withdraw(q)
		return *new(B), canceled(ctx)
	}
}

// start starts the next batch, unless MaxCalls are in progress. It requires mu.
func (c *Queue[A, B]) start() {
	if c.calls >= c.MaxCalls {
		return
	}
	if next := c.nextBatch(); next != nil {
		c.calls++
		go c.runBatch(next)
	}
}

// startOrGather starts the next batch if it is large enough, or when none has ended for Gather. It
// requires mu.
func (c *Queue[A, B]) startOrGather() {
	gather := c.Gather
	if c.size >= LoadedSize && c.size < c.MaxBatch {
		gather = max(gather, c.Loaded)
	}
	wait := gather - time.Since(c.ended)
	if wait <= 0 || len(c.waiting) >= min(EnoughSize, c.MaxBatch) {
		c.start()
	} else if !c.gathering {
		c.gathering = true
		time.AfterFunc(wait, func() {
			c.mu.Lock()
			defer c.mu.Unlock()
			c.gathering = false
			c.start()
		})
	}
}

// startNext starts a batch of requests that have waited, because those in progress are slow.
func (c *Queue[A, B]) startNext() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.timed = false
	c.start()
	if len(c.waiting) > 0 && c.calls > 0 && c.calls < c.MaxCalls {
		c.timed = true
		time.AfterFunc(c.Wait, c.startNext)
	}
}

func canceled(ctx context.Context) error {
	return fmt.Errorf("%w: %w", sale.ErrUnavailable, ctx.Err())
}

// withdraw removes a request whose caller has returned, if it is in no batch yet.
func (c *Queue[A, B]) withdraw(q *Request[A, B]) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.waiting = slices.DeleteFunc(c.waiting, func(w *Request[A, B]) bool { return w == q })
}

// runBatch runs a batch and starts the next one.
func (c *Queue[A, B]) runBatch(batch []*Request[A, B]) {
	defer func() { // also if Run ends the goroutine
		c.mu.Lock()
		c.calls--
		c.size = len(batch)
		if c.ended = time.Now(); len(c.waiting) > 0 {
			c.startOrGather()
		}
		c.mu.Unlock()
		for _, q := range batch {
			close(q.done)
		}
	}()
	for _, q := range batch {
		q.Err = fmt.Errorf("%w: the batch ended without a result", sale.ErrUnavailable) // Run overwrites it
	}
	c.Run(batch)
}

// nextBatch removes the next batch from waiting.
func (c *Queue[A, B]) nextBatch() []*Request[A, B] {
	if c.Keys == nil {
		n := min(c.MaxBatch, len(c.waiting))
		batch := c.waiting[:n:n]
		c.waiting = c.waiting[n:]
		if n == 0 {
			c.waiting = nil
			return nil
		}
		return batch
	}
	var batch, rest []*Request[A, B]
	seen := map[string]bool{}
	for i, q := range c.waiting {
		if len(batch) == c.MaxBatch {
			rest = append(rest, c.waiting[i:]...)
			break
		}
		free := true
		for _, k := range c.Keys(q.Arg) {
			free = free && !seen[k]
		}
		if !free {
			rest = append(rest, q)
			continue
		}
		for _, k := range c.Keys(q.Arg) {
			seen[k] = true
		}
		batch = append(batch, q)
	}
	c.waiting = rest
	return batch
}
