package weir

import (
	"context"
	"fmt"
	"time"

	"github.com/floodweir/weir/internal/waitqueue"
)

// Wait takes 1 token of the key that Allow uses, as soon as there is one. An error
// that wraps ErrDenied means that there will be none before the deadline of ctx, or
// that MaxWaiters callers wait already. Any other error is the cause of the end of
// ctx, or of the store.
func (l *Limiter) Wait(ctx context.Context) error { return l.WaitKey(ctx, allKeys) }

// WaitKey is Wait for a key.
func (l *Limiter) WaitKey(ctx context.Context, key string) error {
	maxWait := Unlimited
	if deadline, ok := ctx.Deadline(); ok {
		maxWait = max(0, time.Until(deadline))
	}
	d, err := l.WaitN(ctx, key, 1, maxWait)
	if err == nil && !d.OK {
		err = fmt.Errorf("weir: wait for %.40q: %w by the limit %s", key, ErrDenied, d.Limit)
	}
	return err
}

// WaitN takes n tokens of key as soon as they fit, and holds an admitted request
// back for its Delay. Callers that wait for one key in this Limiter are served in
// the order in which they came. Take does not queue, and may overtake them.
//
// WaitN returns a denial, and consumes nothing, as soon as it is certain that the wait
// would exceed maxWait, or if MaxWaiters callers wait already. The RetryAfter of a caller that
// leaves the queue includes the tokens for those that wait, as if each wants n. With a maxWait of NoWait or
// 0 it does not wait, with Unlimited until ctx ends. The wait is measured by the store's clock. If ctx ends
// first, the error is its cause. Nothing was consumed then, unless a request to the
// store was in flight.
//
// WaitN asks again after RetryAfter. Under a Concurrency limit that is when the first
// lease ends: a slot that is returned earlier wakes no waiter. The bulkhead of
// contrib/failsafe wakes the waiters of its process.
func (l *Limiter) WaitN(ctx context.Context, key string, n int64, maxWait time.Duration) (Decision, error) {
	if err := context.Cause(ctx); err != nil {
		return Decision{}, err
	}
	r, err := l.Request(ctx, key, n)
	if err != nil {
		return Decision{}, err
	}
	if n > r.Limit.Capacity() {
		return l.store.Do(ctx, r) // no wait helps
	}
	end := l.waiters.Deadline(maxWait)
	step := waitqueue.Step{Queue: key, Until: end.Until()}
	var d Decision
	var left time.Duration
	asked, err := l.waiters.Retry(ctx, step, func() (waitqueue.Step, error) {
		d, err = l.Take(ctx, key, n)
		left = end.Observe(d.At, string(d.Degraded))
		step.Done = err != nil || d.OK || d.RetryAfter == Never || d.RetryAfter > left
		step.After, step.Until = d.RetryAfter, end.Until()
		return step, err
	})
	switch {
	case err != nil:
		return Decision{}, err
	case !asked:
		behind := waitqueue.BehindOf(l.waiters.Waiting(key), n, r.Limit.Capacity(), r.Limit.Count(), r.Limit.Period())
		d, err = l.Peek(ctx, key, behind.Ask)
		d.OK, d.RetryAfter = false, behind.RetryAfter(d.RetryAfter)
		return d, err
	case !d.OK || d.Delay == 0:
		return d, nil
	}
	return l.delay(ctx, key, d, left)
}

// delay holds an admitted request back for its Delay, or returns its tokens if there
// is less time left.
func (l *Limiter) delay(ctx context.Context, key string, d Decision, left time.Duration) (Decision, error) {
	if d.Delay > left {
		if _, err := l.ReturnAt(ctx, key, d.Granted, d.At); err != nil {
			return Decision{}, err
		}
		d.OK, d.Granted = false, 0
		d.RetryAfter, d.Delay = d.Delay-max(0, left), 0
		return d, nil
	}
	if err := l.waiters.Sleep(ctx, d.Delay); err != nil {
		// The tokens go back if the store can be reached.
		_, _ = l.ReturnAt(context.WithoutCancel(ctx), key, d.Granted, d.At)
		return Decision{}, err
	}
	return d, nil
}
