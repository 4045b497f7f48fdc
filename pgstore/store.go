package pgstore

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"slices"
	"sync/atomic"

	"github.com/floodweir/weir"
	"github.com/floodweir/weir/internal/batching"
	"github.com/floodweir/weir/internal/bounds"
	"github.com/floodweir/weir/memstore"
)

// A Store is a weir.Store in PostgreSQL. It is safe for concurrent use.
type Store struct {
	db     *sql.DB
	config Config
	limits parser

	decisions batching.Queue[*op]              // requests that weir_decide decides
	exchange  batching.Queue[*op]              // all others
	scratch   atomic.Pointer[memstore.Scratch] // for exchange, which uses it for one batch at a time
}

var _ weir.Store = (*Store)(nil)

// New returns a store in a database that has the schema of [Migrations]. It sends nothing, so
// the server may be unavailable. An error wraps weir.ErrInvalid.
func New(db *sql.DB, c Config) (*Store, error) {
	if db == nil {
		return nil, fmt.Errorf("pgstore: db: %w: got nil, want an open database", weir.ErrInvalid)
	}
	if err := c.normalize(); err != nil {
		return nil, err
	}
	s := &Store{db: db, config: c}
	s.decisions = s.newQueue(s.decide, c.InFlight)
	s.exchange = s.newQueue(s.exchangeStates, 1)
	return s, nil
}

func (s *Store) newQueue(send func([]*op), inFlight int) batching.Queue[*op] {
	return batching.Queue[*op]{Send: send, InFlight: inFlight, MaxBatch: s.config.MaxBatch, Timeout: s.config.Timeout,
		Closed: fmt.Errorf("pgstore: %w", weir.ErrClosed), Failed: unavailable}
}

// An op has the requests of one call of Do or DoAll and their decisions.
type op struct {
	batching.Wait

	rs        []weir.Request
	ds        []weir.Decision
	ok        bool // all are OK
	undecided bool // by weir_decide
}

// Requests implements batching.Op.
func (o *op) Requests() int { return len(o.rs) }

// Close waits for the calls in flight and for queued requests. Later requests get
// weir.ErrClosed. It does not close the database. Closing again does nothing. It never fails.
func (s *Store) Close() error {
	s.decisions.Close()
	s.exchange.Close()
	return nil
}

// Do implements weir.Store. It returns when ctx ends; the request may be charged nevertheless.
func (s *Store) Do(ctx context.Context, r weir.Request) (weir.Decision, error) {
	if err := r.Validate(); err != nil {
		return weir.Decision{}, err
	}
	r.From = slices.Clone(r.From) // the caller may return before it is read
	o := &op{rs: []weir.Request{r}, ds: make([]weir.Decision, 1)}
	if err := s.ask(ctx, o); err != nil {
		return weir.Decision{}, err
	}
	return o.ds[0], nil
}

// DoAll implements weir.Store.
func (s *Store) DoAll(ctx context.Context, rs []weir.Request, ds []weir.Decision) (bool, error) {
	if err := bounds.Check("pgstore", weir.ErrInvalid, rs, len(ds)); err != nil {
		return false, err
	}
	if len(rs) == 0 {
		return true, nil
	}
	o := &op{rs: slices.Clone(rs), ds: make([]weir.Decision, len(rs))}
	for i := range o.rs {
		o.rs[i].From = slices.Clone(rs[i].From)
	}
	if err := s.ask(ctx, o); err != nil {
		return false, err
	}
	copy(ds, o.ds)
	return o.ok, nil
}

// ask decides o.
func (s *Store) ask(ctx context.Context, o *op) error {
	if o.simple() {
		if err := s.decisions.Do(ctx, o); err != nil {
			return err
		}
		if !o.undecided {
			return o.Err
		}
	}
	if err := s.exchange.Do(ctx, o); err != nil {
		return err
	}
	return o.Err
}

// unavailable returns err with the sentinel on which callers branch.
func unavailable(err error) error {
	switch {
	case errors.Is(err, weir.ErrUnavailable), errors.Is(err, weir.ErrInvalid):
		return err
	case state(err) == "42P01", state(err) == "42883":
		err = fmt.Errorf("the schema is missing or old, apply pgstore.Migrations: %w", err)
	}
	return fmt.Errorf("pgstore: %w: %w", weir.ErrUnavailable, err)
}

// state returns the SQLSTATE of an error of the server, or an empty text.
func state(err error) string {
	var e interface{ SQLState() string } // of pgx and of lib/pq
	if errors.As(err, &e) {
		return e.SQLState()
	}
	return ""
}

// mostRepeats bounds how often a call is repeated that the server rolled back.
const mostRepeats = 5

// call runs a function of the schema. It repeats the call only if the server reports that it
// rolled it back because of a concurrent transaction.
func call(ctx context.Context, run func() error) error {
	for i := 0; ; i++ {
		err := run()
		if c := state(err); i == mostRepeats || c != "40001" && c != "40P01" || ctx.Err() != nil {
			return err
		}
	}
}
