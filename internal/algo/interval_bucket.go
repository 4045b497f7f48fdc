package algo

import "fmt"

// An IntervalBucket admits a burst of tokens at once and receives count tokens
// together at the end of every period.
//
// The idea: remember when the current period began and how many tokens are
// missing from a full bucket. Whole periods that have passed since add their
// tokens at the next request.
//
//	j        = ⌊(now − start) / period⌋, 0 if negative
//	missing  = max(0, missing − j·count)
//	start    = start + j·period
//	admit n  ⇔  missing + n ≤ burst
//	retry    = start + ⌈(missing + n − burst)/count⌉·period − now
//
// Periods begin with the first request that finds the bucket full or, anchored at
// the epoch, at whole multiples of the period.
//
// Invariant: in any span of d µs at most burst + ⌈d/period⌉·count tokens are
// admitted, and tokens appear only at the ends of periods.
// A Charge counts at most MaxCount tokens, and what is missing from the burst is
// at most MaxCount more than it, and comes within MaxSpan.
//
// Source: Bucket4j, Refill.intervally and, for the epoch,
// Refill.intervallyAligned.
//
// Deviation: a bucket that is full again is as if never used, so its next period
// begins with its next request. Bucket4j counts periods from the creation of the
// bucket. A state that was shifted keeps its own phase until it is full.
type IntervalBucket struct {
	count, period, burst int64
	epoch                bool
	most                 int64 // the most tokens that can be missing, debt included
}

// The state of an IntervalBucket.
const (
	intervalStart = iota
	intervalMissing
	intervalBucketWords
)

// NewIntervalBucket makes the rule of a bucket of burst tokens that gets count
// tokens every period µs. A burst must refill within MaxSpan. An error wraps
// ErrRange and names the parameter, its value and what would be accepted.
func NewIntervalBucket(count, period, burst int64, epoch bool) (*IntervalBucket, error) {
	if _, err := newEmission(count, period); err != nil {
		return nil, err
	}
	largest := min(mulDiv(MaxSpan/period, count, 1, MaxCount), MaxCount)
	if burst < 1 || burst > largest {
		return nil, fmt.Errorf("burst %d: %w: want 1 to %d at %d per %d µs", burst, ErrRange, largest, count, period)
	}
	most := mulDiv(MaxSpan/period, count, 1, burst+MaxCount)
	return &IntervalBucket{count, period, burst, epoch, min(most, burst+MaxCount)}, nil
}

// Name implements [Rule].
func (b *IntervalBucket) Name() string { return "interval_bucket" }

// Params are the count, the period in µs, the burst, 1 for periods from the epoch
// or 0, and the most tokens that can be missing.
func (b *IntervalBucket) Params(int64) []int64 {
	return []int64{b.count, b.period, b.burst, flag(b.epoch), b.most}
}

// Words implements [Rule]: the start of the period, and the tokens missing.
func (b *IntervalBucket) Words() int { return intervalBucketWords }

// Variable implements [Rule].
func (b *IntervalBucket) Variable() bool { return false }

// Capacity implements [Rule].
func (b *IntervalBucket) Capacity() int64 { return b.burst }

// Horizon implements [Rule].
func (b *IntervalBucket) Horizon() int64 { return b.refilled(b.burst) }

// refilled is after how many µs from the start of a period n tokens have come.
func (b *IntervalBucket) refilled(n int64) int64 { return ceilDiv(n, b.count) * b.period }

// Do implements [Rule].
func (b *IntervalBucket) Do(s []int64, a Ask) ([]int64, Result) {
	s = grown(s, intervalBucketWords)
	start, missing := b.refill(s[intervalStart], s[intervalMissing], a.Now)
	r := Result{OK: true}
	switch a.Op {
	case Take, Peek:
		r.Retry = b.wait(start, missing, a.N, a.Now)
		if r.OK = r.Retry == 0; r.OK && a.Op == Take {
			missing += a.N
			r.Granted = a.N
		}
	case TakeUpTo:
		n := min(a.N, max(0, b.burst-missing))
		if n == 0 && a.N > 0 {
			r.OK, r.Retry = false, b.wait(start, missing, 1, a.Now)
			break
		}
		missing += n
		r.Granted = n
	case Charge:
		missing = min(b.most, missing+min(a.N, MaxCount))
		r.Granted = a.N
	case Return:
		missing = max(0, missing-a.N)
	}
	r.Balance = b.burst - missing
	if missing > 0 {
		r.Reset = max(0, start+b.refilled(missing)-a.Now)
	}
	switch {
	case !r.OK || a.Op == Peek:
		return s, r
	case missing == 0:
		return zero(s), r
	}
	s[intervalStart], s[intervalMissing] = start, missing
	return s, r
}

// refill is the state at now. That of a full bucket is the start of the period
// that would begin with a request at now.
func (b *IntervalBucket) refill(start, missing, now int64) (int64, int64) {
	if j := (now - start) / b.period; missing > 0 && j > 0 {
		if j >= ceilDiv(missing, b.count) {
			missing = 0
		} else {
			start, missing = start+j*b.period, missing-j*b.count
		}
	}
	switch {
	case missing > 0:
		return start, missing
	case b.epoch:
		return now - now%b.period, 0
	}
	return now, 0
}

// wait returns the time until n fit.
func (b *IntervalBucket) wait(start, missing, n, now int64) int64 {
	switch {
	case n == 0 || n <= b.burst-missing:
		return 0
	case n > b.burst:
		return Never
	}
	return start + b.refilled(missing+n-b.burst) - now
}

// Until implements [Rule].
func (b *IntervalBucket) Until(s []int64) int64 {
	if len(s) < intervalBucketWords || s[intervalMissing] == 0 {
		return 0
	}
	return s[intervalStart] + b.refilled(s[intervalMissing])
}

// Shift implements [Rule].
func (b *IntervalBucket) Shift(s []int64, d int64) {
	if len(s) >= intervalBucketWords && s[intervalMissing] > 0 {
		s[intervalStart] = max(1, s[intervalStart]-d)
	}
}
