package keystats

import (
	"fmt"
	"math"
	"math/bits"
	"time"

	"github.com/floodweir/weir"
)

const (
	minWindow = 60 * time.Second
	digits    = 100 // estimates have two significant digits
)

// A Range has the bounds of an estimate, inclusive.
type Range struct{ Low, High uint64 }

// A Threshold estimates the effect of a limit on the traffic of a Sample.
type Threshold struct {
	Limit         weir.Limit
	Enough        bool   // if false, the estimates are zero and Reason is set
	Reason        string // such as "got 12 s of traffic, want 60 s or more"
	NowKeys       Range  // denied at present
	NowRequests   Range
	Keys          Range // that the limit would deny at least once
	Requests      Range // that it would deny
	KeysTotal     Range
	RequestsTotal uint64
	ExactAbove    uint64 // keys with more requests are counted, the others estimated; 0 if all are counted
	Window        time.Duration
	Coverage      float64
	Histogram     []Bar
}

// A Bar has the number of keys whose busiest period, of the length of the limit, has at least From
// and less than To requests.
type Bar struct {
	From, To uint64
	Keys     uint64
}

// Threshold estimates how many keys and requests a limit would deny. Ranges contain the truth in
// about 95 % of cases. It assumes that clients would send the same requests, and ignores the other
// policies. An error wraps weir.ErrInvalid: a limit of concurrency or of tenants cannot be
// estimated.
//
// Keys above the bound of the sketch are evaluated by their counts. The others are estimated from
// those in the sample of all keys: the number of keys with the exact interval of a Poisson
// variable, their requests with a bootstrap. The real algorithm decides the requests of each key,
// with several spacings within a second, and the range has both ends.
func (s *Sample) Threshold(limit weir.Limit) (*Threshold, error) {
	if limit.IsZero() || limit.IsConcurrency() || limit.Algorithm() == "tenant_bucket" {
		return nil, fmt.Errorf("keystats: limit: %w: got %q, want a rate such as 12/m", weir.ErrInvalid, limit)
	}
	share := s.share()
	t := &Threshold{
		Limit: limit, Window: s.window(), Coverage: s.coverage(), RequestsTotal: s.requests,
		NowKeys: s.deniedKeys(share), NowRequests: Range{s.denials, s.denials},
		KeysTotal: rounded(s.scale(len(s.sampled), len(s.sampled), share)),
	}
	if t.Window < minWindow {
		t.Reason = fmt.Sprintf("got %d s of traffic, want %d s or more", int(t.Window.Seconds()), int(minWindow.Seconds()))
	}
	if t.Enough = t.Reason == ""; !t.Enough {
		return t, nil
	}
	e := newEvaluator(limit, s)
	var certain Range // keys
	var denied Range  // their requests
	peaks := histogram{}
	counted := map[uint64]bool{}
	if share < 1 {
		t.ExactAbove = s.top.least
		for _, k := range s.heavy() {
			counted[k.hash] = true
			d := e.heavy(&k, s)
			certain.add(Range{min(d.Low, 1), min(d.High, 1)})
			denied.add(d)
			peaks.add(e.peak(k.ticks, k.low), 1)
		}
	}
	estimate := estimate{share: share, least: s.top.least, seed: s.theta}
	for i := range s.sampled {
		k := &s.sampled[i]
		if counted[k.hash] {
			continue
		}
		estimate.add(e.evaluate(k.ticks))
		peaks.add(e.peak(k.ticks, 0), 1/share)
	}
	keys := s.scale(estimate.low, estimate.high, share)
	keys.add(certain)
	requests := s.widen(estimate.requests(), share)
	requests.add(denied)
	t.Keys = rounded(Range{keys.Low, min(keys.High, t.KeysTotal.High)})
	t.Requests = rounded(Range{min(requests.Low, s.requests), min(requests.High, s.requests)})
	if t.Keys.High == 0 {
		t.Requests.High = t.Requests.Low
	}
	t.Histogram = peaks.bars()
	return t, nil
}

// share returns the share of all keys that is in the sample.
func (s *Sample) share() float64 {
	if s.theta == math.MaxUint64 {
		return 1
	}
	return float64(s.theta) / (1 << 64)
}

