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
	// Deadline bounds a decision, at most an hour; DefaultDeadline if zero. A context that
	// ends sooner ends the wait.
	Deadline time.Duration

	// Failures is the number of failures in a row that open the circuit breaker;
	// DefaultFailures if zero.
	Failures int

	// Cooldown is the time from the opening of the breaker, or from a failed probe, to the
	// next probe: at most a day; DefaultCooldown if zero.
	Cooldown time.Duration

	// MaxCalls bounds the calls of the store in flight, including calls whose caller has
	// returned at the deadline; a further call fails at once. DefaultMaxCalls if zero.
	MaxCalls int

	// Observe, if not nil, is called when the breaker opens (true) and when it closes
	// (false), once each and in order. A request waits for it, so it must be quick.
	Observe func(open bool)
}

// The default values of fields of Config.
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

	errDeadline error // the deadline passed
	errBusy     error // MaxCalls calls are in flight
}

var _ weir.Store = (*Store)(nil)

// New returns a store over store. An error wraps weir.ErrInvalid.
func New(store weir.Store, c Config) (*Store, error) {
	if store == nil {
		return nil, fmt.Errorf("failover: store: %w: got nil, want a store such as that of package redisstore", weir.ErrInvalid)
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
		errDeadline: fmt.Errorf("failover: %w: no reply in %v; the request may have been charged", weir.ErrUnavailable, c.Deadline),
		errBusy:     fmt.Errorf("failover: %w: %d calls are in flight", weir.ErrUnavailable, c.MaxCalls),
	}
	s.calls.late = s.lateReply
	return s, nil
}

// probeTimeout bounds a probe, which continues after its caller has returned. A client may
// have to connect and authenticate within the call's time. If that took longer than
// Deadline, no probe would ever succeed.
func (c *Config) probeTimeout() time.Duration { return max(c.Deadline, min(c.Cooldown, 5*time.Second)) }

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
			return fmt.Errorf("failover: %s: %w: got %v, want more than 0, at most %v", f.name, weir.ErrInvalid, *f.value, f.most)
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
			return fmt.Errorf("failover: %s: %w: got %d, want 1 to %d", f.name, weir.ErrInvalid, *f.value, 1<<20)
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

// Close ends the goroutines that wait for requests. Without Close they end after one or two
// seconds without a request. Later requests get an error that wraps weir.ErrClosed. Close
// does not close the store below, and never fails. Closing again does nothing.
func (s *Store) Close() error {
	s.calls.close()
	return nil
}

// Open reports whether the circuit breaker is open.
func (s *Store) Open() bool { return s.breaker.isOpen() }

// Err returns the last failure of the store while the breaker is open, and nil otherwise.
func (s *Store) Err() error { return s.breaker.err() }

// ask sends one request, or rs together, to the store. It returns the call with the
// store's reply, which the caller puts back. The reply may be an error that is not a
// failure of the store.
func (s *Store) ask(ctx context.Context, r *weir.Request, rs []weir.Request) (*call, error) {
	if s.calls.closed.Load() {
		return nil, errClosed
	}
	if err := ctx.Err(); err != nil {
		return nil, errCanceled(err)
	}
	p, err := s.breaker.enter()
	if err != nil {
		return nil, err
	}
	c := s.calls.take()
	if c == nil {
		if p.probe {
			s.breaker.fail(p, s.errBusy)
		}
		return nil, s.errBusy
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
	if p.probe {
		until = began.Add(s.c.probeTimeout())
	}
	c.permit = p
	c.begin(ctx, until, s.c.Deadline)
	if !c.wait(ctx) {
		if err := ctx.Err(); err != nil {
			s.breaker.canceled(p, time.Since(began))
			return nil, errCanceled(err)
		}
		s.breaker.fail(p, s.errDeadline)
		return nil, s.errDeadline
	}
	if c.panicked != nil {
		v := c.panicked
		s.calls.put(c)
		s.breaker.fail(p, errPanic)
		panic(v)
	}
	err = c.err
	switch {
	case isReply(err):
		s.breaker.success(p)
		return c, nil
	case errors.Is(err, weir.ErrInvalid), errors.Is(err, weir.ErrClosed):
		s.breaker.ignore(p)
		return c, nil
	}
	s.calls.put(c)
	late := !time.Now().Before(deadline)
	switch {
	case ctx.Err() != nil || late && own:
		// The store returned because the caller's context ended.
		s.breaker.canceled(p, time.Since(began))
		return nil, fmt.Errorf("failover: %w: %w", weir.ErrUnavailable, err)
	case late:
		err = fmt.Errorf("%w: %v", s.errDeadline, err)
	case errors.Is(err, weir.ErrUnavailable):
		err = fmt.Errorf("failover: %w", err)
	default:
		err = fmt.Errorf("failover: %w: %w", weir.ErrUnavailable, err)
	}
	s.breaker.fail(p, err)
	return nil, err
}

// isReply reports whether a store that returned err is available. It is, if it is full or
// does not have the reservation.
func isReply(err error) bool {
	return err == nil || errors.Is(err, weir.ErrNoReservation) || errors.Is(err, weir.ErrFull)
}

// lateReply handles the end of a call whose caller has returned.
func (s *Store) lateReply(c *call) {
	if c.permit.probe && c.panicked == nil && isReply(c.err) {
		s.breaker.lateReply(c.permit)
	}
}

var errPanic = errors.New("store panicked")

// errCanceled returns the error of a request whose context ended with err.
func errCanceled(err error) error {
	return fmt.Errorf("failover: %w: canceled; the request may have been charged: %w", weir.ErrUnavailable, err)
}
