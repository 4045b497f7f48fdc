package regions

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"

	"github.com/floodweir/weir"
	"github.com/floodweir/weir/internal/bounds"
	"github.com/floodweir/weir/internal/missing"
)

// Config describes how a region decides. All regions need the same Rest, and together with it their
// parts are at most 100. To change them, first put smaller ones into force in all regions, then
// larger ones.
type Config struct {
	// Part is the part of each limit that this region has for itself, in percent, from 0 to 100.
	Part int

	// Rest is the part that all regions share by the second store, in percent, from 0 to 100.
	Rest int

	// Divided, if not nil, reports whether the limits of a key are divided. The own store decides
	// the others as they are. It is called for each request, so it must be quick and safe for
	// concurrent use.
	Divided func(key string) bool
}

// A Store decides by the part of a region and by the rest. New makes it. It is safe for concurrent
// use.
type Store struct {
	own, rest weir.Store
	divided   func(key string) bool
	limits    divisions
	stats     struct{ own, rest, denied, undecided atomic.Int64 }
}

var _ weir.Store = (*Store)(nil)

// New returns a store that decides by the part of this region in own, and by the rest in the store
// rest, which is nil if Config.Rest is 0. An error wraps weir.ErrInvalid.
func New(own, rest weir.Store, c Config) (*Store, error) {
	bad := func(field string, value any, want string) (*Store, error) {
		return nil, fmt.Errorf("regions: %s: %w: got %v, want %s", field, weir.ErrInvalid, value, want)
	}
	switch {
	case missing.Value(own):
		return bad("own store", "nil", "the store of this region")
	case c.Part < 0 || c.Part > 100:
		return bad("Part", c.Part, "0 to 100")
	case c.Rest < 0 || c.Part+c.Rest > 100:
		return bad("Rest", c.Rest, fmt.Sprintf("0 to %d, so that it and Part are at most 100", 100-c.Part))
	case c.Part+c.Rest == 0:
		return bad("Part", 0, "a Part or a Rest")
	case c.Rest > 0 && missing.Value(rest):
		return bad("rest store", "nil", "the store that all regions share")
	}
	return &Store{own: own, rest: rest, divided: c.Divided, limits: divisions{own: c.Part, rest: c.Rest}}, nil
}

// Stats are the counts of a Store. A denial that repeats after a retry counts again.
type Stats struct {
	Own       int64 // requests that the own part admitted
	Rest      int64 // requests that the rest admitted
	Denied    int64 // requests that both denied
	Undecided int64 // requests that the own part denied while the store of the rest returned an error
}

// Stats returns the counts.
func (s *Store) Stats() Stats {
	return Stats{s.stats.own.Load(), s.stats.rest.Load(), s.stats.denied.Load(), s.stats.undecided.Load()}
}

// Limits returns the limits by which this region decides a key under l: that of its part and that of
// the rest. One that it does not have is zero. If the key is not divided, own is l.
func (s *Store) Limits(key string, l weir.Limit) (own, rest weir.Limit, err error) {
	if s.divided != nil && !s.divided(key) {
		return l, weir.Limit{}, nil
	}
	d := s.limits.of(l)
	return d.own, d.rest, d.err
}

// under returns r under another limit, and its former limits in the same way.
func (s *Store) under(r weir.Request, l weir.Limit, of func(division) weir.Limit) weir.Request {
	r.Limit = l
	if len(r.From) == 0 {
		return r
	}
	from := make([]weir.Limit, 0, len(r.From))
	for _, f := range r.From {
		if f = of(s.limits.of(f)); !f.IsZero() {
			from = append(from, f)
		}
	}
	r.From = from
	return r
}

func ofOwn(d division) weir.Limit  { return d.own }
func ofRest(d division) weir.Limit { return d.rest }

// asks reports whether the rest decides a request that the own part denies.
func asks(r *weir.Request) bool { return r.Verb <= weir.Peek }

