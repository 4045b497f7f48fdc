package algo

import "math/bits"

// Migrate returns the state under the rule to, at now, of a key whose state under the rule
// from is fs. The new state owes what the old one owes. Migrate writes into ts, whose content
// does not matter, and returns it; fs keeps its words.
//
//	token and leaky bucket   the same tokens and fraction of a token, at the new rate
//	bucket by interval       the same tokens missing, in the same period
//	warm-up                  the same tokens to pay, the same share of the warm-up
//	limit_req                the same backlog
//	fixed window             the same window and count
//	sliding window, log      the same segments or entries
//	concurrency              the same slots
//	tenant bucket            the same tokens left, of every child and in the pool
//
// If only a count or a burst changes, no wait is longer after a raise, and after a lower every
// token that counted still counts. A change there and back restores the state, except for
// rounding against the caller. Rounding does not add up, because a state of a bucket keeps what
// it rounded up, as a credit. Only the share of a warm-up loses up to 1 µs for each change.
//
// If a period or segments change, the state keeps what the new rule can express. A fixed
// window does not end later, an interval begins a period, and a segment counts from its end.
// Between two algorithms the used tokens, rounded up, are charged to a new state.
func Migrate(from Rule, fs []int64, to Rule, ts []int64, now int64) []int64 {
	ts = zero(ts)
	if from.Until(fs) <= now {
		return grown(ts, to.Words())
	}
	if SameState(from, to) {
		return append(ts[:0], fs...)
	}
	if p, ok := from.(*Primed); ok {
		from, fs = p.inner, fs[primedInner:]
	}
	if p, ok := to.(*Primed); ok {
		return p.around(Migrate(from, fs, p.inner, nil, now), now)
	}
	if from.Until(fs) <= now {
		return grown(ts, to.Words())
	}
	if SameState(from, to) {
		return append(ts[:0], fs...)
	}
	if ts, ok := migrated(from, fs, to, grown(ts, to.Words()), now); ok {
		return ts
	}
	ts = grown(ts, to.Words())
	_, r := from.Do(fs, Ask{Op: Peek, Now: now})
	if used := from.Capacity() - r.Balance; used > 0 {
		ts, _ = to.Do(ts, Ask{Op: Charge, Now: now, N: used})
	}
	return ts
}

// SameState reports whether a state under one rule is the same under the other, so that
// [Migrate] copies it.
func SameState(a, b Rule) bool {
	if x, y := bucketOf(a), bucketOf(b); x != nil && y != nil {
		return x.e.k == y.e.k && x.e.q == y.e.q
	}
	switch x := a.(type) {
	case *Primed:
		y, ok := b.(*Primed)
		return ok && x.idle == y.idle && SameState(x.inner, y.inner)
	case *IntervalBucket:
		y, ok := b.(*IntervalBucket)
		return ok && *x == *y
	case *WarmupBucket:
		y, ok := b.(*WarmupBucket)
		return ok && x.e.k == y.e.k && x.e.q == y.e.q && x.warmup == y.warmup
	case *LimitReq:
		y, ok := b.(*LimitReq)
		return ok && x.rate == y.rate
	case *FixedWindow:
		y, ok := b.(*FixedWindow)
		return ok && x.calendar == nil && y.calendar == nil && x.period == y.period && x.epoch == y.epoch
	case *SlidingWindow:
		y, ok := b.(*SlidingWindow)
		return ok && x.length == y.length && x.ring == y.ring
	case *SlidingLog:
		y, ok := b.(*SlidingLog)
		return ok && x.period == y.period
	case *Concurrency:
		_, ok := b.(*Concurrency)
		return ok
	case *TenantBucket:
		y, ok := b.(*TenantBucket)
		return ok && x.id == y.id
	}
	return false
}

// bucketOf returns the token bucket of a rule whose state is one instant, or nil.
func bucketOf(r Rule) *TokenBucket {
	switch b := r.(type) {
	case *TokenBucket:
		return b
	case *LeakyBucket:
		return &b.TokenBucket
	}
	return nil
}

