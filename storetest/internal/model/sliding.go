package model

import (
	"math/big"
	"slices"
	"sort"

	"github.com/floodweir/weir"
	"github.com/floodweir/weir/internal/algo"
)

// sliding is a sliding window in segments. It keeps every admission and counts
// those of the segments that are asked about.
type sliding struct {
	count, length, segments int64
	weighted                bool

	log admissions
}

func newSliding(c weir.SlidingWindow) State {
	s := &sliding{count: c.Count, segments: int64(c.Segments), weighted: c.Weighted}
	s.length = c.Period.Microseconds() / s.segments
	return s
}

// segment is the count of a segment, by number since the epoch.
func (s *sliding) segment(i int64) int64 {
	return s.log.sum(i*s.length, (i+1)*s.length)
}

// kept returns the number of segments that count, the weighted one included.
func (s *sliding) kept() int64 {
	if s.weighted {
		return s.segments + 1
	}
	return s.segments
}

// usedAt returns the tokens that count at now, if no more are taken.
func (s *sliding) usedAt(now int64) int64 {
	cur := now / s.length
	used := s.log.sum((cur-s.segments+1)*s.length, (cur+1)*s.length)
	if s.weighted {
		old := s.segment(cur - s.segments)
		used += ceilDiv(mul(old, (cur+1)*s.length-now), big.NewInt(s.length))
	}
	return used
}

func (s *sliding) Do(a algo.Ask) algo.Result {
	used := s.usedAt(a.Now)
	n, ok := fits(a, s.count-used)
	r := algo.Result{OK: ok, Granted: n}
	switch {
	case !ok && missing(a) > s.count:
		r.Retry = algo.Never
	case !ok:
		// What counts only falls as time passes: find the first µs with room enough.
		fit := func(wait int) bool { return s.usedAt(a.Now+int64(wait)) <= s.count-missing(a) }
		r.Retry = int64(sort.Search(int(s.Until()-a.Now), fit))
	case a.Op == algo.Return:
		from, to := (a.Now/s.length-s.kept()+1)*s.length, a.Now+1
		if a.At != 0 { // the segment of that instant, if it counts
			at := a.At / s.length * s.length
			from, to = max(from, at), at+s.length
		}
		s.log.giveBack(a.N, from, to)
	case n > 0:
		if n = min(n, most-s.segment(a.Now/s.length)); n > 0 {
			s.log = append(s.log, admission{a.Now, n})
		}
	}
	s.forget(a.Now)
	r.Balance = s.count - s.usedAt(a.Now)
	r.Reset = max(0, s.Until()-a.Now)
	return r
}

// forget drops what cannot count any more.
func (s *sliding) forget(now int64) {
	oldest := (now/s.length - s.kept() + 1) * s.length
	s.log = slices.DeleteFunc(s.log, func(x admission) bool { return x.at < oldest || x.n == 0 })
}

// Until is when the newest admission has left.
func (s *sliding) Until() int64 {
	until := int64(0)
	for _, x := range s.log {
		if x.n > 0 {
			until = max(until, (x.at/s.length+s.kept())*s.length)
		}
	}
	return until
}

func (s *sliding) Clone() State {
	c := *s
	c.log = slices.Clone(s.log)
	return &c
}
