package failover

import (
	"context"
	"errors"
	"time"

	"github.com/floodweir/weir"
)

// Config describes a Store. Its zero value works.
type Config struct {
	// Deadline is how long a decision may take; DefaultDeadline if zero.
	Deadline time.Duration

	// Fallback decides what the store did not: a store of NewLocal, Open() or Closed().
	// If nil, the caller gets the error, which wraps weir.ErrUnavailable.
	Fallback weir.Store

	// Failures is after how many decisions in a row that failed the store is left alone;
	// DefaultFailures if zero.
	Failures int

	// Cooldown is how long it is left alone before one request tries again;
	// DefaultCooldown if zero.
	Cooldown time.Duration

	// Observe, if not nil, is told when the store is left alone (true) and when it is
	// asked again (false). It has to be quick.
	Observe func(away bool)
}

// The defaults of a Config.
const (
	DefaultDeadline = 50 * time.Millisecond
	DefaultFailures = 5
	DefaultCooldown = time.Second
)

// A Store is a store with a deadline and a fallback.
type Store struct {
	store weir.Store
	c     Config
}

// New makes a store over store.
func New(store weir.Store, c Config) (*Store, error) {
	if store == nil {
		return nil, errors.New("failover: store: want a store, got nil")
	}
	return &Store{store, c}, nil
}

// Do implements [weir.Store].
func (s *Store) Do(ctx context.Context, r weir.Request) (weir.Decision, error) {
	return s.store.Do(ctx, r)
}

// DoAll implements [weir.Store].
func (s *Store) DoAll(ctx context.Context, rs []weir.Request, ds []weir.Decision) (bool, error) {
	return s.store.DoAll(ctx, rs, ds)
}

// Away reports whether the store is left alone at present.
func (s *Store) Away() bool { return false }

// Open is a store that lets everything through.
func Open() weir.Store { return nil }

// Closed is a store that lets nothing through.
func Closed() weir.Store { return nil }

// NewLocal is a store that decides by one node's share of every limit, which it keeps
// in store, one in memory. Its decisions are Degraded weir.FailedLocal and name the
// limit that was asked about.
func NewLocal(store weir.Store, nodes int) (weir.Store, error) { return store, nil }
