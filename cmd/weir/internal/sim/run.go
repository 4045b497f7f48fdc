package sim

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/floodweir/weir"
	"github.com/floodweir/weir/cmd/weir/internal/plot"
	"github.com/floodweir/weir/memstore"
)

// A Config configures Run. Its zero value works.
type Config struct {
	// Takes is the duration of a request, for limits of concurrency.
	Takes time.Duration

	// Slots is the number of points of a series; 50 if zero.
	Slots int
}

const (
	key          = "sim"
	defaultSlots = 50
)

// start is the instant of the first request: the beginning of a month, as of calendar limits.
var start = time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)

// A Result has the decisions of one limit, or of several that are charged together.
type Result struct {
	Limit    string  `json:"limit"`
	Offered  int     `json:"offered"`
	Admitted int     `json:"admitted"`
	Denied   int     `json:"denied"`
	Peak     float64 `json:"peak_per_second"` // admitted, in the busiest slot
	Delay    Delay   `json:"delay_seconds"`
	Series   Series  `json:"series"`
}

// A Delay has the delays of admitted requests, in seconds.
type Delay struct {
	P50 float64 `json:"p50"`
	P99 float64 `json:"p99"`
	Max float64 `json:"max"`
}

// A Series has the load in slots of equal length. A request that a queue delays is admitted
// in the slot in which its delay ends, but not after the last.
type Series struct {
	Slot     float64   `json:"slot_seconds"`
	Offered  []float64 `json:"offered_per_second"`
	Admitted []float64 `json:"admitted_per_second"`
	Denied   []float64 `json:"denied_per_second"`
	Delay    []float64 `json:"max_delay_seconds"` // of the requests that arrive in the slot
}

// Algorithms returns limits with the count, period and burst of l, one for each algorithm of
// rates that can have them.
func Algorithms(l weir.Limit) ([]string, error) {
	if l.IsConcurrency() || l.Period() == 0 {
		return nil, fmt.Errorf("limit: %w: want a rate such as 10/s to compare algorithms, got %s", weir.ErrInvalid, l)
	}
	rate := fmt.Sprintf("%d/%s", l.Count(), strings.ReplaceAll(l.Period().String(), "m0s", "m"))
	burst := fmt.Sprintf("burst %d", l.Capacity())
	var all []string
	for _, options := range []string{burst, burst + " interval", "leaky_bucket " + burst, "leaky_bucket " + burst + " queue", "fixed_window", "sliding_window", "sliding_window segments 1 weighted", "sliding_log"} {
		parsed, err := weir.ParseLimit(rate + " " + options)
		if err == nil && !slices.Contains(all, parsed.String()) {
			all = append(all, parsed.String())
		}
	}
	return all, nil
}

// First returns the first of limits that are joined by "+".
func First(text string) (weir.Limit, error) {
	limits, err := parse(text)
	if err != nil {
		return weir.Limit{}, err
	}
	return limits[0], nil
}

// parse reads limits that are joined by "+".
func parse(text string) (limits []weir.Limit, err error) {
	for part := range strings.SplitSeq(text, "+") {
		l, err := weir.ParseLimit(strings.TrimSpace(part))
		if err != nil {
			return nil, fmt.Errorf("%q: %w", text, err)
		}
		limits = append(limits, l)
	}
	return limits, nil
}

// Run sends traffic through each of limits, which is a limit or several joined by "+" that
// are charged together. An error wraps [weir.ErrInvalid].
func Run(t *Traffic, limits []string, c Config) ([]Result, error) {
	if c.Slots == 0 {
		c.Slots = defaultSlots
	}
	var results []Result
	for _, text := range limits {
		together, err := parse(text)
		if err != nil {
			return nil, err
		}
		r, err := run(t, together, c)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", text, err)
		}
		results = append(results, *r)
	}
	return results, nil
}

// A simulation sends one traffic through limits.
type simulation struct {
	now      int64 // in µs
	store    *memstore.Store
	limits   []weir.Limit
	requests []weir.Request
	ds       []weir.Decision
	running  []running // in order of their ends
	takes    time.Duration
}

// running identifies a request that occupies slots of concurrency limits.
type running struct {
	id  string
	end int64
}

func run(t *Traffic, limits []weir.Limit, c Config) (*Result, error) {
	s := &simulation{limits: limits, takes: c.Takes, requests: make([]weir.Request, len(limits)), ds: make([]weir.Decision, len(limits))}
	var err error
	if s.store, err = memstore.New(memstore.Config{Clock: func() int64 { return s.now }}); err != nil {
		return nil, err
	}
	defer s.store.Close()
	var names []string
	for _, l := range limits {
		names = append(names, l.String())
	}
	r := newRecorder(strings.Join(names, " + "), t, c.Slots)
	for i, a := range t.Arrivals {
		ok, delay, err := s.request(i, a)
		if err != nil {
			return nil, err
		}
		r.observe(a, ok, delay)
	}
	return r.finish(), nil
}

