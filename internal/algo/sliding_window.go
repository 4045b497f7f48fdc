package algo

import (
	"fmt"
	"math/bits"
)

// A SlidingWindow admits at most count tokens in about the last period, counted in
// segments of it that begin at whole multiples of their length since the Unix
// epoch.
//
// The idea: keep one count per segment, and add up those of the current segment
// and of the segments − 1 before it. Then tokens leave the window a segment at
// a time. A weighted window also counts the segment just before those, weighted with
// the part of it that is still within the period. So it slides smoothly. With
// segments = 1 it is the estimate from two buckets.
//
//	L        =  period/segments, cur = ⌊now/L⌋
//	sum      =  count of segment cur + … + count of segment cur − segments + 1
//	used     =  sum, or weighted
//	            sum + count of segment (cur − segments) · ((cur+1)·L − now)/L
//	admit n  ⇔  used + n ≤ count
//	then        count of segment cur += n
//
// Invariant: in any span of period − L at most count tokens are admitted. In any
// span of one period at most count and what a single segment admitted: 2·count
// at worst, and less than 2·count if weighted. The worst is count at the very
// end of a segment and count again a period less L later (weighted: a period
// less 1 µs later, less 2/L of it). Without weights it admits everything that an
// exact log with the same past admits. With weights it may deny such a request if the
// tokens of the oldest segment came early in it. If they came evenly, the estimate is
// at most one token too high.
//
// Source: alibaba/Sentinel, LeapArray.java (not weighted); Cloudflare, "How we
// built rate limiting capable of scaling to millions of domains" (2017), for
// segments = 1, weighted. We deviate from the latter in that the share is a whole
// number of tokens, rounded up, and in that a denied request is not counted. If
// now lies before the newest segment, it is taken to be that segment's
// beginning, where most is counted.
type SlidingWindow struct {
	count    int64
	length   int64 // of a segment, µs
	segments int   // that count in full
	ring     int   // segments of the state: one more if weighted
}

// NewSlidingWindow makes the rule of about count tokens in the last period µs, in 1
// to 100 segments that divide the period into whole µs. An error wraps ErrRange
// and names the parameter, its value and what would be accepted.
func NewSlidingWindow(count, period int64, segments int, weighted bool) (*SlidingWindow, error) {
	if err := checkCount(count, MaxCount); err != nil {
		return nil, err
	}
	if err := checkPeriod("period", period); err != nil {
		return nil, err
	}
	if segments < 1 || segments > maxSegments {
		return nil, fmt.Errorf("segments %d: %w: want 1 to %d", segments, ErrRange, maxSegments)
	}
	if period%int64(segments) != 0 {
		return nil, fmt.Errorf("segments %d: %w: want a number that divides the period of %d µs into whole µs", segments, ErrRange, period)
	}
	w := &SlidingWindow{count: count, length: period / int64(segments), segments: segments, ring: segments}
	if weighted {
		if err := checkPeriod("period and a segment", period+w.length); err != nil {
			return nil, err
		}
		w.ring++
	}
	return w, nil
}

const maxSegments = 100

// The state of a SlidingWindow is the number of the newest segment, plus one,
// and the counts of the newest segment and of those before it, newest first.
const (
	newestSegment = iota
	segmentCounts
)

func (w *SlidingWindow) Name() string    { return "sliding_window" }
func (w *SlidingWindow) Words() int      { return segmentCounts + w.ring }
func (w *SlidingWindow) Variable() bool  { return false }
func (w *SlidingWindow) Capacity() int64 { return w.count }
func (w *SlidingWindow) Horizon() int64  { return int64(w.ring) * w.length }

// Params are the count, the length of a segment, the segments that count in
// full, the segments kept (one more if weighted), and where the count of one
// segment saturates.
func (w *SlidingWindow) Params(int64) []int64 {
	return []int64{w.count, w.length, int64(w.segments), int64(w.ring), maxUsed}
}

// A segmentView is a state as seen from an instant, without changing it.
type segmentView struct {
	counts  []int64 // newest first
	current int64   // number of the current segment
	back    int64   // segments from the newest to the current one
	elapsed int64   // µs since the beginning of the current one
}

