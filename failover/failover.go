package failover

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/floodweir/weir"
	"github.com/floodweir/weir/internal/bounds"
)

// Config describes a Store. Its zero value works.
type Config struct {
	// Deadline is how long a decision may take, at most an hour; DefaultDeadline if
	// zero. A context that ends sooner ends the wait.
	Deadline time.Duration

	// Failures is after how many decisions in a row that failed the store is left alone;
	// DefaultFailures if zero.
	Failures int

	// Cooldown is how long it is left alone before one request tries again, at most a
	// day; DefaultCooldown if zero.
	Cooldown time.Duration

	// MaxCalls is how many calls of the store may be under way at a time, those included
	// whose caller has left because of the deadline; one more fails at once.
	// DefaultMaxCalls if zero.
	MaxCalls int

	// Observe, if not nil, is told when the store is left alone (true) and when it is
	// asked again (false), once each and in order. It is called by a request that waits
	// for it, so it has to be quick.
	Observe func(away bool)
}

// The defaults of a Config.
const (
	DefaultDeadline = 50 * time.Millisecond
	DefaultFailures = 5
	DefaultCooldown = time.Second
	DefaultMaxCalls = 1024
)

// A Store is a store with a deadline and a circuit breaker. It is safe for concurrent use.
type Store struct {
	c       Config
	calls   calls
	breaker breaker

	late error // the deadline passed
	busy error // MaxCalls calls are under way
}

var _ weir.Store = (*Store)(nil)

// New makes a store over store. An error wraps weir.ErrInvalid.
func New(store weir.Store, c Config) (*Store, error) {
	if store == nil {
		return nil, fmt.Errorf("failover: store: %w: want a store such as that of package redisstore, got nil", weir.ErrInvalid)
	}
	if err := c.normalize(); err != nil {
		return nil, err
	}
	s := &Store{
		c:     c,
		calls: calls{store: store, max: int64(c.MaxCalls)},
		breaker: breaker{
			failures: int64(c.Failures), cooldown: c.Cooldown, deadline: c.Deadline, observe: c.Observe,
		},
		late: fmt.Errorf("failover: %w: the deadline of %v passed; the request may have been charged", weir.ErrUnavailable, c.Deadline),
		busy: fmt.Errorf("failover: %w: %d calls are under way already", weir.ErrUnavailable, c.MaxCalls),
	}
	s.calls.late = s.answeredLate
	return s, nil
}

// patience is how long a call that tries whether the store is back may go on after its
// caller has left. A client may have to connect, greet and sign in first, by the time
// that the call has, and would never get through if that took longer than a decision.
func (c *Config) patience() time.Duration { return max(c.Deadline, min(c.Cooldown, 5*time.Second)) }

func (c *Config) normalize() error {
	for _, f := range []struct {
		name  string
		value *time.Duration
		def   time.Duration
		most  time.Duration
	}{
		{"Deadline", &c.Deadline, DefaultDeadline, time.Hour},
		{"Cooldown", &c.Cooldown, DefaultCooldown, 24 * time.Hour},
	} {
		if *f.value == 0 {
			*f.value = f.def
		}
		if *f.value < 0 || *f.value > f.most {
			return fmt.Errorf("failover: %s: %w: want more than 0, at most %v, got %v", f.name, weir.ErrInvalid, f.most, *f.value)
		}
	}
	for _, f := range []struct {
		name  string
		value *int
		def   int
	}{
		{"Failures", &c.Failures, DefaultFailures},
		{"MaxCalls", &c.MaxCalls, DefaultMaxCalls},
	} {
		if *f.value == 0 {
			*f.value = f.def
		}
		if *f.value < 0 || *f.value > 1<<20 {
			return fmt.Errorf("failover: %s: %w: want 1 to %d, got %d", f.name, weir.ErrInvalid, 1<<20, *f.value)
		}
	}
	return nil
}

// Do implements [weir.Store].
func (s *Store) Do(ctx context.Context, r weir.Request) (weir.Decision, error) {
	if err := r.Validate(); err != nil {
		return weir.Decision{}, err
	}
	c, err := s.ask(ctx, &r, nil)
	if err != nil {
		return weir.Decision{}, err
	}
	d, err := c.d, c.err
	s.calls.put(c)
	return d, err
}

