package algo

import "fmt"

// A SlidingLog admits at most count tokens in any span of one period, exactly.
//
// The idea: store every admission and count those of the last period. The log is in
// order of time with running totals. Bisection finds the entries within the period, and
// the instant at which enough of them have left it. Tokens taken at one instant are one
// entry.
//
//	used     =  tokens of the entries with now − period < instant
//	admit n  ⇔  used + n ≤ count
//	then        append (now, n)
//
// Invariant: in any half-open span (t − period, t] at most count tokens are
// admitted, and whatever keeps within that is admitted. What Charge takes above
// the count is a debt that shrinks as entries leave the period.
//
// Source: the sorted-set limiter for Redis (ZREMRANGEBYSCORE, ZCARD, ZADD). We
// deviate from it in three ways. A denied request is not counted and does not change
// the log. Two admissions at one instant count as two. The log is bounded: a count
// above 10,000 is refused. At 10,000 entries a further Charge moves the newest entry to
// its own instant, which counts that entry for longer, never for less. If now
// is before the newest entry, the instant of that entry is used.
type SlidingLog struct{ count, period int64 }

// NewSlidingLog makes the rule of count tokens in any span of period µs. The count
// is at most 10,000. An error wraps ErrRange and names the parameter, its value
// and what would be accepted.
func NewSlidingLog(count, period int64) (*SlidingLog, error) {
	if count > maxEntries {
		return nil, fmt.Errorf("count %d: %w: want 1 to %d, since every admission is remembered; for more use sliding_window, weighted, or token_bucket", count, ErrRange, maxEntries)
	}
	if err := checkCount(count, maxEntries); err != nil {
		return nil, err
	}
	if err := checkPeriod("period", period); err != nil {
		return nil, err
	}
	return &SlidingLog{count, period}, nil
}

// The state of a SlidingLog is entries of two words, oldest first: the instant,
// and the tokens of this entry and of all before it in the state. Entries that
// have left the period are dropped once they are as many as the others.
const (
	entryAt = iota
	entryTotal
	entryWords
)

func (l *SlidingLog) Name() string    { return "sliding_log" }
func (l *SlidingLog) Words() int      { return entryWords }
func (l *SlidingLog) Variable() bool  { return true }
func (l *SlidingLog) Capacity() int64 { return l.count }
func (l *SlidingLog) Horizon() int64  { return l.period }

// Params are the count and the period.
func (l *SlidingLog) Params(int64) []int64 { return []int64{l.count, l.period} }

// entries is s without the words of a state that was never used.
func entries(s []int64) []int64 {
	if len(s) < entryWords || s[entryAt] == 0 {
		return s[:0]
	}
	return s
}

// bisect is the index in s of the first entry from from on whose word is at
// least x. That word must not fall from entry to entry.
func bisect(s []int64, from, word int, x int64) int {
	lo, hi := from/entryWords, len(s)/entryWords
	for lo < hi {
		if mid := (lo + hi) / 2; s[mid*entryWords+word] < x {
			lo = mid + 1
		} else {
			hi = mid
		}
	}
	return lo * entryWords
}

// totalBefore is the running total before the entry at index i.
func totalBefore(s []int64, i int) int64 {
	if i == 0 {
		return 0
	}
	return s[i-entryWords+entryTotal]
}

// Do implements [Rule].
func (l *SlidingLog) Do(words []int64, a Ask) ([]int64, Result) {
	s := entries(words)
	now := a.Now // never before the newest entry
	if len(s) > 0 {
		now = max(now, s[len(s)-entryWords])
	}
	from := bisect(s, 0, entryAt, now-l.period+1) // the oldest entry that counts
	gone := totalBefore(s, from)
	used := totalBefore(s, len(s)) - gone

	n, ok := admit(a, l.count-used)
	r := Result{OK: ok, Granted: n}
	switch {
	case !ok && wanted(a) > l.count:
		r.Retry = Never
	case !ok:
		i := bisect(s, from, entryTotal, gone+used+wanted(a)-l.count)
		r.Retry = s[i] + l.period - a.Now
	case a.Op == Return:
		s = l.giveBack(s, from, a)
		used = totalBefore(s, len(s)) - gone
	case n > 0 && used < maxUsed:
		n = saturated(used, n, maxUsed) - used
		s = l.add(s, from, now, n)
		used += n
	}
	r.Balance = l.count - used
	if used > 0 {
		r.Reset = l.Until(s) - a.Now
	}
	switch {
	case !ok || a.Op == Peek:
		return words, r
	case used == 0:
		return s[:0], r
	}
	return s, r
}

// add appends n tokens at now to the entries of which those before from have
// left the period.
func (l *SlidingLog) add(s []int64, from int, now, n int64) []int64 {
	if 2*from >= len(s) {
		gone := totalBefore(s, from)
		s = s[:copy(s, s[from:])]
		for i := entryTotal; i < len(s); i += entryWords {
			s[i] -= gone
		}
		from = 0
	}
	newest := len(s) - entryWords
	if newest >= from && (s[newest] == now || len(s)-from >= maxEntries*entryWords) {
		s[newest] = now
		s[newest+entryTotal] += n
		return s
	}
	return append(s, now, totalBefore(s, len(s))+n)
}

// giveBack takes a.N tokens off the entry of a.At, or off the newest, of those
// from from on.
func (l *SlidingLog) giveBack(s []int64, from int, a Ask) []int64 {
	if a.At != 0 {
		i := bisect(s, from, entryAt, a.At)
		if i == len(s) || s[i] != a.At {
			return s
		}
		have := s[i+entryTotal] - totalBefore(s, i)
		g := min(have, a.N)
		for j := i; j < len(s); j += entryWords {
			s[j+entryTotal] -= g
		}
		if g == have {
			s = append(s[:i], s[i+entryWords:]...)
		}
		return s
	}
	for n := a.N; n > 0 && len(s) > from; {
		newest := len(s) - entryWords
		have := s[newest+entryTotal] - totalBefore(s, newest)
		if n < have {
			s[newest+entryTotal] -= n
			break
		}
		n -= have
		s = s[:newest]
	}
	return s
}

// Until implements [Rule].
func (l *SlidingLog) Until(s []int64) int64 {
	if s = entries(s); len(s) == 0 {
		return 0
	}
	return s[len(s)-entryWords] + l.period
}

// Shift implements [Rule].
func (l *SlidingLog) Shift(s []int64, d int64) {
	s = entries(s)
	for i := 0; i < len(s); i += entryWords {
		s[i] = max(1, s[i]-d)
	}
}
