// Package failsafe adds circuit breakers and bulkheads of failsafe-go, and the adaptive limit of
// package protect, to the limits of package guard.
//
//	err := guard.Default().Configure(guard.Config{
//		Functions:   file.Functions, // from weirfile
//		Protections: failsafe.New,
//	})
//
// A rule in the file configures them:
//
//	functions:
//	  rules:
//	    - name: getId
//	      limits: 100/s
//	      breaker: { failures: 5, of: 10, slow: 2s, cooldown: 30s }
//	      adaptive: { max: 50 }
//
// # Order
//
// A call enters the bulkhead first, then the adaptive limit, and the breaker last, so that
// another protection never refuses a trial of the breaker. The limits of the rule come
// before all of them, and get their tokens back if a protection refuses the call.
//
// Beside a bulkhead with Wait, the adaptive limit waits as well, for at most that time.
// Without one it refuses at once.
//
// # What counts
//
// For a breaker, a call has failed if it returned an error or took Breaker.Slow or longer. With
// Breaker.SlowRate, slow calls are counted apart; without Rate, errors then do not count.
// A canceled call (context.Canceled) counts only in a trial, as failed. Calls that began
// before the breaker opened or closed do not count afterwards. A trial that another
// protection refuses passes to the next call. An adaptive limit ignores fast failures.
//
// State belongs to the process. To share a bound between processes, use a concurrency
// limit.
//
// # Requests
//
// [ForRequests] returns the same protections for a protect.Chain, which comes before the limits.
// The breaker is then first, so that an open one costs nothing.
package failsafe

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/failsafe-go/failsafe-go/bulkhead"

	"github.com/floodweir/weir"
	"github.com/floodweir/weir/guard"
	"github.com/floodweir/weir/protect"
)

// The reasons of a refusal, for errors.Is on a *guard.Denied.
var (
	ErrOpen      = errors.New("circuit breaker open")
	ErrSaturated = protect.ErrSaturated
	ErrFull      = errors.New("bulkhead full")
)

// Refused reports that a protection refused a call. It wraps Reason.
type Refused = protect.Refused

// New returns the protections of settings, for guard.Config. An error wraps
// weir.ErrInvalid.
func New(name string, s guard.Settings) ([]guard.Protection, error) {
	if err := errors.Join(checkBulkhead(s.Bulkhead), checkAdaptive(s.Adaptive), checkBreaker(s.Breaker)); err != nil {
		return nil, fmt.Errorf("failsafe: %s: %w", name, err)
	}
	var all []guard.Protection
	if b := s.Bulkhead; b != nil {
		all = append(all, inMode(newSlots(b), b.Shadow))
	}
	if a := s.Adaptive; a != nil {
		var wait time.Duration
		if s.Bulkhead != nil && !s.Bulkhead.Shadow && !a.Shadow {
			wait = s.Bulkhead.Wait
		}
		limit, err := protect.NewAdaptive(protect.AdaptiveConfig{Min: a.Min, Max: a.Max, Initial: a.Initial, Wait: wait})
		if err != nil {
			return nil, fmt.Errorf("failsafe: %s: %w", name, err)
		}
		all = append(all, inMode(limit, a.Shadow))
	}
	if b := s.Breaker; b != nil {
		all = append(all, inMode(newBreaker(b), b.Shadow))
	}
	return all, nil
}

// ForRequests returns the protections of settings in the order for a protect.Chain: breaker,
// bulkhead, adaptive. An error wraps weir.ErrInvalid.
func ForRequests(name string, s guard.Settings) ([]guard.Protection, error) {
	all, err := New(name, s)
	if last := len(all) - 1; last > 0 && s.Breaker != nil {
		all = append(all[last:], all[:last]...)
	}
	return all, err
}

func inMode(p guard.Protection, shadow bool) guard.Protection {
	if shadow {
		return protect.Shadow(p)
	}
	return p
}

func invalid(field string, got, want any) error {
	return fmt.Errorf("%s: %w: want %v, got %v", field, weir.ErrInvalid, want, got)
}

