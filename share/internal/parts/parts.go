// Package parts has the arithmetic of dividing a limit: parts of it, and their states.
package parts

import (
	"fmt"
	"math"
	"math/bits"
	"time"

	"github.com/floodweir/weir"
	"github.com/floodweir/weir/internal/algo"
)

const (
	smallest = 100  // the capacity of the smallest limit that is divided
	largest  = 1500 // the count of the largest sliding log, so that its entries fit a row

	finest = 1 << 16 // the least number of units in which a rate is divided
)

// A Part is a part of a limit. The rate of a count is its size.
type Part struct {
	Rate int64 // in units of the limit
	Size int64 // the capacity, in tokens
}

// Plus returns the sum of two parts.
func (p Part) Plus(q Part) Part { return Part{p.Rate + q.Rate, p.Size + q.Size} }

// Minus returns the difference of two parts.
func (p Part) Minus(q Part) Part { return Part{p.Rate - q.Rate, p.Size - q.Size} }

// A Limit is a limit that can be divided.
type Limit struct {
	weir.Limit
	Text   string // of the limit
	Whole  Part
	Span   int64 // µs in which one unit of a rate is one token
	Bucket bool  // refilled continuously; otherwise a count
	Labels bool  // windows begin at instants that all processes know
}

// Divide returns l with its units. An error wraps weir.ErrInvalid and has the reason why l cannot be
// divided.
func Divide(l weir.Limit) (*Limit, error) {
	refuse := func(reason string) (*Limit, error) {
		return nil, fmt.Errorf("share: limit %q: %w: cannot be divided: %s", l.Brief(), weir.ErrInvalid, reason)
	}
	d := &Limit{Limit: l, Text: l.String(), Whole: Part{l.Count(), l.Count()}}
	if l.IsZero() {
		return nil, fmt.Errorf("share: limit: %w: got the zero Limit, want a limit", weir.ErrInvalid)
	}
	if reason := Undivided(l); reason != "" {
		return refuse(reason)
	}
	switch c := l.Config().(type) {
	case weir.TokenBucket, weir.LeakyBucket:
		d.Bucket = true
	case weir.FixedWindow, weir.SlidingWindow:
		d.Labels = true
	case weir.SlidingLog:
		if c.Count > largest {
			return refuse(fmt.Sprintf("a row of a ledger has room for a log of %d requests", largest))
		}
	case weir.Concurrency:
		return refuse("any process may renew or free a slot by its id")
	}
	if l.Capacity() < smallest {
		return refuse(fmt.Sprintf("its capacity is less than %d", smallest))
	}
	d.Span = l.Spec().Rule.Horizon()
	if p := int64(l.Period() / time.Microsecond); p > 0 {
		d.Span = p
	}
	if d.Bucket {
		stretch := (finest + l.Count() - 1) / l.Count()
		d.Whole, d.Span = Part{l.Count() * stretch, l.Capacity()}, d.Span*stretch
		if d.Span > algo.MaxSpan || l.Spec().Rule.Horizon() > algo.MaxSpan/1024 {
			return refuse("a part of it would take more than 100 years to fill")
		}
	}
	return d, nil
}

// Undivided returns the reason why parts of l would together admit what l denies, whatever their
// sizes; "" if they would not.
func Undivided(l weir.Limit) string {
	switch c := l.Config().(type) {
	case weir.TokenBucket:
		switch {
		case c.Interval:
			return "a refill at the end of an interval comes at once, and each holder would have to know when"
		case c.Warmup != 0:
			return "the warm-up of a holder would not depend on the others"
		case c.Initial != nil:
			return "a holder does not know when a key is new"
		}
	case weir.LeakyBucket:
		switch {
		case c.Queue:
			return "holders would delay independently, so requests would not leave one after the other"
		case c.Nginx:
			return "nginx counts milliseconds and thousandths of a request, which have no exact parts"
		case c.Shared:
			return "limits with different bursts share its state"
		}
	case weir.FixedWindow:
		if !c.Epoch && c.Calendar == "" {
			return "a window begins with the first request of a key, which only one process knows; add anchor epoch"
		}
	case weir.SlidingWindow, weir.SlidingLog, weir.Concurrency:
	default:
		return l.Algorithm() + " has tokens of several tenants"
	}
	return ""
}

// rule returns the arithmetic of a part, or nil if nothing fits it.
func (l *Limit) rule(p Part) algo.Rule {
	if p == l.Whole {
		return l.Spec().Rule
	}
	if p.Rate <= 0 || p.Size <= 0 {
		return nil
	}
	var config weir.LimitConfig
	switch c := l.Config().(type) {
	case weir.FixedWindow:
		c.Count = p.Size
		config = c
	case weir.SlidingWindow:
		c.Count = p.Size
		config = c
	case weir.SlidingLog:
		c.Count = p.Size
		config = c
	default:
		if b, err := algo.NewTokenBucket(p.Rate, l.Span, p.Size); err == nil {
			return b
		}
		return nil
	}
	part, err := weir.NewLimit(config)
	if err != nil {
		return nil
	}
	return part.Spec().Rule
}