// migrated is Migrate between rules of one algorithm, for a state in use. It reports false for
// others.
func migrated(from Rule, fs []int64, to Rule, ts []int64, now int64) ([]int64, bool) {
	if f, t := bucketOf(from), bucketOf(to); f != nil && t != nil {
		return f.migrate(fs, t, ts, now), true
	}
	switch f := from.(type) {
	case *IntervalBucket:
		if t, ok := to.(*IntervalBucket); ok {
			return f.migrate(fs, t, ts, now), true
		}
	case *WarmupBucket:
		if t, ok := to.(*WarmupBucket); ok {
			return f.migrate(fs, t, ts, now), true
		}
	case *LimitReq:
		if t, ok := to.(*LimitReq); ok {
			return f.migrate(fs, t, ts, now), true
		}
	case *FixedWindow:
		if t, ok := to.(*FixedWindow); ok {
			ts[windowEnd], ts[windowUsed] = min(fs[windowEnd], t.end(now)), fs[windowUsed]
			return ts, true
		}
	case *SlidingWindow:
		if t, ok := to.(*SlidingWindow); ok {
			return f.migrate(fs, t, ts, now), true
		}
	case *SlidingLog:
		if _, ok := to.(*SlidingLog); ok {
			return f.migrate(fs, ts, now), true
		}
	case *TenantBucket:
		if t, ok := to.(*TenantBucket); ok {
			return append(ts[:0], f.migrate(fs, t.Tenants, now)...), true
		}
	}
	return ts, false
}

// migrate keeps what is owed in tokens.
func (b *TokenBucket) migrate(fs []int64, to *TokenBucket, ts []int64, now int64) []int64 {
	credit := int64(0)
	if len(fs) > tokenBucketWords {
		credit = fs[tatCredit]
	}
	us, rem, credit := b.e.convert(fs[tatUs]-now, fs[tatRem], credit, &to.e)
	if us == 0 && rem == 0 {
		return ts
	}
	ts[tatUs], ts[tatRem] = now+us, rem
	if credit > 0 {
		ts = append(ts[:tokenBucketWords], credit)
	}
	return ts
}

// creditOne is one token, in the units of a credit.
const creditOne = 1 << 52

// convert returns the time under to of the tokens that take the time us, rem under e. It rounds
// up to a unit of to, and returns what it added as a credit, rounded down, which the next
// conversion subtracts.
func (e *emission) convert(us, rem, credit int64, to *emission) (int64, int64, int64) {
	if us >= MaxSpan {
		us, rem = MaxSpan, 0
	}
	n, _ := e.divide(us, rem)
	cu, cr := e.cost(n)
	fu, fr := e.sub(us, rem, cu, cr)
	if n == MaxCount {
		fu, fr = 0, 0
	}
	part, rest := mulMod(fu*e.k+fr, to.q, e.q) // of a token, in units of to
	if rest > 0 || credit > 0 {
		less, fine := mulMod(credit, to.q, creditOne)
		more, lost := mulMod(rest, creditOne, e.q)
		if lost > 0 {
			more++
		}
		part -= less
		over := fine - more
		if over < 0 {
			part, over = part+1, over+creditOne
		}
		credit = over / to.q
	}
	if part < 0 {
		n, part = n-1, part+to.q
	}
	switch {
	case n < 0:
		return 0, 0, 0
	case n > to.most:
		return MaxSpan, 0, 0
	}
	us, rem = to.cost(n)
	if us, rem = to.add(us, rem, part/to.k, part%to.k); us >= MaxSpan {
		return MaxSpan, 0, 0
	}
	return us, rem, credit
}

