package redisstore

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/floodweir/weir"
	"github.com/floodweir/weir/internal/bounds"
	"github.com/floodweir/weir/internal/outline"
)

// A Store is a weir.Store in Redis. It is safe for concurrent use, and keeps
// nothing but what waits to be asked.
type Store struct {
	conn    Conn
	config  Config
	prefix  string // of every key
	slack   int64  // ms by which TTLs are prolonged
	cluster bool
	rules   rules

	mu      sync.Mutex
	queue   []*op // what waits for a round trip
	flying  int   // round trips under way
	closed  bool
	flights sync.WaitGroup
}

var _ weir.Store = (*Store)(nil)

// New makes a store over a connection. It sends nothing: Redis may come later,
// and [Store.Probe] looks at what there is. An error wraps weir.ErrInvalid.
func New(conn Conn, c Config) (*Store, error) {
	if conn == nil {
		return nil, fmt.Errorf("redisstore: conn: %w: want a connection such as that of contrib/rueidis, got nil", weir.ErrInvalid)
	}
	cluster := conn.Cluster()
	if err := c.normalize(cluster); err != nil {
		return nil, err
	}
	return &Store{
		conn:    conn,
		config:  c,
		cluster: cluster,
		prefix:  outline.KeyPrefix(c.Prefix),
		slack:   int64((c.Skew + time.Millisecond - 1) / time.Millisecond),
	}, nil
}

// Close waits for the round trips that are under way and for what waits for one;
// from then on requests get weir.ErrClosed. It does not close the connection.
// Closing again does nothing. It never fails.
func (s *Store) Close() error {
	s.mu.Lock()
	s.closed = true
	s.mu.Unlock()
	s.flights.Wait()
	return nil
}

// Do implements weir.Store. It takes one round trip, which it may share with
// other requests. When ctx ends Do returns, but the request may have been, or may
// still be, charged.
func (s *Store) Do(ctx context.Context, r weir.Request) (weir.Decision, error) {
	if err := r.Validate(); err != nil {
		return weir.Decision{}, err
	}
	o := &op{mode: each}
	o.one[0] = r
	o.rs, o.ds = o.one[:], o.oneD[:]
	if len(r.From) > 0 {
		o.one[0].From = slices.Clone(r.From) // the caller may leave before it is read
	}
	if err := s.ask(ctx, o); err != nil {
		return weir.Decision{}, err
	}
	if o.err != nil {
		return weir.Decision{}, o.err
	}
	return o.ds[0], nil
}

// DoAll implements weir.Store. Requests whose keys share a slot, as all do
// outside of a cluster, are decided in one step of Redis. Of several slots, see
// the package's documentation.
func (s *Store) DoAll(ctx context.Context, rs []weir.Request, ds []weir.Decision) (bool, error) {
	if err := bounds.Check("redisstore", weir.ErrInvalid, rs, len(ds)); err != nil {
		return false, err
	}
	if len(rs) == 0 {
		return true, nil
	}
	if s.cluster {
		if groups := s.bySlot(rs); len(groups) > 1 {
			return s.acrossSlots(ctx, rs, ds, groups)
		}
	}
	o := newBatch(all, rs)
	if err := s.ask(ctx, o); err != nil {
		return false, err
	}
	copy(ds, o.ds)
	return o.ok && o.err == nil, o.err
}

// newBatch is an op with copies of rs, since its caller may leave before it is
// done.
func newBatch(m mode, rs []weir.Request) *op {
	o := &op{mode: m, rs: slices.Clone(rs), ds: make([]weir.Decision, len(rs))}
	for i := range o.rs {
		o.rs[i].From = slices.Clone(rs[i].From)
	}
	return o
}

// unavailable is err as callers of a store branch on it.
func unavailable(err error) error {
	switch {
	case errors.Is(err, weir.ErrNoReservation):
		return fmt.Errorf("redisstore: %w", err)
	case errors.Is(err, weir.ErrUnavailable), errors.Is(err, weir.ErrInvalid):
		return err
	}
	return fmt.Errorf("redisstore: %w: %w", weir.ErrUnavailable, err)
}
