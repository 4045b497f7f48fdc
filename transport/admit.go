package transport

import (
	"context"
	"fmt"
	"net/http"
	"time"

	"github.com/floodweir/weir"
	"github.com/floodweir/weir/enforce"
	"github.com/floodweir/weir/internal/waitqueue"
	"github.com/floodweir/weir/policy"
)

// A charge is what a request took of every limit.
type charge struct {
	key string
	n   int64     // 0 if nothing
	at  time.Time // when
}

// admit charges q's cost as soon as the server and all limits allow, and tells Observe.
// An error means that nothing stays charged.
func (t *Transport) admit(r *http.Request, q *call) (charge, error) {
	start := time.Now()
	e := Event{Key: q.key, Cost: q.cost}
	err := t.wait(r.Context(), q, &e)
	if t.c.Observe != nil {
		e.Waited = time.Since(start)
		t.c.Observe(r, e)
	}
	if err != nil || e.Outcome != enforce.Admitted || e.Decision.Limit.IsZero() {
		return charge{}, err
	}
	return charge{q.key, q.cost, e.Decision.At}, nil
}

// wait is admit, and fills e.
func (t *Transport) wait(ctx context.Context, q *call, e *Event) error {
	var place *waitqueue.Waiter
	defer func() { t.room.Leave(place) }()
	queue := func() bool {
		place = t.room.Enter(q.key)
		return place != nil
	}
	if t.room.HasWaiters(q.key) && !queue() {
		return t.refuse(ctx, q, e)
	}
	for {
		if err := context.Cause(ctx); err != nil {
			return e.gone(err)
		}
		if place != nil {
			if come, err := place.Wait(ctx, q.until); err != nil {
				return e.gone(err)
			} else if !come {
				return t.refuse(ctx, q, e)
			}
		}
		pause := t.holds.left(q.key)
		if pause > 0 {
			if !q.allows(pause) {
				return e.held(pause)
			}
		} else {
			d, err := t.ask(ctx, weir.Take, q)
			switch {
			case err != nil:
				return t.undecided(ctx, e, err)
			case d.OK:
				return t.delay(ctx, q, d, e)
			case d.RetryAfter == weir.Never || !q.allows(d.RetryAfter):
				return e.denied(d)
			}
			pause = d.RetryAfter
		}
		if place == nil && !queue() {
			return t.refuse(ctx, q, e)
		}
		if err := waitqueue.Sleep(ctx, pause); err != nil {
			return e.gone(err)
		}
	}
}

// delay holds an admitted request back for as long as a queue's limit says, and for as
// long as the server asked for while the store was being asked.
func (t *Transport) delay(ctx context.Context, q *call, d weir.Decision, e *Event) error {
	taken := charge{q.key, q.cost, d.At}
	pause, server := max(d.Delay, t.holds.left(q.key)), t.holds.left(q.key) > d.Delay
	for pause > 0 {
		if !q.allows(pause) {
			t.giveBack(ctx, taken)
			if server {
				return e.held(pause)
			}
			d.OK, d.Granted, d.Delay = false, 0, 0
			d.RetryAfter = max(pause-max(0, time.Until(q.until)), time.Microsecond)
			return e.denied(d)
		}
		if err := waitqueue.Sleep(ctx, pause); err != nil {
			t.giveBack(ctx, taken)
			return e.gone(err)
		}
		pause, server = t.holds.left(q.key), true
	}
	e.Outcome, e.Decision = enforce.Admitted, d
	return nil
}

// refuse is the denial of a request that does not get its turn. It takes nothing.
func (t *Transport) refuse(ctx context.Context, q *call, e *Event) error {
	if left := t.holds.left(q.key); left > 0 {
		return e.held(left)
	}
	d, err := t.ask(ctx, weir.Peek, q)
	if err != nil {
		return t.undecided(ctx, e, err)
	}
	d.OK = false
	return e.denied(d)
}

// undecided is what becomes of a request that the store made no decision about.
func (t *Transport) undecided(ctx context.Context, e *Event, err error) error {
	if gone := context.Cause(ctx); gone != nil {
		return e.gone(gone)
	}
	e.Err = err
	if t.c.OnStoreError == policy.Open {
		e.Outcome = enforce.FailedOpen
		return nil
	}
	e.Outcome = enforce.FailedClosed
	return fmt.Errorf("%w: %.200q: %w", ErrUndecided, e.Key, err)
}

func (e *Event) gone(err error) error {
	e.Outcome, e.Err = enforce.FailedClosed, err
	return err
}

func (e *Event) denied(d weir.Decision) error {
	e.Outcome, e.Decision = enforce.Denied, d
	return &Denied{Key: e.Key, Decision: d}
}

func (e *Event) held(left time.Duration) error {
	e.Outcome, e.Server = enforce.Denied, true
	return &Denied{Key: e.Key, Decision: weir.Decision{RetryAfter: left}, Server: true}
}

// ask is the decision of all limits about q; an admission by no limit if there are none
// or it costs nothing.
func (t *Transport) ask(ctx context.Context, verb weir.Verb, q *call) (weir.Decision, error) {
	if len(t.limiters) == 0 || q.cost == 0 {
		return weir.Decision{OK: true}, nil
	}
	return weir.TakeAll(ctx, t.c.Store, t.requests(verb, q.key, q.cost)...)
}

// requests are one for each limit.
func (t *Transport) requests(verb weir.Verb, key string, n int64) []weir.Request {
	rs := make([]weir.Request, len(t.limiters))
	for i, l := range t.limiters {
		rs[i] = l.Request(verb, key, n)
	}
	return rs
}

// returnTimeout bounds how long a caller that is done waits for a store that is to take
// tokens back.
const returnTimeout = time.Second

// giveBack gives back what was taken, as far as the store can be asked: what cannot be
// given back stays charged.
func (t *Transport) giveBack(ctx context.Context, c charge) {
	if c.n == 0 || len(t.limiters) == 0 {
		return
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), returnTimeout)
	defer cancel()
	rs := t.requests(weir.Return, c.key, c.n)
	for i := range rs {
		rs[i].At = c.at
	}
	_, _ = t.c.Store.DoAll(ctx, rs, make([]weir.Decision, len(rs)))
}
