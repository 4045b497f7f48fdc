package transport

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"time"

	"github.com/floodweir/weir"
	"github.com/floodweir/weir/enforce"
	"github.com/floodweir/weir/internal/backoff"
	"github.com/floodweir/weir/internal/waitqueue"
	"github.com/floodweir/weir/policy"
)

// A charge records the tokens that a request took of every limit in the store. Those that it
// took in its place are not returned.
type charge struct {
	key string
	n   int64     // 0 if nothing was taken
	at  time.Time // by the store's clock
}

// A call is a request as the limits see it.
type call struct {
	t    *Transport
	key  string
	cost int64
	wait *waitqueue.Deadline // of all attempts together
}

// admit charges q's cost as soon as the server and all limits allow it, and calls Observe.
// With an error nothing stays charged.
func (t *Transport) admit(r *http.Request, q *call) (charge, error) {
	start := time.Now()
	e := Event{Key: q.key, Cost: q.cost}
	err := t.decide(r.Context(), q, &e)
	if t.c.Observe != nil {
		e.Waited = time.Since(start)
		t.c.Observe(r, e)
	}
	if err != nil || e.Outcome != enforce.Admitted || e.Decision.Limit.IsZero() || e.Decision.Degraded != "" {
		return charge{}, err
	}
	return charge{q.key, q.cost, e.Decision.At}, nil
}

// decide waits for an admission, and sets e's outcome.
func (t *Transport) decide(ctx context.Context, q *call, e *Event) error {
	p := q.pacing()
	result, err := t.pacer.Admit(ctx, p)
	switch ended := context.Cause(ctx); {
	case err != nil && ended != nil:
		e.Outcome, e.Err = enforce.FailedClosed, ended
		return ended
	case err != nil:
		e.Err = err
		switch {
		case errors.Is(err, weir.ErrOverloaded):
			e.Outcome = enforce.Overloaded
		case t.c.OnStoreError == policy.Open:
			e.Outcome = enforce.FailedOpen
			return nil
		default:
			e.Outcome = enforce.FailedClosed
		}
		return fmt.Errorf("%w: %.200q: %w", ErrUndecided, e.Key, err)
	case result.Paused:
		e.Outcome, e.Server = enforce.Denied, true
		return &Denied{Key: e.Key, Decision: result.Decision, Server: true}
	case !result.Decision.OK:
		e.Outcome, e.Decision = enforce.Denied, result.Decision
		return &Denied{Key: e.Key, Decision: result.Decision}
	}
	e.Outcome, e.Decision = enforce.Admitted, result.Decision
	return nil
}

// pacing returns q for the pacer. A call that no limit applies to has no budget.
func (q *call) pacing() backoff.Request {
	p := backoff.Request{Key: q.key, Scope: q.key, Wait: q.wait}
	if len(q.t.limiters) > 0 && q.cost > 0 {
		p.Budget = q
	}
	return p
}

// Do implements [backoff.Budget].
func (q *call) Do(ctx context.Context, verb weir.Verb) (weir.Decision, error) {
	rs, err := q.t.requests(ctx, verb, q.key, q.cost)
	if err != nil {
		return weir.Decision{}, err
	}
	return weir.TakeAll(ctx, q.t.c.Store, rs...)
}

// Return implements [backoff.Budget].
func (q *call) Return(ctx context.Context, at time.Time) {
	q.t.giveBack(ctx, charge{q.key, q.cost, at})
}

// requests returns one request for each limit.
func (t *Transport) requests(ctx context.Context, verb weir.Verb, key string, n int64) ([]weir.Request, error) {
	rs := make([]weir.Request, len(t.limiters))
	for i, l := range t.limiters {
		r, err := l.Request(ctx, key, n)
		if err != nil {
			return nil, err
		}
		r.Verb = verb
		rs[i] = r
	}
	return rs, nil
}

// returnTimeout bounds the time that a finished request waits for the store to take its
// tokens back.
const returnTimeout = time.Second

// giveBack returns what c took. If the store fails, it stays charged.
func (t *Transport) giveBack(ctx context.Context, c charge) {
	if c.n == 0 || len(t.limiters) == 0 {
		return
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), returnTimeout)
	defer cancel()
	rs, err := t.requests(ctx, weir.Return, c.key, c.n)
	if err != nil {
		return
	}
	for i := range rs {
		rs[i].At = c.at
	}
	_, _ = t.c.Store.DoAll(ctx, rs, make([]weir.Decision, len(rs)))
}

// allows reports whether a wait of d ends in time.
func (q *call) allows(ctx context.Context, d time.Duration) bool {
	p := q.pacing()
	return p.Allows(ctx, d)
}
