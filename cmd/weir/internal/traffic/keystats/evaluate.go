package keystats

import (
	"math"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/floodweir/weir"
	"github.com/floodweir/weir/internal/algo"
)

const (
	second       = 1_000_000 // µs
	maxDecisions = 1 << 20   // of all keys with one spacing
)

// An evaluator decides the requests of one key by a limit.
type evaluator struct {
	rule   algo.Rule
	cost   int64
	period int64 // s, of the histogram
	most   uint64
	state  []int64
	rng    *rand.PCG
	places []int64 // of the requests in a second, in µs
}

func newEvaluator(limit weir.Limit, s *Sample) *evaluator {
	e := &evaluator{rule: limit.Spec().Rule, cost: 1, period: int64((limit.Period() + time.Second - 1) / time.Second), most: 1 << 12, rng: rand.NewPCG(0, 0)}
	if s.records > 0 {
		e.cost = max(1, int64(min((s.cost+s.records/2)/s.records, uint64(limit.Capacity())+1)))
	}
	if length := s.until - s.from; e.period == 0 || e.period > length { // of calendars
		e.period = max(1, length)
	}
	for e.most > 32 && e.decisions(s) > maxDecisions {
		e.most /= 2
	}
	return e
}

// decisions returns the number of decisions with even spacing.
func (e *evaluator) decisions(s *Sample) (n uint64) {
	for i := range s.sampled {
		for _, t := range s.sampled[i].ticks {
			n += min(t.n, e.most)
		}
	}
	return n
}

// A spacing places the requests of a second.
type spacing int

const (
	atStart  spacing = iota // at the start of the second
	even                    // evenly
	pairs                   // at the end of odd and the start of even seconds
	oddPairs                // at the end of even and the start of odd seconds
	random                  // anywhere; several times
	spacings = random + 6
)

// evaluate returns the fewest and the most requests that are denied with any spacing.
func (e *evaluator) evaluate(ticks []tick) Range {
	r := Range{Low: math.MaxUint64}
	for s := range spacings {
		n := e.denied(ticks, s)
		r.Low, r.High = min(r.Low, n), max(r.High, n)
	}
	return r
}

// heavy returns the fewest and the most denied requests of a key. Requests without a second are
// spread evenly over the window, or are all at its start.
func (e *evaluator) heavy(k *heavyKey, s *Sample) Range {
	if k.whole {
		return e.evaluate(k.ticks)
	}
	known := uint64(0)
	for _, t := range k.ticks {
		known += t.n
	}
	spread := func(n uint64) []tick {
		if n <= known {
			return k.ticks
		}
		rest, length := n-known, uint64(s.until-s.from)
		var all []tick
		for i := range length {
			if here := (i+1)*rest/length - i*rest/length; here > 0 {
				all = append(all, tick{s.from + int64(i), here})
			}
		}
		return mergeTicks(all, k.ticks)
	}
	burst := func(n uint64) []tick {
		if n <= known {
			return k.ticks
		}
		return mergeTicks([]tick{{s.from, n - known}}, k.ticks)
	}
	least, most := e.evaluate(spread(k.low)), e.evaluate(burst(k.high))
	return Range{min(least.Low, most.Low), max(least.High, most.High)}
}

// denied returns the number of denied requests. With the same ticks it is always the same.
func (e *evaluator) denied(ticks []tick, s spacing) (denied uint64) {
	clear(e.state)
	e.state = e.state[:0]
	e.rng.Seed(uint64(s), uint64(len(ticks)))
	for _, t := range ticks {
		start := t.second * second
		switch late := s == pairs && t.second&1 == 1 || s == oddPairs && t.second&1 == 0; {
		case s == even || s >= random:
			e.place(min(t.n, e.most), s)
			groups := uint64(len(e.places)) // of requests at one instant
			for i, place := range e.places {
				denied += e.decide(start+place, (uint64(i)+1)*t.n/groups-uint64(i)*t.n/groups)
			}
		case late:
			denied += e.decide(start+second-1, t.n)
		default:
			denied += e.decide(start, t.n)
		}
	}
	return denied
}

// place sets e.places to n places in order.
func (e *evaluator) place(n uint64, s spacing) {
	e.places = e.places[:0]
	for i := range n {
		place := (2*i + 1) * second / (2 * n)
		if s >= random {
			place = e.rng.Uint64() % second
		}
		e.places = append(e.places, int64(place))
	}
	if s >= random {
		slices.Sort(e.places)
	}
}

