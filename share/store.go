package share

import (
	"context"
	"errors"
	"fmt"
	"hash/maphash"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/floodweir/weir"
	"github.com/floodweir/weir/internal/batching"
	"github.com/floodweir/weir/internal/bounds"
	"github.com/floodweir/weir/internal/missing"
	"github.com/floodweir/weir/internal/waitqueue"
	"github.com/floodweir/weir/share/internal/parts"
)

// A Store decides by shares. New makes it. It is safe for concurrent use.
type Store struct {
	strict weir.Store
	ledger Ledger
	config Config
	c      *settings
	clock  *clock
	seed   maphash.Seed
	table  *table
	limits limits
	queues []batching.Queue[*op] // an entry always uses the same one

	asked  atomic.Int64 // requests that the ledger decided
	strong atomic.Int64 // requests that the strict store decided
	closed atomic.Bool
	stop   chan struct{}
	ended  sync.WaitGroup
}

var _ weir.Store = (*Store)(nil)

// New returns a Store that divides limits by a ledger. The strict store decides the limits that
// [Supports] refuses. An error wraps weir.ErrInvalid.
func New(strict weir.Store, ledger Ledger, c Config) (*Store, error) {
	switch {
	case missing.Value(strict):
		return nil, fmt.Errorf("share: strict store: %w: got nil, want a store such as that of package redisstore", weir.ErrInvalid)
	case missing.Value(ledger):
		return nil, fmt.Errorf("share: ledger: %w: got nil, want a ledger such as NewMemory", weir.ErrInvalid)
	}
	c, err := c.normalize()
	if err != nil {
		return nil, err
	}
	s := &Store{
		strict: strict, ledger: ledger, config: c, c: c.settings(), clock: newClock(int64(c.Drift)),
		seed: maphash.MakeSeed(), table: newTable(c.MaxKeys), stop: make(chan struct{}),
	}
	s.queues = newQueues(c, maxOps, s.send)
	s.ended.Go(s.run)
	return s, nil
}

// newQueues returns the queues of calls of a ledger, each for batches of at most most ops.
func newQueues[T batching.Op](c Config, most int, send func([]T)) []batching.Queue[T] {
	queues := make([]batching.Queue[T], c.InFlight)
	for i := range queues {
		queues[i] = batching.Queue[T]{
			Send: send, InFlight: 1, MaxBatch: most, Timeout: c.Timeout, Closed: errClosed,
			Failed: func(cause error) error { return unavailable("wait", cause) },
		}
	}
	return queues
}

// maxOps bounds the ops of a trip. Those of one key need one row, so a far ledger decides all requests that
// came meanwhile at once.
const maxOps = 32 * MaxBatch

var errClosed = fmt.Errorf("share: %w", weir.ErrClosed)

// Close returns the shares, which takes at most a Timeout or two. Later requests get weir.ErrClosed. It closes
// neither the strict store nor the ledger. Closing again does nothing. An error reports that
// shares were not returned: they are unused until their leases end.
func (s *Store) Close() error {
	if s.closed.Swap(true) {
		return nil
	}
	close(s.stop)
	s.ended.Wait()
	s.c.closing.Store(true)
	err := errors.Join(s.turns(s.clock.now()), s.turns(s.clock.now())) // again those that got one meanwhile
	for i := range s.queues {
		s.queues[i].Close()
	}
	return err
}

// run gives turns to holders until Close.
func (s *Store) run() {
	t := time.NewTicker(s.config.Interval / ticks)
	defer t.Stop()
	var turns sync.WaitGroup
	defer turns.Wait()
	for {
		select {
		case <-s.stop:
			return
		case <-t.C:
		}
		turns.Go(func() { _ = s.turns(s.clock.now()) }) // holders whose turn fails get another one
	}
}

