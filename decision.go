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
// [Limiter.Wait], where 0 is NoWait.
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

	// Degraded says that the store could not be asked and how the decision was made
	// without it; empty for an ordinary decision.
	Degraded Degraded
}

// Degraded names the way in which a decision was made without its store.
type Degraded string

const (
	// Exact is the mode of every ordinary decision: not degraded.
	Exact Degraded = ""
	// FailedOpen lets everything through.
	FailedOpen Degraded = "open"
	// FailedClosed lets nothing through.
	FailedClosed Degraded = "closed"
	// FailedLocal decides by a share of the limit kept in this process.
	FailedLocal Degraded = "local"
)

// Capacity is the most tokens that the deciding limit gives at once: its burst,
// or its count per window.
func (d Decision) Capacity() int64 { return d.Limit.Capacity() }
