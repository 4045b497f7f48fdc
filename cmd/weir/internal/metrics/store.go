package metrics

import (
	"context"
	"errors"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/floodweir/weir"
)

// timed is a store whose time is counted.
type timed struct {
	next weir.Store
	took prometheus.Observer
}

// Do implements [weir.Store].
func (t *timed) Do(ctx context.Context, r weir.Request) (weir.Decision, error) {
	start := time.Now()
	d, err := t.next.Do(ctx, r)
	t.took.Observe(time.Since(start).Seconds())
	return d, err
}

// DoAll implements [weir.Store].
func (t *timed) DoAll(ctx context.Context, rs []weir.Request, ds []weir.Decision) (bool, error) {
	start := time.Now()
	ok, err := t.next.DoAll(ctx, rs, ds)
	t.took.Observe(time.Since(start).Seconds())
	return ok, err
}

// batch is the op of DoAll, after those that are verbs.
const batch = int(weir.Cancel) + 1

// store is a store whose time and errors are counted, by what it is asked.
type store struct {
	m    *Metrics
	next weir.Store
	took [batch + 1]atomic.Pointer[prometheus.Observer] // nil until there was one
}

func newStore(m *Metrics, next weir.Store) weir.Store { return &store{m: m, next: next} }

// Do implements [weir.Store].
func (s *store) Do(ctx context.Context, r weir.Request) (weir.Decision, error) {
	start := time.Now()
	d, err := s.next.Do(ctx, r)
	s.done(ctx, int(r.Verb), start, err)
	return d, err
}

// DoAll implements [weir.Store].
func (s *store) DoAll(ctx context.Context, rs []weir.Request, ds []weir.Decision) (bool, error) {
	start := time.Now()
	ok, err := s.next.DoAll(ctx, rs, ds)
	s.done(ctx, batch, start, err)
	return ok, err
}

// done counts what was asked. A request that is not valid, or that nobody waits for any
// more, says nothing about the store.
func (s *store) done(ctx context.Context, op int, start time.Time, err error) {
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

// reason is why a store did not decide, in one of a few words.
func reason(err error) string {
	switch {
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
