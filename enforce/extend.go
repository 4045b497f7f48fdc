package enforce

import (
	"context"
	"time"

	"github.com/floodweir/weir"
	"github.com/floodweir/weir/policy"
)

// A step has tokens that Extend charged at an instant of the store.
type step struct {
	n  int64
	at time.Time
}

// Extend charges the policies of Settles with a Settle.Meter until each has charged what total
// returns for it, together, all or nothing. It reports false if one of them denies that; an Event
// with Exhausted then names each that does. A policy in shadow mode denies nothing. If the store
// makes no decision, policies that are closed deny the request. The others let it continue, and
// charge it at its end. The charges belong to the instant of the call: in a window, that of the
// step. Extend and Exit are not called at the same time.
func (p *Admission) Extend(ctx context.Context, total func(*policy.Policy) int64) bool {
	r := p.reserved
	if r == nil || !p.open.Load() {
		return true
	}
	ctx, stop := settleContext(ctx, meterTimeout)
	defer stop()
	var enforced []*reservation
	for i := range r.tokens {
		switch t := &r.tokens[i]; {
		case t.policy.Config().Settle.Meter == nil:
		case t.shadow:
			t.ended = t.ended || !r.extend(ctx, []*reservation{t}, total)
		default:
			enforced = append(enforced, t)
		}
	}
	return r.extend(ctx, enforced, total)
}

// extend charges reservations of one store together.
func (r *reservations) extend(ctx context.Context, all []*reservation, total func(*policy.Policy) int64) bool {
	var rs []weir.Request
	var of []*reservation
	for _, t := range all {
		request := t.request
		if request.N = total(t.policy) - t.charged(); request.N > 0 {
			rs, of = append(rs, request), append(of, t)
		}
	}
	if len(rs) == 0 {
		return true
	}
	ds := make([]weir.Decision, len(rs))
	ok, err := do(ctx, of[0].store, rs, ds)
	for i, t := range of {
		switch {
		case ok && err == nil:
			t.steps = append(t.steps, step{rs[i].N, ds[i].At})
			ds[i].Degraded = t.last.Degraded
			t.last = ds[i]
			continue
		case err == nil && ds[i].OK || err != nil && t.policy.Config().OnStoreError != policy.Closed:
			continue
		}
		ok = false
		if r.enforcer.c.Observe != nil {
			r.enforcer.c.Observe(r.ctx, r.a, Event{Policy: t.policy, Outcome: Exhausted, Shadow: t.shadow, Key: t.key, Cost: t.charged(), Decision: ds[i], Err: err})
		}
		if err != nil {
			return false
		}
	}
	return ok || err != nil
}

// charged returns what r has charged, without a reservation of the verb Reserve.
func (r *reservation) charged() int64 {
	n := r.request.N
	for _, s := range r.steps {
		n += s.n
	}
	return n
}

// giveBack returns n of the tokens that r has charged, the newest first, so that each returns to its
// own window.
func (r *reservation) giveBack(ctx context.Context, n int64) error {
	for i := len(r.steps); i >= 0 && n > 0; i-- {
		s := step{r.request.N, r.request.At}
		if i > 0 {
			s = r.steps[i-1]
		}
		request := r.request
		request.Verb, request.N, request.At = weir.Return, min(n, s.n), s.at
		n -= request.N
		if err := r.do(ctx, request); err != nil {
			return err
		}
	}
	return nil
}
