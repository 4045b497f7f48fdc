package algo

import "fmt"

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
//	owed     = max(TAT − now, 0)
//	admit n  ⇔  owed + cost(n) ≤ cost(burst)
//	then        TAT ← now + owed + cost(n)
//	balance  = ⌊(cost(burst) − owed) / T⌋
//	retry    = ⌈owed + cost(n) − cost(burst)⌉
//
// Invariant: in any span of d µs at most burst + d/T tokens are admitted, and
// Take(a+b) admits exactly when Take(a) and then Take(b) at the same instant do.
//
// Source: the generic cell rate algorithm, ITU-T I.371 (2004) annex A, virtual
// scheduling. It agrees with golang.org/x/time/rate and with Bucket4j's greedy
// refill at the instants that they can express, and with redis-cell up to its
// rounding of T to whole nanoseconds.
//
// Deviation: T is kept exactly, as q units of 1/k µs with
// k = count/gcd(count, period), and so the TAT is a pair of µs and a remainder
// below k. A Charge may move the TAT beyond now + cost(burst), which is debt, but
// not beyond now + MaxSpan, and one Charge counts at most MaxCount tokens. A
// Return does not look at the instant of the charge: a bucket forgets when its
// tokens were taken, and giving back stops at full.
type TokenBucket struct {
	e               emission
	burst           int64
	spanUs, spanRem int64 // cost(burst)
}

// The state of a TokenBucket: its TAT and, after [Migrate], what that rounded up, until
// the bucket is full.
const (
	tatUs = iota
	tatRem
	tokenBucketWords
	tatCredit = tokenBucketWords
)

// NewTokenBucket makes the rule of count tokens per period µs, of which at most
// burst may be taken at once. A burst must refill within MaxSpan. An error wraps
// ErrRange and names the parameter, its value and what would be accepted.
func NewTokenBucket(count, period, burst int64) (*TokenBucket, error) {
	e, err := newEmission(count, period)
	if err != nil {
		return nil, err
	}
	if burst < 1 || burst > e.most {
		return nil, fmt.Errorf("burst %d: %w: want 1 to %d at %d per %d µs", burst, ErrRange, e.most, count, period)
	}
	b := &TokenBucket{e: e, burst: burst}
	b.spanUs, b.spanRem = e.cost(burst)
	return b, nil
}

// Name implements [Rule].
func (b *TokenBucket) Name() string { return "token_bucket" }

// Words implements [Rule]: the µs of the TAT, and its remainder.
func (b *TokenBucket) Words() int { return tokenBucketWords }

// Variable implements [Rule].
func (b *TokenBucket) Variable() bool { return false }

// Capacity implements [Rule].
func (b *TokenBucket) Capacity() int64 { return b.burst }

// Horizon implements [Rule].
func (b *TokenBucket) Horizon() int64 { return ceilMicros(b.spanUs, b.spanRem) }

// Params returns k, T as µs and as units of 1/k µs beyond them, and the burst. Then come
// the cost of the burst as µs and units, and the most tokens that one Charge or Return
// counts.
func (b *TokenBucket) Params(int64) []int64 {
	return []int64{b.e.k, b.e.us, b.e.rem, b.burst, b.spanUs, b.spanRem, b.e.most}
}

// Units is k: the remainder of a state is less than it.
func (b *TokenBucket) Units() int64 { return b.e.k }

// Do implements [Rule].
func (b *TokenBucket) Do(s []int64, a Ask) ([]int64, Result) {
	s = grown(s, tokenBucketWords)
	us, rem, r := b.Step(s[tatUs], s[tatRem], a)
	return stepped(s, us, rem, a.Now), r
}

// stepped returns s with a new TAT. A bucket that is or was full at now has no credit.
func stepped(s []int64, us, rem, now int64) []int64 {
	if len(s) > tokenBucketWords && (us == 0 || s[tatUs] < now && us > s[tatUs]) {
		s[tatCredit] = 0
	}
	s[tatUs], s[tatRem] = us, rem
	return s
}

// Pair returns the state s, without a credit, as that of Step.
func (b *TokenBucket) Pair(s []int64) (us, rem int64) { return s[tatUs], s[tatRem] }

