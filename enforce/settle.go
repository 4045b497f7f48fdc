package enforce

import (
	"context"
	"slices"
	"time"

	"github.com/floodweir/weir"
	"github.com/floodweir/weir/policy"
)

// Bounds of the calls of the store after the decision on a request. They delay its end if the
// store does not respond.
const (
	settleTimeout = time.Second
	// meterTimeout is longer, because a budget does not see what is not settled.
	meterTimeout = 10 * time.Second
)

// settleContext returns a context for calls of the store after the decision on a request of
// ctx. It lasts the timeout, even if ctx has ended.
func settleContext(ctx context.Context, timeout time.Duration) (context.Context, context.CancelFunc) {
	return context.WithTimeout(context.WithoutCancel(ctx), timeout)
}

// countDenied charges a denied request to the policies that count all requests, and updates
// RetryAfter in their decisions. Config.Local charges what it denied. After an error the
// returned policies were not charged.
func (e *Enforcer) countDenied(p *Admission, charges []policy.Charge, local bool) (counting []policy.Charge, err error) {
	var rs []weir.Request
	var at []int // indexes of rs in p.q.Requests
	for _, charge := range charges {
		c := charge.Policy.Config()
		if c.Count != policy.CountAll || local && c.OnStoreError != policy.Local {
			continue
		}
		counting = append(counting, charge)
		for i := charge.From; i < charge.To; i++ {
			rs, at = append(rs, p.q.Requests[i]), append(at, i)
			rs[len(rs)-1].Verb = weir.Charge
		}
	}
	if len(rs) == 0 {
		return nil, nil
	}
	store := e.store
	if local {
		store = e.c.Local
	}
	ctx, stop := settleContext(p.ctx, settleTimeout)
	defer stop()
	ds := make([]weir.Decision, len(rs))
	if _, err := do(ctx, store, rs, ds); err != nil {
		return counting, err
	}
	for i := range rs {
		charged := &p.q.Requests[at[i]] // for giveBack
		charged.Verb, charged.At = weir.Charge, ds[i].At
		rs[i].Verb = weir.Peek
	}
	if _, err := do(ctx, store, rs, ds); err != nil {
		return nil, nil // RetryAfter stays that from before the charge
	}
	for i, d := range ds {
		if was := &p.ds[at[i]]; !d.OK {
			d.Degraded = was.Degraded
			*was = d
		}
	}
	return nil, nil
}

// undo clears the decisions on a request whose context has ended. It returns the charges,
// unless Config.KeepOnCancel is set.
func (e *Enforcer) undo(p *Admission, charges []policy.Charge) {
	if !e.c.KeepOnCancel {
		e.giveBack(p, charges)
	}
	_, ds := p.of(charges)
	clear(ds)
}

// giveBack returns tokens that charges took. Reservations are in p.reserved. Errors are
// ignored: no caller waits for them.
func (e *Enforcer) giveBack(p *Admission, charges []policy.Charge) {
	ctx, stop := settleContext(p.ctx, settleTimeout)
	defer stop()
	for i := range charges {
		from, to := charges[i].From, charges[i].To
		denied := slices.ContainsFunc(p.ds[from:to], func(d weir.Decision) bool { return !d.OK })
		for j := from; j < to; j++ {
			r := p.q.Requests[j]
			switch {
			case r.ID != "": // in p.reserved
				continue
			case r.Verb == weir.Charge: // denied and charged
			case r.Verb == weir.Take && !denied:
				r.N, r.At, r.Borrowed = p.ds[j].Granted, p.ds[j].At, p.ds[j].Borrowed
			default:
				continue
			}
			if r.N == 0 {
				continue
			}
			store := e.store
			if slices.Contains(p.locals, j) {
				store = e.c.Local
			}
			r.Verb = weir.Return
			_, _ = store.Do(ctx, r)
		}
	}
}
