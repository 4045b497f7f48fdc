package failover

import (
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/floodweir/weir"
)

// A breaker decides whether the store is called. While it is closed that costs two loads.
type breaker struct {
	failures int64
	cooldown time.Duration
	deadline time.Duration
	observe  func(open bool)

	// generation counts the changes of state. The breaker is closed in even generations and
	// open in odd ones. The result of a call of another generation is ignored.
	generation atomic.Uint64
	failed     atomic.Int64 // failures in a row
	abandoned  atomic.Int64 // ns that callers waited before they canceled, since the last reply

	mu        sync.Mutex
	until     time.Time // the end of the cool-down
	probing   bool      // a probe is in flight
	openErr   error     // the error of requests while the breaker is open
	cause     error     // the last failure
	events    []bool    // for observe, in order
	notifying bool      // a goroutine calls observe
}

// A permit allows one call of the store.
type permit struct {
	generation uint64
	probe      bool // the one call that finds out whether the store is available again
}

// enter returns a permit, or an error while the breaker is open.
func (b *breaker) enter() (permit, error) {
	generation := b.generation.Load()
	if generation%2 == 0 {
		return permit{generation: generation}, nil
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	generation = b.generation.Load()
	switch {
	case generation%2 == 0:
		return permit{generation: generation}, nil
	case b.probing || time.Now().Before(b.until):
		return permit{}, b.openErr
	}
	b.probing = true
	return permit{generation, true}, nil
}

// success ends a call with a reply.
func (b *breaker) success(p permit) {
	if p.probe {
		b.change(p, nil)
		return
	}
	if b.failed.Load() != 0 && b.generation.Load() == p.generation {
		b.failed.Store(0)
	}
	if b.abandoned.Load() != 0 {
		b.abandoned.Store(0)
	}
}

// fail ends a call without a reply.
func (b *breaker) fail(p permit, err error) {
	switch {
	case p.probe:
		b.mu.Lock()
		b.trip(err)
		b.mu.Unlock()
	case b.generation.Load() == p.generation && b.failed.Add(1) >= b.failures:
		b.change(p, err)
	}
}

// canceled ends a call whose caller canceled it after waiting for a time. A cancellation is
// no failure of the store. But if all callers cancel before the deadline, no call fails
// although none gets a reply. So the waiting times are added up until the next reply. The
// sum counts as a failure when it is as long as the failures that open the breaker.
func (b *breaker) canceled(p permit, waited time.Duration) {
	if b.generation.Load() != p.generation {
		return
	}
	sum := time.Duration(b.abandoned.Add(int64(waited)))
	enough := b.deadline
	if !p.probe {
		enough *= time.Duration(b.failures)
	}
	if sum >= enough {
		err := fmt.Errorf("no reply in %v of waiting by canceled requests", sum)
		if p.probe {
			b.fail(p, err)
		} else {
			b.change(p, err)
		}
		return
	}
	b.ignore(p)
}

// ignore ends a call whose result is no evidence about the store.
func (b *breaker) ignore(p permit) {
	if p.probe {
		b.mu.Lock()
		b.probing = false
		b.mu.Unlock()
	}
}

// lateReply records the reply to a probe whose caller has returned: the next request is a
// probe, without a further cool-down.
func (b *breaker) lateReply(p permit) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.generation.Load() == p.generation {
		b.until = time.Time{}
	}
}

// change begins the next generation: it opens the breaker because of err, or closes it if
// err is nil.
func (b *breaker) change(p permit, err error) {
	b.mu.Lock()
	if b.generation.Load() != p.generation {
		b.mu.Unlock()
		return
	}
	b.openErr, b.cause = nil, nil
	if err != nil {
		b.trip(err)
	}
	b.probing = false
	b.failed.Store(0)
	b.generation.Add(1)
	if b.observe == nil {
		b.mu.Unlock()
		return
	}
	b.events = append(b.events, err != nil)
	if b.notifying {
		b.mu.Unlock() // the notifying goroutine delivers this event too
		return
	}
	b.notifying = true
	defer func() {
		b.notifying = false
		b.mu.Unlock()
	}()
	for len(b.events) > 0 {
		open := b.events[0]
		b.events = b.events[1:]
		b.notify(open)
	}
}

// notify calls observe, which may use the store. It requires mu.
func (b *breaker) notify(open bool) {
	b.mu.Unlock()
	defer b.mu.Lock() // also if observe panics
	b.observe(open)
}

// trip begins a cool-down. It requires mu.
func (b *breaker) trip(err error) {
	b.until = time.Now().Add(b.cooldown)
	b.probing = false
	b.abandoned.Store(0)
	b.cause = err
	b.openErr = fmt.Errorf("failover: %w: circuit breaker open for %v after %d failures in a row, the last: %v", weir.ErrUnavailable, b.cooldown, b.failures, err)
}

// isOpen reports whether the breaker is open.
func (b *breaker) isOpen() bool { return b.generation.Load()%2 == 1 }

// err returns the last failure while the breaker is open, and nil otherwise.
func (b *breaker) err() error {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.cause
}
