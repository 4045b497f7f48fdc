package enforce

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/floodweir/weir"
	"github.com/floodweir/weir/policy"
)

// enforce decides about the enforced policies, which are asked together. delay is how
// long an admitted request has to be held back.
func (g *Enforcer) enforce(p *Admission) (delay time.Duration) {
	asks := p.Charges()
	g.prepare(p, asks, true)
	if p.outcome, p.err = g.inTurn(p, asks); p.outcome == yielded {
		return 0
	}
	g.observe(p, asks, p.outcome, p.err)
	switch {
	case p.outcome == Denied && g.counts:
		g.countDenied(p, asks, p.err != nil)
	case p.outcome == Admitted:
		for i := range p.ds[:p.requests] {
			delay = max(delay, p.ds[i].Delay)
		}
	}
	return delay
}

// try asks a policy in shadow, which is asks alone, about a request that goes through
// or not.
func (g *Enforcer) try(p *Admission, asks []policy.Charge, admitted bool) {
	g.prepare(p, asks, admitted)
	outcome, err := g.decide(p, asks)
	if outcome == FailedClosed {
		outcome = FailedOpen
	}
	g.observe(p, asks, outcome, err)
	if outcome == Denied && g.counts {
		g.countDenied(p, asks, err != nil)
	}
}

// decide asks the store about asks together, and does what their policies say where
// it makes no decision; err is then why. Of Admitted and Denied, the decisions of asks
// are in p.ds.
func (g *Enforcer) decide(p *Admission, asks []policy.Charge) (outcome Outcome, err error) {
	rs, ds := p.of(asks)
	if len(p.locals) > 0 { // that may be what was decided before a wait
		p.locals = slices.DeleteFunc(p.locals, func(i int) bool { return i >= asks[0].From && i < asks[len(asks)-1].To })
	}
	ctx, stop := p.ctx, func() {}
	reserves := slices.ContainsFunc(rs, func(r weir.Request) bool { return r.Verb == weir.Reserve })
	if reserves {
		ctx, stop = patient(ctx)
	}
	ok, err := do(ctx, g.store, rs, ds)
	stop()
	switch {
	case err != nil:
		p.doubt(g.store, asks)
		return g.undecided(p, asks, err)
	case !ok:
		return Denied, nil
	}
	p.keep(g.store, asks)
	if reserves && p.ctx.Err() != nil { // what it holds goes back at once
		g.leave(p, asks)
		return FailedClosed, context.Cause(p.ctx)
	}
	return Admitted, nil
}

// patient is a context that ends a second after ctx. Who asks to reserve waits for the
// answer, though nobody waits for its own: a reservation that nobody knows of is lost
// to all until the end of its life.
func patient(ctx context.Context) (context.Context, func()) {
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

// undecided is decide after the store made no decision. In the decisions that Local
// makes, asks that are let through undecided have one without a limit.
func (g *Enforcer) undecided(p *Admission, asks []policy.Charge, err error) (Outcome, error) {
	_, ds := p.of(asks)
	clear(ds)
	if p.ctx.Err() != nil {
		return FailedClosed, context.Cause(p.ctx) // going away is no way past a slow store
	}
	var local []policy.Charge
	var rs []weir.Request
	for _, a := range asks {
		switch a.Policy.Config().OnStoreError {
		case policy.Closed:
			return FailedClosed, err
		case policy.Local:
			local, rs = append(local, a), append(rs, p.q.Requests[a.From:a.To]...)
		}
	}
	if len(rs) == 0 {
		return FailedOpen, err
	}
	decided := make([]weir.Decision, len(rs))
	ok, localErr := do(p.ctx, g.c.Local, rs, decided)
	if localErr != nil {
		return FailedClosed, errors.Join(err, localErr)
	}
	for i := range ds {
		ds[i] = weir.Decision{OK: true, Degraded: policy.Open}
	}
	for _, a := range local {
		n := copy(p.ds[a.From:a.To], decided)
		decided = decided[n:]
		for i := a.From; i < a.To; i++ {
			p.ds[i].Degraded = policy.Local
			p.locals = append(p.locals, i)
		}
	}
	if !ok {
		return Denied, err
	}
	p.keep(g.c.Local, local)
	return Admitted, err
}

// observe tells what became of asks, which were decided together.
func (g *Enforcer) observe(p *Admission, asks []policy.Charge, outcome Outcome, err error) {
	if g.c.Observe == nil {
		return
	}
	for _, a := range asks {
		e := Event{Policy: a.Policy, Outcome: outcome, Shadow: p.shadow(&a), Key: a.Key, Cost: a.Cost, Err: err, Fault: a.Err}
		if outcome == Admitted || outcome == Denied {
			d := Combine(p.ds[a.From:a.To])
			undecided := d.OK && d.Limit.IsZero()
			switch {
			case !d.OK:
				e.Outcome = Denied
			case outcome == Denied:
				e.Outcome = Held
			case undecided:
				e.Outcome = FailedOpen
			}
			if !undecided {
				e.Decision = d
			}
		}
		g.c.Observe(p.ctx, p.a, e)
	}
}

// denier is the one of the enforced policies that holds a denied request back longest,
// and for how long.
func (p *Admission) denier() (by *policy.Charge, retry time.Duration) {
	asks := p.Charges()
	by, retry = &asks[0], -1
	for i := range asks {
		for _, d := range p.ds[asks[i].From:asks[i].To] {
			if !d.OK && d.RetryAfter > retry {
				by, retry = &asks[i], d.RetryAfter
			}
		}
	}
	return by, retry
}
