package weir

import (
	"context"
	"errors"
	"math"
	"slices"
	"time"
)

// A Reservation holds tokens that were taken under an id, to be settled later. If it
// is not settled within its TTL, the store gives the tokens back. Its methods are
// idempotent and safe for concurrent use; the first settlement counts.
//
// A reservation stays the same when the limit of its key changes. It is settled and
// extended under the limit that the Limiter has for the key then. If LimitFunc returns an
// error, that is the limit under which it was made.
type Reservation struct {
	limiter *Limiter
	r       Request // as it was made
}

// Reserve takes n tokens of key under id for ttl, from 1 µs to 30 days. If the
// decision denies it, there is nothing to settle. Reserving an id of the key again
// charges nothing and returns the first result, so a caller that lost it can ask
// again. Under a concurrency limit it takes n slots, and reserving again renews them.
func (l *Limiter) Reserve(ctx context.Context, key, id string, n int64, ttl time.Duration) (Reservation, Decision, error) {
	r, err := l.Request(ctx, key, n)
	if err != nil {
		return Reservation{}, Decision{}, err
	}
	r.Verb, r.ID, r.TTL = Reserve, id, ttl
	d, err := l.store.Do(ctx, r)
	return Reservation{l, r}, d, err
}

// Reservation returns the handle of a reservation that was made elsewhere: of id on
// key. It does not ask the store. Extend makes an expired reservation anew, of one
// slot.
func (l *Limiter) Reservation(ctx context.Context, key, id string) (Reservation, error) {
	r, err := l.Request(ctx, key, 1)
	if err != nil {
		return Reservation{}, err
	}
	r.Verb, r.ID = Reserve, id
	return Reservation{l, r}, nil
}

// Commit settles the reservation at actual tokens: fewer than reserved go back, more
// are charged, into debt if need be. An error wraps ErrNoReservation if the tokens
// have gone back already.
func (r Reservation) Commit(ctx context.Context, actual int64) (Decision, error) {
	r.r.Verb, r.r.N = Commit, actual
	return r.do(ctx)
}

// Cancel settles the reservation at 0 tokens: all of them go back.
func (r Reservation) Cancel(ctx context.Context) (Decision, error) {
	r.r.Verb, r.r.N = Cancel, 0
	return r.do(ctx)
}

// Extend renews a slot of a concurrency limit for another ttl, as a heartbeat. It
// takes the slot again if it expired and one is free; otherwise the decision is a
// denial. Other reservations cannot be extended: Extend changes nothing while they
// last.
func (r Reservation) Extend(ctx context.Context, ttl time.Duration) (Decision, error) {
	r.r.Verb, r.r.TTL = Reserve, ttl
	return r.do(ctx)
}

// do sends the request of r under the present limit of its key. If the limit changes
// meanwhile, the reservation may have moved to the next one, so do sends it again.
func (r Reservation) do(ctx context.Context) (Decision, error) {
	q := r.present(ctx)
	for {
		d, err := r.limiter.store.Do(ctx, q)
		if !errors.Is(err, ErrNoReservation) {
			return d, err
		}
		next := r.present(ctx)
		if next.Limit == q.Limit {
			return d, err
		}
		q = next
	}
}

// present returns the request of r under the present limit of its key, with the limits
// before it as From.
func (r Reservation) present(ctx context.Context) Request {
	q := r.r
	now, err := r.limiter.Request(ctx, q.Key[len(r.limiter.prefix):], q.N)
	// A slot does not become tokens, nor tokens a slot.
	if err != nil || now.Limit.IsConcurrency() != q.Limit.IsConcurrency() {
		return q
	}
	q.Limit, q.From, q.Carry = now.Limit, now.From, now.Carry
	if q.Limit != r.r.Limit {
		all := rules{limit: q.Limit, from: slices.Clip(q.From)}
		all.add(math.MaxInt, r.r.Limit)
		all.add(math.MaxInt, r.r.From...)
		q.From = all.from
	}
	return q
}
