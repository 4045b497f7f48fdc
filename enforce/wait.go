package enforce

import (
	"context"
	"time"

	"github.com/floodweir/weir"
	"github.com/floodweir/weir/internal/waitqueue"
	"github.com/floodweir/weir/policy"
)

// yielded is the outcome of a request that the next gate is to decide about.
const yielded Outcome = ""

// inTurn decides as decide does, for requests that their policies may hold back. The
// first of those that wait for one key asks the store, and the others queue behind it. A
// request that is then denied for another key queues for that key, at the end. If the
// client has disconnected, or g was replaced, nothing is asked.
func (g *Enforcer) inTurn(p *Admission, asks []policy.Charge) (Outcome, error) {
	if !g.c.KeepOnCancel && p.ctx.Err() != nil {
		return FailedClosed, context.Cause(p.ctx)
	}
	if g.next.Load() != nil {
		return yielded, nil
	}
	if !g.waits {
		return g.decide(p, asks)
	}
	if p.since.IsZero() {
		p.since = g.room.Now()
	}
	var outcome Outcome
	var storeErr error
	by := g.awaited(asks)
	asked, err := g.room.Retry(p.ctx, p.step(by), func() (waitqueue.Step, error) {
		if g.next.Load() != nil {
			outcome = yielded
			return waitqueue.Step{Done: true}, nil
		}
		if outcome, storeErr = g.decide(p, asks); outcome != Denied {
			return waitqueue.Step{Done: true}, nil
		}
		var retry time.Duration
		by, retry = p.denier()
		step := p.step(by)
		left := step.Until.Sub(g.room.Now())
		step.Done = left <= 0 || retry > left || retry <= 0 // 0: the time is unknown
		step.After = retry
		return step, nil
	})
	switch {
	case err != nil:
		return FailedClosed, err
	case !asked:
		return g.pass(p, asks, by)
	}
	return outcome, storeErr
}

// step returns how p waits for the charge that denied it, or that others wait for; by
// may be nil.
func (p *Admission) step(by *policy.Charge) waitqueue.Step {
	if by == nil {
		return waitqueue.Step{}
	}
	return waitqueue.Step{Queue: by.Key, Until: p.since.Add(by.Policy.Config().OnDenied.Wait)}
}

// pass is the decision of a request that does not get its turn: by denies it, whatever
// is left, since that is for those before it.
func (g *Enforcer) pass(p *Admission, asks []policy.Charge, by *policy.Charge) (Outcome, error) {
	rs, _ := p.of(asks)
	for i := range rs {
		rs[i].Verb, rs[i].ID = weir.Peek, ""
	}
	outcome, err := g.decide(p, asks)
	if outcome == Admitted {
		outcome = Denied
		for i := range p.ds[by.From:by.To] {
			p.ds[by.From+i].OK = false
		}
	}
	return outcome, err
}

// awaited is the first of asks for whose key somebody waits, or nil.
func (g *Enforcer) awaited(asks []policy.Charge) *policy.Charge {
	for i := range asks {
		if g.room.HasWaiters(asks[i].Key) {
			return &asks[i]
		}
	}
	return nil
}
