package httplimit

import (
	"context"
	"errors"
	"net/http"
	"slices"
	"time"

	"github.com/floodweir/weir"
	"github.com/floodweir/weir/policy"
)

// afterwards is a context of what the store is asked after the decision about r. That
// is done for clients that have gone away too, and in bounded time.
func afterwards(r *http.Request) (context.Context, context.CancelFunc) {
	return context.WithTimeout(context.WithoutCancel(r.Context()), time.Second)
}

// enforce decides about asks, which are those of all enforced policies, and reports
// whether r goes through. Otherwise it is answered.
func (m *Middleware) enforce(w http.ResponseWriter, r *http.Request, in *inquiry, asks []policy.Ask) bool {
	m.prepare(r, in, asks, true)
	outcome, err := m.inTurn(r, in, asks)
	m.observe(r, in, asks, outcome, err)
	if outcome == Denied && m.counts {
		m.countDenied(r, in, asks, err != nil)
	}
	m.describe(w, in, asks, outcome)
	switch outcome {
	case Denied:
		m.deny(w, in, asks)
	case FailedClosed:
		m.refuse(w)
	}
	return outcome == Admitted || outcome == FailedOpen
}

// try asks a policy in shadow, which is asks alone, about a request that goes through
// or not.
func (m *Middleware) try(r *http.Request, in *inquiry, asks []policy.Ask, admitted bool) {
	m.prepare(r, in, asks, admitted)
	outcome, err := m.decide(r, in, asks)
	if outcome == FailedClosed {
		outcome = FailedOpen
	}
	m.observe(r, in, asks, outcome, err)
	if outcome == Denied && m.counts {
		m.countDenied(r, in, asks, err != nil)
	}
}

// decide asks the store about asks together, and does what their policies say where
// it makes no decision; err is then why. Of Admitted and Denied, the decisions of asks
// are in in.ds.
func (m *Middleware) decide(r *http.Request, in *inquiry, asks []policy.Ask) (outcome Outcome, err error) {
	rs, ds := in.of(asks)
	ctx, stop := r.Context(), func() {}
	reserves := slices.ContainsFunc(rs, func(r weir.Request) bool { return r.Verb == weir.Reserve })
	if reserves {
		ctx, stop = patient(ctx)
	}
	ok, err := do(ctx, m.store, rs, ds)
	stop()
	switch {
	case err != nil:
		in.doubt(m.store, asks)
		return m.undecided(r, in, asks, err)
	case !ok:
		return Denied, nil
	}
	in.keep(m.store, asks)
	if reserves && r.Context().Err() != nil {
		return FailedClosed, context.Cause(r.Context()) // what it holds goes back at once
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

// of is the requests and the decisions of asks that follow each other.
func (in *inquiry) of(asks []policy.Ask) ([]weir.Request, []weir.Decision) {
	from, to := asks[0].From, asks[len(asks)-1].To
	return in.q.Requests[from:to], in.ds[from:to]
}

// shadow reports whether a is only tried out on this request.
func (in *inquiry) shadow(a *policy.Ask) bool { return a.From >= in.enforced }

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
func (m *Middleware) undecided(r *http.Request, in *inquiry, asks []policy.Ask, err error) (Outcome, error) {
	_, ds := in.of(asks)
	clear(ds)
	if r.Context().Err() != nil {
		return FailedClosed, err // cutting the connection is no way past a slow store
	}
	var local []policy.Ask
	var rs []weir.Request
	for _, a := range asks {
		switch a.Policy.Config().OnStoreError {
		case policy.Closed:
			return FailedClosed, err
		case policy.Local:
			local, rs = append(local, a), append(rs, in.q.Requests[a.From:a.To]...)
		}
	}
	if len(rs) == 0 {
		return FailedOpen, err
	}
	decided := make([]weir.Decision, len(rs))
	ok, localErr := do(r.Context(), m.c.Local, rs, decided)
	if localErr != nil {
		return FailedClosed, errors.Join(err, localErr)
	}
	for i := range ds {
		ds[i] = weir.Decision{OK: true, Degraded: weir.FailedOpen}
	}
	for _, a := range local {
		n := copy(in.ds[a.From:a.To], decided)
		decided = decided[n:]
		for i := range in.ds[a.From:a.To] {
			in.ds[a.From+i].Degraded = weir.FailedLocal
		}
	}
	if !ok {
		return Denied, err
	}
	in.keep(m.c.Local, local)
	return Admitted, err
}

// observe tells what became of asks, which were decided together.
func (m *Middleware) observe(r *http.Request, in *inquiry, asks []policy.Ask, outcome Outcome, err error) {
	if m.c.Observe == nil {
		return
	}
	for _, a := range asks {
		e := Event{Policy: a.Policy, Outcome: outcome, Shadow: in.shadow(&a), Key: a.Key, Cost: a.Cost, Err: err, Fault: a.Err}
		if outcome == Admitted || outcome == Denied {
			d := weir.Combine(in.ds[a.From:a.To])
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
		m.c.Observe(r, e)
	}
}

// countDenied charges a denied request to those of asks that count all, and says in
// their decisions when it can be admitted after that. What Local denied, Local counts.
func (m *Middleware) countDenied(r *http.Request, in *inquiry, asks []policy.Ask, local bool) {
	var counting []policy.Ask
	var rs []weir.Request
	var at []int // of rs in in.q.Requests
	for _, a := range asks {
		c := a.Policy.Config()
		if c.Count != policy.CountAll || local && c.OnStoreError != policy.Local {
			continue
		}
		counting = append(counting, a)
		for i := a.From; i < a.To; i++ {
			rs, at = append(rs, in.q.Requests[i]), append(at, i)
			rs[len(rs)-1].Verb = weir.Charge
		}
	}
	if len(rs) == 0 {
		return
	}
	store := m.store
	if local {
		store = m.c.Local
	}
	ctx, stop := afterwards(r)
	defer stop()
	ds := make([]weir.Decision, len(rs))
	if _, err := do(ctx, store, rs, ds); err != nil {
		m.observe(r, in, counting, Unsettled, err)
		return
	}
	for i := range rs {
		rs[i].Verb = weir.Peek
	}
	if _, err := do(ctx, store, rs, ds); err != nil {
		return // the answer tells the time from before the charge
	}
	for i, d := range ds {
		if was := &in.ds[at[i]]; !d.OK {
			d.Degraded = was.Degraded
			*was = d
		}
	}
}
