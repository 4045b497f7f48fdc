package share

import (
	"context"
	"strings"

	"github.com/floodweir/weir"
	"github.com/floodweir/weir/internal/algo"
	"github.com/floodweir/weir/internal/bounds"
	"github.com/floodweir/weir/internal/missing"
	"github.com/floodweir/weir/policy"
	"github.com/floodweir/weir/share/internal/parts"
)

// Local returns the store that decides without the ledger after leases have ended, as a fallback of
// [Store.Over]. It decides by the part of a limit that this process held last, with a state of its own,
// which is full at first. Parts that were held at the same time are together at most the limit, so no
// number of processes is needed if all lose the ledger within a lease. Decisions are Degraded policy.Local.
//
// A process that had no part when it last read the row, while others did, decides by the sixteenth that
// is never granted. A limit that has replaced a former one of the request gets the same part of
// it. The other store decides all other requests; it is one of failover.NewLocal. Without it, Local
// returns it, which constructors reject.
//
// A Take may cost more than the part and fit the limit. A full bucket admits it, and the rest is a debt.
// Other limits deny it with a RetryAfter of one second.
func (s *Store) Local(other weir.Store) weir.Store {
	if missing.Value(other) {
		return other
	}
	return &local{s, other}
}

type local struct {
	s     *Store
	other weir.Store
}

// Do implements [weir.Store].
func (l *local) Do(ctx context.Context, r weir.Request) (d weir.Decision, err error) {
	if err := r.Validate(); err != nil {
		return d, err
	}
	if e := l.s.former(&r); e != nil && e.decideByPart(&r, l.s.clock.now(), &d) {
		return d, nil
	}
	return l.other.Do(ctx, r)
}

// DoAll implements [weir.Store]. It gives back like that of a [Store].
func (l *local) DoAll(ctx context.Context, rs []weir.Request, ds []weir.Decision) (bool, error) {
	if err := bounds.Check("share", weir.ErrInvalid, rs, len(ds)); err != nil {
		return false, err
	}
	for i := range rs {
		if l.s.former(&rs[i]) != nil {
			return l.s.doAll(ctx, rs, ds, l.other, l.Do)
		}
	}
	return l.other.DoAll(ctx, rs, ds)
}

// former returns the entry of a request with the part that was held last, or nil.
func (s *Store) former(r *weir.Request) *entry {
	d, err := s.divide(r)
	if err != nil || r.Verb > weir.Reset {
		return nil
	}
	hash, e := s.find(r)
	if e != nil && e.lastPart() != (parts.Part{}) {
		return e
	}
	was := *r
	for _, was.Limit = range r.From {
		if was.Limit.IsZero() {
			continue
		}
		if _, old := s.find(&was); old != nil {
			if p := old.lastPart(); p.Rate > 0 {
				e = s.table.enter(hash, strings.Clone(r.Key), d)
				defer e.leave()
				e.inherit(p, old.limit)
				return e
			}
		}
	}
	return nil
}

// lastPart returns the part that was held last.
func (e *entry) lastPart() parts.Part {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.held
}

// inherit sets the part that was held last to that of a former limit, unless there is one.
func (e *entry) inherit(p parts.Part, of *parts.Limit) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.held == (parts.Part{}) {
		e.held = e.limit.Fraction(max(1, parts.FloorScale(p.Rate, e.limit.Whole.Rate, of.Whole.Rate)))
	}
}

// remember records the part that is held after an exchange. Without a reply, the last one still counts.
// It requires mu.
func (e *entry) remember(err error) {
	switch {
	case e.own.Rule != nil:
		e.held = e.own.Part
	case err != nil:
	case e.others > 0: // they have the rest
		e.held = e.limit.Reserve()
	default:
		e.held = parts.Part{}
	}
}

// decideByPart decides a request by the part that was held last, not by the state of a share. It
// returns false without a part.
func (e *entry) decideByPart(r *weir.Request, m moment, d *weir.Decision) bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.held == (parts.Part{}) {
		return false
	}
	if r.Verb == weir.Reset {
		e.alone = parts.Bank{}
	}
	b := &e.alone
	if b.Part != e.held {
		b.Become(e.limit, e.held, e.now(m))
	}
	a := e.ask(algo.Op(r.Verb), r.N, r, m)
	large := r.N > b.Size && r.N <= e.limit.Capacity()
	switch {
	case r.Verb == weir.Reset:
		a.Op, a.N = algo.Peek, 0
	case large && e.limit.Bucket && (r.Verb == weir.Take || r.Verb == weir.Peek):
		a.N = b.Size
	}
	res := b.Do(a)
	switch {
	case !res.OK && large && res.Retry == algo.Never:
		res.Retry = second
	case res.OK && r.Verb == weir.Take && a.N < r.N:
		rest := b.Do(algo.Ask{Op: algo.Charge, N: r.N - a.N, Now: a.Now})
		res.Granted, res.Balance, res.Reset = r.N, rest.Balance, rest.Reset
	}
	r.Limit.Spec().Fill(d, &res, e.at(m))
	d.Degraded = policy.Local
	return true
}
