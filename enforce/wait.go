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

// inTurn is decide for requests that their policies may hold back. Of those that wait
// for one key the first asks the store, and the others queue behind it. A request that
// is denied for another key than the one it waited for queues there, at the end. Who is
// gone already asks for nothing, if asking is free. Once g has yielded nothing is asked.
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
		p.since = time.Now()
	}
	start := p.since
	var t *waitqueue.Waiter
	defer func() { g.room.Leave(t) }()
	by := g.awaited(asks)
	if by != nil {
		if t = g.room.Enter(by.Key); t == nil {
			return g.pass(p, asks, by)
		}
	}
	for {
		if t != nil {
			until := start.Add(by.Policy.Config().OnDenied.Wait)
			if came, err := t.Wait(p.ctx, until); err != nil {
				return FailedClosed, err
			} else if !came {
				return g.pass(p, asks, by)
			}
		}
		if g.next.Load() != nil {
			return yielded, nil
		}
		outcome, err := g.decide(p, asks)
		if outcome != Denied {
			return outcome, err
		}
		var retry time.Duration
		by, retry = p.denier()
		left := by.Policy.Config().OnDenied.Wait - time.Since(start)
		if left <= 0 || retry > left || retry <= 0 { // 0 does not say when
			return Denied, err
		}
		if t == nil || t.Key != by.Key {
			g.room.Leave(t)
			if t = g.room.Enter(by.Key); t == nil {
				return Denied, err
			}
		}
		if gone := waitqueue.Sleep(p.ctx, retry); gone != nil {
			return FailedClosed, gone
		}
	}
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
