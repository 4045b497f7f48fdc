package enforce

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/floodweir/weir"
	"github.com/floodweir/weir/internal/bounds"
	"github.com/floodweir/weir/policy"
)

// enforce decides the enforced policies together. It returns the delay of an admitted
// request in a queue.
func (e *Enforcer) enforce(p *Admission) (delay time.Duration) {
	if p.enforced == 0 {
		return 0
	}
	charges := p.Charges()
	e.prepare(p, charges, true)
	switch {
	case p.requests > bounds.MaxBatch:
		p.outcome, p.err = FailedClosed, fmt.Errorf("enforce: request matches %d limits of enforced policies, want at most %d, which a store decides together", p.requests, bounds.MaxBatch)
	case !e.c.KeepOnCancel && !e.c.DecideCanceled && p.ctx.Err() != nil:
		p.outcome, p.err = FailedClosed, context.Cause(p.ctx)
	case e.next.Load() != nil:
		p.outcome = replaced
	case e.waits && blocked(charges) == nil: // no wait helps a blocked request
		p.outcome, p.err = e.decideInOrder(p, charges)
	default:
		p.outcome, p.err = e.decide(p, charges)
	}
	if p.outcome == replaced {
		return 0
	}
	e.report(p, charges, p.outcome, p.err)
	if p.outcome == Admitted {
		for i := range p.ds[:p.requests] {
			delay = max(delay, p.ds[i].Delay)
		}
	}
	return delay
}

// try decides one policy in shadow mode, which is the only one of charges.
func (e *Enforcer) try(p *Admission, charges []policy.Charge, admitted bool) {
	e.prepare(p, charges, admitted)
	outcome, err := e.decide(p, charges)
	if outcome == FailedClosed {
		outcome = FailedOpen
	}
	e.report(p, charges, outcome, err)
}

// report charges denied requests to the policies that count them, and then reports the
// outcome, so that an Event has the RetryAfter that the client receives.
func (e *Enforcer) report(p *Admission, charges []policy.Charge, outcome Outcome, err error) {
	var counting []policy.Charge
	var countErr error
	if outcome == Denied && e.counts {
		counting, countErr = e.countDenied(p, charges, err != nil)
	}
	e.observe(p, charges, outcome, err)
	if countErr != nil {
		e.observe(p, counting, Unsettled, countErr)
	}
}

// decide asks the store for charges together, and applies OnStoreError if it makes no
// decision; err is then the reason. If the outcome is Admitted or Denied, the decisions are
// in p.ds.
func (e *Enforcer) decide(p *Admission, charges []policy.Charge) (outcome Outcome, err error) {
	rs, ds := p.of(charges)
	if e.blocks && blocked(charges) != nil {
		return Denied, nil
	}
	if len(p.locals) > 0 { // from before a wait
		p.locals = slices.DeleteFunc(p.locals, func(i int) bool { return i >= charges[0].From && i < charges[len(charges)-1].To })
	}
	ctx, stop := p.ctx, func() {}
	reserves := slices.ContainsFunc(rs, func(r weir.Request) bool { return r.Verb == weir.Reserve })
	if reserves && !e.prompt && !(e.c.DecideCanceled && ctx.Err() != nil) {
		ctx, stop = withGrace(ctx)
	}
	ok, err := false, e.setLimits(p, charges)
	limited := err == nil
	p.took = 0
	switch {
	case limited && e.c.Observe == nil: // without reading the clock
		ok, err = do(ctx, e.store, rs, ds)
	case limited:
		start := time.Since(e.epoch)
		ok, err = do(ctx, e.store, rs, ds)
		p.took = time.Since(e.epoch) - start
	}
	stop()
	switch {
	case err != nil:
		p.recordUncertain(e.store, charges)
		return e.undecided(p, charges, err, limited)
	case !ok:
		return Denied, nil
	}
	p.record(e.store, charges)
	if reserves && !e.c.DecideCanceled && p.ctx.Err() != nil { // return its reservations at once
		e.undo(p, charges)
		return FailedClosed, context.Cause(p.ctx)
	}
	return Admitted, nil
}

// blocked returns the first of charges whose policy blocks the request, or nil.
func blocked(charges []policy.Charge) *policy.Charge {
	for i := range charges {
		if charges[i].Blocked {
			return &charges[i]
		}
	}
	return nil
}

// neverWaits reports whether a store decides without waiting, as one in memory. It needs no
// deadline then.
func neverWaits(store weir.Store) bool {
	s, ok := store.(interface{ NeverWaits(of weir.Store) bool })
	return ok && s.NeverWaits(store)
}

// withGrace returns a context that ends a second after ctx. A request that reserves waits
// for the reply after its context has ended: a reservation without a reply stays in the
// store until its TTL.
func withGrace(ctx context.Context) (context.Context, func()) {
	lasting, cancel := context.WithCancelCause(context.WithoutCancel(ctx))
	stop := context.AfterFunc(ctx, func() {
		t := time.NewTimer(time.Second)
		defer t.Stop()
		select {
		case <-t.C:
			cancel(context.Cause(ctx))
		case <-lasting.Done():
		}
	})
	return lasting, func() {
		stop()
		cancel(nil)
	}
}

