package metrics

import (
	"context"
	"errors"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/floodweir/weir"
)

// batch is the op of DoAll, after the ops that are verbs.
const batch = int(weir.Cancel) + 1

// timed wraps a store and reports each call of next: its op, when it began and its
// error.
type timed struct {
	next weir.Store
	done func(ctx context.Context, op int, start time.Time, err error)
}

// Do implements [weir.Store].
func (t *timed) Do(ctx context.Context, r weir.Request) (weir.Decision, error) {
	start := time.Now()
	d, err := t.next.Do(ctx, r)
	t.done(ctx, int(r.Verb), start, err)
	return d, err
}

// DoAll implements [weir.Store].
func (t *timed) DoAll(ctx context.Context, rs []weir.Request, ds []weir.Decision) (bool, error) {
	start := time.Now()
	ok, err := t.next.DoAll(ctx, rs, ds)
	t.done(ctx, batch, start, err)
	return ok, err
}

// storeCalls records the time and the errors of a store by op.
type storeCalls struct {
	m    *Metrics
	took [batch + 1]atomic.Pointer[prometheus.Observer] // nil before the first call
}

// done records a call. An invalid request, or one whose caller has canceled it, is not a
// measurement of the store.
func (s *storeCalls) done(ctx context.Context, op int, start time.Time, err error) {
	if op >= len(s.took) || err != nil && (errors.Is(err, weir.ErrInvalid) || errors.Is(ctx.Err(), context.Canceled)) {
		return
	}
	took := s.took[op].Load()
	if took == nil {
		o := s.m.storeTime.WithLabelValues(opName(op))
		took = &o
		s.took[op].Store(took)
	}
	(*took).Observe(time.Since(start).Seconds())
	if err != nil {
		s.m.storeErrors.WithLabelValues(opName(op), reason(err)).Inc()
	}
}

func opName(op int) string {
	if op == batch {
		return "batch"
	}
	return weir.Verb(op).String()
}

// reason returns the label of an error of a store.
func reason(err error) string {
	switch {
	case errors.Is(err, weir.ErrOverloaded):
		return "overloaded"
	case errors.Is(err, context.DeadlineExceeded):
		return "timeout"
	case errors.Is(err, weir.ErrFull):
		return "full"
	case errors.Is(err, weir.ErrNoReservation):
		return "no_reservation"
	case errors.Is(err, weir.ErrClosed):
		return "closed"
	case errors.Is(err, weir.ErrUnavailable):
		return "unavailable"
	}
	return other
}
