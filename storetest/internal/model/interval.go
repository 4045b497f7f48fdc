package model

import (
	"math/big"

	"github.com/floodweir/weir"
	"github.com/floodweir/weir/internal/algo"
)

// interval is a token bucket that gets count tokens together at the end of each
// period. It holds whole tokens, and the beginning of the period that runs.
type interval struct {
	count, period, burst int64
	epoch                bool
	deepest              int64 // the fewest tokens there can be, debt included

	used   bool // false: full, and no period runs
	tokens int64
	start  int64
}

func newInterval(c weir.TokenBucket) *interval {
	b := &interval{count: c.Count, period: c.Period.Microseconds(), burst: c.Burst, epoch: c.Epoch}
	// A debt is at most MaxCount, and all that is missing comes within MaxSpan.
	missing := saturate(mul(algo.MaxSpan/b.period, b.count))
	b.deepest = max(b.burst-missing, -algo.MaxCount)
	return b
}

// at is the tokens at now, and when the period began in which now is.
func (b *interval) at(now int64) (tokens, start int64) {
	if b.used {
		ends := max(0, (now-b.start)/b.period)
		tokens := mul(ends, b.count)
		if tokens.Add(tokens, big.NewInt(b.tokens)).Cmp(big.NewInt(b.burst)) < 0 {
			return tokens.Int64(), b.start + ends*b.period
		}
	}
	if b.epoch {
		return b.burst, now / b.period * b.period
	}
	return b.burst, now
}

func (b *interval) Do(a algo.Ask) algo.Result {
	tokens, start := b.at(a.Now)
	n, ok := fits(a, tokens)
	r := algo.Result{OK: ok, Granted: n}
	switch {
	case !ok && missing(a) > b.burst:
		r.Retry = algo.Never
	case !ok:
		r.Retry = start + b.comes(missing(a)-tokens) - a.Now
	case a.Op == algo.Return:
		tokens += min(a.N, b.burst-tokens)
	default:
		tokens = max(b.deepest, tokens-min(n, algo.MaxCount)) // no more count at once
	}
	r.Balance = tokens
	if tokens < b.burst {
		r.Reset = max(0, start+b.comes(b.burst-tokens)-a.Now)
	}
	if ok && a.Op != algo.Peek {
		b.used, b.tokens, b.start = tokens < b.burst, tokens, start
	}
	return r
}

// comes is after how long from the beginning of a period n tokens have come.
func (b *interval) comes(n int64) int64 {
	return ceilDiv(big.NewInt(n), big.NewInt(b.count)) * b.period
}

func (b *interval) Until() int64 {
	if !b.used {
		return 0
	}
	return b.start + b.comes(b.burst-b.tokens)
}

// Horizon is the time from empty to full.
func (b *interval) Horizon() int64 { return b.comes(b.burst) }

func (b *interval) Clone() State {
	c := *b
	return &c
}
