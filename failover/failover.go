package failover

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"runtime"
	"sync"
	"time"

	"github.com/floodweir/weir"
	"github.com/floodweir/weir/internal/bounds"
	"github.com/floodweir/weir/internal/missing"
)

// Config describes a Store. Its zero value works.
type Config struct {
	// Deadline bounds a round trip to the store, from the request to its reply, at most an
	// hour; DefaultDeadline if zero. It also bounds the time that a request waits in this
	// process before. A context that ends sooner ends the wait.
	Deadline time.Duration

	// Cooldown is the longest time from the opening of the breaker, or from a failed probe,
	// to the next probe: at most a day; DefaultCooldown if zero. The first one is about
	// Deadline, and each is twice as long as the one before, with jitter.
	Cooldown time.Duration

	// MaxCalls bounds the calls of the store in progress; DefaultCallsPerCore for each core
	// if zero.
	MaxCalls int

	// MaxQueue bounds the requests that wait for one of MaxCalls; eight times MaxCalls if
	// zero. Beyond it, the oldest gets an error that wraps weir.ErrOverloaded.
	MaxQueue int

	// Observe, if not nil, is called after each change, in order. A request waits for it,
	// so it must be quick.
	Observe func(Change)

	// ObserveCall, if not nil, is called after each call of the store. Its arguments are the
	// caller's context, the verb of the request (batch: it was DoAll), the start and the
	// store's error. It must be quick.
	ObserveCall func(ctx context.Context, verb weir.Verb, batch bool, start time.Time, err error)
}

// The default values of fields of Config.
const (
	DefaultDeadline     = 50 * time.Millisecond
	DefaultCooldown     = time.Second
	DefaultCallsPerCore = 128
)

// A Change reports that the state of the store changed, or that this process became
// overloaded or is not any more.
type Change struct {
	State      State // of the store
	Overloaded bool  // this process rejects requests

	// Cause is why the store is not Up; nil if it is.
	Cause error

	// Unavailable and Overload are the requests that the store did not decide since the
	// last change: because it was unavailable, and because this process was overloaded.
	Unavailable, Overload int64
}

// A Store is a store with a deadline, a circuit breaker and a bound on the calls in
// progress. It is safe for concurrent use.
type Store struct {
	c       Config
	store   weir.Store
	measure func(due time.Time) time.Duration // schedulingDelay, except in tests

	errDeadline error // the deadline passed
	errFull     error // MaxQueue requests wait
	errWait     error // a request waited too long in this process
	errDelay    error // this process was not scheduled in time

	mu      sync.Mutex // guards the rest
	breaker breaker
	gate    gate
	clock   processClock
	calls   callList
	closed  bool

	ticker *time.Timer // nil before the first call
	armed  bool
	due    time.Time // of the ticker

	lateReplies  int64
	unavailable  int64     // requests
	overload     [3]int64  // requests, by reason
	overloaded   bool      // since less than overloadEnd
	overloadedAt time.Time // the last request
	last         Change    // the last one, with sums
	events       []Change  // for Observe
	notifying    bool      // a goroutine calls Observe
}

var _ weir.Store = (*Store)(nil)

// The reasons of an overload, as indexes of Store.overload.
const (
	queueFull = iota
	queueWait
	scheduling
)

const (
	// retryOverload is the RetryAfter of requests that this process rejects.
	retryOverload = time.Second

	// overloadEnd is the time without a rejected request that ends an overload.
	overloadEnd = time.Second

	// delayBudget bounds the scheduling delay that a call is granted, in deadlines.
	delayBudget = 4
)

