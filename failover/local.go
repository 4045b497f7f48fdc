package failover

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/floodweir/weir"
	"github.com/floodweir/weir/internal/bounds"
	"github.com/floodweir/weir/internal/missing"
	"github.com/floodweir/weir/policy"
)

// largeRetry is the RetryAfter of a request above the capacity of the share, but not above
// that of the limit: the store may be available again by then.
const largeRetry = time.Second

// NewLocal returns a store that decides by one node's [Share] of every limit. The shares are
// limits in store, which is in memory. Decisions are Degraded policy.Local. Their Limit is
// that of the request; Remaining, RetryAfter and ResetAfter are those of the share. An error
// wraps weir.ErrInvalid.
//
// A Take may cost more than the capacity of the share and fit the limit. A bucket with a full
// share admits it, and the rest is a debt, so the rate holds. Other limits lose a debt at
// the end of their window; they deny it with a RetryAfter of one second. Peek reports the
// decision of Take. Reserve decides like Take, and Commit charges the rest.
//
// Commit or Cancel of an unknown reservation is OK: it was made in the store that is
// unavailable, and is returned there at its TTL.
func NewLocal(store weir.Store, nodes int) (weir.Store, error) {
	switch {
	case missing.Value(store):
		return nil, fmt.Errorf("failover: store: %w: got nil, want a store such as that of package memstore", weir.ErrInvalid)
	case nodes < 1 || nodes > MaxNodes:
		return nil, fmt.Errorf("failover: nodes: %w: got %d, want 1 to %d", weir.ErrInvalid, nodes, MaxNodes)
	}
	s := &local{store: store, shares: shares{nodes: int64(nodes)}}
	s.batches.New = func() any { return new(batch) }
	return s, nil
}

// A local is a store that decides by shares.
type local struct {
	store   weir.Store
	shares  shares
	batches sync.Pool
}

// Do implements [weir.Store].
func (s *local) Do(ctx context.Context, r weir.Request) (weir.Decision, error) {
	if err := r.Validate(); err != nil {
		return weir.Decision{}, err
	}
	asked := r
	p := s.fit(&r)
	if p == fitDebt {
		rs, ds := [1]weir.Request{asked}, [1]weir.Decision{}
		_, err := s.DoAll(ctx, rs[:], ds[:])
		return ds[0], err
	}
	d, err := s.settle(ctx, r)
	if err != nil {
		return weir.Decision{}, err
	}
	complete(&asked, p, &d)
	return d, nil
}

// settle decides a request. An unknown reservation counts as settled.
func (s *local) settle(ctx context.Context, r weir.Request) (weir.Decision, error) {
	d, err := s.store.Do(ctx, r)
	if err == nil || !errors.Is(err, weir.ErrNoReservation) {
		return d, err
	}
	n := r.N
	if r.Verb == weir.Cancel {
		n = 0
	}
	toPeek(&r)
	d, err = s.store.Do(ctx, r)
	d.Granted = n
	return d, err
}

// toPeek makes r a Peek of 0 tokens.
func toPeek(r *weir.Request) {
	*r = weir.Request{Verb: weir.Peek, Key: r.Key, Limit: r.Limit}
}

// A fit is the way in which a request is decided by a share.
type fit uint8

const (
	fitAll   fit = iota // unchanged
	fitFull             // the request is cut to the capacity of the share
	fitDebt             // like fitFull, and the rest is charged
	fitLater            // above the capacity of the share, not of the limit: denied
)

// fit replaces the limit of r by its share.
func (s *local) fit(r *weir.Request) fit {
	limit := r.Limit
	r.Limit = s.shares.of(limit)
	if len(r.From) > 0 {
		from := make([]weir.Limit, len(r.From))
		for i, l := range r.From {
			if !l.IsZero() {
				from[i] = s.shares.of(l)
			}
		}
		r.From = from
	}
	most := r.Limit.Capacity()
	if r.N <= most || r.N > limit.Capacity() {
		return fitAll
	}
	switch r.Verb {
	case weir.Take, weir.Peek, weir.Reserve:
	default:
		return fitAll
	}
	switch r.Limit.Config().(type) {
	case weir.TokenBucket, weir.LeakyBucket:
	default:
		return fitLater
	}
	r.N = most
	if r.Verb == weir.Take {
		return fitDebt
	}
	return fitFull
}

