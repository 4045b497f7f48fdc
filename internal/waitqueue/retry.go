package waitqueue

import (
	"context"
	"time"
)

// A Step says how a caller goes on after an attempt.
type Step struct {
	Done  bool          // the wait is over
	Queue string        // the key of the queue in which the caller waits
	After time.Duration // the time until the next attempt
	Until time.Time     // when a caller that is not the first of its queue gives up; zero for never
}

// Retry calls attempt until it is done. A caller waits its turn in a queue from its
// first attempt that is not done, or from the start if others wait in the queue of
// first. It sleeps for Step.After between attempts.
//
// Retry reports false if the queue is full, or the turn of the caller did not come in
// time: then no further attempt is made. An error is attempt's, or the cause of the
// end of ctx.
func (m *Queue) Retry(ctx context.Context, first Step, attempt func() (Step, error)) (bool, error) {
	var w *Waiter
	defer func() { m.Leave(w) }()
	for s := first; ; {
		if wait := w != nil || s.After > 0 || m.Waiting(s.Queue) > 0; wait && (w == nil || w.Key != s.Queue) {
			m.Leave(w)
			if w = m.Enter(s.Queue); w == nil {
				return false, nil
			}
		}
		if err := m.clock().Sleep(ctx, s.After); err != nil {
			return false, err
		}
		if w != nil {
			if first, err := m.wait(ctx, w, s.Until); !first {
				return false, err
			}
		}
		next, err := attempt()
		if err != nil || next.Done {
			return true, err
		}
		s = next
	}
}

// wait waits until w is the first of its queue, and reports whether it is before
// until. An error is the cause of the end of ctx.
func (m *Queue) wait(ctx context.Context, w *Waiter, until time.Time) (bool, error) {
	isFirst := func() bool {
		select {
		case <-w.first:
			return true
		default:
			return false
		}
	}
	if isFirst() {
		return true, nil
	}
	var late chan error
	if !until.IsZero() {
		left := until.Sub(m.Now())
		if left <= 0 {
			return false, nil
		}
		if c, ok := m.clock().(awaiter); ok {
			return c.Await(ctx, w.first, left)
		}
		late = make(chan error, 1)
		sleeping, stop := context.WithCancel(ctx)
		defer stop()
		go func() { late <- m.clock().Sleep(sleeping, left) }()
	}
	select {
	case <-w.first:
		return true, nil
	case <-ctx.Done():
		return false, context.Cause(ctx)
	case err := <-late:
		return err == nil && isFirst(), err // both may come at one instant
	}
}