// turns gives a turn to each holder that needs one, in one trip for each queue.
func (s *Store) turns(m moment) error {
	due := make([][]*op, len(s.queues))
	for i := range s.table.slots {
		e := s.table.slots[i].Load()
		if e == nil || !e.tick(s.c, m) {
			continue
		}
		q := e.lane % uint64(len(s.queues))
		due[q] = append(due[q], &op{entry: e})
	}
	errs := make([]error, len(due))
	var wg sync.WaitGroup
	for i, ops := range due {
		if len(ops) > 0 {
			wg.Go(func() { errs[i] = s.turn(&s.queues[i], ops) })
		}
	}
	wg.Wait()
	for _, err := range errs {
		if err != nil {
			return err
		}
	}
	return nil
}

func (s *Store) turn(q *batching.Queue[*op], ops []*op) error {
	err := q.Do(context.Background(), ops...)
	for _, o := range ops {
		o.entry.endTurn()
		if err == nil {
			err = o.Err
		}
	}
	return err
}

// send makes the trip of a batch.
func (s *Store) send(ops []*op) {
	for t := newTrip(s.c, s.clock, ops); ; {
		names := t.names()
		if len(names) == 0 {
			return
		}
		rows, now := make([]Stored, len(names)), time.Time{}
		err := s.call(ops, func(ctx context.Context) (err error) {
			now, err = s.ledger.Load(ctx, names, rows)
			return err
		})
		for swaps := t.loaded(rows, now, err); len(swaps) > 0; {
			swaps = t.swapped(s.call(ops, func(ctx context.Context) error { return s.ledger.Swap(ctx, swaps) }))
		}
		_ = waitqueue.Sleep(context.Background(), time.Duration(t.pause)*time.Microsecond)
	}
}

// call calls the ledger, and reports that to the callers of ops. An error is no reply: a server that
// is loading replies, but cannot decide.
func (s *Store) call(ops []*op, f func(context.Context) error) error {
	ctx, cancel := context.WithTimeout(context.Background(), s.config.Timeout)
	defer cancel()
	for _, o := range ops {
		o.Progress.Sent()
	}
	err := f(ctx)
	if err == nil {
		for _, o := range ops {
			o.Progress.Replied()
		}
	}
	return err
}

// Do implements [weir.Store].
func (s *Store) Do(ctx context.Context, r weir.Request) (d weir.Decision, err error) {
	if err := r.Validate(); err != nil {
		return d, err
	}
	if s.closed.Load() {
		return d, errClosed
	}
	hash, e := s.find(&r)
	if e != nil && s.c.divided(r.Key) && e.decide(&r, s.clock.now(), &d) {
		return d, nil
	}
	return s.ask(ctx, r, hash)
}

// find returns the hash of a request, and the entry of its key or nil.
func (s *Store) find(r *weir.Request) (uint64, *entry) {
	hash := maphash.String(s.seed, r.Key) ^ r.Limit.Spec().ID
	return hash, s.table.find(hash, r.Key, r.Limit)
}

// divide returns the limit of a request with its units, or the reason why it is not divided.
func (s *Store) divide(r *weir.Request) (*parts.Limit, error) {
	if !s.c.divided(r.Key) {
		return nil, errStrict
	}
	return s.limits.divide(r.Limit)
}

// count returns how many of rs have limits that are divided.
func (s *Store) count(rs []weir.Request) (divided int) {
	for i := range rs {
		if _, err := s.divide(&rs[i]); err == nil {
			divided++
		}
	}
	return divided
}

var errStrict = fmt.Errorf("share: key: %w: Config.Terms does not divide its limits", weir.ErrInvalid)

// ask decides a request by the ledger, or by the strict store.
func (s *Store) ask(ctx context.Context, r weir.Request, hash uint64) (weir.Decision, error) {
	l, reason := s.divide(&r)
	switch {
	case reason != nil:
		s.strong.Add(1)
		return s.strict.Do(ctx, r)
	case r.Verb >= weir.Reserve:
		return weir.Decision{}, fmt.Errorf("share: %s: %w: shares of %s have no reservations: turn shares off for it", r.Verb, weir.ErrInvalid, r.Limit.Brief())
	}
	s.asked.Add(1)
	return s.askLedger(ctx, r, l, hash)
}

