package weir

import (
	"math"
	"time"
)

// Never is the RetryAfter of a request that no waiting can make fit, because
// its cost is above the limit's capacity.
const Never time.Duration = math.MaxInt64

// NoWait and Unlimited are values of every MaxWait in this module: of the fields of that
// name, where 0 is a default that the field documents, and of the argument of
// [Limiter.WaitN], where 0 is NoWait.
const (
	// NoWait denies at once what would have to wait, as any negative duration does.
	NoWait time.Duration = -1
	// Unlimited waits until the context ends.
	Unlimited time.Duration = math.MaxInt64
)

// A Decision answers a Request. Its zero value is a denial by no limit.
type Decision struct {
	// OK reports that the request may go through. For Peek: that it could.
	OK bool

	// Limit is the limit that decided. Of several limits judged together it is the
	// one that holds the request back longest or, if all admit it, the one with the
	// smallest share of its capacity remaining.
	Limit Limit

	// Granted is the number of tokens consumed: n, less for TakeUpTo, 0 if denied.
	Granted int64

	// Remaining is the number of tokens left after the decision, rounded down and
	// never negative.
	Remaining int64

	// RetryAfter is the time after which the same request is admitted if nobody
	// else comes, rounded up to the microsecond: 0 if OK, or Never.
	RetryAfter time.Duration

	// ResetAfter is the time after which the key is as if never used.
	ResetAfter time.Duration

	// Delay is how long the caller has to hold an admitted request back before
	// letting it go on (a leaky bucket as a queue); 0 for other limits.
	Delay time.Duration

	// At is the instant of the decision, by the store's clock.
	At time.Time

	// Degraded is the FailMode by which the decision was made without the store; empty
	// for a decision of the store.
	Degraded FailMode
}

// A FailMode selects the outcome of a request that the store did not decide: "open"
// admits it, "closed" denies it, and "local" decides by a share of the limit in this
// process. Package policy has the constants.
type FailMode string

// Capacity returns the most tokens that the deciding limit gives at once: its burst,
// or its count per window.
func (d Decision) Capacity() int64 { return d.Limit.Capacity() }

// Combine returns the decision that counts among d and others, which were made
// together: the denial with the longest RetryAfter or, if all admit, the admission with
// the smallest share of its capacity remaining and the longest Delay of all.
func (d Decision) Combine(others ...Decision) Decision {
	delay := d.Delay
	for _, o := range others {
		delay = max(delay, o.Delay)
		if o.stricter(d) {
			d = o
		}
	}
	if d.OK {
		d.Delay = delay
	}
	return d
}

// stricter reports whether d counts more than e.
func (d Decision) stricter(e Decision) bool {
	switch {
	case d.OK != e.OK:
		return !d.OK
	case !d.OK:
		return d.RetryAfter > e.RetryAfter
	}
	// Shares are compared as floats. Rounding may make a tie, which only affects which
	// limit is reported.
	return float64(d.Remaining)*float64(e.Capacity()) < float64(e.Remaining)*float64(d.Capacity())
}