// Do implements [weir.Store].
func (s *Store) Do(ctx context.Context, r weir.Request) (d weir.Decision, err error) {
	if err := r.Validate(); err != nil {
		return d, err
	}
	if s.divided != nil && !s.divided(r.Key) {
		return s.own.Do(ctx, r)
	}
	l := s.limits.of(r.Limit)
	if l.err != nil {
		return d, l.err
	}
	has := !l.own.IsZero()
	if has {
		d, err = s.own.Do(ctx, s.under(r, l.own, ofOwn))
		d.Limit = r.Limit
		switch {
		case err != nil:
			return weir.Decision{}, err
		case r.Verb == weir.Reset && !l.rest.IsZero():
			_, err := s.rest.Do(ctx, s.under(r, l.rest, ofRest))
			return d, err
		case d.OK || !asks(&r) || l.rest.IsZero():
			s.count(&r, &d, &s.stats.own)
			return d, nil
		}
	}
	e, err := s.rest.Do(ctx, s.under(r, l.rest, ofRest))
	switch {
	case err != nil && has:
		s.stats.undecided.Add(1)
		return d, nil
	case err != nil:
		return weir.Decision{}, err
	}
	s.count(&r, &e, &s.stats.rest)
	return merge(&r, d, e, has), nil
}

// count counts a decision of a request that takes tokens.
func (s *Store) count(r *weir.Request, d *weir.Decision, by *atomic.Int64) {
	switch {
	case r.Verb > weir.TakeUpTo && r.Verb != weir.Reserve || r.N == 0:
	case d.OK:
		by.Add(1)
	default:
		s.stats.denied.Add(1)
	}
}

// merge returns the decision e of the rest, after the denial d of the own part if there was one.
func merge(r *weir.Request, d, e weir.Decision, denied bool) weir.Decision {
	e.Limit = r.Limit
	if denied {
		e.Remaining, e.ResetAfter = max(d.Remaining, e.Remaining), max(d.ResetAfter, e.ResetAfter)
		e.Debt = max(d.Debt, e.Debt)
		e.RetryAfter = min(d.RetryAfter, e.RetryAfter)
	}
	return e
}

// DoAll implements [weir.Store]. Requests that the rest decides are decided before those of the own
// part, and given back if another request is denied. Meanwhile others may be denied for their
// tokens. If the process ends in between, the tokens stay charged.
func (s *Store) DoAll(ctx context.Context, rs []weir.Request, ds []weir.Decision) (bool, error) {
	if err := bounds.Check("regions", weir.ErrInvalid, rs, len(ds)); err != nil {
		return false, err
	}
	b := newBatch(s, rs)
	if b.err != nil {
		return false, b.err
	}
	ok, err := b.try(ctx, ds)
	if err != nil || ok {
		return s.settled(ctx, b, ds, ok, err)
	}
	if !b.move(ds) {
		return s.settled(ctx, b, ds, false, nil)
	}
	own := make([]weir.Decision, len(ds))
	copy(own, ds)
	ok, err = b.try(ctx, ds)
	if errors.Is(err, errRest) {
		for i := range ds { // the denial of the own part stands
			ds[i], ds[i].Limit = own[i], rs[i].Limit
		}
		s.stats.undecided.Add(1)
		return false, nil
	}
	if err == nil {
		for i := range ds {
			if b.moved[i] {
				ds[i] = merge(&rs[i], own[i], ds[i], true)
			}
		}
	}
	return s.settled(ctx, b, ds, ok, err)
}

// settled completes the decisions of a batch.
func (s *Store) settled(ctx context.Context, b *batch, ds []weir.Decision, ok bool, err error) (bool, error) {
	if err != nil {
		return false, err
	}
	for i := range ds {
		ds[i].Limit = b.rs[i].Limit
		switch r := &b.rs[i]; {
		case !b.divided[i]:
		case r.Verb == weir.Reset && ok && !b.rest[i] && !b.limits[i].rest.IsZero():
			if _, err := s.rest.Do(ctx, s.under(*r, b.limits[i].rest, ofRest)); err != nil {
				return false, err
			}
		case b.rest[i]:
			s.count(r, &ds[i], &s.stats.rest)
		default:
			s.count(r, &ds[i], &s.stats.own)
		}
	}
	return ok, nil
}
