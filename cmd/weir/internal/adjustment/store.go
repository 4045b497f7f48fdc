package adjustment

import (
	"context"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/floodweir/weir"
	"github.com/floodweir/weir/cmd/weir/internal/audit"
	"github.com/floodweir/weir/internal/adjusted"
	"github.com/floodweir/weir/internal/revision"
	"github.com/floodweir/weir/redisstore"
)

// Config is the configuration of a Store. Audit, Changed and Log are required.
type Config struct {
	// Conn returns the connection to Redis, or nil while there is none. If Conn is nil, the
	// adjustments are in the process.
	Conn func() redisstore.Conn

	// Refused, if not nil, is the error of Set: processes without Conn cannot share adjustments.
	Refused error

	// Audit is the log of Conn.
	Audit *audit.Log

	// Changed is called after each change of Current, also when an adjustment ends.
	Changed func()

	// Log receives problems of Redis.
	Log *slog.Logger
}

// A Store keeps adjustments. It is safe for concurrent use.
type Store struct {
	c    Config
	wake chan struct{} // the next end may be earlier; capacity 1

	// turn, of capacity 1, holds one value while a change or a read of Redis runs. Its result is in
	// use when the next begins, so that an old read does not undo a change of this node.
	turn chan struct{}

	mu    sync.Mutex
	all   map[string]held // by StateKey
	known revision.Position
}

// A held is an adjustment and its end by the monotonic clock of the process.
type held struct {
	Adjustment
	ends time.Time // zero: never
}

func (h *held) ended(now time.Time) bool { return !h.ends.IsZero() && !h.ends.After(now) }

// hold returns the held a. Redis returned its time, in ms, for a call that began at sent.
func hold(a Adjustment, ms string, sent time.Time) held {
	h := held{Adjustment: a}
	if n, err := strconv.ParseInt(ms, 10, 64); err == nil && !a.Until.IsZero() {
		h.ends = sent.Add(a.Until.Sub(time.UnixMilli(n)))
	}
	return h
}

// New returns a Store without adjustments.
func New(c Config) *Store {
	return &Store{c: c, wake: make(chan struct{}, 1), turn: make(chan struct{}, 1), all: map[string]held{}}
}

// Current returns the adjustments that have not ended, the newest first.
func (s *Store) Current() []Adjustment {
	s.mu.Lock()
	defer s.mu.Unlock()
	all, now := make([]Adjustment, 0, len(s.all)), time.Now()
	for _, h := range s.all {
		if !h.ended(now) {
			all = append(all, h.Adjustment)
		}
	}
	slices.SortFunc(all, func(a, b Adjustment) int {
		if c := b.At.Compare(a.At); c != 0 {
			return c
		}
		return strings.Compare(a.StateKey, b.StateKey)
	})
	return all
}

// Get returns the adjustment of a key, by its StateKey.
func (s *Store) Get(key string) (Adjustment, bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	h, ok := s.all[key]
	return h.Adjustment, ok && !h.ended(time.Now())
}

// Set adjusts a key, and appends an entry to the audit log with what was before and after. It
// returns the adjustment that a replaces, or nil, and the entry. A raise does not replace a freeze or
// a block. After an error of Redis, which may have executed it, the result is unknown.
func (s *Store) Set(ctx context.Context, a Adjustment, e audit.Entry) (before *Adjustment, _ audit.Entry, err error) {
	return s.change(ctx, "set", a, e)
}

// Lift ends the adjustment of a key, by the StateKey of a, as Set does.
func (s *Store) Lift(ctx context.Context, a Adjustment, e audit.Entry) (before *Adjustment, _ audit.Entry, err error) {
	return s.change(ctx, "lift", a, e)
}

func (s *Store) change(ctx context.Context, op string, a Adjustment, e audit.Entry) (before *Adjustment, _ audit.Entry, err error) {
	if s.c.Refused != nil {
		return nil, e, s.c.Refused
	}
	e.OK = audit.Yes()
	if s.c.Conn == nil {
		before, e, err = s.changeMemory(ctx, op, a, e)
	} else if before, e, err = s.changeRedis(ctx, op, a, e); err == nil {
		s.c.Audit.Print(ctx, e, nil)
	}
	if err == nil {
		s.changed()
	}
	return before, e, err
}

