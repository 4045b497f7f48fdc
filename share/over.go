package share

import (
	"context"
	"errors"

	"github.com/floodweir/weir"
	"github.com/floodweir/weir/internal/bounds"
	"github.com/floodweir/weir/internal/missing"
)

// Calls returns the store of the requests that need a call: it decides by the ledger, and by the
// strict store. It is the store below a failover.Store, for Over.
func (s *Store) Calls() weir.Store { return calls{s} }

// A calls is a Store that does not measure demand. A single request is decided without the share.
type calls struct{ s *Store }

// Do implements [weir.Store].
func (c calls) Do(ctx context.Context, r weir.Request) (d weir.Decision, err error) {
	if err := r.Validate(); err != nil {
		return d, err
	}
	if c.s.closed.Load() {
		return d, errClosed
	}
	hash, _ := c.s.find(&r)
	return c.s.ask(ctx, r, hash)
}

// DoAll implements [weir.Store].
func (c calls) DoAll(ctx context.Context, rs []weir.Request, ds []weir.Decision) (bool, error) {
	if err := bounds.Check("share", weir.ErrInvalid, rs, len(ds)); err != nil {
		return false, err
	}
	return c.s.doAll(ctx, rs, ds, c.s.strict, c.again)
}

// again decides a request of a batch whose demand is measured already.
func (c calls) again(ctx context.Context, r weir.Request) (d weir.Decision, err error) {
	if d, err = c.s.byShare(ctx, r); err == nil {
		return d, nil
	}
	return c.Do(ctx, r)
}

// Over returns a store that decides by the shares of s. It passes requests that need a call to
// called, which is [Store.Calls] behind a store such as failover.Store. It passes those whose limits
// are not divided to strict, which may have a cache in addition.
//
// While called returns errors that wrap weir.ErrUnavailable or weir.ErrOverloaded, this process decides by its shares
// alone, until their leases end: an empty share denies. A request without a share gets the error.
// Without called or strict it returns the missing one, which constructors reject.
func (s *Store) Over(called, strict weir.Store) weir.Store {
	if store, found := missing.First(called, strict); found {
		return store
	}
	return &over{s, called, strict}
}

type over struct {
	s              *Store
	called, strict weir.Store
}

// Do implements [weir.Store].
func (o *over) Do(ctx context.Context, r weir.Request) (d weir.Decision, err error) {
	if err := r.Validate(); err != nil {
		return d, err
	}
	if o.s.closed.Load() {
		return d, errClosed
	}
	if !o.s.c.divided(r.Key) {
		return o.strict.Do(ctx, r)
	}
	if _, e := o.s.find(&r); e != nil {
		if e.decide(&r, o.s.clock.now(), &d) {
			return d, nil
		}
	} else if _, err := o.s.limits.divide(r.Limit); err != nil {
		return o.strict.Do(ctx, r)
	}
	if d, err = o.called.Do(ctx, r); unavailableFor(ctx, err) {
		if d, err := o.s.alone(ctx, r); err == nil {
			return d, nil
		}
	}
	return d, err
}

// unavailableFor reports whether shares decide alone after err.
func unavailableFor(ctx context.Context, err error) bool {
	return (errors.Is(err, weir.ErrUnavailable) || errors.Is(err, weir.ErrOverloaded)) && ctx.Err() == nil
}

// DoAll implements [weir.Store]. Requests under limits that are not divided go to called together
// with the others.
func (o *over) DoAll(ctx context.Context, rs []weir.Request, ds []weir.Decision) (bool, error) {
	if err := bounds.Check("share", weir.ErrInvalid, rs, len(ds)); err != nil {
		return false, err
	}
	divided := o.s.count(rs)
	if divided == 0 {
		return o.strict.DoAll(ctx, rs, ds)
	}
	for i := range rs {
		o.s.measure(&rs[i]) // a strict one has no entry
	}
	if divided == len(rs) {
		if ok, err := o.s.doAll(ctx, rs, ds, o.s.strict, o.s.byShare); !errors.Is(err, errNoShare) {
			return ok, err
		}
	}
	ok, err := o.called.DoAll(ctx, rs, ds)
	if divided == len(rs) && unavailableFor(ctx, err) {
		if ok, err := o.s.doAll(ctx, rs, ds, o.s.strict, o.s.alone); err == nil {
			return ok, nil
		}
	}
	return ok, err
}

// errNoShare means that a share cannot decide a request.
var errNoShare = errors.New("share: not decided by a share")

// byShare decides a request without a call, and does not measure demand.
func (s *Store) byShare(_ context.Context, r weir.Request) (d weir.Decision, err error) {
	if _, e := s.find(&r); e != nil {
		e.mu.Lock()
		defer e.mu.Unlock()
		if e.decideMeasured(&r, s.clock.now(), &d) {
			return d, nil
		}
	}
	return d, errNoShare
}

// alone decides a request by a share while the ledger is unavailable.
func (s *Store) alone(_ context.Context, r weir.Request) (d weir.Decision, err error) {
	if _, e := s.find(&r); e != nil && e.decideAlone(&r, s.clock.now(), &d) {
		return d, nil
	}
	return d, errNoShare
}

// measure adds a request to the demand for its key.
func (s *Store) measure(r *weir.Request) {
	if _, e := s.find(r); e != nil {
		e.mu.Lock()
		e.measure(r, s.clock.now())
		e.mu.Unlock()
	}
}
