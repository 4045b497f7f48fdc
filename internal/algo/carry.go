package algo

import (
	"math"
	"math/bits"
)

// A CarryMode selects how many tokens a key has after its limit changed. Its values are
// those of weir.Carry.
type CarryMode uint8

const (
	// CarryUsage keeps what was used: see [Migrate].
	CarryUsage CarryMode = iota
	// CarryProportional keeps the share of the capacity that was left.
	CarryProportional
	// CarryAsIs keeps the number of tokens left, up to the new capacity.
	CarryAsIs
	// CarryAdditive adds the growth of the capacity to the tokens left.
	CarryAdditive
	// CarryReset starts afresh.
	CarryReset
)

// Carry returns the state under the rule to, at now, of a key whose state under the
// rule from is fs. It writes into ts, whose content does not matter, and returns
// it; fs keeps its words.
//
// With b the balance under from, which is negative in debt, and B and B' the two
// capacities, the key has these tokens left under to:
//
//	proportional  ⌊b·B'/B⌋
//	as is         min(b, B')
//	additive      min(b + max(0, B' − B), B')
//	reset         B'
//
// For usage the state itself moves, as [Migrate] describes. A state that is as if never used becomes one that is as if never used.
func Carry(mode CarryMode, from Rule, fs []int64, to Rule, ts []int64, now int64) []int64 {
	if mode == CarryUsage {
		return withoutCredit(to, Migrate(from, fs, to, ts, now))
	}
	ts = grown(zero(ts), to.Words())
	if from.Until(fs) <= now {
		return ts
	}
	owed := int64(0)
	if mode != CarryReset {
		_, r := from.Do(fs, Ask{Op: Peek, Now: now})
		owed = to.Capacity() - carried(mode, r.Balance, from.Capacity(), to.Capacity())
	}
	if p, ok := to.(*Primed); ok {
		return p.carried(ts, now, owed)
	}
	if owed > 0 {
		ts, _ = to.Do(ts, Ask{Op: Charge, Now: now, N: owed})
	}
	return ts
}

// withoutCredit returns s without what Migrate rounded up: one change is worth no word of
// its own.
func withoutCredit(r Rule, s []int64) []int64 {
	return s[:min(len(s), creditAt(r))]
}

// creditAt returns the index of the credit in a state of r, or a larger one if it has none.
func creditAt(r Rule) int {
	switch b := r.(type) {
	case *TokenBucket, *LeakyBucket:
		return tatCredit
	case *WarmupBucket:
		return warmCredit
	case *Primed:
		return primedInner + creditAt(b.inner)
	}
	return math.MaxInt - primedInner
}

// carried returns how many of b tokens of a capacity are left under another.
func carried(mode CarryMode, b, from, to int64) int64 {
	switch mode {
	case CarryProportional:
		return min(to, scale(b, to, from))
	case CarryAsIs:
		return min(to, b)
	case CarryAdditive:
		return min(to, b+max(0, to-from))
	}
	return to
}

// scale returns ⌊b·n/d⌋, also for a negative b, saturated at ±2·MaxCount.
func scale(b, n, d int64) int64 {
	const most = 2 * MaxCount
	if b >= 0 {
		return mulDiv(b, n, d, most)
	}
	hi, lo := bits.Mul64(uint64(-b), uint64(n))
	lo, carry := bits.Add64(lo, uint64(d-1), 0)
	if hi += carry; hi >= uint64(d) {
		return -most
	}
	q, _ := bits.Div64(hi, lo, uint64(d))
	return -int64(min(q, most))
}

// carried makes s the state of a key that is not new and owes so many tokens.
func (p *Primed) carried(s []int64, now, owed int64) []int64 {
	inner := s[primedInner:]
	if owed > 0 {
		inner, _ = p.inner.Do(inner, Ask{Op: Charge, Now: now, N: owed})
	}
	s = append(s[:primedInner], inner...)
	s[primedSeen] = p.seen(inner, now)
	return s
}
