// Package batching lets concurrent callers of a store share its round trips.
package batching

import (
	"context"
	"errors"
	"runtime"
	"sync"
	"time"

	"github.com/floodweir/weir/internal/roundtrip"
)

// A Queue sends the ops of concurrent callers in batches, without a timer. If no round trip is in
// flight, an op is sent at once; by its caller, if that cannot leave earlier. Otherwise it queues.
// While fewer than InFlight round trips are in flight, it begins a further one, as soon as the
// goroutines that are ready have run: they may have ops too. The round trip that ends first sends
// the queue as the next batch.
//
// A round trip does not end with a caller: its reply shows that the server is alive, even if the
// caller has left. An op that was queued when its caller left is not sent. A Queue is safe for
// concurrent use. Its fields do not change after the first Do.
type Queue[O Op] struct {
	// Send decides a batch, and sets Wait.Err of the ops that fail. It returns within about
	// Timeout. Up to InFlight calls run at once.
	Send func([]O)

	InFlight int                     // the most round trips in flight
	MaxBatch int                     // the most requests of a batch; an op with more is a batch of its own
	Timeout  time.Duration           // of the wait in the queue
	Closed   error                   // after Close
	Failed   func(cause error) error // makes the error of an op that was not sent, or whose caller leaves

	mu       sync.Mutex
	queue    []O
	inFlight int
	closed   bool
	trips    sync.WaitGroup
}

// An Op is a pointer to a struct that embeds Wait.
type Op interface {
	Requests() int // which it has
	Waiter() *Wait // which it embeds
}

// A Wait is the part of an op by which its caller waits. An op that is decided can be sent again.
type Wait struct {
	Err      error              // of the op
	Progress roundtrip.Observer // of the caller, set by Do

	since time.Time     // start of the wait in the queue
	done  chan struct{} // closed when the op is decided
	left  bool          // the caller has left; guarded by Queue.mu
}

// Waiter implements Op.
func (w *Wait) Waiter() *Wait { return w }

// Do decides ops in one round trip. If it returns an error, such as that of ctx, the caller must not
// read the ops: they may be in flight. Otherwise each op has its own error.
func (q *Queue[O]) Do(ctx context.Context, ops ...O) error {
	if err := ctx.Err(); err != nil {
		return q.Failed(err)
	}
	since, progress := time.Now(), roundtrip.From(ctx)
	for _, o := range ops {
		w := o.Waiter()
		w.since, w.done, w.Progress = since, make(chan struct{}), progress
	}
	q.mu.Lock()
	if q.closed {
		q.mu.Unlock()
		return q.Closed
	}
	progress.Queued()
	alone := q.inFlight == 0
	leads := q.inFlight < q.InFlight
	if leads {
		q.inFlight++
		q.trips.Add(1)
	}
	if !alone {
		q.queue = append(q.queue, ops...)
	}
	q.mu.Unlock()
	switch {
	case !leads:
	case !alone:
		go q.drain(nil)
	case ctx.Done() == nil: // the caller cannot leave
		q.sendHere(ops)
		return nil
	default:
		go q.drain(ops)
	}
	for _, o := range ops {
		select {
		case <-o.Waiter().done:
		case <-ctx.Done():
			q.leave(ops)
			return q.Failed(ctx.Err())
		}
	}
	return nil
}

// leave marks ops whose caller leaves.
func (q *Queue[O]) leave(ops []O) {
	q.mu.Lock()
	defer q.mu.Unlock()
	for _, o := range ops {
		o.Waiter().left = true
	}
}

// sendHere sends a batch on the goroutine of its caller, even if Send panics. Another goroutine
// sends the queue.
func (q *Queue[O]) sendHere(ops []O) {
	defer func() {
		for _, o := range ops {
			close(o.Waiter().done)
		}
		if next := q.next(); next != nil {
			go q.drain(next)
		}
	}()
	q.Send(ops)
}

// drain sends a batch, if it is not nil, and then those of the queue until it is empty. While there
// are several callers, the goroutines that are ready to run add their ops to the queue first.
func (q *Queue[O]) drain(next []O) {
	several := next == nil
	for {
		if next == nil {
			if several {
				runtime.Gosched()
			}
			if next = q.next(); next == nil {
				return
			}
		}
		q.Send(next)
		for _, o := range next {
			close(o.Waiter().done)
		}
		several, next = len(next) > 1, nil
	}
}

var errQueued = errors.New("queued for longer than the timeout; nothing was sent")

// next returns the next batch of the queue. If the queue is empty, next returns nil and ends the
// round trip. An op that has queued for Timeout fails.
func (q *Queue[O]) next() []O {
	q.mu.Lock()
	defer q.mu.Unlock()
	var next []O
	if len(q.queue) > 0 {
		late := time.Now().Add(-q.Timeout)
		taken, requests := 0, 0
		for _, o := range q.queue {
			w := o.Waiter()
			if w.left {
				taken++
				continue
			}
			if w.since.Before(late) {
				w.Err = q.Failed(errQueued)
				close(w.done)
				taken++
				continue
			}
			if requests += o.Requests(); requests > q.MaxBatch && len(next) > 0 {
				break
			}
			next = append(next, o)
			taken++
		}
		rest := copy(q.queue, q.queue[taken:])
		clear(q.queue[rest:])
		q.queue = q.queue[:rest]
	}
	if next == nil {
		q.inFlight--
		q.trips.Done()
	}
	return next
}

// Close waits for the round trips in flight and for queued ops. Later ones get Closed. Closing again
// does nothing.
func (q *Queue[O]) Close() {
	q.mu.Lock()
	q.closed = true
	q.mu.Unlock()
	q.trips.Wait()
}
