package protect

import (
	"context"
	"errors"
	"fmt"
	"math"
	"sync"
	"time"

	"github.com/floodweir/weir"
)

// ErrSaturated is the reason of an AdaptiveLimit.
var ErrSaturated = errors.New("too many requests under way for how long they take")

// AdaptiveConfig configures an [AdaptiveLimit]. Requires 1 ≤ Min ≤ Initial ≤ Max.
type AdaptiveConfig struct {
	Min, Max, Initial int

	// Wait is the longest time that a request waits for a slot, in order of arrival.
	Wait time.Duration
}

const (
	spread     = 0.07 // of the two levels around the limit
	elasticity = 0.2  // throughput gained per capacity added, at the limit that is sought
	gain       = 0.12
	memory     = 0.2 // weight of a new measurement
	minWindow  = 200 * time.Millisecond
	maxWindow  = 5 * time.Second
	minSamples = 50
	maxWaited  = time.Millisecond // between Enter and a request that is measured
)

// AdaptiveLimit limits the requests in flight to what a resource can serve.
//
// The limit alternates between two levels, 7 % below and above it. If the higher level brings
// more throughput, the limit grows; if it only brings latency, the limit shrinks. Throughput is
// that of successes, by Little's law: requests in flight / mean latency. So the limit needs no
// latency of an unloaded resource, and finds the new capacity when the resource slows down or
// recovers. If slow failures, such as timeouts, outnumber successes, it shrinks by 30 %.
//
// The limit changes only while requests use it. Fast failures are not measured.
//
// It differs from Vegas and Gradient2 (Netflix/concurrency-limits), whose baseline latency
// drifts under constant overload, and from Envoy's filter, which lowers the limit to measure it.
type AdaptiveLimit struct {
	c AdaptiveConfig

	mu       sync.Mutex // guards the fields below
	limit    float64
	level    int // admitted now: below or above limit
	inflight int
	waiters  []*waiter
	usual    time.Duration // moving average of latency

	high      bool // level is the higher one
	lowRate   float64
	lowLevel  int
	trend     float64 // moving average of the elasticity
	began     time.Time
	settled   bool // the window measures; before that, requests of the last level end
	changed   time.Time
	area      float64 // integral of inflight over the window, in s
	latency   time.Duration
	succeeded int
	slow      int // failures that took half of usual or longer
	refused   int
}

type waiter struct {
	granted chan struct{}
	done    bool
}

// NewAdaptive returns an AdaptiveLimit.
func NewAdaptive(c AdaptiveConfig) (*AdaptiveLimit, error) {
	if c.Min < 1 || c.Initial < c.Min || c.Max < c.Initial || c.Wait < 0 {
		return nil, fmt.Errorf("protect: adaptive limit: %w: got min %d, initial %d, max %d, wait %v, want at least 1, in that order of size, and no negative wait", weir.ErrInvalid, c.Min, c.Initial, c.Max, c.Wait)
	}
	a := &AdaptiveLimit{c: c, limit: float64(c.Initial), trend: elasticity, began: time.Now()}
	a.changed = a.began
	a.setLevel()
	return a, nil
}

// Name implements Protection.
func (a *AdaptiveLimit) Name() string { return "adaptive" }

// State implements Protection: "12 of 20".
func (a *AdaptiveLimit) State() string {
	r := a.Read()
	return fmt.Sprintf("%d of %d", r.InFlight, r.Limit)
}

// Read implements Measured.
func (a *AdaptiveLimit) Read() Reading {
	a.mu.Lock()
	defer a.mu.Unlock()
	r := Reading{Limit: a.level, InFlight: a.inflight}
	for _, w := range a.waiters {
		if !w.done {
			r.Waiters++
		}
	}
	return r
}

// Limit returns the limit between the two levels.
func (a *AdaptiveLimit) Limit() float64 {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.limit
}

// Enter implements Protection.
func (a *AdaptiveLimit) Enter(ctx context.Context, _ string) (func(error), error) {
	a.mu.Lock()
	if a.inflight >= a.level || len(a.waiters) > 0 {
		if a.c.Wait <= 0 {
			a.refused++
			a.mu.Unlock()
			return nil, &Refused{Reason: ErrSaturated}
		}
		if err := a.wait(ctx); err != nil {
			return nil, err
		}
	} else {
		a.count(1)
		a.mu.Unlock()
	}
	start := time.Now()
	return func(err error) { a.exit(err, start, Took(ctx, start)) }, nil
}

