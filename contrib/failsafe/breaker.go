package failsafe

import (
	"cmp"
	"context"
	"errors"
	"sync"
	"time"

	"github.com/failsafe-go/failsafe-go/circuitbreaker"

	"github.com/floodweir/weir/guard"
)

// breaker is a circuit breaker.
type breaker struct {
	slow time.Duration

	mu      sync.Mutex // guards what follows: all that changes circuit
	circuit circuitbreaker.CircuitBreaker[any]
	state   circuitbreaker.State // as it was when last looked at
	turn    int                  // how often that has changed
	spare   int                  // trials that were called off, which circuit takes for running
}

func newBreaker(b *guard.Breaker) *breaker {
	build := circuitbreaker.NewBuilder[any]().
		WithDelay(cmp.Or(b.Cooldown, 10*time.Second)).
		WithSuccessThreshold(uint(max(b.Trials, 1)))
	if b.Rate > 0 {
		build.WithFailureRateThreshold(float64(b.Rate)/100, uint(max(b.Of, 1)), b.Period)
	} else {
		build.WithFailureThresholdRatio(uint(b.Failures), uint(max(b.Of, b.Failures)))
	}
	circuit := build.Build()
	return &breaker{slow: b.Slow, circuit: circuit, state: circuit.State()}
}

func (b *breaker) Name() string { return "breaker" }

func (b *breaker) State() string { return b.circuit.State().String() }

func (b *breaker) Enter(context.Context, string) (func(error), error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	switch {
	case b.spare > 0:
		b.spare--
	case !b.circuit.TryAcquirePermit():
		return nil, &Refused{ErrOpen, b.circuit.RemainingDelay()}
	}
	b.look()
	start, turn := time.Now(), b.turn
	return func(err error) { b.exit(err, time.Since(start), turn) }, nil
}

// exit tells what became of a call that entered in a turn, which says nothing about
// another: those that began before the breaker opened are not its trials.
func (b *breaker) exit(err error, took time.Duration, turn int) {
	b.mu.Lock()
	defer b.mu.Unlock()
	trial := b.state == circuitbreaker.HalfOpenState
	switch {
	case turn != b.turn:
	case errors.Is(err, guard.ErrCanceled):
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

// look begins a new turn if the state has changed. It requires mu.
func (b *breaker) look() {
	if state := b.circuit.State(); state != b.state {
		b.state, b.turn, b.spare = state, b.turn+1, 0
	}
}
