package virtual

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/floodweir/weir"
	"github.com/floodweir/weir/memstore"
)

// A Store is a memory store in virtual time. Package enforce waits by its clock.
type Store struct {
	*memstore.Store
	*Clock
	Down bool // makes no decisions

	mu    sync.Mutex // the timers of package enforce run in real time
	slots map[slot]weir.Request
}

// A slot identifies one slot of a concurrency limit.
type slot struct{ id, key, limit string }

// NewStore returns an empty store with a clock.
func NewStore(c *Clock) (*Store, error) {
	// At MaxKeys, new keys share a bucket, as in the program.
	mem, err := memstore.New(memstore.Config{Clock: c.now, Full: memstore.Share})
	return &Store{Store: mem, Clock: c, slots: map[slot]weir.Request{}}, err
}

var errDown = fmt.Errorf("virtual: %w: the test has stopped the store", weir.ErrUnavailable)

// Now implements the clock of package enforce.
func (s *Store) Now() time.Time { return s.Clock.Now() }

// Sleep implements the clock of package enforce.
func (s *Store) Sleep(ctx context.Context, d time.Duration) error { return s.Clock.Sleep(ctx, d) }

// Do implements [weir.Store].
func (s *Store) Do(ctx context.Context, r weir.Request) (weir.Decision, error) {
	if s.Down {
		return weir.Decision{}, errDown
	}
	d, err := s.Store.Do(ctx, r)
	if err == nil && d.OK {
		s.record(&r)
	}
	return d, err
}

// DoAll implements [weir.Store].
func (s *Store) DoAll(ctx context.Context, rs []weir.Request, ds []weir.Decision) (bool, error) {
	if s.Down {
		return false, errDown
	}
	ok, err := s.Store.DoAll(ctx, rs, ds)
	if err == nil && ok {
		for i := range rs {
			s.record(&rs[i])
		}
	}
	return ok, err
}

// record notes the slots that r takes or returns. Package enforce renews slots in real time,
// so they are renewed in virtual time here.
func (s *Store) record(r *weir.Request) {
	if !r.Limit.IsConcurrency() || r.Verb != weir.Reserve && r.Verb != weir.Cancel && r.Verb != weir.Commit {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	name := slot{r.ID, r.Key, r.Limit.String()}
	if _, known := s.slots[name]; r.Verb == weir.Reserve && !known {
		s.slots[name] = *r
		s.After(r.TTL/3, func() { s.renew(name) })
	} else if r.Verb != weir.Reserve {
		delete(s.slots, name)
	}
}

// renew extends a slot that is still taken.
func (s *Store) renew(name slot) {
	s.mu.Lock()
	r, taken := s.slots[name]
	s.mu.Unlock()
	if !taken {
		return
	}
	s.After(r.TTL/3, func() { s.renew(name) })
	if !s.Down {
		_, _ = s.Store.Do(context.Background(), r) // the slot expires otherwise
	}
}
