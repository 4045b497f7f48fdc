package enforce

import (
	"context"
	"slices"
	"time"

	"github.com/floodweir/weir"
	"github.com/floodweir/weir/policy"
)

// afterwards is a context of what the store is asked after the decision about a
// request of ctx. That is done for callers that have gone away too, and in bounded time.
func afterwards(ctx context.Context) (context.Context, context.CancelFunc) {
	return context.WithTimeout(context.WithoutCancel(ctx), time.Second)
}

// countDenied charges a denied request to those of asks that count all, and says in
// their decisions when it can be admitted after that. What Local denied, Local counts.
func (g *Enforcer) countDenied(p *Admission, asks []policy.Charge, local bool) {
	var counting []policy.Charge
	var rs []weir.Request
	var at []int // of rs in p.q.Requests
	for _, a := range asks {
		c := a.Policy.Config()
		if c.Count != policy.CountAll || local && c.OnStoreError != policy.Local {
			continue
		}
		counting = append(counting, a)
		for i := a.From; i < a.To; i++ {
			rs, at = append(rs, p.q.Requests[i]), append(at, i)
			rs[len(rs)-1].Verb = weir.Charge
		}
	}
	if len(rs) == 0 {
		return
	}
	store := g.store
	if local {
		store = g.c.Local
	}
	ctx, stop := afterwards(p.ctx)
	defer stop()
	ds := make([]weir.Decision, len(rs))
	if _, err := do(ctx, store, rs, ds); err != nil {
		g.observe(p, counting, Unsettled, err)
		return
	}
	for i := range rs {
		charged := &p.q.Requests[at[i]] // as giveBack reads it
		charged.Verb, charged.At = weir.Charge, ds[i].At
		rs[i].Verb = weir.Peek
	}
	if _, err := do(ctx, store, rs, ds); err != nil {
		return // the answer tells the time from before the charge
	}
	for i, d := range ds {
		if was := &p.ds[at[i]]; !d.OK {
			d.Degraded = was.Degraded
			*was = d
		}
	}
}

// leave is what becomes of asks when the context of their request has ended.
func (g *Enforcer) leave(p *Admission, asks []policy.Charge) {
	if !g.c.KeepOnCancel {
		g.giveBack(p, asks)
	}
	_, ds := p.of(asks)
	clear(ds)
}

// giveBack returns what asks have taken for good; what they reserved is in p.held.
// Nobody waits for an error.
func (g *Enforcer) giveBack(p *Admission, asks []policy.Charge) {
	ctx, stop := afterwards(p.ctx)
	defer stop()
	for i := range asks {
		from, to := asks[i].From, asks[i].To
		denied := slices.ContainsFunc(p.ds[from:to], func(d weir.Decision) bool { return !d.OK })
		for j := from; j < to; j++ {
			r := p.q.Requests[j]
			switch {
			case r.Verb == weir.Charge: // denied, and counted
			case r.Verb == weir.Take && !denied:
				r.N, r.At = p.ds[j].Granted, p.ds[j].At
			default:
				continue
			}
			if r.N == 0 {
				continue
			}
			store := g.store
			if slices.Contains(p.locals, j) {
				store = g.c.Local
			}
			r.Verb = weir.Return
			_, _ = store.Do(ctx, r)
		}
	}
}