// State returns what Pair does not change.
func (b *TokenBucket) State(us, rem int64) [tokenBucketWords]int64 {
	return [tokenBucketWords]int64{us, rem}
}

// Step is [TokenBucket.Do] on the pair itself, for a store that packs it into
// less than two words. A TAT that has passed comes back as 0, 0.
func (b *TokenBucket) Step(us, rem int64, a Ask) (newUs, newRem int64, r Result) {
	if a.Op == Take && a.N == 1 { // most asks
		newUs, newRem, ok := b.TakeOne(us, rem, a.Now)
		if gap, gapRem := b.e.sub(b.spanUs, b.spanRem, newUs-a.Now, newRem); ok && uint64(gap) <= b.e.narrow {
			r.OK, r.Granted, r.Reset = true, 1, ceilMicros(newUs-a.Now, newRem)
			r.Balance, _ = b.e.byToken.div(gap*b.e.k + gapRem)
			return newUs, newRem, r
		}
	}
	d, dr := us-a.Now, rem // what is owed
	if d < 0 {
		d, dr = 0, 0
	}
	ok, wait, granted := true, int64(0), int64(0)
	switch a.Op {
	case Take, Peek:
		var td, tdr int64
		td, tdr, wait = b.take(d, dr, a.N)
		if ok = wait == 0; ok && a.Op == Take {
			d, dr, granted = td, tdr, a.N
		}
	case TakeUpTo:
		n := min(a.N, max(0, b.balance(d, dr)))
		if n == 0 && a.N > 0 {
			ok = false
			_, _, wait = b.take(d, dr, 1)
			break
		}
		d, dr, _ = b.take(d, dr, n)
		granted = n
	case Charge:
		d, dr = b.charge(d, dr, a.N)
		granted = a.N
	case Return:
		c, cr := b.e.cost(a.N)
		if d, dr = b.e.sub(d, dr, c, cr); d < 0 {
			d, dr = 0, 0
		}
	}
	// Field by field into the result itself: a copy of it would cost as much as
	// the arithmetic.
	r.OK, r.Granted, r.Retry = ok, granted, wait
	r.Balance, r.Reset = b.balance(d, dr), ceilMicros(d, dr)
	switch {
	case !ok || a.Op == Peek:
		return us, rem, r
	case d == 0 && dr == 0:
		return 0, 0, r
	}
	return a.Now + d, dr, r
}

// TakeOne is [TokenBucket.Step] for a Take of one token, without the result: it reports only
// whether the token fits. If not, the state stays as it is, whatever TakeOne returns.
func (b *TokenBucket) TakeOne(us, rem, now int64) (newUs, newRem int64, ok bool) {
	if us < now {
		us, rem = now, 0
	}
	us, rem = b.e.add(us, rem, b.e.us, b.e.rem)
	owed := us - now
	return us, rem, owed < b.spanUs || owed == b.spanUs && rem <= b.spanRem
}

// take returns the debt after n more tokens, and the time until they fit. No tokens
// always fit.
func (b *TokenBucket) take(d, dr, n int64) (newD, newDr, wait int64) {
	switch {
	case n == 0:
		return d, dr, 0
	case n > b.burst:
		return d, dr, Never
	}
	c, cr := b.e.cost(n)
	d, dr = b.e.add(d, dr, c, cr)
	if w, wr := b.e.sub(d, dr, b.spanUs, b.spanRem); w >= 0 {
		wait = ceilMicros(w, wr)
	}
	return d, dr, wait
}

// charge returns the debt after n more tokens. It is at most MaxSpan or, after a clock
// that went back left more than that, the debt before.
func (b *TokenBucket) charge(d, dr, n int64) (int64, int64) {
	c, cr := b.e.cost(n)
	switch nd, ndr := b.e.add(d, dr, c, cr); {
	case nd < MaxSpan:
		return nd, ndr
	case d >= MaxSpan:
		return d, dr
	}
	return MaxSpan, 0
}

// balance is the number of whole tokens while d, dr is owed.
func (b *TokenBucket) balance(d, dr int64) int64 {
	return b.e.tokens(b.e.sub(b.spanUs, b.spanRem, d, dr))
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