func checkBreaker(b *guard.Breaker) error {
	switch {
	case b == nil:
		return nil
	case b.Failures < 0 || b.Of < 0 || b.Trials < 0:
		return invalid("breaker", fmt.Sprintf("failures %d, of %d, trials %d", b.Failures, b.Of, b.Trials), "no negative number")
	case b.Failures > 0 && (b.Rate > 0 || b.SlowRate > 0), b.Failures == 0 && b.Rate == 0 && b.SlowRate == 0:
		return invalid("breaker", fmt.Sprintf("failures %d, rate %d, slow rate %d", b.Failures, b.Rate, b.SlowRate), "failures, or rate or slow rate or both")
	case b.SlowRate < 0 || b.SlowRate > 100:
		return invalid("breaker.slow_rate", b.SlowRate, "1 to 100")
	case b.SlowRate > 0 && b.Slow == 0:
		return invalid("breaker.slow", b.Slow, "from when a call is slow, such as 1s, with slow rate")
	case b.Rate < 0 || b.Rate > 100:
		return invalid("breaker.rate", b.Rate, "1 to 100")
	case b.Failures > 0 && b.Of > 0 && b.Period > 0:
		return invalid("breaker", fmt.Sprintf("of %d and period %v", b.Of, b.Period), "one of of and period, with failures")
	case b.Failures > 0 && b.Of > 0 && b.Of < b.Failures:
		return invalid("breaker.of", b.Of, fmt.Sprintf("at least failures, %d", b.Failures))
	case b.Period < 0 || b.Slow < 0 || b.Cooldown < 0:
		return invalid("breaker", fmt.Sprintf("period %v, slow %v, cooldown %v", b.Period, b.Slow, b.Cooldown), "no negative time")
	case b.Failures == 0 && b.Period == 0:
		return invalid("breaker.period", b.Period, "how long a call counts, such as 10s, with a rate")
	}
	return nil
}

func checkAdaptive(a *guard.Adaptive) error {
	if a != nil && (a.Min < 1 || a.Initial < a.Min || a.Max < a.Initial) {
		return invalid("adaptive", fmt.Sprintf("min %d, initial %d, max %d", a.Min, a.Initial, a.Max), "at least 1, in that order of size")
	}
	return nil
}

func checkBulkhead(b *guard.Bulkhead) error {
	switch {
	case b == nil:
		return nil
	case b.Max < 1:
		return invalid("bulkhead.max", b.Max, "at least 1")
	case b.MaxWaiters < 0 || b.Wait < 0:
		return invalid("bulkhead", fmt.Sprintf("max_waiters %d, wait %v", b.MaxWaiters, b.Wait), "no negative number")
	}
	return nil
}

// slots is a bulkhead with a bounded queue in front.
type slots struct {
	bulkhead      bulkhead.Bulkhead[any]
	max           int
	mostWaiting   int64
	wait          time.Duration
	inside, queue atomic.Int64
}

func newSlots(b *guard.Bulkhead) *slots {
	p := &slots{bulkhead: bulkhead.New[any](uint(b.Max)), max: b.Max, mostWaiting: int64(cmp.Or(b.MaxWaiters, b.Max)), wait: b.Wait}
	if b.Shadow {
		p.wait = 0
	}
	return p
}

func (p *slots) Name() string { return "bulkhead" }

// WholeRequest implements protect.Whole: a stream holds its slot until it ends.
func (p *slots) WholeRequest() bool { return true }

func (p *slots) State() string {
	r := p.Read()
	return fmt.Sprintf("%d of %d, %d waiting", r.InFlight, r.Limit, r.Waiters)
}

// Read implements protect.Measured.
func (p *slots) Read() protect.Reading {
	return protect.Reading{Limit: p.max, InFlight: int(p.inside.Load()), Waiters: int(min(p.queue.Load(), p.mostWaiting))}
}

func (p *slots) Enter(ctx context.Context, _ string) (func(error), error) {
	if !p.bulkhead.TryAcquirePermit() {
		if err := p.waitSlot(ctx); err != nil {
			return nil, err
		}
	}
	p.inside.Add(1)
	return func(error) {
		p.inside.Add(-1)
		p.bulkhead.ReleasePermit()
	}, nil
}

// waitSlot waits for a slot.
func (p *slots) waitSlot(ctx context.Context) error {
	full := &Refused{Reason: ErrFull}
	if p.wait <= 0 {
		return full
	}
	defer p.queue.Add(-1)
	if p.queue.Add(1) > p.mostWaiting {
		return full
	}
	switch err := p.bulkhead.AcquirePermitWithMaxWait(ctx, p.wait); {
	case err == nil:
		return nil
	case ctx.Err() != nil:
		return context.Cause(ctx)
	}
	return full
}
