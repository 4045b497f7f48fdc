package metrics

import (
	"context"
	"errors"
	"sync/atomic"
	"time"

	"github.com/floodweir/weir"
	"github.com/floodweir/weir/enforce"
	"github.com/floodweir/weir/internal/missing"
)

// batch is the op of DoAll, after the ops that are verbs.
const batch = int(weir.Cancel) + 1

// timed wraps a store and reports each call of next: its op, when it began, its decision, that of
// all requests for a batch, and its error.
type timed struct {
	next  weir.Store
	epoch time.Time // Since reads one clock of the kernel, Now two
	done  func(ctx context.Context, op int, start time.Time, d weir.Decision, err error)
}

// timedStore returns next with reports to done. A missing store stays as it is, so that the
// constructor that receives it returns an error.
func timedStore(next weir.Store, done func(context.Context, int, time.Time, weir.Decision, error)) weir.Store {
	if missing.Value(next) {
		return next
	}
	return &timed{next, time.Now(), done}
}

// Do implements [weir.Store].
func (t *timed) Do(ctx context.Context, r weir.Request) (weir.Decision, error) {
	start := t.epoch.Add(time.Since(t.epoch))
	d, err := t.next.Do(ctx, r)
	t.done(ctx, int(r.Verb), start, d, err)
	return d, err
}

// DoAll implements [weir.Store].
func (t *timed) DoAll(ctx context.Context, rs []weir.Request, ds []weir.Decision) (bool, error) {
	start := t.epoch.Add(time.Since(t.epoch))
	ok, err := t.next.DoAll(ctx, rs, ds)
	d := weir.Decision{OK: ok}
	if len(ds) > 0 {
		d.Degraded = ds[0].Degraded
	}
	t.done(ctx, batch, start, d, err)
	return ok, err
}

// Store returns next with metrics of its duration and errors. A failover.Store reports them
// by StoreCalls.
func (m *Metrics) Store(next weir.Store) weir.Store {
	calls := m.StoreCalls()
	return timedStore(next, func(ctx context.Context, op int, start time.Time, _ weir.Decision, err error) {
		calls(ctx, weir.Verb(op), op == batch, start, err)
	})
}

// Interface returns next with a metric of the time that the named interface waits for a
// decision. It belongs around everything between the interface and the store. An interface
// with policies reports that time to Observe.
func (m *Metrics) Interface(name string, next weir.Store) weir.Store {
	took := m.DecisionTime(name)
	return timedStore(next, func(_ context.Context, _ int, start time.Time, _ weir.Decision, _ error) {
		took.Observe(time.Since(start).Seconds())
	})
}

// DecisionTime returns the metric of the time, in seconds, that the named interface waits for a
// decision, for an interface that measures it. Others use [Metrics.Interface].
func (m *Metrics) DecisionTime(name string) Histogram {
	return m.decisionTime(m.forInterface(name).label)
}

// Limiter returns next for weir.New. Each decision counts as that of an enforced policy called
// name of the interface "limiter", and an error as failed_closed, because a Limiter does not
// admit. While a caller waits, each denial counts. A batch, as of weir.TakeAll, counts once.
func (m *Metrics) Limiter(name string, next weir.Store) weir.Store {
	place, overflow := m.limiters.place(name)
	c := m.newCounters("limiter", place)
	return timedStore(next, func(ctx context.Context, op int, start time.Time, d weir.Decision, err error) {
		verb := weir.Verb(op)
		if verb != weir.Take && verb != weir.TakeUpTo && verb != weir.Reserve && op != batch || errors.Is(err, weir.ErrInvalid) {
			return
		}
		if overflow != nil {
			overflow.Add(1)
		}
		outcome := enforce.Denied
		switch {
		case errors.Is(err, weir.ErrOverloaded):
			outcome = enforce.Overloaded
		case err != nil && errors.Is(ctx.Err(), context.Canceled):
			outcome = canceled
		case err != nil:
			outcome = enforce.FailedClosed
		case d.OK:
			outcome = enforce.Admitted
		}
		c.decided(outcome, false, d.Degraded, time.Since(start))
	})
}

// StoreCalls returns a function that records the duration and the error of a call of the
// store. It fits the ObserveCall of a failover.Config. An invalid request, or one whose caller
// has canceled it, is not a measurement of the store.
func (m *Metrics) StoreCalls() func(ctx context.Context, verb weir.Verb, isBatch bool, start time.Time, err error) {
	took := new([batch + 1]atomic.Pointer[Histogram]) // nil before the first call
	return func(ctx context.Context, verb weir.Verb, isBatch bool, start time.Time, err error) {
		op := int(verb)
		if isBatch {
			op = batch
		}
		if op >= len(took) || err != nil && (errors.Is(err, weir.ErrInvalid) || errors.Is(ctx.Err(), context.Canceled)) {
			return
		}
		h := took[op].Load()
		if h == nil {
			made := m.storeTime(opName(op))
			h = &made
			took[op].Store(h)
		}
		(*h).Observe(time.Since(start).Seconds())
		if err != nil {
			m.storeErrors(opName(op), reason(err)).Add(1)
		}
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
