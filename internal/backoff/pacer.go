package backoff

import (
	"cmp"
	"context"
	"time"

	"github.com/floodweir/weir"
	"github.com/floodweir/weir/internal/waitqueue"
)

// DefaultMaxWait is the longest wait of a client whose configuration sets none.
const DefaultMaxWait = time.Minute

// DefaultMaxWaiters is the number of requests that may wait in a client whose configuration
// sets none.
const DefaultMaxWaiters = 1024

// A Pacer admits the requests of a client. It is safe for concurrent use once its fields are
// set.
type Pacer struct {
	Pauses Pauses
	Queue  waitqueue.Queue // requests that wait, by Request.Key or Scope
}

// A Budget is the limits that a request is charged to.
type Budget interface {
	// Do takes the request's cost, or only peeks.
	Do(ctx context.Context, verb weir.Verb) (weir.Decision, error)
	// Return gives back what was taken at the time at. What cannot be returned stays
	// charged, and what was decided without the store.
	Return(ctx context.Context, at time.Time)
}

// A Request is one request that is about to be sent.
type Request struct {
	Key    string              // requests of one key take from one budget, first come, first served
	Scope  string              // a server's pause is for all requests of one scope
	Budget Budget              // nil if no limit applies
	Wait   *waitqueue.Deadline // the end of the wait, and that of the context
}

// A Result is a decision about a Request.
type Result struct {
	// Decision admits or denies. Its Limit is zero if no limit was asked.
	Decision weir.Decision
	// Paused reports that the server's pause denied the request.
	Paused bool
}

// Deadline returns the end of a wait of at most maxWait that begins now.
func (p *Pacer) Deadline(maxWait time.Duration) *waitqueue.Deadline {
	d := p.Queue.Deadline(cmp.Or(maxWait, DefaultMaxWait))
	return &d
}

// until returns the end of the wait by the clock of this machine.
func (r *Request) until(ctx context.Context) time.Time {
	until := r.Wait.Until()
	if end, ok := ctx.Deadline(); ok && (until.IsZero() || end.Before(until)) {
		until = end
	}
	return until
}

// left returns how long r may still wait.
func (r *Request) left(ctx context.Context) time.Duration {
	left := r.Wait.Left()
	if end, ok := ctx.Deadline(); ok {
		left = min(left, time.Until(end))
	}
	return left
}

// Allows reports whether a wait of d ends in time.
func (r *Request) Allows(ctx context.Context, d time.Duration) bool { return d <= r.left(ctx) }

// Admit waits until the server's pause is over and the budget admits the request. It denies
// as soon as it is certain that this takes too long, or that too many requests wait; then
// nothing is charged. An error is the cause of ctx's end, or else the store's.
func (p *Pacer) Admit(ctx context.Context, r Request) (Result, error) {
	if err := context.Cause(ctx); err != nil {
		return Result{}, err
	}
	if r.Wait == nil {
		r.Wait = p.Deadline(weir.Unlimited)
	}
	var result Result
	queue := p.queue(&r)
	asked, err := p.Queue.Retry(ctx, waitqueue.Step{Queue: queue, Until: r.until(ctx)}, func() (waitqueue.Step, error) {
		if now := p.queue(&r); now != queue { // a pause began or ended
			queue = now
			return waitqueue.Step{Queue: queue, Until: r.until(ctx)}, nil
		}
		pause := p.Pauses.Left(r.Scope)
		if pause > 0 {
			result = paused(pause)
		} else {
			d, err := r.do(ctx, weir.Take)
			if err != nil {
				return waitqueue.Step{}, err
			}
			result, pause = Result{Decision: d}, d.RetryAfter
		}
		done := result.Decision.OK || pause <= 0 || pause == weir.Never || !r.Allows(ctx, pause)
		return waitqueue.Step{Done: done, Queue: queue, After: pause, Until: r.until(ctx)}, nil
	})
	switch {
	case err != nil:
		return Result{}, err
	case !asked:
		return p.refuse(ctx, r)
	case result.Decision.OK:
		return p.delay(ctx, r, result.Decision)
	}
	return result, nil
}

// queue returns the queue in which r waits: that of its scope while the server pauses, or
// else that of its budget.
func (p *Pacer) queue(r *Request) string {
	if r.Budget == nil || p.Pauses.Left(r.Scope) > 0 {
		return r.Scope
	}
	return r.Key
}

// delay holds an admitted request back for the delay of a leaky bucket, and for a pause that
// the server asked for while the store was asked.
func (p *Pacer) delay(ctx context.Context, r Request, d weir.Decision) (Result, error) {
	taken := d
	left := p.Pauses.Left(r.Scope)
	pause, server := max(d.Delay, left), left > d.Delay
	for pause > 0 {
		if !r.Allows(ctx, pause) {
			r.giveBack(ctx, &taken)
			if server {
				return paused(pause), nil
			}
			d.OK, d.Granted, d.Delay = false, 0, 0
			d.RetryAfter = max(pause-max(0, r.left(ctx)), time.Microsecond)
			return Result{Decision: d}, nil
		}
		if err := waitqueue.Sleep(ctx, pause); err != nil {
			r.giveBack(ctx, &taken)
			return Result{}, err
		}
		pause, server = p.Pauses.Left(r.Scope), true
	}
	return Result{Decision: d}, nil
}

// refuse denies a request that did not reach the front of its queue. It takes nothing.
func (p *Pacer) refuse(ctx context.Context, r Request) (Result, error) {
	if left := p.Pauses.Left(r.Scope); left > 0 {
		return paused(left), nil
	}
	d, err := r.do(ctx, weir.Peek)
	d.OK = false
	return Result{Decision: d}, err
}

func paused(left time.Duration) Result {
	return Result{Decision: weir.Decision{RetryAfter: left}, Paused: true}
}

func (r *Request) do(ctx context.Context, verb weir.Verb) (weir.Decision, error) {
	if r.Budget == nil {
		return weir.Decision{OK: true}, nil
	}
	d, err := r.Budget.Do(ctx, verb)
	r.Wait.Observe(d.At, string(d.Degraded))
	if ended := context.Cause(ctx); err != nil && ended != nil {
		err = ended
	}
	return d, err
}

func (r *Request) giveBack(ctx context.Context, d *weir.Decision) {
	if r.Budget != nil && d.Degraded == "" {
		r.Budget.Return(ctx, d.At)
	}
}
