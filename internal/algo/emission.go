package algo

import (
	"fmt"
	"math"
	"math/bits"
)

// An emission is the exact time that one token takes at count tokens per
// period: period/count µs. With g = gcd(count, period) and k = count/g, one token
// takes q = period/g units of 1/k µs. Times are pairs of whole µs and a remainder
// in those units, 0 ≤ rem < k.
type emission struct {
	k, q    int64   // one token takes q units of 1/k µs
	us, rem int64   // the same as a pair: q = us·k + rem
	most    int64   // the largest n that cost knows; a larger one counts as most
	quick   int64   // up to here n·rem is at most MaxInstant
	narrow  uint64  // up to here µs times k, plus k, is below 2^62
	byUnit  divisor // by k
	byToken divisor // by q
}

func newEmission(count, period int64) (emission, error) {
	if count < 1 || count > MaxCount {
		return emission{}, fmt.Errorf("count %d: %w: want 1 to %d", count, ErrRange, int64(MaxCount))
	}
	if period < 1 || period > MaxSpan {
		return emission{}, fmt.Errorf("period %d µs: %w: want 1 to %d (100 years)", period, ErrRange, int64(MaxSpan))
	}
	g := gcd(count, period)
	e := emission{k: count / g, q: period / g}
	e.us, e.rem = e.q/e.k, e.q%e.k
	e.byUnit, e.byToken = newDivisor(e.k), newDivisor(e.q)
	e.narrow = 1<<62/uint64(e.k) - 1
	e.quick = MaxInstant
	if e.rem > 0 {
		e.quick = MaxInstant / e.rem
	}
	e.most = mulDiv(MaxSpan, e.k, e.q, MaxCount)
	return e, nil
}

// cost is the time of n tokens, exactly; of more than most tokens, that of most.
func (e *emission) cost(n int64) (us, rem int64) {
	if n == 1 {
		return e.us, e.rem
	}
	n = min(n, e.most)
	if n > e.quick {
		hi, lo := bits.Mul64(uint64(n), uint64(e.rem))
		carry, r := bits.Div64(hi, lo, uint64(e.k))
		return n*e.us + int64(carry), int64(r)
	}
	carry, r := e.byUnit.div(n * e.rem)
	return n*e.us + carry, r
}

// tokens is the number of whole tokens in a time that may be negative, rounded
// down, and never less than -MaxCount. It requires a time of at most cost(most).
func (e *emission) tokens(us, rem int64) int64 {
	if uint64(us) <= e.narrow {
		n, _ := e.byToken.div(us*e.k + rem)
		return n
	}
	if us >= 0 {
		n, _ := e.divide(us, rem)
		return n
	}
	us, rem = e.sub(0, 0, us, rem)
	n, exact := e.divide(us, rem)
	if !exact {
		n++
	}
	return max(-n, -MaxCount)
}

// divide is ⌊(us·k + rem)/q⌋, at most MaxCount, and whether nothing was left
// over. It requires us ≥ 0 and rem ≥ 0.
func (e *emission) divide(us, rem int64) (n int64, exact bool) {
	hi, lo := bits.Mul64(uint64(us), uint64(e.k))
	lo, c := bits.Add64(lo, uint64(rem), 0)
	if hi += c; hi >= uint64(e.q) {
		return MaxCount, true
	}
	d, r := bits.Div64(hi, lo, uint64(e.q))
	if d > MaxCount {
		return MaxCount, true
	}
	return int64(d), r == 0
}

// add adds two times, and sub subtracts them.
func (e *emission) add(us, rem, us2, rem2 int64) (int64, int64) {
	us, rem = us+us2, rem+rem2
	if rem >= e.k {
		us, rem = us+1, rem-e.k
	}
	return us, rem
}

func (e *emission) sub(us, rem, us2, rem2 int64) (int64, int64) {
	us, rem = us-us2, rem-rem2
	if rem < 0 {
		us, rem = us-1, rem+e.k
	}
	return us, rem
}

// ceilMicros rounds a time of us µs and rem units up to whole µs.
func ceilMicros(us, rem int64) int64 {
	if rem > 0 {
		return us + 1
	}
	return us
}

// A divisor divides by a number that is known beforehand, with two
// multiplications instead of a division.
type divisor struct{ d, inverse uint64 }

func newDivisor(d int64) divisor {
	return divisor{d: uint64(d), inverse: math.MaxUint64 / uint64(d)}
}

// div is x/d and x%d. It requires 0 ≤ x < 2^63: the estimate is then short of the
// quotient by less than one half and so, once rounded down, by at most one.
func (v *divisor) div(x int64) (q, r int64) {
	hi, _ := bits.Mul64(uint64(x), v.inverse)
	rest := uint64(x) - hi*v.d
	if rest >= v.d {
		return int64(hi + 1), int64(rest - v.d)
	}
	return int64(hi), int64(rest)
}

// mulDiv is ⌊a·b/c⌋, at most most. It requires a, b ≥ 0 and c > 0.
func mulDiv(a, b, c, most int64) int64 {
	hi, lo := bits.Mul64(uint64(a), uint64(b))
	if hi >= uint64(c) {
		return most
	}
	q, _ := bits.Div64(hi, lo, uint64(c))
	return int64(min(q, uint64(most)))
}

// ceilDiv is ⌈a/b⌉. It requires a ≥ 0 and b > 0.
func ceilDiv(a, b int64) int64 { return (a + b - 1) / b }