// decide decides n requests at one instant and returns how many are denied: after the first, all
// others, because a denial changes nothing. Requests of one instant are as one with the sum of their
// costs, so it takes the largest number that passes by bisection.
func (e *evaluator) decide(at int64, n uint64) (denied uint64) {
	most := uint64(max(1, e.rule.Capacity()/e.cost))
	for together, grow := uint64(1), true; n > 0; {
		together = min(together, n, most)
		var result algo.Result
		e.state, result = e.rule.Do(e.state, algo.Ask{Op: algo.Take, Now: at, N: int64(together) * e.cost})
		switch {
		case result.OK && grow:
			n, together = n-together, 2*together
		case result.OK:
			n, together = n-together, max(1, together/2)
		case together == 1:
			return n
		default:
			grow, together = false, together/2
		}
	}
	return 0
}

// peak returns the largest number of requests in one period of the limit. low is the number of
// requests if the series lacks some.
func (e *evaluator) peak(ticks []tick, low uint64) uint64 {
	sum, peak, total, first := uint64(0), uint64(0), uint64(0), 0
	for _, t := range ticks {
		sum, total = sum+t.n, total+t.n
		for ; ticks[first].second <= t.second-e.period; first++ {
			sum -= ticks[first].n
		}
		peak = max(peak, sum)
	}
	if low > total {
		peak = max(peak, (low-total)*uint64(e.period)/window)
	}
	return peak
}

// An estimate has the sampled keys that a limit would deny.
type estimate struct {
	share     float64
	least     uint64 // requests that a key of the estimate can have at most
	seed      uint64
	low, high int // keys
	lows      []float64
	highs     []float64
}

func (e *estimate) add(denied Range) {
	if denied.Low > 0 {
		e.low++
		e.lows = append(e.lows, float64(denied.Low))
	}
	if denied.High > 0 {
		e.high++
		e.highs = append(e.highs, float64(denied.High))
	}
}

const resamples = 400

// requests returns the interval for the denied requests of all keys.
func (e *estimate) requests() Range {
	low, _ := e.bootstrap(e.lows)
	_, high := e.bootstrap(e.highs)
	return Range{uint64(low), uint64(math.Ceil(high))}
}

// bootstrap returns the interval for the sum of values over all keys. Each resample has each value
// a Poisson number of times, as the sample has each key. Few values vary less than those of all
// keys, so the interval is at least that of the number of keys with their mean value.
func (e *estimate) bootstrap(values []float64) (low, high float64) {
	sum := 0.0
	for _, v := range values {
		sum += v
	}
	if e.share == 1 {
		return sum, sum
	}
	rng := rand.New(rand.NewPCG(e.seed, uint64(len(values)))) // the same for the same sample
	sums := make([]float64, resamples)
	for i := range sums {
		for _, v := range values {
			sums[i] += v * float64(poisson(rng))
		}
	}
	slices.Sort(sums)
	low, high = sums[resamples*25/1000], sums[resamples*975/1000-1]
	fewest, most := poissonInterval(len(values))
	mean := 1.0
	if len(values) > 0 {
		mean = sum / float64(len(values))
	}
	low, high = min(low, fewest*mean), max(high, most*mean)
	return max(low/e.share, sum), high / e.share
}

// poisson returns a Poisson number with the mean 1.
func poisson(rng *rand.Rand) (n int) {
	const limit = 1 / math.E
	for p := rng.Float64(); p > limit; p *= rng.Float64() {
		n++
	}
	return n
}

// poissonInterval returns the exact interval of 95 % for the mean of a Poisson variable with the
// value n (Garwood 1936).
func poissonInterval(n int) (low, high float64) {
	const tail = 0.025
	// solve returns the mean at which the chance of at most k is chance.
	solve := func(k int, chance float64) float64 {
		a, b := 0.0, float64(k)+10*math.Sqrt(float64(k))+20
		for range 60 {
			if mean := (a + b) / 2; poissonAtMost(k, mean) > chance {
				a = mean
			} else {
				b = mean
			}
		}
		return (a + b) / 2
	}
	if n > 0 {
		low = solve(n-1, 1-tail)
	}
	return low, solve(n, tail)
}

// poissonAtMost returns the chance that a Poisson variable is at most k.
func poissonAtMost(k int, mean float64) (chance float64) {
	if mean == 0 {
		return 1
	}
	gamma, _ := math.Lgamma(float64(k) + 1)
	term := math.Exp(float64(k)*math.Log(mean) - mean - gamma)
	for i := k; i >= 0 && term > 0; i-- { // from the largest term
		chance += term
		term *= float64(i) / mean
	}
	return min(chance, 1)
}