// Fraction returns the part with a rate, and the capacity that belongs to it.
func (l *Limit) Fraction(rate int64) Part {
	if !l.Bucket || rate <= 0 {
		return Part{max(0, rate), max(0, rate)}
	}
	return Part{rate, max(1, int64(float64(l.Whole.Size)*(float64(rate)/float64(l.Whole.Rate))))}
}

// Tokens returns the part that n tokens are.
func (l *Limit) Tokens(n int64) Part {
	if l.Bucket {
		return Part{0, n}
	}
	return Part{n, n}
}

// Reserve returns the part that is never granted, so that a process without a share is admitted.
func (l *Limit) Reserve() Part {
	return Part{(l.Whole.Rate + 15) / 16, (l.Whole.Size + 15) / 16}
}

// Comparable reports whether a part of l is a part of m too: its tokens count equally.
func (l *Limit) Comparable(m *Limit) bool {
	if l.Bucket && m.Bucket || algo.SameState(l.Spec().Rule, m.Spec().Rule) {
		return true
	}
	x, ok := l.Config().(weir.FixedWindow)
	y, also := m.Config().(weir.FixedWindow)
	same := ok && also && x.Zone.String() == y.Zone.String()
	x.Count, x.Zone, y.Zone = y.Count, nil, nil
	return same && x == y
}

// CeilScale returns ⌈n·to/from⌉, or a large number.
func CeilScale(n, to, from int64) int64 { return scale(n, to, from, from-1) }

// FloorScale returns ⌊n·to/from⌋, or a large number.
func FloorScale(n, to, from int64) int64 { return scale(n, to, from, 0) }

// scale returns ⌊(n·to + more)/from⌋, or a large number.
func scale(n, to, from, more int64) int64 {
	hi, lo := bits.Mul64(uint64(max(0, n)), uint64(to))
	lo, carry := bits.Add64(lo, uint64(more), 0)
	if hi += carry; hi >= uint64(from) {
		return math.MaxInt64 / 1024
	}
	q, _ := bits.Div64(hi, lo, uint64(from))
	return int64(min(q, math.MaxInt64/1024))
}

// A Bank is a part of a limit and its state. Its methods get the limit, because a part of a limit
// is put into many banks.
type Bank struct {
	Part
	Rule  algo.Rule // nil: nothing fits
	Words []int64   // the state of Rule; without one, the number of tokens that are missing, if any are
}

// Do decides a. Without a rule, it denies.
func (b *Bank) Do(a algo.Ask) (r algo.Result) {
	if b.Rule == nil {
		r.OK = a.N == 0 || a.Op == algo.Return
		return r
	}
	b.Words, r = b.Rule.Do(b.Words, a)
	return r
}

// Level returns the number of whole tokens at now; negative in debt.
func (b *Bank) Level(now int64) int64 {
	return b.Do(algo.Ask{Op: algo.Peek, Now: now}).Balance
}

// Put adds a part with a level, which may be larger than the part's size if b has room for it.
// Tokens that are missing from the part count as taken now.
func (b *Bank) Put(l *Limit, p Part, level, now int64) {
	if p == (Part{}) && level == 0 {
		return
	}
	b.Become(l, b.Part.Plus(p), now)
	b.owe(p.Size-level, now)
}

// missing returns the number of tokens that are missing.
func (b *Bank) missing(now int64) (n int64) {
	if b.Rule != nil {
		return b.Size - b.Level(now)
	}
	for _, w := range b.Words {
		n += max(0, w)
	}
	return n
}

// owe adds n to the tokens that are missing.
func (b *Bank) owe(n, now int64) {
	if b.Rule == nil {
		if n += b.missing(now); n > 0 {
			b.Words = []int64{n}
		} else {
			b.Words = nil
		}
	} else if n > 0 {
		b.Do(algo.Ask{Op: algo.Charge, Now: now, N: n})
	} else if n < 0 {
		b.Do(algo.Ask{Op: algo.Return, Now: now, N: -n})
	}
}

// Take removes a part with a level. It requires both in b. What then exceeds the capacity of b is
// lost.
func (b *Bank) Take(l *Limit, p Part, level, now int64) {
	if p == (Part{}) && level == 0 {
		return
	}
	b.owe(level-p.Size, now)
	b.Become(l, b.Part.Minus(p), now)
}

// Become changes the part, and keeps the number of tokens that are missing.
func (b *Bank) Become(l *Limit, p Part, now int64) {
	was, missing := b.Rule, b.missing(now)
	b.Part, b.Rule = p, l.rule(p)
	switch {
	case b.Rule == nil:
		b.Words = nil
		b.owe(missing, now)
	case was == nil:
		b.Words = make([]int64, b.Rule.Words())
		b.owe(missing, now)
	default:
		b.Words = algo.Migrate(was, b.Words, b.Rule, nil, now)
	}
}

// Open sets the rule of a bank whose part and words were stored. It reports whether the words
// can be those of the rule.
func (b *Bank) Open(l *Limit) bool {
	b.Rule = l.rule(b.Part)
	n := len(b.Words)
	return b.Rule == nil || n == 0 || n >= b.Rule.Words() && (!b.Rule.Variable() || n%b.Rule.Words() == 0)
}
