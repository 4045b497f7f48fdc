package redisstore

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/floodweir/weir"
	"github.com/floodweir/weir/internal/batching"
	"github.com/floodweir/weir/internal/bounds"
	"github.com/floodweir/weir/internal/missing"
	"github.com/floodweir/weir/internal/outline"
)

// A Store is a weir.Store in Redis. It is safe for concurrent use.
type Store struct {
	conn    Conn
	config  Config
	prefix  string // of every key
	slack   int64  // ms added to every TTL
	cluster bool
	rules   rules
	queue   batching.Queue[*op]
}

var _ weir.Store = (*Store)(nil)

// New returns a store over a connection. It sends nothing, so Redis may be unavailable;
// [Store.Probe] checks the server. An error wraps weir.ErrInvalid.
func New(conn Conn, c Config) (*Store, error) {
	if missing.Value(conn) {
		return nil, fmt.Errorf("redisstore: conn: %w: got nil, want a connection such as that of contrib/rueidis", weir.ErrInvalid)
	}
	cluster := conn.Cluster()
	if err := c.normalize(cluster); err != nil {
		return nil, err
	}
	s := &Store{
		conn:    conn,
		config:  c,
		cluster: cluster,
		prefix:  outline.KeyPrefix(c.Prefix),
		slack:   int64((c.Skew + time.Millisecond - 1) / time.Millisecond),
	}
	s.queue = batching.Queue[*op]{Send: s.send, InFlight: c.InFlight, MaxBatch: c.MaxBatch, Timeout: c.Timeout,
		Closed: fmt.Errorf("redisstore: %w", weir.ErrClosed), Failed: unavailable}
	return s, nil
}

// Close waits for the round trips in flight and for queued requests. Later requests get
// weir.ErrClosed. It does not close the connection. Closing again does nothing. It never
// fails.
func (s *Store) Close() error {
	s.queue.Close()
	return nil
}

// Do implements weir.Store. It takes one round trip, which it may share with other
// requests. Do returns when ctx ends; the request may be charged nevertheless.
func (s *Store) Do(ctx context.Context, r weir.Request) (weir.Decision, error) {
	if err := r.Validate(); err != nil {
		return weir.Decision{}, err
	}
	o := &op{mode: each}
	o.one[0] = r
	o.rs, o.ds = o.one[:], o.oneD[:]
	if len(r.From) > 0 {
		o.one[0].From = slices.Clone(r.From) // the caller may return before it is read
	}
	if err := s.queue.Do(ctx, o); err != nil {
		return weir.Decision{}, err
	}
	if o.Err != nil {
		return weir.Decision{}, o.Err
	}
	return o.ds[0], nil
}

// DoAll implements weir.Store. One run of the script decides requests whose keys share a
// slot. Outside of a cluster all keys do, and concurrent batches can share a run too. The documentation of the package describes
// batches over several slots.
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
	if err := s.queue.Do(ctx, o); err != nil {
		return false, err
	}
	copy(ds, o.ds)
	return o.ok && o.Err == nil, o.Err
}

// newBatch returns an op with copies of rs: the caller may return before op is done.
func newBatch(m mode, rs []weir.Request) *op {
	o := &op{mode: m, rs: slices.Clone(rs), ds: make([]weir.Decision, len(rs))}
	for i := range o.rs {
		o.rs[i].From = slices.Clone(rs[i].From)
	}
	return o
}

// unavailable returns err with the sentinel on which callers branch.
func unavailable(err error) error {
	switch {
	case errors.Is(err, weir.ErrNoReservation):
		return fmt.Errorf("redisstore: %w", err)
	case errors.Is(err, weir.ErrUnavailable), errors.Is(err, weir.ErrInvalid):
		return err
	}
	return fmt.Errorf("redisstore: %w: %w", weir.ErrUnavailable, err)
}
