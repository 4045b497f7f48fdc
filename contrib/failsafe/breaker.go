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
	slow time.Duration

	mu      sync.Mutex // guards the fields below and every change of circuit
	circuit circuitbreaker.CircuitBreaker[any]
	state   circuitbreaker.State // when last read
	period  int                  // number of changes of state
	spare   int                  // canceled trials, which circuit counts as running
}

func newBreaker(b *guard.Breaker) *breaker {
	build := circuitbreaker.NewBuilder[any]().
		WithDelay(cmp.Or(b.Cooldown, 10*time.Second)).
		WithSuccessThreshold(uint(max(b.Trials, 1)))
	switch {
	case b.Rate > 0:
		build.WithFailureRateThreshold(float64(b.Rate)/100, uint(max(b.Of, 1)), b.Period)
	case b.Period > 0:
		build.WithFailureThresholdPeriod(uint(b.Failures), b.Period)
	default:
		build.WithFailureThresholdRatio(uint(b.Failures), uint(max(b.Of, b.Failures)))
	}
	circuit := build.Build()
	return &breaker{slow: b.Slow, circuit: circuit, state: circuit.State()}
}

func (b *breaker) Name() string { return "breaker" }

func (b *breaker) State() string { return b.circuit.State().String() }

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
	switch {
	case period != b.period:
	case errors.Is(err, protect.ErrCanceled):
		if trial {
			b.spare++
		}
	case errors.Is(err, context.Canceled) && !trial:
	case err != nil, b.slow > 0 && took >= b.slow:
		b.circuit.RecordFailure()
	default:
		b.circuit.RecordSuccess()
	}
	b.look()
}

// look begins a new period if the state has changed. It requires mu.
func (b *breaker) look() {
	if state := b.circuit.State(); state != b.state {
		b.state, b.period, b.spare = state, b.period+1, 0
	}
}
