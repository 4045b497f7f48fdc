package simulate

import (
	"slices"
	"time"

	"github.com/floodweir/weir"
)

// A sight is an instant at which a state was read: in virtual time, and in µs by the clock of
// the servers, or -1 if the state was evicted.
type sight struct {
	when  time.Duration
	clock int64
	wrote bool
	side  int
}

// A view is the clock of the servers as one state saw it.
type view struct {
	refill  int64 // µs
	last    int64 // the instant of the state
	reached int64 // the latest instant at which it was written
	behind  bool  // the clock was set back from reached, by more than refill
	waited  bool  // and then a step or pause of more than refill followed
}

// jumps returns the allowances for the clock of the servers: what docs/guarantees.md promises
// under "Clock".
//
//   - A step back gives nothing.
//   - A step forward gives the tokens of that time, at most one capacity.
//   - After a step back, a step up to the former instant gives nothing. Nor does the first step
//     or pause below it, if that is longer than the limit takes to refill. Further steps below
//     it give at most one capacity each.
//   - While the clock is ahead, Redis deletes a state whose TTL has passed. It is new when the
//     clock is back.
func (r *recorder) jumps(name string, l weir.Limit, side int) (more []allowance) {
	v := view{refill: refillOf(l).Microseconds()}
	all := slices.DeleteFunc(slices.Clone(r.seen[name]), func(s sight) bool { return !r.on(side, s.side, s.when) })
	for i, x := range all {
		if x.clock < 0 {
			v.last, v.reached, v.behind = 0, 0, false // evicted
			continue
		}
		if i > 0 && all[i-1].clock >= 0 {
			p := all[i-1]
			if peak := r.peak(p.when, x.when); peak > max(x.clock, v.reached) {
				gain := time.Duration(peak-max(p.clock, v.last)) * time.Microsecond
				more = append(more, allowance{p.when, x.when, tokensOf(l, gain)})
				v.last, v.reached, v.behind = 0, 0, false
			}
			due := p.clock + (x.when - p.when).Microseconds()
			if gain := v.gain(x.clock, due); gain > 0 {
				more = append(more, allowance{p.when, x.when, tokensOf(l, time.Duration(gain)*time.Microsecond)})
			}
		}
		if x.wrote {
			v.last, v.reached = max(v.last, x.clock), max(v.reached, x.clock)
		}
	}
	return more
}

// peak returns the latest instant to which the clock was set in a span, or 0.
func (r *recorder) peak(from, to time.Duration) (peak int64) {
	for _, s := range r.steps {
		if s.when >= from && s.when <= to {
			peak = max(peak, s.clock)
		}
	}
	return peak
}

// gain returns the µs for which a state may refill because the clock is at an instant, and not
// where it was due.
func (v *view) gain(clock, due int64) int64 {
	step, jump := clock-v.last, clock-max(due, v.last)
	switch {
	case step < -v.refill:
		v.last, v.behind, v.waited = clock, true, false
		return 0
	case v.behind && clock >= v.reached:
		v.behind = false
		if !v.waited {
			return min(jump, clock-v.reached)
		}
	case v.behind && !v.waited && step > v.refill:
		v.last, v.waited = clock, true
		return 0
	}
	return jump
}

// refillOf returns the time in which an exhausted state becomes new.
func refillOf(l weir.Limit) time.Duration {
	switch c := l.Config().(type) {
	case weir.TokenBucket:
		return time.Duration(c.Burst) * c.Period / time.Duration(c.Count)
	case weir.LeakyBucket:
		return time.Duration(c.Burst+1) * c.Period / time.Duration(c.Count)
	}
	return l.Period()
}

// tokensOf returns the most tokens that a limit refills in a time.
func tokensOf(l weir.Limit, d time.Duration) int64 {
	switch l.Config().(type) {
	case weir.TokenBucket, weir.LeakyBucket:
		n := int64(float64(d)*float64(l.Capacity())/float64(refillOf(l))) + 1
		return min(n, l.Capacity())
	}
	return l.Capacity()
}
