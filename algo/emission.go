package algo

import (
	"fmt"
	"math/bits"
)

// An emission is the exact time that one token takes at count tokens per
// period: period/count µs, kept as a whole number of µs and a remainder in units
// of 1/k µs. With g = gcd(count, period), k = count/g and one token is
// q = period/g such units.
type emission struct {
	k, q       int64 // one token is q units of 1/k µs
	us, rem    int64 // the same, split: q = us·k + rem, 0 ≤ rem < k
	most       int64 // the largest n whose cost is exact; a larger one saturates
	mostUs     int64 // cost(most)
	mostRem    int64
	narrowGaps bool // MaxSpan in units fits an int64 twice over
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
	// cost(n) computes n·us and n·rem, both at most MaxInstant.
	hi, lo := bits.Mul64(MaxSpan, uint64(e.k))
	most, _ := bits.Div64(hi%uint64(e.q), lo, uint64(e.q))
	if hi >= uint64(e.q) || most > MaxCount {
		most = MaxCount
	}
	e.most = int64(most)
	if e.rem > 0 {
		e.most = min(e.most, MaxInstant/e.rem)
	}
	e.mostUs, e.mostRem = e.cost(e.most)
	e.narrowGaps = e.k <= (1<<62)/(2*MaxSpan)
	return e, nil
}

// cost is the time of n tokens, exactly; of more than most tokens, that of most.
func (e *emission) cost(n int64) (us, rem int64) {
	if n == 1 {
		return e.us, e.rem
	}
	if n > e.most {
		return e.mostUs, e.mostRem
	}
	r := n * e.rem
	return n*e.us + r/e.k, r % e.k
}

// tokens is the number of whole tokens in a gap of us µs and rem units, where
// the gap may be negative: it rounds down, and saturates at ±MaxCount.
func (e *emission) tokens(us, rem int64) int64 {
	if e.narrowGaps {
		units := us*e.k + rem
		n := units / e.q
		if units%e.q < 0 {
			n--
		}
		return max(-MaxCount, min(n, MaxCount))
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
	return int64(min(d, MaxCount)), r == 0
}

// ceilMicros rounds an instant of us µs and rem units up to whole µs.
func ceilMicros(us, rem int64) int64 {
	if rem > 0 {
		return us + 1
	}
	return us
}

// add and sub are arithmetic on pairs of µs and units, with 0 ≤ rem < k.
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

// after reports whether the first pair is later than the second.
func after(us, rem, us2, rem2 int64) bool {
	return us > us2 || us == us2 && rem > rem2
}
