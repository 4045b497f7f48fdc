package failsafe

import (
	"cmp"
	"context"
	"errors"
	"sync"
	"time"

	"github.com/failsafe-go/failsafe-go/circuitbreaker"

	"github.com/floodweir/weir/guard"
	"github.com/floodweir/weir/protect"
)

// breaker is a circuit breaker.
type breaker struct {
	slow     time.Duration
	failures bool // errors count

	mu      sync.Mutex // guards the fields below and every change of circuit
	circuit circuitbreaker.CircuitBreaker[any]
	window  circuitbreaker.CircuitBreaker[any] // opens at the rate of slow calls; nil without one
	state   circuitbreaker.State               // when last read
	period  int                                // number of changes of state
	spare   int                                // canceled trials, which circuit counts as running
}

func newBreaker(b *guard.Breaker) *breaker {
	build := circuitbreaker.NewBuilder[any]().
		WithDelay(cmp.Or(b.Cooldown, 10*time.Second)).
		WithSuccessThreshold(uint(max(b.Trials, 1)))
	p := &breaker{slow: b.Slow, failures: b.Rate > 0 || b.Failures > 0}
	if b.SlowRate > 0 {
		p.window = circuitbreaker.NewBuilder[any]().
			WithFailureRateThreshold(float64(b.SlowRate)/100, uint(max(b.Of, 1)), b.Period).Build()
	}
	switch {
	case !p.failures:
	case b.Rate > 0:
		build.WithFailureRateThreshold(float64(b.Rate)/100, uint(max(b.Of, 1)), b.Period)
	case b.Period > 0:
		build.WithFailureThresholdPeriod(uint(b.Failures), b.Period)
	default:
		build.WithFailureThresholdRatio(uint(b.Failures), uint(max(b.Of, b.Failures)))
	}
	p.circuit = build.Build()
	p.state = p.circuit.State()
	return p
}

func (b *breaker) Name() string { return "breaker" }

func (b *breaker) State() string { return b.circuit.State().String() }

// Read implements protect.Measured.
func (b *breaker) Read() protect.Reading {
	return protect.Reading{State: b.State(), Open: max(b.circuit.RemainingDelay(), 0)}
}

func (b *breaker) Enter(ctx context.Context, _ string) (func(error), error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	switch {
	case b.spare > 0:
		b.spare--
	case !b.circuit.TryAcquirePermit():
		return nil, &Refused{Reason: ErrOpen, RetryAfter: b.circuit.RemainingDelay()}
	}
	b.look()
	start, period := time.Now(), b.period
	return func(err error) { b.exit(err, protect.Took(ctx, start), period) }, nil
}

// exit records the result of a call that entered in a period. A call that began before the
// breaker opened is not a trial, so results of earlier periods are ignored.
func (b *breaker) exit(err error, took time.Duration, period int) {
	b.mu.Lock()
	defer b.mu.Unlock()
	trial := b.state == circuitbreaker.HalfOpenState
	slow := b.slow > 0 && took >= b.slow
	switch {
	case period != b.period:
	case errors.Is(err, protect.ErrCanceled):
		if trial {
			b.spare++
		}
	case errors.Is(err, context.Canceled) && !trial:
	case errors.Is(err, context.Canceled), err != nil && b.failures, slow && (trial || b.window == nil):
		b.circuit.RecordFailure()
		b.measure(slow)
	default:
		b.circuit.RecordSuccess()
		b.measure(slow)
	}
	b.look()
}

// measure counts a call in the window of slow calls, and opens the circuit at their rate. It
// requires mu.
func (b *breaker) measure(slow bool) {
	switch {
	case b.window == nil:
	case !slow:
		b.window.RecordSuccess()
	default:
		if b.window.RecordFailure(); b.window.IsOpen() {
			b.circuit.Open() // no change if it is
		}
	}
}

// look begins a new period if the state has changed. It requires mu.
func (b *breaker) look() {
	if state := b.circuit.State(); state != b.state {
		b.state, b.period, b.spare = state, b.period+1, 0
		if b.window != nil { // it begins anew
			b.window.Open()
			b.window.Close()
		}
	}
}