// complete turns the decision of the share into one of the request.
func complete(asked *weir.Request, p fit, d *weir.Decision) {
	d.Limit, d.Degraded = asked.Limit, policy.Local
	switch {
	case p == fitLater && !d.OK:
		d.RetryAfter = largeRetry
	case p == fitFull && d.OK && asked.Verb == weir.Reserve:
		d.Granted = asked.N
	}
}

// A batch has the requests to the shares.
type batch struct {
	rs   []weir.Request
	ds   []weir.Decision
	fits []fit
}

// DoAll implements [weir.Store].
func (s *local) DoAll(ctx context.Context, rs []weir.Request, ds []weir.Decision) (bool, error) {
	if err := bounds.Check("failover", weir.ErrInvalid, rs, len(ds)); err != nil {
		return false, err
	}
	b := s.batches.Get().(*batch)
	defer func() {
		clear(b.rs)
		clear(b.ds)
		s.batches.Put(b)
	}()
	s.encode(b, rs)
	ok, err := s.store.DoAll(ctx, b.rs, b.ds)
	if errors.Is(err, weir.ErrNoReservation) {
		ok, err = s.settleAll(ctx, b)
	}
	if err != nil {
		return false, err
	}
	b.decode(rs, ds)
	return ok, nil
}

// encode replaces the limits of the requests by shares.
func (s *local) encode(b *batch, rs []weir.Request) {
	b.rs, b.fits = b.rs[:0], b.fits[:0]
	for i := range rs {
		r := rs[i]
		p := s.fit(&r)
		if p == fitDebt && len(b.rs)+len(rs)-i >= bounds.MaxBatch {
			p, r.N = fitLater, rs[i].N // the batch has no room for another charge
		}
		b.rs, b.fits = append(b.rs, r), append(b.fits, p)
		if p == fitDebt {
			b.rs = append(b.rs, weir.Request{Verb: weir.Charge, Key: r.Key, Limit: r.Limit, N: rs[i].N - r.N})
		}
	}
	if cap(b.ds) < len(b.rs) {
		b.ds = make([]weir.Decision, len(b.rs))
	}
	b.ds = b.ds[:len(b.rs)]
}

// decode gives the requests their decisions.
func (b *batch) decode(rs []weir.Request, ds []weir.Decision) {
	n := 0
	for i := range rs {
		d := b.ds[n]
		n++
		if b.fits[i] == fitDebt {
			if rest := &b.ds[n]; d.OK {
				if l, ok := rs[i].Limit.Config().(weir.LeakyBucket); ok && l.Queue {
					d.Delay += rest.ResetAfter - d.ResetAfter
				}
				d.Granted, d.Remaining, d.ResetAfter = rs[i].N, rest.Remaining, rest.ResetAfter
			}
			n++
		}
		complete(&rs[i], b.fits[i], &d)
		ds[i] = d
	}
}

// settleAll decides a batch with unknown reservations: first together the requests that can
// be denied, then each settlement by itself.
func (s *local) settleAll(ctx context.Context, b *batch) (bool, error) {
	settle := make([]weir.Request, len(b.rs))
	for i := range b.rs {
		if v := b.rs[i].Verb; v == weir.Commit || v == weir.Cancel {
			settle[i] = b.rs[i]
			toPeek(&b.rs[i])
		}
	}
	ok, err := s.store.DoAll(ctx, b.rs, b.ds)
	if err != nil || !ok {
		return false, err
	}
	for i := range settle {
		if settle[i].Verb == weir.Take {
			continue // none
		}
		d, err := s.settle(ctx, settle[i])
		if err != nil {
			return false, err
		}
		b.ds[i] = d
	}
	return true, nil
}
