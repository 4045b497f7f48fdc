package protect

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"sync"
	"time"

	"github.com/floodweir/weir"
)

// The reasons of a System.
var (
	ErrInFlight = errors.New("too many requests in flight")
	ErrCPU      = errors.New("CPU above its threshold")
	ErrMemory   = errors.New("memory above its threshold")
	ErrLoad     = errors.New("load average above its threshold")
)

// A SystemConfig configures a System. A rule whose field is zero does not exist.
type SystemConfig struct {
	// CPU and Memory are percentages of what the process may use: see MetricReader.
	CPU, Memory int

	// Load is a load average. It is that of the machine, also in a container.
	Load float64

	// InFlight bounds the requests in flight, until the end of their responses. A class gets
	// at most its ShedAt percent of them.
	InFlight int

	// Classes are the priority classes. Requests of others belong to the default class, whose
	// ShedAt is CPU, or 80 if that is zero.
	Classes []Class

	// Metrics reads the metrics; MachineMetrics if nil.
	Metrics MetricReader

	// Missing, if not nil, is called when a metric of a rule becomes unavailable, with an error,
	// and when it is available again, with nil. The rule is inactive meanwhile.
	Missing func(metric string, err error)
}

// A Class is a priority class. Its requests are shed above ShedAt percent of CPU. With 100 they
// are shed only when InFlight requests are in flight, never by CPU, memory or load.
type Class struct {
	Name   string
	ShedAt int
}

const (
	sampleEvery = 250 * time.Millisecond
	smoothing   = time.Second
	calm        = time.Second // below the lower threshold, before a rule ends
	lower       = 10          // percentage points
	buckets     = 20
	bucketTime  = 500 * time.Millisecond
)

// A System rejects requests while this machine or container is overloaded, the least important
// first.
//
// Above its threshold of CPU, a class may have as many requests in flight as the process served
// at its best within 10 s: completed/s × latency. This is BBR, as in Sentinel and go-kratos/aegis.
// While the rule of a more important class is active too, it may have none. A rule ends when CPU has
// been 10 points below its threshold for a second, so it does not oscillate.
//
// It samples at most every 250 ms, when a request arrives.
type System struct {
	c       SystemConfig
	classes []Class // by ShedAt, the least important first

	mu       sync.Mutex // guards the fields below
	active   []rule     // of CPU, by class
	memory   rule
	load     rule
	inflight int // until the end of the response
	awaiting int // until the first byte
	sampled  time.Time
	started  bool // there is an earlier sample of CPU
	used     time.Duration
	last     SystemReading // CPU is smoothed
	missing  map[string]bool
	done     [buckets]bucket
}

// A rule is active above a threshold, until it has been below a lower one for a while.
type rule struct {
	active bool
	below  time.Time // since when; zero if it is not
}

func (r *rule) update(now time.Time, value, high, low float64) {
	switch {
	case value > high:
		r.active, r.below = true, time.Time{}
	case value >= low || !r.active:
		r.below = time.Time{}
	case r.below.IsZero():
		r.below = now
	case now.Sub(r.below) >= calm:
		r.active = false
	}
}

// A bucket counts the requests that were completed in a part of the last 10 s.
type bucket struct {
	slot  int64
	count int
	total time.Duration
}

// NewSystem returns a System. An error wraps weir.ErrInvalid.
func NewSystem(c SystemConfig) (*System, error) {
	if c.CPU < 0 || c.CPU > 100 || c.Memory < 0 || c.Memory > 100 || c.Load < 0 || c.InFlight < 0 {
		return nil, fmt.Errorf("protect: system: %w: got cpu %d, memory %d, load %v, inflight %d, want percentages up to 100, and no negative number", weir.ErrInvalid, c.CPU, c.Memory, c.Load, c.InFlight)
	}
	if c.Metrics == nil {
		c.Metrics = MachineMetrics()
	}
	if c.Missing == nil {
		c.Missing = func(string, error) {}
	}
	s := &System{c: c, missing: map[string]bool{}}
	s.classes = append(slices.Clone(c.Classes), Class{ShedAt: 80})
	if c.CPU > 0 {
		s.classes[len(c.Classes)].ShedAt = c.CPU
	}
	for _, one := range c.Classes {
		if one.Name == "" || one.ShedAt < 1 || one.ShedAt > 100 {
			return nil, fmt.Errorf("protect: system: class %q: %w: got shed at %d, want a name and 1 to 100", one.Name, weir.ErrInvalid, one.ShedAt)
		}
	}
	slices.SortStableFunc(s.classes, func(a, b Class) int { return a.ShedAt - b.ShedAt })
	s.active = make([]rule, len(s.classes))
	return s, nil
}

// Protections returns the protections of a Chain: the bound of requests in flight, and the other
// rules. With shadow they refuse nothing.
func (s *System) Protections(shadow bool) []Protection {
	all := []Protection{inFlight{s}, pressure{s}}
	if shadow {
		return []Protection{Shadow(all[0]), Shadow(all[1])}
	}
	return all
}

// class returns the index of a class in s.classes.
func (s *System) class(name string) int {
	i := slices.IndexFunc(s.classes, func(c Class) bool { return c.Name == name })
	if i < 0 {
		return slices.IndexFunc(s.classes, func(c Class) bool { return c.Name == "" })
	}
	return i
}

// inFlight bounds the requests until the end of their responses.
type inFlight struct{ *System }