// DoAll implements [weir.Store].
func (s *Store) DoAll(ctx context.Context, rs []weir.Request, ds []weir.Decision) (bool, error) {
	if err := bounds.Check("failover", weir.ErrInvalid, rs, len(ds)); err != nil {
		return false, err
	}
	c, err := s.ask(ctx, nil, rs)
	if err != nil {
		return false, err
	}
	ok, err := c.ok, c.err
	copy(ds, c.ds)
	s.calls.put(c)
	return ok, err
}

// Close ends the goroutines that Store keeps for the next request; without it they end
// by themselves after a second or two in which none came. From then on requests get an
// error that wraps weir.ErrClosed. It does not close the store below, and
// never fails. Closing again does nothing.
func (s *Store) Close() error {
	s.calls.close()
	return nil
}

// Away reports whether the store is left alone at present.
func (s *Store) Open() bool { return s.breaker.away() }

// Err is the last failure of the store while it is left alone, and nil otherwise.
func (s *Store) Err() error { return s.breaker.err() }

// ask sends one request, or rs together, to the store. It returns the call with the
// store's reply, which the caller puts back. The reply may be an error that is not a
// failure of the store.
func (s *Store) ask(ctx context.Context, r *weir.Request, rs []weir.Request) (*call, error) {
	if s.calls.closed.Load() {
		return nil, errClosed
	}
	if err := ctx.Err(); err != nil {
		return nil, gone(err)
	}
	t, err := s.breaker.enter()
	if err != nil {
		return nil, err
	}
	c := s.calls.take()
	if c == nil {
		if t.trial {
			s.breaker.fail(t, s.busy)
		}
		return nil, s.busy
	}
	if r != nil {
		c.single(r)
	} else {
		c.together(rs)
	}
	began := time.Now()
	deadline := began.Add(s.c.Deadline)
	sooner, own := ctx.Deadline()
	if own = own && sooner.Before(deadline); own {
		deadline = sooner
	}
	until := deadline
	if t.trial {
		until = began.Add(s.c.patience())
	}
	c.turn = t
	c.begin(ctx, until, s.c.Deadline)
	if !c.wait(ctx) {
		if err := ctx.Err(); err != nil {
			s.breaker.gone(t, time.Since(began))
			return nil, gone(err)
		}
		s.breaker.fail(t, s.late)
		return nil, s.late
	}
	if c.panicked != nil {
		v := c.panicked
		s.calls.put(c)
		s.breaker.fail(t, errPanic)
		panic(v)
	}
	err = c.err
	switch {
	case answers(err):
		s.breaker.succeeded(t)
		return c, nil
	case errors.Is(err, weir.ErrInvalid), errors.Is(err, weir.ErrClosed):
		s.breaker.pass(t)
		return c, nil
	}
	s.calls.put(c)
	late := !time.Now().Before(deadline)
	switch {
	case ctx.Err() != nil || late && own:
		// The store noticed first that the caller's time was up, or ended by itself.
		s.breaker.gone(t, time.Since(began))
		return nil, fmt.Errorf("failover: %w: %w", weir.ErrUnavailable, err)
	case late:
		err = fmt.Errorf("%w: %v", s.late, err)
	case errors.Is(err, weir.ErrUnavailable):
		err = fmt.Errorf("failover: %w", err)
	default:
		err = fmt.Errorf("failover: %w: %w", weir.ErrUnavailable, err)
	}
	s.breaker.fail(t, err)
	return nil, err
}

// answers reports whether a store that returned err decided. That it is full, or knows
// no such reservation, is its answer.
func answers(err error) bool {
	return err == nil || errors.Is(err, weir.ErrNoReservation) || errors.Is(err, weir.ErrFull)
}

// answeredLate is told of a call that is back after its caller has left.
func (s *Store) answeredLate(c *call) {
	if c.turn.trial && c.panicked == nil && answers(c.err) {
		s.breaker.late(c.turn)
	}
}

var errPanic = errors.New("the store panicked")

// gone is the error of a caller who left, by the error of its context.
func gone(err error) error {
	return fmt.Errorf("failover: %w: the caller left; the request may have been charged: %w", weir.ErrUnavailable, err)
}