// mulMod returns ⌊a·b/m⌋ and the remainder. It requires a < m and b ≥ 0.
func mulMod(a, b, m int64) (q, r int64) {
	hi, lo := bits.Mul64(uint64(a), uint64(b))
	d, rest := bits.Div64(hi, lo, uint64(m))
	return int64(d), int64(rest)
}

// migrate keeps the missing tokens and, if the periods are of one length, the period.
func (b *IntervalBucket) migrate(fs []int64, to *IntervalBucket, ts []int64, now int64) []int64 {
	start, missing := b.refill(fs[intervalStart], fs[intervalMissing], now)
	if missing == 0 {
		return ts
	}
	if b.period != to.period {
		start, _ = to.refill(0, 0, now)
	}
	ts[intervalStart], ts[intervalMissing] = start, min(missing, to.most)
	return ts
}

// migrate keeps what is owed in tokens, and the share of the warm-up.
func (b *WarmupBucket) migrate(fs []int64, to *WarmupBucket, ts []int64, now int64) []int64 {
	d, dr, m := b.idle(fs, now)
	credit := int64(0)
	if len(fs) > warmupBucketWords && fs[warmNextUs] >= now {
		credit = fs[warmCredit]
	}
	d, dr, credit = b.e.convert(d, dr, credit, &to.e)
	if m >= b.w {
		m = to.w
	} else {
		m, _ = mulMod(m, to.w, b.w)
	}
	if d == 0 && dr == 0 && m == 0 {
		return ts
	}
	ts[warmNextUs], ts[warmNextRem], ts[warmMissing] = now+d, dr, m
	if credit > 0 {
		ts = append(ts[:warmupBucketWords], credit)
	}
	return ts
}

// migrate drains at the old rate until now. If the rate rises, a part of a thousandth is rounded
// for the caller, so that no wait grows, and otherwise against it.
func (b *LimitReq) migrate(fs []int64, to *LimitReq, ts []int64, now int64) []int64 {
	last, backlog := fs[reqLast], fs[reqBacklog]
	if ms := max(1, now/1000) - last; ms > 0 {
		last, backlog = last+ms, backlog-b.rate*ms/1000
		if to.rate > b.rate && b.rate*ms%1000 > 0 {
			backlog--
		}
	}
	if backlog > 0 {
		ts[reqLast], ts[reqBacklog] = last, min(backlog, to.most)
	}
	return ts
}

// migrate keeps the count of every segment. If segments change their length, tokens count from
// the end of their segment, or from now.
func (w *SlidingWindow) migrate(fs []int64, to *SlidingWindow, ts []int64, now int64) []int64 {
	newest := fs[newestSegment] - 1
	at := func(i int64) int64 { // number of the segment under to
		if w.length == to.length {
			return newest - i
		}
		return max((newest-i)*w.length, min(now, (newest-i+1)*w.length-1)) / to.length
	}
	first, current := at(0), max(newest, now/w.length)
	ts[newestSegment] = first + 1
	used := false
	for i, c := range fs[segmentCounts:w.Words()] {
		if current-newest+int64(i) >= int64(w.ring) {
			break // it counts no longer
		}
		if back := first - at(int64(i)); back < int64(to.ring) {
			counts := ts[segmentCounts:to.Words()]
			counts[back] = saturated(counts[back], c, maxUsed)
			used = used || c > 0
		}
	}
	if !used {
		return zero(ts)
	}
	return ts
}

// migrate keeps the entries that still count.
func (l *SlidingLog) migrate(fs, ts []int64, now int64) []int64 {
	from := bisect(fs, 0, entryAt, max(now, fs[len(fs)-entryWords])-l.period+1)
	gone := totalBefore(fs, from)
	ts = append(ts[:0], fs[from:]...)
	for i := entryTotal; i < len(ts); i += entryWords {
		ts[i] -= gone
	}
	return ts
}

// around returns a state of a key that is not new, with the words of the inner rule.
func (p *Primed) around(inner []int64, now int64) []int64 {
	return append([]int64{p.seen(inner, now)}, inner...)
}
