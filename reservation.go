package weir

import (
	"context"
	"time"
)

// A Reservation is tokens taken under an id, to be settled later. If nobody
// settles it within its TTL, its tokens go back by themselves. Its methods are
// idempotent, and safe for concurrent use; the first settlement counts.
type Reservation struct {
	store Store
	r     Request
}

// Reserve takes n tokens of key under id for ttl, from 1 µs to 30 days. The
// decision says whether it was admitted; if not, there is nothing to settle.
// Reserving an id of the key again charges nothing and answers as the first
// time, so that a lost answer can be asked for again. Of a concurrency limit, n
// slots are held, and reserving again holds them for another ttl.
func (l *Limiter) Reserve(ctx context.Context, key, id string, n int64, ttl time.Duration) (Reservation, Decision, error) {
	r, err := l.Request(ctx, key, n)
	if err != nil {
		return Reservation{}, Decision{}, err
	}
	r.Verb, r.ID, r.TTL = Reserve, id, ttl
	d, err := l.store.Do(ctx, r)
	return Reservation{l.store, r}, d, err
}

// Reservation is the handle of a reservation made elsewhere or before: of id on
// key. It asks nothing. Extended after it is gone, it is made anew, of one slot.
func (l *Limiter) Reservation(ctx context.Context, key, id string) (Reservation, error) {
	r, err := l.Request(ctx, key, 1)
	if err != nil {
		return Reservation{}, err
	}
	r.Verb, r.ID = Reserve, id
	return Reservation{l.store, r}, nil
}

// Commit settles the reservation at actual tokens: fewer than reserved go back,
// more are charged, into debt if need be. An error wraps ErrNoReservation if the
// tokens have gone back already.
func (r Reservation) Commit(ctx context.Context, actual int64) (Decision, error) {
	r.r.Verb, r.r.N = Commit, actual
	return r.store.Do(ctx, r.r)
}

// Cancel settles the reservation at nothing: its tokens go back.
func (r Reservation) Cancel(ctx context.Context) (Decision, error) {
	r.r.Verb, r.r.N = Cancel, 0
	return r.store.Do(ctx, r.r)
}

// Extend holds a slot of a concurrency limit for another ttl: its heartbeat. A
// slot that was freed meanwhile is taken again, if one is free: the decision says
// so. Other reservations cannot be extended; Extend is then a Reserve again, which
// changes nothing while they last.
func (r Reservation) Extend(ctx context.Context, ttl time.Duration) (Decision, error) {
	r.r.Verb, r.r.TTL = Reserve, ttl
	return r.store.Do(ctx, r.r)
}