func (w *SlidingWindow) view(s []int64, now int64) segmentView {
	newest := s[newestSegment] - 1
	v := segmentView{counts: s[segmentCounts:w.Words()], current: max(newest, now/w.length)}
	v.back = v.current - newest
	v.elapsed = max(0, now-v.current*w.length)
	return v
}

// ago is the count of the segment i before the current one.
func (v *segmentView) ago(i int) int64 {
	j := int64(i) - v.back
	if j < 0 || j >= int64(len(v.counts)) {
		return 0
	}
	return v.counts[j]
}

// balance is the number of whole tokens left.
func (w *SlidingWindow) balance(v *segmentView) int64 {
	left := w.count
	for i := range w.segments {
		left -= v.ago(i)
	}
	if w.ring > w.segments {
		hi, lo := bits.Mul64(uint64(v.ago(w.segments)), uint64(w.length-v.elapsed))
		share, rest := bits.Div64(hi, lo, uint64(w.length))
		if left -= int64(share); rest > 0 {
			left--
		}
	}
	return left
}

// fits is the first instant at which n ≤ count tokens fit, which they do not now.
// As the current segment moves on by k, the k oldest of the full ones fall out,
// and the youngest of these is the one that is weighted.
func (w *SlidingWindow) fits(v *segmentView, n int64) int64 {
	room := w.count - n
	for i := range w.segments {
		room -= v.ago(i)
	}
	for k := 0; ; k++ {
		if room >= 0 {
			share := w.length // of the weighted segment that there is room for, µs
			if old := v.ago(w.segments - k); w.ring > w.segments && old > room {
				share = mulDiv(room, w.length, old, w.length)
			}
			return (v.current+int64(k)+1)*w.length - share
		}
		room += v.ago(w.segments - 1 - k)
	}
}

// Do implements [Rule].
func (w *SlidingWindow) Do(s []int64, a Ask) ([]int64, Result) {
	s = grown(s, w.Words())
	v := w.view(s, a.Now)
	balance := w.balance(&v)
	n, ok := admit(a, balance)
	r := Result{OK: ok, Granted: n}
	switch {
	case !ok && wanted(a) > w.count:
		r.Retry = Never
	case !ok:
		r.Retry = w.fits(&v, wanted(a)) - a.Now
	case a.Op == Return:
		w.advance(s, &v)
		w.giveBack(s, a)
		balance = w.balance(&v)
	case n > 0:
		w.advance(s, &v)
		used := s[segmentCounts]
		s[segmentCounts] = saturated(used, n, maxUsed)
		balance -= s[segmentCounts] - used
	}
	r.Balance = balance
	until := w.Until(s)
	r.Reset = max(0, until-a.Now)
	if ok && until == 0 {
		return zero(s), r
	}
	return s, r
}

// advance makes the current segment the newest of s.
func (w *SlidingWindow) advance(s []int64, v *segmentView) {
	back := int(min(v.back, int64(w.ring)))
	copy(v.counts[back:], v.counts)
	clear(v.counts[:back])
	v.back = 0
	s[newestSegment] = v.current + 1
}

// giveBack takes a.N tokens off the segment of a.At, or off the newest.
func (w *SlidingWindow) giveBack(s []int64, a Ask) {
	n, counts := a.N, s[segmentCounts:w.Words()]
	if a.At != 0 {
		i := s[newestSegment] - 1 - a.At/w.length
		if a.At > 0 && i >= 0 && i < int64(w.ring) {
			counts[i] -= min(counts[i], n)
		}
		return
	}
	for i := range counts {
		g := min(counts[i], n)
		counts[i] -= g
		n -= g
	}
}

// Until implements [Rule].
func (w *SlidingWindow) Until(s []int64) int64 {
	if len(s) < w.Words() {
		return 0
	}
	for i, c := range s[segmentCounts:w.Words()] {
		if c > 0 {
			return (s[newestSegment] - 1 - int64(i) + int64(w.ring)) * w.length
		}
	}
	return 0
}

// Shift implements [Rule]. It moves the state by whole segments, rounded down:
// what is counted stays counted. This also applies to negative d.
func (w *SlidingWindow) Shift(s []int64, d int64) {
	if len(s) >= w.Words() && s[newestSegment] > 0 {
		s[newestSegment] = max(1, s[newestSegment]-floorDiv(d, w.length))
	}
}
