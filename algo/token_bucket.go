package algo

import (
	"fmt"
)

// A TokenBucket admits a burst of tokens at once and then count per period,
// refilled smoothly.
//
// The idea: do not count tokens, remember one instant. The theoretical arrival
// time (TAT) is when the bucket will be full again; each token taken moves it
// later by the emission interval T = period/count. A request fits as long as the
// TAT stays within burst·T of now. So the state is one instant, and refilling
// needs no work at all.
//
//	cost(n)  = n·T
//	admit n  ⇔  max(TAT, now) + cost(n) ≤ now + cost(burst)
//	then        TAT ← max(TAT, now) + cost(n)
//	balance  = ⌊(now + cost(burst) − max(TAT, now)) / T⌋
//
// Invariant: in any span of d µs at most burst + d/T tokens are admitted, and
// Take(a+b) admits exactly when Take(a) and then Take(b) at the same instant do.
//
// Source: the generic cell rate algorithm, ITU-T I.371 (2004) annex A, virtual
// scheduling. It agrees with golang.org/x/time/rate and with Bucket4j's greedy
// refill at the instants that they can express, and with redis-cell up to its
// rounding of T to whole nanoseconds. We deviate in keeping T exact: T is q units of
// 1/k µs, where k = count/gcd(count, period), and so the TAT is a pair of µs and
// a remainder below k. A debt (Charge) moves the TAT beyond now + cost(burst),
// to at most now + MaxSpan.
type TokenBucket struct {
	e               emission
	burst           int64
	spanUs, spanRem int64 // cost(burst)
}

// The state of a TokenBucket: its TAT.
const (
	tatUs = iota
	tatRem
	tokenBucketWords
)

// NewTokenBucket makes the rule of count tokens per period µs, of which at most
// burst may be taken at once. It returns an error that wraps ErrRange or
// ErrInexact and names the parameter, its value and what would be accepted.
func NewTokenBucket(count, period, burst int64) (*TokenBucket, error) {
	e, err := newEmission(count, period)
	if err != nil {
		return nil, err
	}
	if burst < 1 {
		return nil, fmt.Errorf("burst %d: %w: want at least 1", burst, ErrRange)
	}
	if burst > e.most {
		return nil, fmt.Errorf("burst %d: %w at %d per %d µs: the largest burst that can is %d", burst, ErrInexact, count, period, e.most)
	}
	b := &TokenBucket{e: e, burst: burst}
	b.spanUs, b.spanRem = e.cost(burst)
	return b, nil
}

func (b *TokenBucket) Name() string    { return "token_bucket" }
func (b *TokenBucket) Words() int      { return tokenBucketWords }
func (b *TokenBucket) Variable() bool  { return false }
func (b *TokenBucket) Capacity() int64 { return b.burst }
func (b *TokenBucket) Horizon() int64  { return ceilMicros(b.spanUs, b.spanRem) }

// Params are k, T as µs and as units of 1/k µs beyond them, the burst, its cost
// as µs and units, and the largest n whose cost is exact.
func (b *TokenBucket) Params(int64) []int64 {
	return []int64{b.e.k, b.e.us, b.e.rem, b.burst, b.spanUs, b.spanRem, b.e.most}
}

// Units is k: the remainder of a state is less than it.
func (b *TokenBucket) Units() int64 { return b.e.k }

// Do implements [Rule].
func (b *TokenBucket) Do(s []int64, a Ask) ([]int64, Result) {
	s = grown(s, tokenBucketWords)
	us, rem, r := b.Step(s[tatUs], s[tatRem], a)
	s[tatUs], s[tatRem] = us, rem
	return s, r
}

// Step is [TokenBucket.Do] on the pair itself, for a store that packs it into
// less than two words. An instant that has passed comes back as 0, 0.
func (b *TokenBucket) Step(us, rem int64, a Ask) (int64, int64, Result) {
	u, m := us, rem // the TAT after the decision
	if u < a.Now {
		u, m = a.Now, 0
	}
	r := Result{OK: true}
	switch a.Op {
	case Take, Peek:
		tu, tm, wait := b.take(u, m, a.Now, a.N)
		r.OK, r.Retry = wait == 0, wait
		if r.OK && a.Op == Take {
			u, m, r.Granted = tu, tm, a.N
		}
	case TakeUpTo:
		n := min(a.N, max(0, b.balance(u, m, a.Now)))
		if n == 0 && a.N > 0 {
			r.OK = false
			_, _, r.Retry = b.take(u, m, a.Now, 1)
			break
		}
		u, m, _ = b.take(u, m, a.Now, n)
		r.Granted = n
	case Charge:
		u, m, _ = b.take(u, m, a.Now, a.N)
		if u >= a.Now+MaxSpan {
			u, m = a.Now+MaxSpan, 0
		}
		r.Granted = a.N
	case Return:
		c, cm := b.e.cost(a.N)
		u, m = b.e.sub(u, m, c, cm)
		if u < a.Now {
			u, m = a.Now, 0
		}
	}
	r.Balance = b.balance(u, m, a.Now)
	r.Reset = ceilMicros(u, m) - a.Now
	switch {
	case !r.OK || a.Op == Peek:
		return us, rem, r
	case r.Reset == 0:
		return 0, 0, r
	}
	return u, m, r
}

// take is the TAT after n more tokens, and how long to wait until they fit.
// It requires us ≥ now.
func (b *TokenBucket) take(us, rem, now, n int64) (newUs, newRem, wait int64) {
	c, cr := b.e.cost(n)
	us, rem = b.e.add(us, rem, c, cr)
	if n > b.burst {
		return us, rem, Never
	}
	if w, wr := b.e.sub(us, rem, b.spanUs, b.spanRem); after(w, wr, now, 0) {
		wait = ceilMicros(w, wr) - now
	}
	return us, rem, wait
}

// balance is the number of whole tokens at now. It requires us ≥ now.
func (b *TokenBucket) balance(us, rem, now int64) int64 {
	gap, gapRem := b.e.sub(b.spanUs, b.spanRem, us-now, rem)
	return b.e.tokens(gap, gapRem)
}

// Until implements [Rule].
func (b *TokenBucket) Until(s []int64) int64 {
	if len(s) < tokenBucketWords {
		return 0
	}
	return ceilMicros(s[tatUs], s[tatRem])
}

// Shift implements [Rule].
func (b *TokenBucket) Shift(s []int64, d int64) {
	if len(s) >= tokenBucketWords && s[tatUs] > 0 {
		s[tatUs] = max(1, s[tatUs]-d)
	}
}