// scale returns the interval for the number of keys, of which low to high are in the sample.
func (s *Sample) scale(low, high int, share float64) Range {
	if share == 1 {
		return s.widen(Range{uint64(low), uint64(high)}, share)
	}
	bottom, _ := poissonInterval(low)
	_, top := poissonInterval(high)
	return s.widen(Range{max(uint64(low), uint64(bottom/share)), uint64(math.Ceil(top / share))}, share)
}

// widen raises the upper bound by the share of requests that was not recorded.
func (s *Sample) widen(r Range, share float64) Range {
	if c := s.coverage(); c < 1 {
		r.High = uint64(math.Ceil(float64(r.High) / max(c, 0.01)))
	}
	return r
}

// deniedKeys returns the number of keys with a denial.
func (s *Sample) deniedKeys(share float64) Range {
	if s.denied.least == 0 && s.thinned == 1 { // the sketch has all of them
		n := uint64(len(s.denied.keys))
		return s.widen(Range{n, n}, share)
	}
	n, certain := 0, uint64(0)
	for i := range s.sampled {
		if len(s.sampled[i].denials) > 0 {
			n++
		}
	}
	for i := range s.denied.keys {
		if s.denied.keys[i].count > s.denied.keys[i].err {
			certain++
		}
	}
	r := s.scale(n, n, share)
	return rounded(Range{max(r.Low, certain), max(r.High, certain)})
}

// A heavyKey has a number of requests above the bound of the sketch. ticks has some or all of them.
type heavyKey struct {
	hash      uint64
	low, high uint64
	ticks     []tick
	whole     bool // ticks has all
}

// heavy returns the keys that have more requests than any key that the sketch lacks, and are in it
// for certain.
func (s *Sample) heavy() []heavyKey {
	series := map[uint64]*heavyKey{}
	for i := range s.watched {
		series[s.watched[i].hash] = &heavyKey{ticks: s.watched[i].ticks}
	}
	for i := range s.sampled { // all requests of the window
		series[s.sampled[i].hash] = &heavyKey{ticks: s.sampled[i].ticks, whole: true}
	}
	var all []heavyKey
	for i := range s.top.keys {
		k := &s.top.keys[i]
		if k.count-k.err <= s.top.least {
			continue
		}
		h := heavyKey{hash: k.hash, low: k.count - k.err, high: k.count}
		if known := series[k.hash]; known != nil {
			h.ticks, h.whole = known.ticks, known.whole
		}
		if s.thinned > 1 { // a sum of independent records, each for thinned requests
			h.low = uint64(max(0, float64(h.low)-3*math.Sqrt(float64(s.thinned*h.low))))
			h.high += uint64(3 * math.Sqrt(float64(s.thinned*h.high)))
		}
		all = append(all, h)
	}
	return all
}

// add adds the bounds of s.
func (r *Range) add(s Range) { r.Low, r.High = r.Low+s.Low, r.High+s.High }

// rounded returns the range with two significant digits, rounded outward. An exact number stays.
func rounded(r Range) Range {
	if r.Low == r.High {
		return r
	}
	unit := func(n uint64) uint64 {
		u := uint64(1)
		for n/u >= digits {
			u *= 10
		}
		return u
	}
	low, high := unit(r.Low), unit(r.High)
	return Range{r.Low / low * low, (r.High + high - 1) / high * high}
}

// A histogram has the number of keys by the binary logarithm of their peak.
type histogram [64]float64

func (h *histogram) add(peak uint64, weight float64) {
	if peak > 0 {
		h[bits.Len64(peak)-1] += weight
	}
}

// bars returns the bars from the first to the last with keys.
func (h *histogram) bars() (bars []Bar) {
	for i, n := range h {
		bars = append(bars, Bar{1 << i, 2 << i, uint64(math.Round(n))})
	}
	for len(bars) > 0 && bars[len(bars)-1].Keys == 0 {
		bars = bars[:len(bars)-1]
	}
	for len(bars) > 0 && bars[0].Keys == 0 {
		bars = bars[1:]
	}
	return bars
}
