package algo

import "fmt"

// A Queueing says what a leaky bucket does with requests above the rate. The
// zero value lets what fits through at once: the bucket is a meter.
type Queueing struct {
	Queue bool  // admit with a delay what is above the rate, instead of at once
	Free  int64 // of a queue: how many above the rate go through without a delay, 0 to burst
}

// check reports what is wrong with q for a bucket of burst.
func (q Queueing) check(burst int64) error {
	switch {
	case q.Free != 0 && !q.Queue:
		return fmt.Errorf("free %d: %w: want 0 without a queue", q.Free, ErrRange)
	case q.Free < 0 || q.Free > burst:
		return fmt.Errorf("free %d: %w: want 0 to the burst, %d", q.Free, ErrRange, burst)
	}
	return nil
}

// A LeakyBucket drains at count per period, holds one request in service and up
// to burst more, and refuses what would overflow it.
//
// The idea: a leaky bucket as a meter is a token bucket seen from below: what has
// not drained is what has not been refilled. So it is the same instant, the time
// when the bucket will be empty, with room for burst + 1. As a queue it admits
// the same requests and returns a delay for each, so that they leave evenly.
//
//	T        = period/count
//	admit n  ⇔  owed + n·T ≤ (burst + 1)·T      owed = max(TAT − now, 0)
//	then        TAT ← now + owed + n·T
//	delay    = max(0, ⌈TAT − now − (1 + free)·T⌉)
//
// Invariant: with a queue and free = 0, requests of one token leave at least T apart
// after their delays, up to the rounding to 1 µs. As a meter, at most burst + 1 + d/T
// are admitted in any span of d µs.
//
// Source: the leaky bucket of ITU-T I.371 (2004) annex A; the words burst and
// delay, and their effect, are those of nginx's limit_req, whose own arithmetic is
// [LimitReq].
//
// Deviation: T is exact, where nginx cuts the rate to thousandths of a request
// per second and time to milliseconds. A request of several tokens is held back
// until its last token may leave.
type LeakyBucket struct {
	TokenBucket
	q                 Queueing
	graceUs, graceRem int64 // (1 + free)·T
}

// NewLeakyBucket makes the rule of count per period µs with room for burst beyond
// the one in service. An error wraps ErrRange and names the parameter, its value
// and what would be accepted.
func NewLeakyBucket(count, period, burst int64, q Queueing) (*LeakyBucket, error) {
	e, err := newEmission(count, period)
	if err != nil {
		return nil, err
	}
	if burst < 0 || burst >= e.most {
		return nil, fmt.Errorf("burst %d: %w: want 0 to %d at %d per %d µs", burst, ErrRange, e.most-1, count, period)
	}
	if err := q.check(burst); err != nil {
		return nil, err
	}
	b := &LeakyBucket{TokenBucket: TokenBucket{e: e, burst: burst + 1}, q: q}
	b.spanUs, b.spanRem = e.cost(burst + 1)
	b.graceUs, b.graceRem = e.cost(1 + q.Free)
	return b, nil
}

// Name implements [Rule].
func (b *LeakyBucket) Name() string { return "leaky_bucket" }

// Params returns the Params of [TokenBucket], with burst + 1 for its burst, then 1 for a
// queue or 0, and (1 + free)·T as µs and units.
func (b *LeakyBucket) Params(now int64) []int64 {
	return append(b.TokenBucket.Params(now), flag(b.q.Queue), b.graceUs, b.graceRem)
}

// Do implements [Rule].
func (b *LeakyBucket) Do(s []int64, a Ask) ([]int64, Result) {
	s = grown(s, tokenBucketWords)
	us, rem, r := b.Step(s[tatUs], s[tatRem], a)
	return stepped(s, us, rem, a.Now), r
}

// Step is [LeakyBucket.Do] on the pair itself, as [TokenBucket.Step] is.
func (b *LeakyBucket) Step(us, rem int64, a Ask) (int64, int64, Result) {
	newUs, newRem, r := b.TokenBucket.Step(us, rem, a)
	if b.q.Queue && r.OK && a.N > 0 {
		switch a.Op {
		case Take, TakeUpTo:
			r.Delay = b.delay(newUs-a.Now, newRem)
		case Peek:
			d, dr := us-a.Now, rem
			if d < 0 {
				d, dr = 0, 0
			}
			d, dr, _ = b.take(d, dr, a.N)
			r.Delay = b.delay(d, dr)
		}
	}
	return newUs, newRem, r
}

// delay returns the delay of a request after which d, dr is owed.
func (b *LeakyBucket) delay(d, dr int64) int64 {
	return max(0, ceilMicros(b.e.sub(d, dr, b.graceUs, b.graceRem)))
}

// flag is a bool among Params.
func flag(b bool) int64 {
	if b {
		return 1
	}
	return 0
}