// New returns a store over store, whose methods return when their context ends. An error
// wraps weir.ErrInvalid.
func New(store weir.Store, c Config) (*Store, error) {
	if missing.Value(store) {
		return nil, fmt.Errorf("failover: store: %w: got nil, want a store such as that of package redisstore", weir.ErrInvalid)
	}
	if err := c.normalize(); err != nil {
		return nil, err
	}
	overload := func(reason string) error {
		return fmt.Errorf("failover: %w", &weir.OverloadError{Reason: reason, RetryAfter: retryOverload})
	}
	return &Store{
		c: c, store: store, measure: schedulingDelay,
		breaker:     breaker{state: Up, deadline: c.Deadline, longest: c.Cooldown, jitter: jitter},
		gate:        gate{max: c.MaxCalls, maxQueue: c.MaxQueue},
		clock:       processClock{epoch: time.Now()},
		last:        Change{State: Up},
		errDeadline: fmt.Errorf("failover: %w: no reply in %v; the request may have been charged", weir.ErrUnavailable, c.Deadline),
		errFull:     overload("too many requests wait for the store"),
		errWait:     overload(fmt.Sprintf("the request was not sent to the store in %v", c.Deadline)),
		errDelay:    overload("the process is not scheduled in time"),
	}, nil
}

func (c *Config) normalize() error {
	const most = 1 << 20 // calls and waiters
	c.Deadline = cmp.Or(c.Deadline, DefaultDeadline)
	c.Cooldown = cmp.Or(c.Cooldown, DefaultCooldown)
	c.MaxCalls = cmp.Or(c.MaxCalls, min(DefaultCallsPerCore*runtime.GOMAXPROCS(0), most))
	for _, f := range []struct {
		name        string
		value, most time.Duration
	}{
		{"Deadline", c.Deadline, time.Hour},
		{"Cooldown", c.Cooldown, 24 * time.Hour},
	} {
		if f.value < 0 || f.value > f.most {
			return fmt.Errorf("failover: %s: %w: got %v, want more than 0, at most %v", f.name, weir.ErrInvalid, f.value, f.most)
		}
	}
	if c.MaxCalls < 0 || c.MaxCalls > most {
		return fmt.Errorf("failover: MaxCalls: %w: got %d, want 1 to %d", weir.ErrInvalid, c.MaxCalls, most)
	}
	c.MaxQueue = cmp.Or(c.MaxQueue, min(8*c.MaxCalls, most))
	if c.MaxQueue < 0 || c.MaxQueue > most {
		return fmt.Errorf("failover: MaxQueue: %w: got %d, want 1 to %d", weir.ErrInvalid, c.MaxQueue, most)
	}
	return nil
}

// Do implements [weir.Store].
func (s *Store) Do(ctx context.Context, r weir.Request) (d weir.Decision, err error) {
	if err := r.Validate(); err != nil {
		return weir.Decision{}, err
	}
	c, err := s.begin(ctx, settles(r.Verb))
	if err != nil {
		return weir.Decision{}, err
	}
	defer func() {
		if c != nil {
			s.finish(c, errPanic)
		}
	}()
	start := c.began // before the store reports to c
	d, err = s.store.Do(c, r)
	if s.c.ObserveCall != nil {
		s.c.ObserveCall(ctx, r.Verb, false, start, err)
	}
	err, c = s.finish(c, err), nil
	return d, err
}

// DoAll implements [weir.Store].
func (s *Store) DoAll(ctx context.Context, rs []weir.Request, ds []weir.Decision) (ok bool, err error) {
	if err := bounds.Check("failover", weir.ErrInvalid, rs, len(ds)); err != nil {
		return false, err
	}
	settling := len(rs) > 0
	for i := range rs {
		settling = settling && settles(rs[i].Verb)
	}
	c, err := s.begin(ctx, settling)
	if err != nil {
		return false, err
	}
	defer func() {
		if c != nil {
			s.finish(c, errPanic)
		}
	}()
	start := c.began // before the store reports to c
	ok, err = s.store.DoAll(c, rs, ds)
	if s.c.ObserveCall != nil {
		s.c.ObserveCall(ctx, 0, true, start, err)
	}
	err, c = s.finish(c, err), nil
	return ok && err == nil, err
}

// settles reports whether a verb settles a request that was admitted before.
func settles(v weir.Verb) bool {
	switch v {
	case weir.Charge, weir.Return, weir.Commit, weir.Cancel, weir.Reset:
		return true
	}
	return false
}