func (s inFlight) Name() string       { return "inflight" }
func (s inFlight) WholeRequest() bool { return true }

func (s inFlight) State() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return fmt.Sprintf("%d of %d", s.inflight, s.c.InFlight)
}

func (s inFlight) Enter(_ context.Context, class string) (func(error), error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if most := s.c.InFlight * s.classes[s.class(class)].ShedAt / 100; s.c.InFlight > 0 && s.inflight >= max(1, most) {
		return nil, &Refused{Reason: ErrInFlight}
	}
	s.inflight++
	return func(error) {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.inflight--
	}, nil
}

// pressure applies the rules of CPU, memory and load.
type pressure struct{ *System }

func (s pressure) Name() string { return "system" }

func (s pressure) State() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.sample(time.Now())
	return fmt.Sprintf("CPU %.0f %%, %d awaiting a response", 100*s.last.CPU, s.awaiting)
}

func (s pressure) Enter(ctx context.Context, class string) (func(error), error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	start := time.Now()
	s.sample(start)
	if err := s.refuse(s.class(class), start); err != nil {
		return nil, &Refused{Reason: err}
	}
	s.awaiting++
	return func(err error) {
		took := Took(ctx, start)
		s.mu.Lock()
		defer s.mu.Unlock()
		s.awaiting--
		if err == nil {
			s.completed(time.Now(), took)
		}
	}, nil
}

// refuse returns why a request of a class is shed, or nil. It requires mu.
func (s *System) refuse(class int, now time.Time) error {
	if s.classes[class].ShedAt >= 100 {
		return nil
	}
	full := s.awaiting >= s.best(now)
	switch {
	case s.memory.active:
		return ErrMemory
	case s.load.active && full:
		return ErrLoad
	case !s.active[class].active:
		return nil
	}
	for i := class + 1; i < len(s.classes); i++ {
		if s.active[i].active && s.classes[i].ShedAt > s.classes[class].ShedAt && s.classes[i].ShedAt < 100 {
			return ErrCPU // of a more important class too
		}
	}
	if full {
		return ErrCPU
	}
	return nil
}

// best returns the number of requests in flight at which the process served most within 10 s, at
// least one. It requires mu.
func (s *System) best(now time.Time) int {
	most, fastest := 0, time.Duration(math.MaxInt64)
	for _, b := range s.done {
		if b.count > 0 && b.slot > now.UnixNano()/int64(bucketTime)-buckets {
			most, fastest = max(most, b.count), min(fastest, b.total/time.Duration(b.count))
		}
	}
	if most == 0 {
		return math.MaxInt // nothing is known
	}
	return max(1, int(math.Ceil(float64(most)/bucketTime.Seconds()*fastest.Seconds())))
}

// completed counts a request. It requires mu.
func (s *System) completed(now time.Time, took time.Duration) {
	slot := now.UnixNano() / int64(bucketTime)
	b := &s.done[slot%buckets]
	if b.slot != slot {
		*b = bucket{slot: slot}
	}
	b.count++
	b.total += took
}

// sample reads the metrics if the last sample is old. It requires mu.
func (s *System) sample(now time.Time) {
	passed := now.Sub(s.sampled)
	if passed < sampleEvery && !s.sampled.IsZero() {
		return
	}
	s.sampled = now
	if s.c.CPU > 0 {
		used, cores, err := s.c.Metrics.CPU()
		if s.available("cpu", err) && s.started && used >= s.used && cores > 0 {
			part := (used - s.used).Seconds() / (passed.Seconds() * cores)
			s.last.CPU += (part - s.last.CPU) * (1 - math.Exp(-passed.Seconds()/smoothing.Seconds()))
		}
		s.used, s.started = used, err == nil
		if err != nil {
			s.last.CPU = 0
		}
	}
	for i, c := range s.classes {
		s.active[i].update(now, 100*s.last.CPU, float64(c.ShedAt), float64(c.ShedAt-lower))
	}
	if s.c.Memory > 0 {
		used, limit, err := s.c.Metrics.Memory()
		s.last.Memory = 0
		if s.available("memory", err) && limit > 0 {
			s.last.Memory = float64(used) / float64(limit)
		}
		s.memory.update(now, 100*s.last.Memory, float64(s.c.Memory), float64(s.c.Memory)-lower/2)
	}
	if s.c.Load > 0 {
		load, err := s.c.Metrics.Load()
		if !s.available("load", err) {
			load = 0
		}
		s.last.Load = load
		s.load.update(now, load, s.c.Load, 0.9*s.c.Load)
	}
}

// available reports a metric that becomes unavailable or available.
func (s *System) available(metric string, err error) bool {
	if bad := err != nil; bad != s.missing[metric] {
		s.missing[metric] = bad
		s.c.Missing(metric, err)
	}
	return err == nil
}

// A SystemReading holds the metrics of a System. CPU and Memory are fractions of what the process
// may use. A metric without a rule, or which is Missing, is 0.
type SystemReading struct {
	CPU, Memory, Load float64
	InFlight          int
	Missing           []string // "cpu", "memory", "load"
}

// Read returns the present metrics.
func (s *System) Read() SystemReading {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.sample(time.Now())
	r := s.last
	r.InFlight = s.inflight
	for _, metric := range []string{"cpu", "memory", "load"} {
		if s.missing[metric] {
			r.Missing = append(r.Missing, metric)
		}
	}
	return r
}
