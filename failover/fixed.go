package failover

import (
	"context"
	"time"

	"github.com/floodweir/weir"
	"github.com/floodweir/weir/internal/bounds"
	"github.com/floodweir/weir/policy"
)

// closedRetry is the RetryAfter of Closed: the default interval between two probes.
const closedRetry = DefaultCooldown

// Open returns a store that admits every request: decisions are OK and Degraded policy.Open,
// with the full capacity remaining. It has no state, so Charge, Return, Reset, Commit and
// Cancel have no effect. An invalid request gets its error.
func Open() weir.Store { return fixed{policy.Open} }

// Closed returns a store that denies Take, TakeUpTo, Peek and Reserve, even of 0 tokens:
// Degraded policy.Closed, with nothing remaining and a RetryAfter of one second. Charge,
// Return, Reset, Commit and Cancel settle requests that were admitted already. They are OK
// and Degraded, without effect. An invalid request gets its error.
func Closed() weir.Store { return fixed{policy.Closed} }

// fixed makes the same decision for every request.
type fixed struct{ mode weir.FailMode }

// Do implements [weir.Store].
func (s fixed) Do(_ context.Context, r weir.Request) (d weir.Decision, err error) {
	if err := r.Validate(); err != nil {
		return d, err
	}
	s.decide(&r, &d, now())
	return d, nil
}

// DoAll implements [weir.Store].
func (s fixed) DoAll(_ context.Context, rs []weir.Request, ds []weir.Decision) (bool, error) {
	if err := bounds.Check("failover", weir.ErrInvalid, rs, len(ds)); err != nil {
		return false, err
	}
	ok, at := true, now()
	for i := range rs {
		s.decide(&rs[i], &ds[i], at)
		ok = ok && ds[i].OK
	}
	return ok, nil
}

// now returns the time with the precision of stores.
func now() time.Time { return time.UnixMicro(time.Now().UnixMicro()) }

func (s fixed) decide(r *weir.Request, d *weir.Decision, at time.Time) {
	*d = weir.Decision{OK: true, Limit: r.Limit, At: at, Degraded: s.mode}
	if s.mode == policy.Open {
		d.Remaining = r.Limit.Capacity()
	}
	switch r.Verb {
	case weir.Charge, weir.Commit:
		d.Granted = r.N
	case weir.Take, weir.TakeUpTo, weir.Peek, weir.Reserve:
		if s.mode == policy.Closed {
			d.OK, d.RetryAfter, d.ResetAfter = false, closedRetry, closedRetry
		} else if r.Verb != weir.Peek {
			d.Granted = r.N
		}
	}
}
