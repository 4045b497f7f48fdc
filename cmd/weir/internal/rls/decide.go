package rls

import (
	"context"
	"fmt"
	"slices"

	"github.com/floodweir/weir"
)

// decide decides all checks of d, and with them the request.
//
// Everything is decided in one call, all or nothing. If only limits in quota or shadow
// mode deny, they are left out and the others are decided again. In the end exactly the
// limits that admit the request are charged.
func (s *Server) decide(ctx context.Context, d *decision) error {
	live := d.live[:0]
	for i := range d.checks {
		if d.checks[i].deciding {
			live = append(live, i)
		}
	}
	d.live, d.admitted = live, admitted(d.checks)
	for len(live) > 0 {
		asked := asIs
		if !d.admitted { // denied by a limit of 0
			asked = peek
			for _, i := range live {
				d.checks[i].peeked = true
			}
		}
		all, err := s.doAll(ctx, d, live, asked)
		if err != nil {
			return err
		}
		if !d.admitted {
			break
		}
		var rest []int
		for _, i := range live {
			switch a := &d.checks[i]; {
			case all:
				a.charged = a.request.Verb == weir.Take
			case a.ok:
				rest = append(rest, i)
			}
		}
		if d.admitted = admitted(d.checks); all || !d.admitted {
			break
		}
		if len(rest) == len(live) {
			return fmt.Errorf("%w: denied all limits together, but none of them", weir.ErrUnavailable)
		}
		live = rest
	}
	return s.settle(ctx, d)
}

// admitted reports whether the decisions so far admit the request.
func admitted(asks []check) bool {
	quotas, over := 0, 0
	for i := range asks {
		a := &asks[i]
		if !a.ok && a.role == enforced {
			return false
		}
		if a.quota && (a.limit == nil || !a.limit.Unlimited) {
			quotas++
			if !a.ok && a.role == quota {
				over++
			}
		}
	}
	return quotas == 0 || over < quotas
}

// settle sends what does not depend on the decision: hits over the limit that are
// counted, and refunds.
func (s *Server) settle(ctx context.Context, d *decision) error {
	var charges, refunds []int
	for i := range d.checks {
		switch a := &d.checks[i]; {
		case a.request.Verb == weir.Return:
			refunds = append(refunds, i)
		case !a.deciding || a.charged || a.request.Verb != weir.Take:
		case a.overLimit == countAll:
			charges = append(charges, i)
		case a.overLimit == countRemaining && (a.ok || a.decision.Remaining > 0):
			if !a.ok {
				a.request.N = min(a.request.N, a.decision.Remaining)
			}
			charges = append(charges, i)
		case a.ok && !a.peeked:
			// Remaining was computed as if the request were charged.
			a.decision.Remaining = min(a.decision.Remaining+a.request.N, a.limit.Limit.Capacity())
		}
	}
	was := make([]bool, len(charges))
	for i, at := range charges {
		was[i] = d.checks[at].ok
	}
	if err := s.apply(ctx, d, charges, charge); err != nil {
		return err
	}
	for i, at := range charges {
		d.checks[at].ok, d.checks[at].charged = was[i], true
	}
	if err := s.apply(ctx, d, refunds, asIs); err != nil {
		return err
	}
	if d.at.IsZero() {
		d.at = s.c.Now()
	}
	return nil
}

// apply sends requests that the store cannot deny.
func (s *Server) apply(ctx context.Context, d *decision, places []int, f mode) error {
	if len(places) == 0 {
		return nil
	}
	_, err := s.doAll(ctx, d, places, f)
	return err
}

// A mode selects the requests that are sent for a check.
type mode uint8

const (
	asIs   mode = iota // the request itself
	peek               // without a charge
	charge             // also over the limit
)

// requests appends the requests of a.
func (a *check) requests(rs []weir.Request, f mode) []weir.Request {
	r := a.request
	if a.override != nil && f != charge && r.Verb != weir.Return {
		guard := r
		guard.Verb = weir.Peek
		guard.N += a.override.reserved()
		if rs = append(rs, guard); r.Verb == weir.Peek || f == peek {
			return rs
		}
	}
	switch f {
	case peek:
		r.Verb = weir.Peek
	case charge:
		r.Verb = weir.Charge
	}
	return append(rs, r)
}

// setDecision sets the decision of a from the decisions of its requests.
func (a *check) setDecision(ds []weir.Decision) {
	a.decision = ds[len(ds)-1]
	if len(ds) > 1 && !ds[0].OK {
		a.decision = ds[0]
	}
	a.ok = a.decision.OK
	if a.override != nil {
		a.decision.Limit = a.limit.Limit
		a.decision.Remaining = max(0, a.decision.Remaining-a.override.reserved())
	}
}

// doAll sends the requests of the checks with the given indexes to the store.
func (s *Server) doAll(ctx context.Context, d *decision, places []int, f mode) (bool, error) {
	rs, ends := slices.Grow(d.requests[:0], len(places)), d.ends[:0]
	for _, at := range places {
		rs = d.checks[at].requests(rs, f)
		ends = append(ends, len(rs))
	}
	ds := slices.Grow(d.decisions[:0], len(rs))[:len(rs)]
	d.requests, d.ends, d.decisions = rs, ends, ds
	all, err := s.ask(ctx, rs, ds)
	if err != nil {
		return false, err
	}
	from := 0
	for i, at := range places {
		d.checks[at].setDecision(ds[from:ends[i]])
		from = ends[i]
	}
	for i := range ds {
		if !ds[i].At.IsZero() {
			d.at = ds[i].At
			break
		}
	}
	return all, nil
}

// ask sends requests to the store together. A store decides a single one faster, and with those
// of other callers.
func (s *Server) ask(ctx context.Context, rs []weir.Request, ds []weir.Decision) (all bool, err error) {
	if len(rs) > 1 {
		return s.c.Store.DoAll(ctx, rs, ds)
	}
	ds[0], err = s.c.Store.Do(ctx, rs[0])
	return ds[0].OK, err
}
