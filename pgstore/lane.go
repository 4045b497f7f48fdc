package pgstore

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/floodweir/weir"
	"github.com/floodweir/weir/internal/roundtrip"
)

// An op has the requests of one call of Do or DoAll and their decisions.
type op struct {
	rs        []weir.Request
	ds        []weir.Decision
	ok        bool  // all are OK
	undecided bool  // by weir_decide
	err       error // of its requests or of the call

	since    time.Time          // start of the wait in the queue
	done     chan struct{}      // closed when op is decided
	progress roundtrip.Observer // of the caller
	left     bool               // the caller has left; guarded by lane.mu
}

// A lane sends ops in batches. While fewer than most batches are in flight, an op is sent at
// once. Otherwise it queues, and the batch that ends first sends the queue as the next one. A
// batch does not end with a caller, and what was queued when its caller left is not sent.
type lane struct {
	send    func(context.Context, []*op)
	most    int
	batch   int           // the most requests of a batch
	timeout time.Duration // of a batch, and of the wait in the queue

	mu       sync.Mutex
	queue    []*op
	inFlight int
	closed   bool
	batches  sync.WaitGroup
}

// ask decides o. If ctx ends first, ask returns an error, and the caller must not read o.
func (l *lane) ask(ctx context.Context, o *op) error {
	if err := ctx.Err(); err != nil {
		return unavailable(err)
	}
	o.since, o.done, o.progress = time.Now(), make(chan struct{}), roundtrip.From(ctx)
	l.mu.Lock()
	if l.closed {
		l.mu.Unlock()
		return fmt.Errorf("pgstore: %w", weir.ErrClosed)
	}
	o.progress.Queued()
	if l.inFlight < l.most {
		l.inFlight++
		l.batches.Add(1)
		go l.drain([]*op{o})
	} else {
		l.queue = append(l.queue, o)
	}
	l.mu.Unlock()
	select {
	case <-o.done:
		return o.err
	case <-ctx.Done():
		l.mu.Lock()
		o.left = true
		l.mu.Unlock()
		return unavailable(ctx.Err())
	}
}

// drain sends a batch, and then those of the queue until it is empty.
func (l *lane) drain(next []*op) {
	for next != nil {
		ctx, cancel := context.WithTimeout(context.Background(), l.timeout)
		l.send(ctx, next)
		cancel()
		for _, o := range next {
			close(o.done)
		}
		next = l.finish()
	}
}

var errQueued = errors.New("queued for longer than the timeout; nothing was sent")

// finish ends a batch. It returns the next one of the queue, or nil.
func (l *lane) finish() (next []*op) {
	l.mu.Lock()
	defer l.mu.Unlock()
	late := time.Now().Add(-l.timeout)
	taken, requests := 0, 0
	for _, o := range l.queue {
		if o.left || o.since.Before(late) {
			o.err = unavailable(errQueued)
			close(o.done)
			taken++
			continue
		}
		if requests += len(o.rs); requests > l.batch && len(next) > 0 {
			break
		}
		next = append(next, o)
		taken++
	}
	rest := copy(l.queue, l.queue[taken:])
	clear(l.queue[rest:])
	l.queue = l.queue[:rest]
	if next == nil {
		l.inFlight--
		l.batches.Done()
	}
	return next
}

// close waits for the batches in flight and for queued ops. Later ops get weir.ErrClosed.
func (l *lane) close() {
	l.mu.Lock()
	l.closed = true
	l.mu.Unlock()
	l.batches.Wait()
}
