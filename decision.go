package weir

import (
	"math"
	"time"
)

// Never is the RetryAfter of a request whose cost exceeds the capacity of its limit:
// no wait helps.
const Never time.Duration = math.MaxInt64

// NoWait and Unlimited are values of every MaxWait in this module. In a field of that
// name 0 is a default that the field documents. In [Limiter.WaitN] 0 is NoWait.
const (
	// NoWait denies at once instead of waiting, as any negative duration does.
	NoWait time.Duration = -1
	// Unlimited waits until the context ends.
	Unlimited time.Duration = math.MaxInt64
)

// A Decision is the result of a Request. The zero Decision is a denial by no limit.
type Decision struct {
	// OK reports whether the request is admitted; after a Peek, whether it would be.
	OK bool

	// Borrowed reports whether the tokens of an admitted request are lent to its tenant, and not
	// its own. Only a TenantBucket sets it.
	Borrowed bool

	// Limit is the limit that decided. If several limits decided together, it is the
	// one with the longest RetryAfter or, if all admit, the one with the smallest share
	// of its capacity remaining.
	Limit Limit

	// Granted is the number of tokens consumed: N, fewer for TakeUpTo, 0 if denied.
	Granted int64

	// Remaining is the number of tokens left after the decision, rounded down and
	// never negative.
	Remaining int64

	// Debt is the number of tokens that the key owes after the decision, rounded up: those
	// charged beyond the capacity. Remaining is then 0.
	Debt int64

	// RetryAfter is the time after which the same request is admitted if no other
	// request comes first, rounded up to the microsecond. It is 0 if OK, or Never.
	RetryAfter time.Duration

	// ResetAfter is the time after which the key is as if never used.
	ResetAfter time.Duration

	// Delay is the time that the caller has to hold an admitted request back. Only a
	// LeakyBucket with Queue sets it.
	Delay time.Duration

	// At is the instant of the decision, by the store's clock.
	At time.Time

	// Degraded is the FailMode by which the decision was made without the store; empty
	// for a decision of the store.
	Degraded FailMode
}

// A FailMode selects the outcome of a request that the store did not decide. "open"
// admits it, "closed" denies it, and "local" decides by a share of the limit that this
// process keeps. Package policy has the constants.
type FailMode string

// Capacity returns the most tokens that the deciding limit gives at once: its burst,
// or its count per window.
func (d Decision) Capacity() int64 { return d.Limit.Capacity() }

// Combine returns the decision that counts among d and others, which were made
// together. It is the denial with the longest RetryAfter. If all admit, it is the one with
// the smallest share of its capacity remaining. Its Delay is then the longest of all, and it is
// Borrowed if one is.
func (d Decision) Combine(others ...Decision) Decision {
	delay, borrowed := d.Delay, d.Borrowed
	for _, o := range others {
		delay, borrowed = max(delay, o.Delay), borrowed || o.Borrowed
		if o.stricter(d) {
			d = o
		}
	}
	if d.OK {
		d.Delay, d.Borrowed = delay, borrowed
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
