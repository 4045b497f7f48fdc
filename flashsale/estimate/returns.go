package estimate

import (
	"math"
	"sort"
	"time"
)

// maxReturns bounds the expected returns of units that an Estimator keeps.
const maxReturns = 5000

// leastShare is the least expected part of a unit that is followed to its next reservation.
const leastShare = 0.01

// unitReturn is the number of units that are expected to have returned by a time.
type unitReturn struct {
	at    time.Time
	units float64
}

// unpaidShares returns the probability that a unit that is pending after each step of the time to
// pay returns unpaid, by the estimator of Kaplan and Meier. Buyers who pay do so soon: an order that
// has been pending for long is rarely paid, however many others were.
//
// One unpaid unit is assumed at first, and a paid one: a half in the first step, a quarter in the
// next, and so on.
func (s *Sample) unpaidShares() []float64 {
	steps := max(1, len(s.Paid))
	paid, pending := make([]float64, steps), make([]float64, steps)
	atRisk := float64(s.Unpaid) + 1
	for i := range paid {
		paid[i] = math.Ldexp(0.5, -i)
		if i < len(s.Paid) {
			paid[i] += float64(s.Paid[i])
		}
		atRisk += paid[i]
	}
	for _, end := range s.PayBy {
		pending[s.step(end, steps)]++
		atRisk++
	}
	shares := make([]float64, steps+1)
	shares[0] = 1
	for i := range steps {
		atRisk -= pending[i] // in this step now: it is not known yet whether they pay in it
		shares[i+1] = shares[i] * (1 - paid[i]/atRisk)
		atRisk -= paid[i]
	}
	for i := range shares {
		shares[i] = shares[steps] / shares[i]
	}
	return shares
}

// step returns in which step of the time to pay an order is that ends at a time.
func (s *Sample) step(end time.Time, steps int) int {
	if s.PayWithin <= 0 {
		return 0
	}
	passed := s.PayWithin - end.Sub(s.At)
	return min(steps-1, max(0, int(passed*time.Duration(steps)/s.PayWithin)))
}

// expected returns how many units are expected to have returned by when. Each returned unit is
// reserved at once, and so may return again.
func (s *Sample) expected() []unitReturn {
	type part struct {
		at    time.Time
		units float64
	}
	shares := s.unpaidShares()
	again := make([]part, 0, len(s.PayBy))
	all := make([]unitReturn, 0, len(s.PayBy))
	sum := 0.0
	for i, j := 0, 0; (i < len(s.PayBy) || j < len(again)) && len(all) < maxReturns; {
		var next part
		if i < len(s.PayBy) && (j == len(again) || !again[j].at.Before(s.PayBy[i])) {
			next = part{s.PayBy[i], shares[s.step(s.PayBy[i], len(shares)-1)]}
			i++
		} else {
			next = again[j]
			j++
		}
		sum += next.units
		all = append(all, unitReturn{next.at, sum})
		if units := next.units * shares[0]; units >= leastShare && s.PayWithin > 0 {
			again = append(again, part{next.at.Add(s.PayWithin), units})
		}
	}
	return all
}

// returned estimates the wait until this many units return.
func (e *Estimator) returned(units float64) Wait {
	s := &e.last
	if e.returns == nil {
		e.returns = s.expected()
	}
	n := len(e.returns)
	i := sort.Search(n, func(i int) bool { return e.returns[i].units >= units-0.5 })
	if i < n {
		return bounded(e.returns[i].at.Sub(s.At).Seconds())
	}
	if n < maxReturns {
		return Wait{Unlikely: true}
	}
	last := e.returns[n-1] // others follow at the same rate
	return bounded(last.at.Sub(s.At).Seconds() * units / last.units)
}