// Close refuses later requests with an error that wraps weir.ErrClosed. It does not close the
// store below, and never fails. Closing again does nothing.
func (s *Store) Close() error {
	s.mu.Lock()
	s.closed = true
	s.gate.flush(errClosed)
	s.mu.Unlock()
	return nil
}

// Open reports whether the circuit breaker is open.
func (s *Store) Open() bool { return s.Stats().State != Up }

// Err returns the last failure of the store while the breaker is open, and nil otherwise.
func (s *Store) Err() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.breaker.cause
}

// begin starts a call, and waits for it while MaxCalls are in progress. The caller finishes
// the call.
func (s *Store) begin(ctx context.Context, settle bool) (*call, error) {
	if err := ctx.Err(); err != nil {
		return nil, errCanceled(err)
	}
	s.mu.Lock()
	if s.closed {
		s.mu.Unlock()
		return nil, errClosed
	}
	if err := s.breaker.refuse(); err != nil {
		s.unavailable++
		s.mu.Unlock()
		return nil, err
	}
	c := &call{Context: ctx, s: s}
	switch {
	case s.breaker.state != Up:
		s.breaker.probe = c
		s.gate.inProgress++
	case s.gate.enter():
	default:
		if err := s.wait(ctx, settle); err != nil {
			return nil, err
		}
		s.mu.Lock()
	}
	c.since, c.began = s.clock.now(), time.Now()
	s.calls.add(c)
	s.arm()
	s.unlock()
	return c, nil
}

// wait waits in the gate. It requires s.mu and releases it.
func (s *Store) wait(ctx context.Context, settle bool) error {
	if s.gate.full(settle) {
		err, reason := s.blame(s.errFull), queueFull
		s.gate.evict(settle, err)
		s.count(err, reason, 1)
	}
	w := s.gate.wait(settle)
	s.arm()
	s.unlock()
	select {
	case err := <-w.ready:
		return err
	case <-ctx.Done():
	}
	s.mu.Lock()
	if !s.gate.finish(w, nil) {
		if err := <-w.ready; err == nil {
			s.gate.leave()
		}
	}
	s.mu.Unlock()
	return errCanceled(ctx.Err())
}

// finish ends a call with the error of the store, and returns the error for the caller.
func (s *Store) finish(c *call, err error) error {
	canceled := c.Context.Err()
	c.release()
	s.mu.Lock()
	defer s.unlock()
	s.calls.remove(c)
	s.gate.leave()
	now := s.clock.now()
	b := &s.breaker
	switch {
	case isReply(err):
		if c.late {
			b.reply(now)
		} else {
			b.success(c, now)
			s.stateChanged()
		}
		return err
	case errors.Is(err, weir.ErrInvalid), errors.Is(err, weir.ErrClosed), errors.Is(err, weir.ErrOverloaded):
		b.abandon(c)
		return err
	case c.cause != nil:
		b.abandon(c)
		return c.cause
	case canceled != nil:
		b.abandon(c)
		if !c.queued {
			b.noReply(c, now, errUnanswered)
			s.stateChanged()
		}
		return fmt.Errorf("failover: %w: %w", weir.ErrUnavailable, err)
	case errors.Is(err, weir.ErrUnavailable):
		err = fmt.Errorf("failover: %w", err)
	default:
		err = fmt.Errorf("failover: %w: %w", weir.ErrUnavailable, err)
	}
	s.unavailable++
	if c.late {
		return err
	}
	b.fail(c, now, false, err)
	s.stateChanged()
	return err
}

// isReply reports whether a store that returned err is available. It is, if it is full or
// does not have the reservation.
func isReply(err error) bool {
	return err == nil || errors.Is(err, weir.ErrNoReservation) || errors.Is(err, weir.ErrFull)
}

var (
	errClosed     = fmt.Errorf("failover: %w", weir.ErrClosed)
	errPanic      = errors.New("store panicked")
	errUnanswered = errors.New("canceled before the reply")
)

// errCanceled returns the error of a request whose context ended with err.
func errCanceled(err error) error {
	return fmt.Errorf("failover: %w: canceled; the request may have been charged: %w", weir.ErrUnavailable, err)
}
