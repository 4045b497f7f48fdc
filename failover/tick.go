package failover

import (
	"context"
	"errors"
	"time"

	"github.com/floodweir/weir"
)

// One timer ends what takes too long. While calls are in progress it runs about twenty times
// in a deadline, and how late it runs is the scheduling delay of this process.

// interval returns the time between two ticks.
func (s *Store) interval() time.Duration {
	return min(max(s.c.Deadline/20, 500*time.Microsecond), 10*time.Millisecond)
}

// arm starts the ticker. It requires s.mu.
func (s *Store) arm() {
	if s.armed {
		return
	}
	s.armed, s.due = true, time.Now().Add(s.interval())
	s.clock.arm(s.interval())
	if s.ticker == nil {
		s.ticker = time.AfterFunc(s.interval(), s.tick)
		return
	}
	s.ticker.Reset(s.interval())
}

// tick ends the calls and the waits that took too long.
func (s *Store) tick() {
	s.mu.Lock()
	due := s.due
	s.mu.Unlock()
	delay := s.measure(due)
	s.mu.Lock()
	s.clock.tick(delay, s.interval())
	s.expireCalls()
	err := s.blame(s.errWait)
	if n := s.gate.expire(time.Now().Add(-s.patience()), err); n > 0 {
		s.count(err, queueWait, n)
	}
	if s.overloaded && time.Since(s.overloadedAt) >= overloadEnd {
		s.overloaded = false
		s.changed()
	}
	s.armed = false
	if s.calls.n+s.gate.queued() > 0 || s.overloaded {
		s.arm()
	} else {
		s.clock.stop()
	}
	s.unlock()
}

// expireCalls ends the calls that took too long. The time of those in the queue of the store
// does not count against the store. It requires s.mu.
func (s *Store) expireCalls() {
	now := s.clock.now()
	for c := s.calls.head.next; c != nil; c = c.next {
		switch {
		case c.cause != nil || c.queued:
		case now-c.since >= s.c.Deadline:
			c.cause, c.late = s.errDeadline, true
			s.breaker.fail(c, now, true, s.errDeadline)
			s.count(c.cause, 0, 1)
		case time.Since(c.began) >= (1+delayBudget)*s.c.Deadline:
			c.cause = s.errDelay
			s.breaker.noReply(c, now, c.cause)
			s.count(c.cause, scheduling, 1)
		}
	}
	s.stateChanged()
	patience := s.patience()
	for c := s.calls.head.next; c != nil; c = c.next {
		if c.cause == nil && c.queued && time.Since(c.began) >= patience {
			c.cause = s.blame(s.errWait)
			s.count(c.cause, queueWait, 1)
		}
		if c.cause != nil {
			c.end(context.DeadlineExceeded)
		}
	}
}

// patience returns how long a request may wait in this process. It is longer than the deadline
// while the store may be late: whether it is decides between the mode and a rejection.
func (s *Store) patience() time.Duration {
	switch {
	case s.breaker.quiet(s.clock.now()) >= s.c.Deadline:
		return s.c.Deadline // it is late
	case s.breaker.pending:
		return 2 * s.c.Deadline
	}
	now := s.clock.now()
	for c := s.calls.head.next; c != nil; c = c.next {
		if c.cause == nil && !c.queued && now-c.since >= s.c.Deadline/2 {
			return 2 * s.c.Deadline
		}
	}
	return s.c.Deadline
}

// blame returns the error of a request that waited too long in this process. It is overload,
// unless the store does not reply to the requests before it, or replied late.
func (s *Store) blame(overload error) error {
	if s.breaker.state != Up || s.breaker.slow || s.breaker.quiet(s.clock.now()) >= s.c.Deadline {
		return s.errDeadline
	}
	return overload
}

// count counts n requests that the store did not decide because of err. The reason is that
// of an overload.
func (s *Store) count(err error, reason, n int) {
	if !errors.Is(err, weir.ErrOverloaded) {
		s.unavailable += int64(n)
		return
	}
	s.overload[reason] += int64(n)
	s.overloadedAt = time.Now()
	if !s.overloaded {
		s.overloaded = true
		s.changed()
	}
}

// stateChanged records a change of the state of the store, if there is one. When the breaker
// opens, the requests that wait are decided without the store.
func (s *Store) stateChanged() {
	if s.breaker.state == s.last.State {
		return
	}
	if s.breaker.state != Up {
		s.unavailable += int64(s.gate.queued())
		s.gate.flush(s.breaker.openErr)
	}
	s.changed()
}

// changed adds an event for Observe.
func (s *Store) changed() {
	before := s.last
	s.last = Change{
		State: s.breaker.state, Overloaded: s.overloaded, Cause: s.breaker.cause,
		Unavailable: s.unavailable, Overload: s.overloads(),
	}
	e := s.last
	e.Unavailable -= before.Unavailable
	e.Overload -= before.Overload
	if s.c.Observe != nil {
		s.events = append(s.events, e)
	}
}

// unlock releases s.mu and delivers the events.
func (s *Store) unlock() {
	defer s.mu.Unlock()
	if s.notifying {
		return // the notifying goroutine delivers them
	}
	s.notifying = true
	defer func() { s.notifying = false }()
	for len(s.events) > 0 {
		e := s.events[0]
		s.events = s.events[1:]
		s.notify(e)
	}
}

// notify calls Observe, which may use the store. It requires s.mu.
func (s *Store) notify(e Change) {
	s.mu.Unlock()
	defer s.mu.Lock() // also if Observe panics
	s.c.Observe(e)
}

func (s *Store) overloads() (n int64) {
	for _, one := range s.overload {
		n += one
	}
	return n
}

// Stats are the counts of a Store since its start, and its present state.
type Stats struct {
	State      State
	Overloaded bool // this process rejected a request within a second

	InProgress, Queued int // calls of the store, and requests that wait for one

	Unavailable int64 // requests that the store did not decide, or not in time
	LateReplies int64 // replies after the deadline

	// Requests that were rejected because this process was overloaded: the queue was full,
	// the request waited too long in it, or the scheduler delayed the process.
	QueueFull, QueueWait, Scheduling int64

	// SchedulingDelay is the sum of the delays of the scheduler while calls were in
	// progress. They do not count against the store.
	SchedulingDelay time.Duration
}

// Stats returns the counts.
func (s *Store) Stats() Stats {
	s.mu.Lock()
	defer s.mu.Unlock()
	return Stats{
		State: s.breaker.state, Overloaded: s.overloaded, InProgress: s.gate.inProgress, Queued: s.gate.queued(),
		Unavailable: s.unavailable, LateReplies: s.lateReplies,
		QueueFull: s.overload[queueFull], QueueWait: s.overload[queueWait], Scheduling: s.overload[scheduling],
		SchedulingDelay: s.clock.delayed,
	}
}