// changeMemory sets or lifts an adjustment in the process.
func (s *Store) changeMemory(ctx context.Context, op string, a Adjustment, e audit.Entry) (before *Adjustment, _ audit.Entry, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	now := time.Now()
	if h, ok := s.all[a.StateKey]; ok && !h.ended(now) {
		before = &h.Adjustment
	} else if len(s.all) >= Max {
		s.sweep(now)
	}
	switch {
	case op == "lift" && before == nil:
		return nil, e, ErrNone
	case op == "lift":
		delete(s.all, a.StateKey)
	case before != nil && a.Kind == Raise && before.Kind != Raise:
		return nil, e, ErrDenied
	case before == nil && len(s.all) >= Max:
		return nil, e, ErrFull
	default:
		a.At = now.UTC().Truncate(time.Millisecond)
		if a.For > 0 {
			a.Until = a.At.Add(a.For)
		}
		s.all[a.StateKey] = hold(a, strconv.FormatInt(now.UnixMilli(), 10), now)
	}
	e, err = s.c.Audit.Append(ctx, e)
	return before, e, err
}

// merge changes one adjustment as Redis did at ms.
func (s *Store) merge(key string, a *Adjustment, ms string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if a == nil {
		delete(s.all, key)
		return
	}
	s.all[key] = hold(*a, ms, time.Now())
}

func (s *Store) changed() {
	select {
	case s.wake <- struct{}{}:
	default:
	}
	s.c.Changed()
}

// Load reads the adjustments from Redis once, within the time of a revision.Follower. Without a
// connection, Run reads them later.
func (s *Store) Load(ctx context.Context) error {
	if s.c.Conn == nil || s.c.Conn() == nil {
		return nil
	}
	return s.follower().Once(ctx)
}

func (s *Store) follower() *revision.Follower {
	read := func(ctx context.Context, conn redisstore.Conn, _, current revision.Position) (use func(), err error) {
		return nil, s.read(ctx, conn, current)
	}
	return &revision.Follower{Conn: s.c.Conn, Key: adjusted.Key, Read: read, Observe: s.observe}
}

// Run follows the adjustments in Redis, and ends each at its time, until ctx ends.
func (s *Store) Run(ctx context.Context) {
	var all sync.WaitGroup
	if s.c.Conn != nil {
		s.mu.Lock()
		known := s.known
		s.mu.Unlock()
		all.Go(func() { s.follower().Run(ctx, known) })
	}
	s.end(ctx)
	all.Wait()
}

func (s *Store) observe(err error) {
	if err == nil {
		s.c.Log.Info("adjustments of keys available again")
		return
	}
	s.c.Log.Error("adjustments of keys unavailable: the current ones stay in force", "error", err)
}

// read reads the adjustments after a change in Redis, and uses them.
func (s *Store) read(ctx context.Context, conn redisstore.Conn, current revision.Position) error {
	if err := s.begin(ctx); err != nil {
		return err
	}
	defer s.done()
	if current.Number == 0 {
		if len(s.Current()) > 0 {
			if err := s.restore(ctx); err != nil {
				return err
			}
			return revision.ErrChanged
		}
		return nil
	}
	all, err := readAll(ctx, conn, current)
	if err != nil {
		return err
	}
	s.mu.Lock()
	s.all, s.known = all, current
	s.mu.Unlock()
	s.changed()
	return nil
}

// begin waits until no change and no read of Redis runs. After it, done must be called.
func (s *Store) begin(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	select {
	case s.turn <- struct{}{}:
		return nil
	case <-ctx.Done():
		return fmt.Errorf("adjustment: %w: another change or read takes longer", weir.ErrUnavailable)
	}
}

func (s *Store) done() { <-s.turn }

// end removes each adjustment at its end.
func (s *Store) end(ctx context.Context) {
	timer := time.NewTimer(time.Hour)
	defer timer.Stop()
	for {
		timer.Reset(s.next())
		select {
		case <-ctx.Done():
			return
		case <-s.wake:
			continue
		case <-timer.C:
		}
		s.mu.Lock()
		ended := s.sweep(time.Now())
		s.mu.Unlock()
		if ended {
			s.c.Changed()
		}
	}
}

// sweep removes the adjustments that have ended, and reports whether there are any. It requires mu.
func (s *Store) sweep(now time.Time) bool {
	before := len(s.all)
	maps.DeleteFunc(s.all, func(_ string, h held) bool { return h.ended(now) })
	return len(s.all) < before
}

// next returns the time until the earliest end, at most an hour.
func (s *Store) next() time.Duration {
	s.mu.Lock()
	defer s.mu.Unlock()
	next := time.Hour
	for _, h := range s.all {
		if !h.ends.IsZero() {
			next = min(next, time.Until(h.ends))
		}
	}
	return max(next, 0)
}