// askLedger decides a request by the ledger. Its variables are allocated, so it is not part of its
// callers.
func (s *Store) askLedger(ctx context.Context, r weir.Request, l *parts.Limit, hash uint64) (weir.Decision, error) {
	r.Key, r.From = strings.Clone(r.Key), slices.Clone(r.From) // the caller may use its memory again
	e := s.table.enter(hash, r.Key, l)
	defer e.leave()
	o := &op{entry: e, r: &r}
	if err := s.queues[e.lane%uint64(len(s.queues))].Do(ctx, o); err != nil {
		return weir.Decision{}, err
	}
	if o.Err != nil {
		return weir.Decision{}, o.Err
	}
	return o.d, nil
}

// DoAll implements [weir.Store]. Requests under limits that can be divided are decided first, one
// after the other, and given back if another request is denied. Meanwhile other requests
// may be denied for their tokens. If the process ends in between, the tokens stay charged.
func (s *Store) DoAll(ctx context.Context, rs []weir.Request, ds []weir.Decision) (bool, error) {
	if err := bounds.Check("share", weir.ErrInvalid, rs, len(ds)); err != nil {
		return false, err
	}
	return s.doAll(ctx, rs, ds, s.strict, s.Do)
}

// doAll is DoAll, with the store of the strict limits and the function that decides requests under the others.
func (s *Store) doAll(ctx context.Context, rs []weir.Request, ds []weir.Decision, store weir.Store, do func(context.Context, weir.Request) (weir.Decision, error)) (bool, error) {
	divided := s.count(rs)
	if divided == 0 {
		s.strong.Add(1)
		return store.DoAll(ctx, rs, ds)
	}
	var strict []weir.Request
	var places []int
	if divided < len(rs) {
		for i := range rs {
			if _, err := s.divide(&rs[i]); err != nil {
				strict, places = append(strict, rs[i]), append(places, i)
			}
		}
	}
	ok, err := true, error(nil)
	var few [8]int // without an allocation
	charged := few[:0]
	for i := range rs {
		if slices.Contains(places, i) {
			continue
		}
		r := rs[i]
		if !ok && r.Verb <= weir.Charge {
			r.Verb = weir.Peek
		} else if !ok {
			continue
		}
		if ds[i], err = do(ctx, r); err != nil {
			break
		}
		ok = ok && ds[i].OK
		if r.Verb != weir.Peek && ds[i].Granted > 0 {
			charged = append(charged, i)
		}
	}
	if err == nil && len(strict) > 0 {
		answers := make([]weir.Decision, len(strict))
		all := ok
		if all {
			all, err = store.DoAll(ctx, strict, answers)
		} else {
			for i := range strict {
				if strict[i].Verb < weir.Return {
					strict[i].Verb = weir.Peek
					answers[i], err = store.Do(ctx, strict[i])
				}
			}
		}
		for i, place := range places {
			ds[place] = answers[i]
		}
		ok = all
	}
	if ok && err == nil {
		return true, nil
	}
	for _, i := range charged {
		back := rs[i]
		back.Verb, back.N, back.At = weir.Return, ds[i].Granted, ds[i].At
		if _, failed := do(context.WithoutCancel(ctx), back); failed != nil && err == nil {
			err = failed
		}
	}
	return false, err
}

// Supports returns nil if l can be divided into shares. Otherwise the error wraps weir.ErrInvalid
// and has the reason. A Store passes requests of such a limit to its strict store.
func Supports(l weir.Limit) error {
	_, err := parts.Divide(l)
	return err
}

// limits caches which limits can be divided.
type limits struct {
	mu  sync.RWMutex
	all map[weir.Limit]divided
}

type divided struct {
	limit *parts.Limit
	err   error
}

const maxLimits = 4096

func (c *limits) divide(l weir.Limit) (*parts.Limit, error) {
	c.mu.RLock()
	d, ok := c.all[l]
	c.mu.RUnlock()
	if !ok {
		d.limit, d.err = parts.Divide(l)
		c.mu.Lock()
		if c.all == nil || len(c.all) >= maxLimits {
			c.all = map[weir.Limit]divided{}
		}
		c.all[l] = d
		c.mu.Unlock()
	}
	return d.limit, d.err
}
