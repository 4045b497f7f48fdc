package algo

import "fmt"

// A FixedWindow admits at most count tokens per window and forgets them when it
// ends.
//
// The idea: count the tokens taken, and forget the count when the window ends.
// The state is the end of the window and the tokens taken in it. A Charge above
// the count is a debt that ends with the window.
//
//	live     ⇔  end > now
//	used     =  the tokens taken, if live; else 0
//	admit n  ⇔  used + n ≤ count
//	then        used ← used + n, and if not live
//	            end  ← now + period, or (⌊now/period⌋ + 1)·period with epoch
//
// Invariant: in each window at most count tokens are admitted. So in any span of one
// period at most 2·count are: count at the end of a window, and count at the start of
// the next.
//
// Source: the rate limiter pattern of the documentation of Redis INCR (a counter
// with EXPIRE, anchored at the first request) and envoyproxy/ratelimit,
// src/limiter/cache_key.go (windows at multiples of the unit). We deviate from
// both in that a denied request is not counted. A window whose end is ahead of
// now is the current one even if now lies before its beginning, so a clock that
// goes back opens no second window.
type FixedWindow struct {
	count    int64
	period   int64
	epoch    bool
	calendar Calendar // nil if windows are all of one period
}

// NewFixedWindow makes the rule of count tokens per window of period µs. With
// epoch, windows begin at whole multiples of period since the Unix epoch;
// otherwise a key's window begins with the first token that it takes. An error
// wraps ErrRange and names the parameter, its value and what would be accepted.
func NewFixedWindow(count, period int64, epoch bool) (*FixedWindow, error) {
	if err := checkCount(count, MaxCount); err != nil {
		return nil, err
	}
	if err := checkPeriod("period", period); err != nil {
		return nil, err
	}
	return &FixedWindow{count: count, period: period, epoch: epoch}, nil
}

// NewCalendarWindow makes the rule of at most count tokens per window of a
// calendar. It is a [NewFixedWindow] whose windows are those of c.
func NewCalendarWindow(count int64, c Calendar) (*FixedWindow, error) {
	if err := checkCount(count, MaxCount); err != nil {
		return nil, err
	}
	if c == nil {
		return nil, fmt.Errorf("calendar nil: %w: want a calendar", ErrRange)
	}
	if err := checkPeriod("longest window", c.Longest()); err != nil {
		return nil, err
	}
	return &FixedWindow{count: count, calendar: c}, nil
}

// The state of a FixedWindow.
const (
	windowEnd = iota
	windowUsed
	fixedWindowWords
)

func (w *FixedWindow) Name() string    { return "fixed_window" }
func (w *FixedWindow) Words() int      { return fixedWindowWords }
func (w *FixedWindow) Variable() bool  { return false }
func (w *FixedWindow) Capacity() int64 { return w.count }

// Horizon implements [Rule].
func (w *FixedWindow) Horizon() int64 {
	if w.calendar != nil {
		return w.calendar.Longest()
	}
	return w.period
}

// Periodic reports whether all windows have one length: they are not those of a calendar.
func (w *FixedWindow) Periodic() bool { return w.calendar == nil }

// Params are the count, the period, and 1 if windows begin at multiples of the
// period since the epoch, else 0. For a calendar they are the count, 0, and
// the bounds of four windows in order: the one before now's, now's, and the two
// after it. A twin whose clock is not within these bounds must fail.
func (w *FixedWindow) Params(now int64) []int64 {
	if w.calendar == nil {
		p := []int64{w.count, w.period, 0}
		if w.epoch {
			p[2] = 1
		}
		return p
	}
	start, end := w.calendar.Window(now)
	before, _ := w.calendar.Window(start - 1)
	_, next := w.calendar.Window(end)
	_, last := w.calendar.Window(next)
	return []int64{w.count, 0, before, start, end, next, last}
}

// Do implements [Rule].
func (w *FixedWindow) Do(s []int64, a Ask) ([]int64, Result) {
	s = grown(s, fixedWindowWords)
	last, used := w.Pair(s)
	last, used, r := w.Step(last, used, a)
	state := w.State(last, used)
	return append(s[:0], state[:]...), r
}

// Pair returns the state s as that of Step.
func (w *FixedWindow) Pair(s []int64) (last, used int64) {
	if s[windowUsed] == 0 {
		return 0, 0
	}
	return s[windowEnd] - 1, s[windowUsed]
}

// State returns what Pair does not change.
func (w *FixedWindow) State(last, used int64) [fixedWindowWords]int64 {
	if used == 0 {
		return [fixedWindowWords]int64{}
	}
	return [fixedWindowWords]int64{last + 1, used}
}

// Step is [FixedWindow.Do] on a pair, for a store that packs it into less than two words: the
// last instant of the window, and the tokens taken in it. Pairs of windows that have not ended at
// an instant are those above (instant, 0). Without tokens the instant does not matter.
func (w *FixedWindow) Step(last, used int64, a Ask) (newLast, newUsed int64, r Result) {
	end, taken := last+1, used
	if end <= a.Now || used == 0 {
		end, taken = 0, 0
	}
	n, ok := admit(a, w.count-taken)
	r.OK, r.Granted = ok, n
	switch {
	case !ok && wanted(a) > w.count:
		r.Retry = Never
	case !ok:
		r.Retry = end - a.Now
	case a.Op == Return:
		if a.At == 0 || w.start(end) <= a.At && a.At < end {
			taken -= min(taken, a.N)
		}
	case n > 0:
		if end == 0 {
			end = w.end(a.Now)
		}
		taken = saturated(taken, n, maxUsed)
	}
	r.Balance = w.count - taken
	if taken > 0 {
		r.Reset = end - a.Now
	}
	switch {
	case !ok || a.Op == Peek:
		return last, used, r
	case taken == 0:
		return 0, 0, r
	}
	return end - 1, taken, r
}

// TakeOne is [FixedWindow.Step] for a Take of one token, without the result: it reports only
// whether the token fits. If not, the state stays as it is, whatever TakeOne returns.
func (w *FixedWindow) TakeOne(last, used, now int64) (newLast, newUsed int64, ok bool) {
	if last < now || used == 0 {
		return w.end(now) - 1, 1, true
	}
	return last, used + 1, used < w.count
}

// end is the end of the window that now is in.
func (w *FixedWindow) end(now int64) int64 {
	switch {
	case w.calendar != nil:
		_, end := w.calendar.Window(now)
		return end
	case w.epoch:
		return (now/w.period + 1) * w.period
	}
	return now + w.period
}

// start is the beginning of the window that ends at end.
func (w *FixedWindow) start(end int64) int64 {
	if w.calendar != nil {
		start, _ := w.calendar.Window(end - 1)
		return start
	}
	return end - w.period
}

// Until implements [Rule].
func (w *FixedWindow) Until(s []int64) int64 {
	if len(s) < fixedWindowWords {
		return 0
	}
	return s[windowEnd]
}

// Shift implements [Rule]. The current window ends d earlier; those after it
// begin where they always do.
func (w *FixedWindow) Shift(s []int64, d int64) {
	if len(s) >= fixedWindowWords && s[windowEnd] > 0 {
		s[windowEnd] = max(1, s[windowEnd]-d)
	}
}
