package sim

import (
	"fmt"
	"math"
	"slices"
	"time"

	"github.com/floodweir/weir"
)

// A Kind names a shape of traffic.
type Kind string

// The kinds of traffic.
const (
	// Steady traffic has the rate Rate.
	Steady Kind = "steady"
	// Burst traffic has the mean rate Rate, in five bursts that each last a fiftieth of Span.
	Burst Kind = "burst"
	// Ramp traffic grows evenly from 0 to Peak.
	Ramp Kind = "ramp"
	// Flash traffic has the rate Rate, jumps to Peak after a fifth of Span for a fifth, and
	// falls back to Rate within two fifths.
	Flash Kind = "flash"
)

// Kinds lists the shapes.
var Kinds = []Kind{Steady, Burst, Ramp, Flash}

// MaxRequests is the largest number of requests of a traffic.
const MaxRequests = 10_000_000

// A Shape describes traffic. All fields are required.
type Shape struct {
	Kind Kind
	Rate float64 // requests per second
	Peak float64 // requests per second, of Ramp and Flash
	Span time.Duration
}

// Traffic has requests in order of time.
type Traffic struct {
	Name     string
	Span     time.Duration
	Arrivals []Arrival
}

// An Arrival is one request.
type Arrival struct {
	At   time.Duration // since the start
	Cost int64
}

// A phase has a rate that changes evenly.
type phase struct {
	seconds, from, to float64
}

// NewTraffic returns the requests of a shape, at even distances by its rate. An error wraps
// [weir.ErrInvalid].
func NewTraffic(s Shape) (*Traffic, error) {
	span := s.Span.Seconds()
	var phases []phase
	switch s.Kind {
	case Steady:
		phases = []phase{{span, s.Rate, s.Rate}}
	case Burst:
		phases = slices.Repeat([]phase{{span / 50, 10 * s.Rate, 10 * s.Rate}, {span * 9 / 50, 0, 0}}, 5)
	case Ramp:
		phases = []phase{{span, 0, s.Peak}}
	case Flash:
		phases = []phase{{span / 5, s.Rate, s.Rate}, {span / 5, s.Peak, s.Peak}, {span * 2 / 5, s.Peak, s.Rate}, {span / 5, s.Rate, s.Rate}}
	default:
		return nil, fmt.Errorf("traffic: %w: want one of %v, got %.40q", weir.ErrInvalid, Kinds, s.Kind)
	}
	total := 0.0
	for _, p := range phases {
		total += p.seconds * (p.from + p.to) / 2
	}
	switch {
	case s.Span <= 0:
		return nil, fmt.Errorf("span: %w: want a duration above 0, got %v", weir.ErrInvalid, s.Span)
	case !(s.Rate >= 0) || !(s.Peak >= 0) || !(total >= 1) || total > MaxRequests:
		return nil, fmt.Errorf("traffic: %w: want 1 to %d requests, got %.4g/s for %v: change the rate or the span", weir.ErrInvalid, MaxRequests, max(s.Rate, s.Peak), s.Span)
	}
	t := &Traffic{Name: string(s.Kind), Span: s.Span}
	begin, before := 0.0, 0.0 // of the phase: seconds, and requests before it
	for _, p := range phases {
		area := p.seconds * (p.from + p.to) / 2
		for n := float64(len(t.Arrivals)); n < before+area-1e-9; n++ {
			at := time.Duration((begin+p.when(n-before))*1e6) * time.Microsecond
			t.Arrivals = append(t.Arrivals, Arrival{min(at, s.Span-time.Microsecond), 1})
		}
		begin, before = begin+p.seconds, before+area
	}
	return t, nil
}

// when returns the seconds after which a phase has sent n requests.
func (p phase) when(n float64) float64 {
	slope := (p.to - p.from) / p.seconds
	if slope == 0 {
		return n / p.from
	}
	return 2 * n / (p.from + math.Sqrt(p.from*p.from+2*slope*n)) // stable for a small slope
}
