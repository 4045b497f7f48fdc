// Package estimate estimates how long a visitor of a waiting room waits.
//
//	var e estimate.Estimator
//	e.Observe(estimate.Sample{…}) // regularly
//	w := e.Wait(ahead, units, buys)
//
// While units are free, visitors are admitted to turns, of which a number take place at once.
// The rate of admissions μ is that number divided by the mean length of a turn, or what the
// order writers can write, if that is less. If visitors leave the queue at rate h each, a
// visitor behind a others waits ln(1 + h·a/μ)/h, or a/μ if no visitor leaves.
//
// While no unit is free, units of unpaid orders return at the end of their time to pay. They
// return again if the visitors who then reserve them do not pay. Each visitor ahead takes the mean
// units of an order.
//
// An Estimator uses no clock. It is not safe for concurrent use.
package estimate

import (
	"math"
	"slices"
	"time"
)

// Factors of the range around an estimate.
const (
	Lowest  = 0.8
	Highest = 1.25
)

// Longest bounds an estimate.
const Longest = 24 * time.Hour

const (
	priorTurns = 10              // turns of half length that are assumed at first
	minTurns   = 64              // finished turns for the mean, at least
	decay      = 2 * time.Minute // time constant of the rate of leaving
	maxSamples = 512
)

// Sample holds the state of a sale at a time.
type Sample struct {
	At      time.Time
	Free    int64         // units
	Turns   int64         // admissions that may take place at once while Free is not 0
	Length  time.Duration // the longest turn
	Drain   float64       // orders per second that can be written; 0 for no bound
	Waiting int64         // present visitors in the queue
	Taking  int64         // turns that take place
	Begun   int64         // turns that have begun, in all
	Left    int64         // visitors who have left the queue, in all

	// PayBy are the ends of the time to pay of each unit of pending orders, in order. PayWithin is
	// that time. Paid are the paid units by the part of it that had passed, in equal steps. Unpaid
	// are the units of orders that ended without payment. PerOrder is the mean units of an order; 1
	// if zero.
	PayBy     []time.Time
	PayWithin time.Duration
	Paid      []int64
	Unpaid    int64
	PerOrder  float64
}

// Wait is an estimate.
type Wait struct {
	For      time.Duration // 0 if it is unknown
	Unlikely bool          // units may run out first
}

// Low returns the lower end of the range.
func (w Wait) Low() time.Duration { return time.Duration(Lowest * float64(w.For)) }

// High returns the upper end of the range.
func (w Wait) High() time.Duration { return time.Duration(Highest * float64(w.For)) }

// Estimator holds what was observed of a sale.
type Estimator struct {
	last   Sample
	spent  float64 // turn-seconds since the first sample
	done   int64   // finished turns since the first sample
	points []point // the earlier values of spent and done
	left   float64 // decayed number of visitors who left
	stayed float64 // decayed visitor-seconds in the queue

	returns []unitReturn // of last; nil if they are not computed yet
}

type point struct {
	spent float64
	done  int64
}

// Observe adds a sample. One that is older than the last is ignored.
func (e *Estimator) Observe(s Sample) {
	if e.last.At.IsZero() || s.Begun < e.last.Begun {
		*e = Estimator{last: s} // the first one, or a rebuilt inventory
		return
	}
	passed := s.At.Sub(e.last.At)
	if passed < 0 {
		return
	}
	e.spent += passed.Seconds() * float64(e.last.Taking+s.Taking) / 2
	e.done += max(0, s.Begun-e.last.Begun-(s.Taking-e.last.Taking))
	if n := len(e.points); n == 0 || e.done-e.points[n-1].done >= 1 {
		if n == maxSamples {
			e.points = slices.Delete(e.points, 0, maxSamples/2)
		}
		e.points = append(e.points, point{e.spent, e.done})
	}
	keep := math.Exp(-passed.Seconds() / decay.Seconds())
	e.left = e.left*keep + float64(max(0, s.Left-e.last.Left))
	e.stayed = e.stayed*keep + passed.Seconds()*float64(e.last.Waiting+s.Waiting)/2
	e.last, e.returns = s, nil
}

// turn returns the mean length of the last turns in seconds.
func (e *Estimator) turn() float64 {
	window := max(minTurns, 2*e.last.Turns)
	from := point{}
	for i := len(e.points) - 1; i >= 0; i-- {
		if e.done-e.points[i].done >= window {
			from = e.points[i]
			break
		}
	}
	spent, done := e.spent-from.spent, float64(e.done-from.done)
	return (spent + priorTurns*e.last.Length.Seconds()/2) / (done + priorTurns)
}

// leaving returns the rate at which a visitor leaves the queue, per second.
func (e *Estimator) leaving() float64 {
	if e.stayed <= 0 {
		return 0
	}
	return e.left / e.stayed
}

// Wait estimates the wait of a visitor with this many present visitors ahead, who wants some
// units. A visitor who reserves them in the same call as the admission needs no turn: for it buys
// is set.
func (e *Estimator) Wait(ahead int64, units int, buys bool) Wait {
	s := &e.last
	needed := float64(ahead)*max(1, s.PerOrder) + float64(max(1, units))
	switch {
	case s.At.IsZero():
		return Wait{}
	case buys && needed <= float64(s.Free):
		return e.behind(ahead, s.Drain)
	case buys:
		return e.returned(needed - float64(s.Free))
	case s.Free <= 0:
		return e.returned(needed)
	case ahead < s.Turns-s.Taking:
		return Wait{For: time.Second}
	}
	rate := float64(s.Turns) / max(e.turn(), 0.001)
	if s.Drain > 0 {
		rate = min(rate, s.Drain)
	}
	return e.behind(ahead+1, rate)
}

// behind estimates the wait until so many others are admitted at a rate per second.
func (e *Estimator) behind(ahead int64, rate float64) Wait {
	if rate <= 0 {
		return Wait{For: time.Second}
	}
	seconds := float64(ahead) / rate
	if h := e.leaving(); h > 0 {
		seconds = math.Log1p(h*seconds) / h
	}
	return bounded(seconds)
}

func bounded(seconds float64) Wait {
	d := time.Duration(min(seconds, Longest.Seconds()) * float64(time.Second))
	return Wait{For: max(time.Second, d.Round(100*time.Millisecond))}
}
