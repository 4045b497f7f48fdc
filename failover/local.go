package failover

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/floodweir/weir"
	"github.com/floodweir/weir/internal/bounds"
	"github.com/floodweir/weir/policy"
)

// largeRetry is what a request hears that asks for more than a share ever gives, but
// not for more than its limit: the store may be back by then.
const largeRetry = time.Second

// NewLocal is a store that decides by one node's [Share] of every limit, which it keeps
// in store, one in memory. Its decisions are Degraded policy.Local and name the
// limit that was asked about; Remaining, RetryAfter and ResetAfter are those of the
// share. An error wraps weir.ErrInvalid.
//
// A Take above the share's capacity, but not above the limit's own, is admitted by a
// bucket whose share is full, and leaves the rest as debt: so it gets through, and the
// rate stays what it is. Of other limits, which forget a debt with their window, it is
// denied, with a RetryAfter of one second. A Peek says what Take would, and a Reserve
// does as Take, but for the rest, which Commit charges.
//
// Commit or Cancel of a reservation that is not known is OK: it was made in the store
// that does not answer, and goes back there at its TTL.
func NewLocal(store weir.Store, nodes int) (weir.Store, error) {
	switch {
	case store == nil:
		return nil, fmt.Errorf("failover: store: %w: want a store such as that of package memstore, got nil", weir.ErrInvalid)
	case nodes < 1 || nodes > MaxNodes:
		return nil, fmt.Errorf("failover: nodes: %w: want 1 to %d, got %d", weir.ErrInvalid, MaxNodes, nodes)
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
	p := s.part(&r)
	if p == partDebt {
		rs, ds := [1]weir.Request{asked}, [1]weir.Decision{}
		_, err := s.DoAll(ctx, rs[:], ds[:])
		return ds[0], err
	}
	d, err := s.settle(ctx, r)
	if err != nil {
		return weir.Decision{}, err
	}
	finish(&asked, p, &d)
	return d, nil
}

// settle has the store decide a request, and takes a reservation that it does not know
// as settled.
func (s *local) settle(ctx context.Context, r weir.Request) (weir.Decision, error) {
	d, err := s.store.Do(ctx, r)
	if err == nil || !errors.Is(err, weir.ErrNoReservation) {
		return d, err
	}
	n := r.N
	if r.Verb == weir.Cancel {
		n = 0
	}
	question(&r)
	d, err = s.store.Do(ctx, r)
	d.Granted = n
	return d, err
}

// question makes r ask for nothing.
func question(r *weir.Request) {
	*r = weir.Request{Verb: weir.Peek, Key: r.Key, Limit: r.Limit}
}

// A part is what becomes of a request that is put to a share.
type part uint8

const (
	partAll   part = iota // the share is asked the same
	partFull              // the share is asked for all that it ever gives, in place of more
	partDebt              // and then charged the rest
	partLater             // the share never gives that much, but the limit does
)

// part puts r to the share of its limit.
func (s *local) part(r *weir.Request) part {
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
		return partAll
	}
	switch r.Verb {
	case weir.Take, weir.Peek, weir.Reserve:
	default:
		return partAll
	}
	switch r.Limit.Config().(type) {
	case weir.TokenBucket, weir.LeakyBucket:
	default:
		return partLater
	}
	r.N = most
	if r.Verb == weir.Take {
		return partDebt
	}
	return partFull
}

// finish makes the share's decision one about the request that was asked.
func finish(asked *weir.Request, p part, d *weir.Decision) {
	d.Limit, d.Degraded = asked.Limit, policy.Local
	switch {
	case p == partLater && !d.OK:
		d.RetryAfter = largeRetry
	case p == partFull && d.OK && asked.Verb == weir.Reserve:
		d.Granted = asked.N
	}
}

// A batch is requests as they are put to shares.
type batch struct {
	rs    []weir.Request
	ds    []weir.Decision
	parts []part
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
	s.load(b, rs)
	ok, err := s.store.DoAll(ctx, b.rs, b.ds)
	if errors.Is(err, weir.ErrNoReservation) {
		ok, err = s.settleAll(ctx, b)
	}
	if err != nil {
		return false, err
	}
	b.unload(rs, ds)
	return ok, nil
}

// load puts the requests to shares.
func (s *local) load(b *batch, rs []weir.Request) {
	b.rs, b.parts = b.rs[:0], b.parts[:0]
	for i := range rs {
		r := rs[i]
		p := s.part(&r)
		if p == partDebt && len(b.rs)+len(rs)-i >= bounds.MaxBatch {
			p, r.N = partLater, rs[i].N // there is no room for another charge
		}
		b.rs, b.parts = append(b.rs, r), append(b.parts, p)
		if p == partDebt {
			b.rs = append(b.rs, weir.Request{Verb: weir.Charge, Key: r.Key, Limit: r.Limit, N: rs[i].N - r.N})
		}
	}
	if cap(b.ds) < len(b.rs) {
		b.ds = make([]weir.Decision, len(b.rs))
	}
	b.ds = b.ds[:len(b.rs)]
}

// unload gives the requests their decisions.
func (b *batch) unload(rs []weir.Request, ds []weir.Decision) {
	n := 0
	for i := range rs {
		d := b.ds[n]
		n++
		if b.parts[i] == partDebt {
			if rest := &b.ds[n]; d.OK {
				if l, ok := rs[i].Limit.Config().(weir.LeakyBucket); ok && l.Queue {
					d.Delay += rest.ResetAfter - d.ResetAfter
				}
				d.Granted, d.Remaining, d.ResetAfter = rs[i].N, rest.Remaining, rest.ResetAfter
			}
			n++
		}
		finish(&rs[i], b.parts[i], &d)
		ds[i] = d
	}
}

// settleAll decides a batch with reservations that the store does not know: what can be
// denied together first, and then each settlement by itself, as none can be denied.
func (s *local) settleAll(ctx context.Context, b *batch) (bool, error) {
	settle := make([]weir.Request, len(b.rs))
	for i := range b.rs {
		if v := b.rs[i].Verb; v == weir.Commit || v == weir.Cancel {
			settle[i] = b.rs[i]
			question(&b.rs[i])
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