// wait waits for a slot. It requires mu and releases it.
func (a *AdaptiveLimit) wait(ctx context.Context) error {
	w := &waiter{granted: make(chan struct{})}
	a.waiters = append(a.waiters, w)
	a.mu.Unlock()
	timer := time.NewTimer(a.c.Wait)
	defer timer.Stop()
	var err error
	select {
	case <-w.granted:
		return nil
	case <-timer.C:
		err = &Refused{Reason: ErrSaturated}
	case <-ctx.Done():
		err = context.Cause(ctx)
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	if w.done {
		return nil // granted meanwhile
	}
	w.done = true
	a.refused++
	return err
}

// count changes inflight. It requires mu.
func (a *AdaptiveLimit) count(n int) {
	now := time.Now()
	a.area += float64(a.inflight) * now.Sub(a.changed).Seconds()
	a.changed = now
	a.inflight += n
}

// exit ends a request.
func (a *AdaptiveLimit) exit(err error, start time.Time, took time.Duration) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.count(-1)
	waited := a.changed.Sub(start) - took
	switch fast := took < a.usual/2; {
	case waited > maxWaited, err != nil && (fast || errors.Is(err, ErrCanceled)):
	case err != nil:
		a.slow++
		a.measured(took)
	default:
		a.succeeded++
		a.measured(took)
	}
	a.window()
	for len(a.waiters) > 0 && (a.inflight < a.level || a.waiters[0].done) {
		w := a.waiters[0]
		a.waiters = a.waiters[1:]
		if !w.done {
			w.done = true
			a.count(1)
			close(w.granted)
		}
	}
}

func (a *AdaptiveLimit) measured(took time.Duration) {
	a.latency += took
	a.usual += (took - a.usual) / 16
	if a.usual == 0 {
		a.usual = took
	}
}

// window ends the part of a window that is complete. It requires mu.
func (a *AdaptiveLimit) window() {
	lasted, n := a.changed.Sub(a.began), a.succeeded+a.slow
	switch {
	case !a.settled:
		if lasted >= min(a.usual, maxWindow) {
			a.settled = true
			a.reset()
		}
	case lasted >= maxWindow || lasted >= minWindow && lasted >= a.usual && n >= minSamples:
		a.adjust(n, a.area/lasted.Seconds())
		a.settled = false
		a.setLevel()
		a.reset()
	}
}

func (a *AdaptiveLimit) reset() {
	a.began, a.area, a.latency, a.succeeded, a.slow, a.refused = a.changed, 0, 0, 0, 0, 0
}

// adjust moves the limit by the measurements of a window with n samples and a mean number of
// requests in flight.
func (a *AdaptiveLimit) adjust(n int, inflight float64) {
	switch {
	case n == 0:
	case a.slow >= a.succeeded && n >= 10:
		a.limit *= 0.7
		a.high, a.trend = false, elasticity
	case inflight < 0.8*float64(a.level):
		if a.refused > 0 { // of a burst: the resource could serve it
			a.limit *= 1.05
		}
		a.high = false
	default:
		rate := inflight / (a.latency.Seconds() / float64(n)) * float64(a.succeeded) / float64(n)
		if !a.high {
			a.high, a.lowRate, a.lowLevel = true, rate, a.level
			break
		}
		a.high = false
		found := math.Log(rate/a.lowRate) / math.Log(float64(a.level)/float64(a.lowLevel))
		a.trend += memory * (min(1, max(-1, found)) - a.trend)
		a.limit *= math.Exp(gain * (a.trend - elasticity))
	}
	a.limit = min(float64(a.c.Max), max(float64(a.c.Min), a.limit))
}

// setLevel sets the level of the next window, at least one apart from the other.
func (a *AdaptiveLimit) setLevel() {
	low := max(a.c.Min, int(math.Round(a.limit*(1-spread))))
	if a.level = low; a.high {
		a.level = max(a.lowLevel+1, int(math.Round(a.limit*(1+spread))))
	}
	a.level = min(a.level, a.c.Max+1)
}
