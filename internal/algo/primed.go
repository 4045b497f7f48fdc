package algo

import "fmt"

// A Primed is another rule whose keys do not begin full: a key's first request
// finds initial tokens.
//
// The idea: at the first use of a key, charge the inner rule the difference between
// capacity and initial, and store until when the key counts as seen. That is until the
// inner state is as if never used, plus an idle period. So a key that is used slowly is not
// new each time, and gets its initial tokens once per idle period.
//
//	new      ⇔  seen ≤ now
//	if new:     inner ← never used, charged capacity − initial at now
//	idle     =  1 day, or the inner horizon if that is longer
//	after every change: seen ← max(now, inner's until) + idle
//
// Invariant: whatever is admitted, the inner rule would have admitted too.
//
// Source: initial tokens as in Bucket4j's withInitialTokens and as in Guava's
// SmoothBursty, which starts with none stored; the instant is ours.
//
// Deviation: the first use of a key is kept even if its request is denied, the one
// exception to the rule that a denial changes nothing. With initial 0 the first request
// is always denied; without the exception every later one would be denied too. A request
// of 0 tokens is a Peek, and a Peek keeps nothing. A key that was full for an idle period
// is new again, and has only its initial tokens.
type Primed struct {
	inner   Rule
	initial int64
	idle    int64
}

// leastIdle is the shortest idle period, in µs: a key that is used once a day stays known.
const leastIdle = 24 * 3600 * 1_000_000

// The state of a Primed: until when the key counts as seen, then the inner words.
const (
	primedSeen = iota
	primedInner
)

// NewPrimed makes inner begin with initial tokens, from 0 to its capacity. An
// error wraps ErrRange.
func NewPrimed(inner Rule, initial int64) (*Primed, error) {
	if initial < 0 || initial > inner.Capacity() {
		return nil, fmt.Errorf("initial %d: %w: want 0 to the capacity, %d", initial, ErrRange, inner.Capacity())
	}
	return &Primed{inner: inner, initial: initial, idle: max(leastIdle, inner.Horizon())}, nil
}

// Inner is the rule that p primes.
func (p *Primed) Inner() Rule { return p.inner }

// Name implements [Rule].
func (p *Primed) Name() string { return "primed" }

// Params are capacity − initial, the idle period in µs, and the inner rule's Params.
func (p *Primed) Params(now int64) []int64 {
	return append([]int64{p.inner.Capacity() - p.initial, p.idle}, p.inner.Params(now)...)
}

// Words implements [Rule].
func (p *Primed) Words() int { return primedInner + p.inner.Words() }

// Variable implements [Rule].
func (p *Primed) Variable() bool { return p.inner.Variable() }

// Capacity implements [Rule].
func (p *Primed) Capacity() int64 { return p.inner.Capacity() }

// Horizon implements [Rule].
func (p *Primed) Horizon() int64 { return p.inner.Horizon() + p.idle }

// Do implements [Rule].
func (p *Primed) Do(s []int64, a Ask) ([]int64, Result) {
	s = grown(s, p.Words())
	if a.Op == Peek || a.N == 0 {
		a.Op = Peek
		return p.peek(s, a)
	}
	fresh := s[primedSeen] <= a.Now
	inner := s[primedInner:]
	if fresh {
		inner = p.first(inner, a.Now)
	}
	inner, r := p.inner.Do(inner, a)
	if s = append(s[:primedInner], inner...); fresh || r.OK {
		s[primedSeen] = p.seen(inner, a.Now)
	}
	r.Reset = p.Until(s) - a.Now
	return s, r
}

// peek is a Peek, which must not write into s.
func (p *Primed) peek(s []int64, a Ask) ([]int64, Result) {
	if s[primedSeen] > a.Now {
		_, r := p.inner.Do(s[primedInner:], a)
		r.Reset = p.Until(s) - a.Now
		return s, r
	}
	_, r := p.inner.Do(p.first(nil, a.Now), a)
	r.Reset = 0
	return s, r
}

// first is the inner state of a key that is seen for the first time at now. It
// may write into s.
func (p *Primed) first(s []int64, now int64) []int64 {
	s = grown(zero(s), p.inner.Words())
	if owed := p.inner.Capacity() - p.initial; owed > 0 {
		s, _ = p.inner.Do(s, Ask{Op: Charge, Now: now, N: owed})
	}
	return s
}

// First makes s the state of a key whose first use is at now, and returns it.
func (p *Primed) First(s []int64, now int64) []int64 {
	s = grown(zero(s), p.Words())
	inner := p.first(s[primedInner:], now)
	s = append(s[:primedInner], inner...)
	s[primedSeen] = p.seen(inner, now)
	return s
}

// seen is until when a key counts as seen that has the given inner state at now.
func (p *Primed) seen(inner []int64, now int64) int64 {
	return max(now, p.inner.Until(inner)) + p.idle
}

// Until implements [Rule].
func (p *Primed) Until(s []int64) int64 {
	if len(s) < p.Words() {
		return 0
	}
	return s[primedSeen]
}

// Shift implements [Rule].
func (p *Primed) Shift(s []int64, d int64) {
	if len(s) >= p.Words() && s[primedSeen] > 0 {
		s[primedSeen] = max(1, s[primedSeen]-d)
		p.inner.Shift(s[primedInner:], d)
	}
}