// request decides one request and returns its delay.
func (s *simulation) request(i int, a Arrival) (ok bool, delay time.Duration, err error) {
	at := start.Add(a.At).UnixMicro()
	for len(s.running) > 0 && s.running[0].end <= at {
		s.release(s.running[0])
		s.running = s.running[1:]
	}
	s.now = at
	id, holds := fmt.Sprint("request ", i), false
	for k, l := range s.limits {
		s.requests[k] = weir.Request{Verb: weir.Take, Key: key, Limit: l, N: a.Cost}
		if l.IsConcurrency() {
			s.requests[k].Verb, s.requests[k].ID, s.requests[k].TTL = weir.Reserve, id, max(l.Period(), s.takes+time.Second)
			holds = true
		}
	}
	if ok, err = s.store.DoAll(context.Background(), s.requests, s.ds); err != nil || !ok {
		return false, 0, err
	}
	for _, d := range s.ds {
		delay = max(delay, d.Delay)
	}
	if holds {
		s.hold(running{id, at + (delay + s.takes).Microseconds()})
	}
	return true, delay, nil
}

// hold adds a running request, after those that end before it.
func (s *simulation) hold(x running) {
	i := len(s.running)
	for i > 0 && s.running[i-1].end > x.end {
		i--
	}
	s.running = slices.Insert(s.running, i, x)
}

// release returns the slots of a request at its end.
func (s *simulation) release(x running) {
	s.now = x.end
	for _, l := range s.limits {
		if l.IsConcurrency() {
			_, _ = s.store.Do(context.Background(), weir.Request{Verb: weir.Cancel, Key: key, Limit: l, ID: x.id}) // in memory, it cannot fail
		}
	}
}

// A recorder collects the decisions of a simulation.
type recorder struct {
	Result
	slot   time.Duration
	delays []time.Duration
}

func newRecorder(limit string, t *Traffic, slots int) *recorder {
	r := &recorder{Result: Result{Limit: limit}, slot: (t.Span + time.Duration(slots) - 1) / time.Duration(slots)}
	r.Series = Series{
		Slot: r.slot.Seconds(), Offered: make([]float64, slots), Admitted: make([]float64, slots),
		Denied: make([]float64, slots), Delay: make([]float64, slots),
	}
	return r
}

func (r *recorder) observe(a Arrival, ok bool, delay time.Duration) {
	i, each := int(a.At/r.slot), 1/r.slot.Seconds()
	r.Offered++
	r.Series.Offered[i] += each
	if !ok {
		r.Denied++
		r.Series.Denied[i] += each
		return
	}
	r.Admitted++
	r.delays = append(r.delays, delay)
	r.Series.Delay[i] = max(r.Series.Delay[i], delay.Seconds())
	if passes := int((a.At + delay) / r.slot); passes < len(r.Series.Admitted) {
		r.Series.Admitted[passes] += each
	}
}

func (r *recorder) finish() *Result {
	for _, v := range r.Series.Admitted {
		r.Result.Peak = max(r.Result.Peak, v)
	}
	if n := len(r.delays); n > 0 {
		slices.Sort(r.delays)
		at := func(percent int) float64 { return r.delays[(n-1)*percent/100].Seconds() }
		r.Result.Delay = Delay{P50: at(50), P99: at(99), Max: at(100)}
	}
	return &r.Result
}

// Charts returns the charts of results: load, and where a queue delays requests, their delay.
func Charts(t *Traffic, results []Result) []plot.Chart {
	var all []plot.Chart
	labels := [2]string{"0", t.Span.String()}
	for _, r := range results {
		all = append(all, plot.Chart{
			Title: r.Limit, Note: fmt.Sprintf("%d of %d admitted", r.Admitted, r.Offered), Unit: "requests/s", Labels: labels,
			Series: []plot.Series{{Name: "offered", Values: r.Series.Offered}, {Name: "admitted", Values: r.Series.Admitted}},
		})
		if r.Delay.Max > 0 {
			all = append(all, plot.Chart{
				Title: r.Limit, Note: fmt.Sprintf("at most %.3g s", r.Delay.Max), Unit: "seconds in the queue", Labels: labels,
				Series: []plot.Series{{Name: "delay", Values: r.Series.Delay}},
			})
		}
	}
	return all
}
