package waitqueue

import (
	"math"
	"math/bits"
	"time"
)

// A Behind is the wait of a caller that has left its queue for the tokens of the callers that
// stay, and for its own.
type Behind struct {
	Ask  int64         // the tokens that the limit must have at a time
	more time.Duration // in which it refills the tokens above its capacity
}

// BehindOf returns the wait behind callers whose number is waiting, if each wants n tokens, as the
// caller does. A limit without a period does not refill.
func BehindOf(waiting int, n, capacity, count int64, period time.Duration) Behind {
	hi, lo := bits.Mul64(uint64(n), uint64(waiting)+1)
	all := int64(min(lo, math.MaxInt64))
	if hi > 0 {
		all = math.MaxInt64
	}
	if all <= capacity || n > capacity || period == 0 {
		return Behind{Ask: min(all, max(n, capacity))}
	}
	b := Behind{Ask: capacity, more: math.MaxInt64}
	if hi, lo = bits.Mul64(uint64(all-capacity), uint64(period.Microseconds())); hi < uint64(count) {
		us, rest := bits.Div64(hi, lo, uint64(count))
		if rest > 0 {
			us++
		}
		if us <= math.MaxInt64/uint64(time.Microsecond) {
			b.more = time.Duration(us) * time.Microsecond
		}
	}
	return b
}

// RetryAfter returns the wait for a limit that has b.Ask tokens after d: at least a microsecond,
// and at most math.MaxInt64.
func (b Behind) RetryAfter(d time.Duration) time.Duration {
	return max(time.Microsecond, d+min(b.more, math.MaxInt64-d))
}
