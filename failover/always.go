package failover

import (
	"context"
	"time"

	"github.com/floodweir/weir"
	"github.com/floodweir/weir/internal/bounds"
	"github.com/floodweir/weir/policy"
)

// closedRetry is when a request that Closed denied should come again: nobody knows when
// the store will be back, and this is how long it is left alone by default.
const closedRetry = DefaultCooldown

// Open is a store that lets everything through: every decision is OK and Degraded
// policy.Open, with the full capacity remaining. It keeps nothing, so that what
// Charge, Return, Reset, Commit and Cancel ask is not done. An invalid request gets its
// error.
func Open() weir.Store { return always{policy.Open} }

// Closed is a store that lets nothing through: Take, TakeUpTo, Peek and Reserve are
// denied, Degraded policy.Closed, with nothing remaining and a RetryAfter of one
// second, also when they ask for nothing. Charge, Return, Reset, Commit and Cancel ask
// for no permission, and those who ask could do nothing with a denial, as the request
// that they settle has gone through already: they are OK and Degraded, and not done.
// An invalid request gets its error.
func Closed() weir.Store { return always{policy.Closed} }

// An always is a store that decides without looking.
type always struct{ mode weir.FailMode }

// Do implements [weir.Store].
func (s always) Do(_ context.Context, r weir.Request) (d weir.Decision, err error) {
	if err := r.Validate(); err != nil {
		return d, err
	}
	s.decide(&r, &d, now())
	return d, nil
}

// DoAll implements [weir.Store].
func (s always) DoAll(_ context.Context, rs []weir.Request, ds []weir.Decision) (bool, error) {
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

// now is the present instant as stores tell it.
func now() time.Time { return time.UnixMicro(time.Now().UnixMicro()) }

func (s always) decide(r *weir.Request, d *weir.Decision, at time.Time) {
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
