package weir

import (
	"context"
	"time"
)

// Wait takes n tokens of key as soon as they fit, and holds an admitted request
// back for its Delay. Callers that wait for one key in this Limiter are served in
// the order in which they came; Take does not queue, and may overtake them.
//
// It gives up without consuming anything, with a decision that is not OK, as soon
// as it is plain that maxWait will not do, or MaxWaiters are waiting already, or
// the cost is above the capacity. A maxWait of NoWait or 0 does not wait,
// Unlimited waits until ctx ends. If ctx ends first, the error is its cause and
// nothing was consumed, unless the store was being asked at that moment.
//
// It asks again after RetryAfter. Of a Concurrency limit that is when the first lease ends: a
// slot that is returned before wakes nobody, here or in another process. Who is to get it at
// once stands in the line of a bulkhead, which is of one process (contrib/failsafe).
func (l *Limiter) Wait(ctx context.Context, key string, n int64, maxWait time.Duration) (Decision, error) {
	var until time.Time // zero: for ever
	if maxWait != Unlimited {
		until = time.Now().Add(max(0, maxWait))
	}
	d, err := l.waitForTokens(ctx, key, n, until)
	if err != nil || !d.OK || d.Delay == 0 {
		return d, err
	}
	if !until.IsZero() && time.Now().Add(d.Delay).After(until) {
		if _, err := l.ReturnAt(ctx, key, d.Granted, d.At); err != nil {
			return Decision{}, err
		}
		d.OK, d.Granted = false, 0
		d.RetryAfter, d.Delay = d.Delay-max(0, time.Until(until)), 0
		return d, nil
	}
	if err := sleep(ctx, d.Delay); err != nil {
		// The caller is gone; what it took goes back as far as the store can be asked.
		_, _ = l.ReturnAt(context.WithoutCancel(ctx), key, d.Granted, d.At)
		return Decision{}, err
	}
	return d, nil
}

// waitForTokens queues for key and takes n tokens when its turn has come.
func (l *Limiter) waitForTokens(ctx context.Context, key string, n int64, until time.Time) (Decision, error) {
	if err := context.Cause(ctx); err != nil {
		return Decision{}, err
	}
	if n > l.Limit().Capacity() {
		return l.Take(ctx, key, n)
	}
	turn, first := l.queues.enter(key)
	if turn == nil {
		return l.refuse(ctx, key, n)
	}
	defer l.queues.leave(key, turn)
	if !first {
		if come, err := waitUntil(ctx, turn.come, until); err != nil {
			return Decision{}, err
		} else if !come {
			return l.refuse(ctx, key, n)
		}
	}
	for {
		d, err := l.Take(ctx, key, n)
		if err != nil || d.OK || d.RetryAfter == Never {
			return d, err
		}
		if !until.IsZero() && time.Now().Add(d.RetryAfter).After(until) {
			return d, nil
		}
		if err := sleep(ctx, d.RetryAfter); err != nil {
			return Decision{}, err
		}
	}
}

// refuse is the decision of a caller that does not get its turn.
func (l *Limiter) refuse(ctx context.Context, key string, n int64) (Decision, error) {
	d, err := l.Peek(ctx, key, n)
	d.OK = false
	return d, err
}

// waitUntil waits for come, and reports whether it came before until; a zero
// until is for ever. An error is the cause of the end of ctx.
func waitUntil(ctx context.Context, come <-chan struct{}, until time.Time) (bool, error) {
	var timeout <-chan time.Time
	if !until.IsZero() {
		t := time.NewTimer(time.Until(until))
		defer t.Stop()
		timeout = t.C
	}
	select {
	case <-come:
		return true, nil
	case <-timeout:
		return false, nil
	case <-ctx.Done():
		return false, context.Cause(ctx)
	}
}

// sleep waits for d, or until ctx ends.
func sleep(ctx context.Context, d time.Duration) error {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}