// do decides requests together.
func do(ctx context.Context, store weir.Store, rs []weir.Request, ds []weir.Decision) (bool, error) {
	if len(rs) == 1 {
		d, err := store.Do(ctx, rs[0])
		ds[0] = d
		return d.OK, err
	}
	return store.DoAll(ctx, rs, ds)
}

// undecided applies the OnStoreError of charges after the store made no decision. If Local
// decides, charges that are open get a decision without a limit. An overload of this process
// refuses the request in every mode: otherwise a client with enough connections could bypass
// its limits. Local cannot decide a request whose LimitFunc returned no limit (limited is
// false), and refuses it.
func (e *Enforcer) undecided(p *Admission, charges []policy.Charge, err error, limited bool) (Outcome, error) {
	_, ds := p.of(charges)
	clear(ds)
	ctx, canceled := p.ctx, p.ctx.Err() != nil
	switch {
	case canceled && !e.c.DecideCanceled:
		return FailedClosed, context.Cause(ctx) // a canceled request does not fail open
	case errors.Is(err, weir.ErrOverloaded):
		return Overloaded, err
	case canceled:
		err, ctx = context.Cause(ctx), context.WithoutCancel(ctx)
	}
	var local []policy.Charge
	var rs []weir.Request
	for _, charge := range charges {
		switch charge.Policy.Config().OnStoreError {
		case policy.Closed:
			return FailedClosed, err
		case policy.Local:
			if !limited {
				return FailedClosed, err
			}
			local, rs = append(local, charge), append(rs, p.q.Requests[charge.From:charge.To]...)
		}
	}
	if len(rs) == 0 {
		return FailedOpen, err
	}
	decided := make([]weir.Decision, len(rs))
	ok, localErr := do(ctx, e.c.Local, rs, decided)
	if localErr != nil {
		return FailedClosed, errors.Join(err, localErr)
	}
	for i := range ds {
		ds[i] = weir.Decision{OK: true, Degraded: policy.Open}
	}
	for _, charge := range local {
		n := copy(p.ds[charge.From:charge.To], decided)
		decided = decided[n:]
		for i := charge.From; i < charge.To; i++ {
			p.ds[i].Degraded = policy.Local
			p.locals = append(p.locals, i)
		}
	}
	if !ok {
		return Denied, err
	}
	p.record(e.c.Local, local)
	return Admitted, err
}

// RetryAfter returns the retry delay of a request without a decision, whose error is err. It is
// that of a weir.OverloadError, and otherwise a second.
func RetryAfter(err error) time.Duration {
	if e := (*weir.OverloadError)(nil); errors.As(err, &e) && e.RetryAfter > 0 {
		return e.RetryAfter
	}
	return time.Second
}

// observe reports the outcome of charges that were decided together.
func (e *Enforcer) observe(p *Admission, charges []policy.Charge, outcome Outcome, err error) {
	if e.c.Observe == nil {
		return
	}
	for _, charge := range charges {
		event := Event{Policy: charge.Policy, Outcome: outcome, Shadow: p.shadow(&charge), Key: charge.Key, Cost: charge.Cost, Err: err, Fault: charge.Err}
		if outcome == Admitted || outcome == Denied {
			d := Combine(p.ds[charge.From:charge.To])
			undecided := d.OK && d.Limit.IsZero()
			switch {
			case charge.Blocked:
				d.RetryAfter = weir.Never
			case !d.OK && d.Limit.IsZero(): // another policy blocks the request
				event.Outcome = Held
			case !d.OK:
				event.Outcome = Denied
			case outcome == Denied:
				event.Outcome = Held
			case undecided:
				event.Outcome = FailedOpen
			}
			if !undecided {
				event.Decision = d
			}
		}
		event.Took, p.took = p.took, 0
		e.c.Observe(p.ctx, p.a, event)
		if charge.Refused != nil && event.Outcome == Denied {
			e.c.Observe(p.ctx, p.a, Event{Policy: event.Policy, Outcome: Unpriced, Shadow: event.Shadow, Key: event.Key, Err: charge.Refused})
		}
	}
}

// denier returns the enforced charge with the longest RetryAfter of a denied request, and
// that time.
func (p *Admission) denier() (by *policy.Charge, retry time.Duration) {
	charges := p.Charges()
	if by = blocked(charges); by != nil {
		return by, weir.Never
	}
	by, retry = &charges[0], -1
	for i := range charges {
		for _, d := range p.ds[charges[i].From:charges[i].To] {
			if !d.OK && d.RetryAfter > retry {
				by, retry = &charges[i], d.RetryAfter
			}
		}
	}
	return by, retry
}
