package failover

import (
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/floodweir/weir"
)

// A breaker decides whether the store is asked. As long as all goes well it costs two
// loads.
type breaker struct {
	failures int64
	cooldown time.Duration
	deadline time.Duration
	observe  func(away bool)

	// era counts the changes: in an even one the store is asked, in an odd one it is
	// left alone. What a call of another era found out says nothing about this one.
	era    atomic.Uint64
	failed atomic.Int64 // decisions in a row
	vain   atomic.Int64 // for how many ns callers who left had waited, without an answer between them

	mu      sync.Mutex
	until   time.Time // when to try again
	trying  bool      // one request is under way to try
	why     error     // what the others are told
	cause   error     // the last failure
	news    []bool    // for observe, in order
	telling bool      // somebody tells them
}

// A turn is leave to ask the store.
type turn struct {
	era   uint64
	trial bool // the one request that tries whether the store is back
}

// enter gives a turn, or says why the store is not asked.
func (b *breaker) enter() (turn, error) {
	era := b.era.Load()
	if era%2 == 0 {
		return turn{era: era}, nil
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	era = b.era.Load()
	switch {
	case era%2 == 0:
		return turn{era: era}, nil
	case b.trying || time.Now().Before(b.until):
		return turn{}, b.why
	}
	b.trying = true
	return turn{era, true}, nil
}

// succeeded ends a turn with an answer.
func (b *breaker) succeeded(t turn) {
	if t.trial {
		b.change(t, nil)
		return
	}
	if b.failed.Load() != 0 && b.era.Load() == t.era {
		b.failed.Store(0)
	}
	if b.vain.Load() != 0 {
		b.vain.Store(0)
	}
}

// fail ends a turn without an answer.
func (b *breaker) fail(t turn, err error) {
	switch {
	case t.trial:
		b.mu.Lock()
		b.leaveAlone(err)
		b.mu.Unlock()
	case b.era.Load() == t.era && b.failed.Add(1) >= b.failures:
		b.change(t, err)
	}
}

// gone ends a turn whose caller left after having waited for a time. That is not a
// failure of the store. But callers who all leave before the deadline must not hide
// that nobody gets an answer, so it counts when they have waited in vain for as long
// as it takes to fail: in all, and in a row.
func (b *breaker) gone(t turn, waited time.Duration) {
	if b.era.Load() != t.era {
		return
	}
	vain := time.Duration(b.vain.Add(int64(waited)))
	enough := b.deadline
	if !t.trial {
		enough *= time.Duration(b.failures)
	}
	if vain >= enough {
		err := fmt.Errorf("no answer in %v, in which callers came and left", vain)
		if t.trial {
			b.fail(t, err)
		} else {
			b.change(t, err)
		}
		return
	}
	b.pass(t)
}

// pass ends a turn that says nothing about the store.
func (b *breaker) pass(t turn) {
	if t.trial {
		b.mu.Lock()
		b.trying = false
		b.mu.Unlock()
	}
}

// late is told of an answer to a try whose caller has left: the next request tries at
// once.
func (b *breaker) late(t turn) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.era.Load() == t.era {
		b.until = time.Time{}
	}
}

// change begins the next era: one that leaves the store alone because of err, or one
// that asks it if err is nil.
func (b *breaker) change(t turn, err error) {
	b.mu.Lock()
	if b.era.Load() != t.era {
		b.mu.Unlock()
		return
	}
	b.why, b.cause = nil, nil
	if err != nil {
		b.leaveAlone(err)
	}
	b.trying = false
	b.failed.Store(0)
	b.era.Add(1)
	if b.observe == nil {
		b.mu.Unlock()
		return
	}
	b.news = append(b.news, err != nil)
	if b.telling {
		b.mu.Unlock() // who is at it goes on with this one
		return
	}
	b.telling = true
	defer func() {
		b.telling = false
		b.mu.Unlock()
	}()
	for len(b.news) > 0 {
		away := b.news[0]
		b.news = b.news[1:]
		b.tell(away)
	}
}

// tell tells observe, which may ask the store. It requires mu.
func (b *breaker) tell(away bool) {
	b.mu.Unlock()
	defer b.mu.Lock() // also if it panics
	b.observe(away)
}

// leaveAlone begins a cooldown. It requires mu.
func (b *breaker) leaveAlone(err error) {
	b.until = time.Now().Add(b.cooldown)
	b.trying = false
	b.vain.Store(0)
	b.cause = err
	b.why = fmt.Errorf("failover: %w: left alone for %v after %d failures in a row, the last: %v", weir.ErrUnavailable, b.cooldown, b.failures, err)
}

// away reports whether the store is left alone.
func (b *breaker) away() bool { return b.era.Load()%2 == 1 }

// err is the last failure while the store is left alone.
func (b *breaker) err() error {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.cause
}
