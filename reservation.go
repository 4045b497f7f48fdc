package weir

import (
	"context"
	"time"
)

// A Reservation holds tokens that were taken under an id, to be settled later. If it
// is not settled within its TTL, the store gives the tokens back. Its methods are
// idempotent and safe for concurrent use; the first settlement counts.
type Reservation struct {
	store Store
	r     Request
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
	return Reservation{l.store, r}, d, err
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
	return Reservation{l.store, r}, nil
}

// Commit settles the reservation at actual tokens: fewer than reserved go back, more
// are charged, into debt if need be. An error wraps ErrNoReservation if the tokens
// have gone back already.
func (r Reservation) Commit(ctx context.Context, actual int64) (Decision, error) {
	r.r.Verb, r.r.N = Commit, actual
	return r.store.Do(ctx, r.r)
}

// Cancel settles the reservation at 0 tokens: all of them go back.
func (r Reservation) Cancel(ctx context.Context) (Decision, error) {
	r.r.Verb, r.r.N = Cancel, 0
	return r.store.Do(ctx, r.r)
}

// Extend renews a slot of a concurrency limit for another ttl, as a heartbeat. It
// takes the slot again if it expired and one is free; otherwise the decision is a
// denial. Other reservations cannot be extended: Extend changes nothing while they
// last.
func (r Reservation) Extend(ctx context.Context, ttl time.Duration) (Decision, error) {
	r.r.Verb, r.r.TTL = Reserve, ttl
	return r.store.Do(ctx, r.r)
}
