package ledger

import (
	"context"
	"fmt"
	"slices"
	"sync"

	"github.com/floodweir/weir/flashsale/sale"
)

// coalescer combines requests into batches. A request starts a batch at once while fewer than
// maxCalls are in progress; otherwise it joins the next batch.
type coalescer[A, B any] struct {
	maxCalls int              // batches in progress at once
	maxBatch int              // requests per batch
	keys     func(A) []string // requests that share a key are never in one batch

	// run sets the result of every request. It runs in its own goroutine, because callers can
	// return earlier; it may then still execute their requests.
	run func([]*request[A, B])

	mu      sync.Mutex
	calls   int // in progress; waiting is empty while they are fewer than maxCalls
	waiting []*request[A, B]
}

// request is an argument and, once done is closed, its result.
type request[A, B any] struct {
	arg    A
	result B
	err    error
	done   chan struct{} // closed when the result is set
}

func (c *coalescer[A, B]) submit(ctx context.Context, a A) (B, error) {
	q := &request[A, B]{arg: a, done: make(chan struct{})}
	if ctx.Err() != nil {
		return q.result, canceled(ctx)
	}
	c.mu.Lock()
	if c.calls < c.maxCalls {
		c.calls++
		go c.runBatch([]*request[A, B]{q})
	} else {
		c.waiting = append(c.waiting, q)
	}
	c.mu.Unlock()
	select {
	case <-q.done:
		return q.result, q.err
	case <-ctx.Done():
		c.withdraw(q)
		return *new(B), canceled(ctx)
	}
}

func canceled(ctx context.Context) error {
	return fmt.Errorf("%w: %w", sale.ErrUnavailable, ctx.Err())
}

// withdraw removes a request whose caller has returned, if it is in no batch yet.
func (c *coalescer[A, B]) withdraw(q *request[A, B]) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.waiting = slices.DeleteFunc(c.waiting, func(w *request[A, B]) bool { return w == q })
}

// runBatch runs a batch and starts the next one.
func (c *coalescer[A, B]) runBatch(batch []*request[A, B]) {
	defer func() { // also if run ends the goroutine
		c.mu.Lock()
		if next := c.nextBatch(); next != nil {
			go c.runBatch(next)
		} else {
			c.calls--
		}
		c.mu.Unlock()
		for _, q := range batch {
			close(q.done)
		}
	}()
	for _, q := range batch {
		q.err = fmt.Errorf("%w: the batch ended without a result", sale.ErrUnavailable) // run overwrites it
	}
	c.run(batch)
}

// nextBatch removes the next batch from waiting.
func (c *coalescer[A, B]) nextBatch() []*request[A, B] {
	if c.keys == nil {
		n := min(c.maxBatch, len(c.waiting))
		batch := c.waiting[:n:n]
		c.waiting = c.waiting[n:]
		if n == 0 {
			c.waiting = nil
			return nil
		}
		return batch
	}
	var batch, rest []*request[A, B]
	seen := map[string]bool{}
	for i, q := range c.waiting {
		if len(batch) == c.maxBatch {
			rest = append(rest, c.waiting[i:]...)
			break
		}
		free := true
		for _, k := range c.keys(q.arg) {
			free = free && !seen[k]
		}
		if !free {
			rest = append(rest, q)
			continue
		}
		for _, k := range c.keys(q.arg) {
			seen[k] = true
		}
		batch = append(batch, q)
	}
	c.waiting = rest
	return batch
}
