package denycache

import (
	"cmp"
	"context"
	"fmt"
	"hash/maphash"
	"math/bits"
	"sync/atomic"
	"time"

	"github.com/floodweir/weir"
	"github.com/floodweir/weir/internal/missing"
)

// Config describes a Store. Its zero value works.
type Config struct {
	// MaxKeys bounds the denials in the cache; DefaultMaxKeys if zero, at most 2^24. It is
	// rounded up to a power of two. A denial takes about 500 bytes and its key.
	MaxKeys int

	// MaxAge bounds the time for which a denial is repeated. So a Return or a Reset by another
	// process takes effect within MaxAge; DefaultMaxAge if zero, at most a minute.
	MaxAge time.Duration
}

// The default values of fields of Config.
const (
	DefaultMaxKeys = 1 << 16
	DefaultMaxAge  = time.Second
)

// A Store repeats denials of the store below it. It is safe for concurrent use.
type Store struct {
	store    weir.Store
	maxAge   time.Duration
	now      func() time.Duration // monotonic
	seed     maphash.Seed
	table    table
	versions versions
	repeated atomic.Int64
}

var _ weir.Store = (*Store)(nil)

// New returns a Store over store. An error wraps weir.ErrInvalid.
func New(store weir.Store, c Config) (*Store, error) {
	if missing.Value(store) {
		return nil, fmt.Errorf("denycache: store: %w: got nil, want a store such as that of package redisstore", weir.ErrInvalid)
	}
	c.MaxKeys, c.MaxAge = cmp.Or(c.MaxKeys, DefaultMaxKeys), cmp.Or(c.MaxAge, DefaultMaxAge)
	if c.MaxKeys < 1 || c.MaxKeys > 1<<24 {
		return nil, fmt.Errorf("denycache: MaxKeys: %w: got %d, want 1 to %d", weir.ErrInvalid, c.MaxKeys, 1<<24)
	}
	if c.MaxAge < 0 || c.MaxAge > time.Minute {
		return nil, fmt.Errorf("denycache: MaxAge: %w: got %v, want more than 0, at most 1m", weir.ErrInvalid, c.MaxAge)
	}
	epoch := time.Now()
	return &Store{
		store: store, maxAge: c.MaxAge, seed: maphash.MakeSeed(),
		now:   func() time.Duration { return time.Since(epoch) },
		table: newTable(c.MaxKeys),
	}, nil
}

// Stats are the counts of a Store.
type Stats struct {
	Repeated int64 // requests and batches that were denied without a call of the store
	Keys     int   // denials in the cache
	MaxKeys  int
}

// Stats returns the counts. It reads the whole cache.
func (s *Store) Stats() Stats {
	return Stats{s.repeated.Load(), s.table.len(), len(s.table.slots)}
}

// Do implements [weir.Store].
func (s *Store) Do(ctx context.Context, r weir.Request) (weir.Decision, error) {
	one := [1]weir.Request{r}
	if !repeatable(one[:]) {
		return s.pass(ctx, r)
	}
	var d [1]weir.Decision
	h := s.hash(one[:])
	if e := s.table.find(h, one[:]); e != nil && ctx.Err() == nil && s.repeat(e, d[:], s.now()) {
		return d[0], nil
	}
	return s.ask(ctx, r, h)
}

// DoAll implements [weir.Store].
func (s *Store) DoAll(ctx context.Context, rs []weir.Request, ds []weir.Decision) (bool, error) {
	if len(rs) != len(ds) || !repeatable(rs) {
		ok, err := s.store.DoAll(ctx, rs, ds)
		s.changed(rs, ok, err)
		return ok, err
	}
	h := s.hash(rs)
	if e := s.table.find(h, rs); e != nil && ctx.Err() == nil && s.repeat(e, ds, s.now()) {
		return false, nil
	}
	return s.askAll(ctx, rs, ds, h)
}

// pass decides a request that is never repeated.
func (s *Store) pass(ctx context.Context, r weir.Request) (weir.Decision, error) {
	d, err := s.store.Do(ctx, r)
	s.changed([]weir.Request{r}, d.OK, err)
	return d, err
}

// ask decides a request that may be repeated later. It is not part of Do, whose variables
// would be allocated.
func (s *Store) ask(ctx context.Context, r weir.Request, h uint64) (weir.Decision, error) {
	rs, ds := []weir.Request{r}, make([]weir.Decision, 1)
	_, err := s.decide(ctx, rs, ds, h, func() (ok bool, err error) {
		ds[0], err = s.store.Do(ctx, r)
		return ds[0].OK, err
	})
	return ds[0], err
}

func (s *Store) askAll(ctx context.Context, rs []weir.Request, ds []weir.Decision, h uint64) (bool, error) {
	return s.decide(ctx, rs, ds, h, func() (bool, error) { return s.store.DoAll(ctx, rs, ds) })
}

// decide decides requests by call, unless the denial of an equal call holds for them.
func (s *Store) decide(ctx context.Context, rs []weir.Request, ds []weir.Decision, h uint64, call func() (bool, error)) (bool, error) {
	last, repeated := s.join(ctx, rs, ds, h)
	if repeated {
		return false, nil
	}
	var group *probes // nil for a first call, until it is denied: most are admitted
	if last != nil {
		group = last.probes
	}
	result := undecided
	var start, end time.Duration
	defer func() {
		if last != nil && result == undecided {
			s.table.remove(last)
		}
		if group != nil {
			group.end(result, end-start)
		}
	}()
	var few [2]version
	seen, before := s.read(few[:0], rs, group)
	start = s.now()
	ok, err := call()
	end = s.now()
	seen, total := s.written(rs, group, seen, before, ok, err)
	switch {
	case err != nil:
	case !ok:
		if e := s.entry(h, rs, ds, seen, start, end); e != nil {
			if group == nil {
				group = newProbes()
			}
			e.probes, e.admitted = group, total
			if first := s.table.find(h, rs); first != nil && first.probes != group { // of another first call
				e.probes, e.admitted = first.probes, first.probes.admissions()
			}
			s.table.insert(e)
			if result = denied; !s.holds(e) {
				result = outdated
			}
		}
	case scarce(rs, ds):
		result = admitted // last stays, so that the next request is a probe again
	}
	return ok, err
}

// join waits while equal requests call the store after their denial has ended. It reports
// whether ds are now the decisions of one of them. If not, the caller calls the store; as one
// of the probes of last, if that is not nil.
func (s *Store) join(ctx context.Context, rs []weir.Request, ds []weir.Decision, h uint64) (last *entry, repeated bool) {
	arrived := s.now()
	var timer *time.Timer
	for waits := 0; ; {
		e := s.table.find(h, rs)
		switch {
		case e == nil || s.now()-e.until > s.maxAge:
			return nil, false
		case s.repeatLate(e, ds, arrived):
			return nil, true
		}
		must := waits == maxWaits || ctx.Err() != nil
		denial := e.probes.begin(waits, must)
		if denial == nil {
			if must || s.table.find(h, rs) == e {
				return e, false
			}
			e.probes.leave() // another probe has ended meanwhile
			continue
		}
		if timer == nil {
			timer = time.NewTimer(e.probes.wait())
			defer timer.Stop()
		}
		select {
		case <-denial:
		case <-e.probes.free:
		case <-ctx.Done():
		case <-timer.C:
			// If this process did not run for some time, the reply may be there already.
			// So the request waits once more, and one of them calls the store meanwhile.
			waits++
			timer.Reset(e.probes.wait())
		}
	}
}

// repeat writes the decisions of e to ds, if they hold now.
func (s *Store) repeat(e *entry, ds []weir.Decision, now time.Duration) bool {
	if now >= e.until || !s.current(e.seen) {
		return false
	}
	s.write(e, ds, now)
	return true
}

// repeatLate is repeat for a request that has waited. It may be denied if the denial held at
// some time since its arrival. Equal requests may have been admitted since.
func (s *Store) repeatLate(e *entry, ds []weir.Decision, arrived time.Duration) bool {
	if arrived >= e.until || !s.holds(e) {
		return false
	}
	s.write(e, ds, s.now())
	return true
}

// write writes the decisions of e, as of now, to ds. They are of the last instant until now at
// which the denial held.
func (s *Store) write(e *entry, ds []weir.Decision, now time.Duration) {
	copy(ds, e.ds)
	age := max(0, now-e.end).Truncate(time.Microsecond)
	held := max(0, min(now, e.until-time.Microsecond)-e.end).Truncate(time.Microsecond)
	for i := range ds {
		d := &ds[i]
		d.At = d.At.Add(held)
		d.ResetAfter = since(d.ResetAfter, age, 0)
		if !d.OK {
			d.RetryAfter = since(d.RetryAfter, age, time.Microsecond)
		}
	}
	s.repeated.Add(1)
}

// since returns a duration of a decision after age, and at least least.
func since(d, age, least time.Duration) time.Duration {
	if d >= weir.Never-1 { // it is not exact
		return d
	}
	return max(least, d-age)
}

const (
	maxBatch = 16      // requests of a cached denial
	maxBytes = 1 << 10 // of its keys
)

// repeatable reports whether a denial of rs may be repeated.
func repeatable(rs []weir.Request) bool {
	if len(rs) == 0 || len(rs) > maxBatch {
		return false
	}
	size := 0
	for i := range rs {
		r := &rs[i]
		size += len(r.Key)
		if r.Verb > weir.TakeUpTo || r.N <= 0 || r.Key == "" || r.Limit.IsZero() || size > maxBytes {
			return false
		}
	}
	return true
}

// scarce reports whether an equal call after an admitted one would probably be denied.
func scarce(rs []weir.Request, ds []weir.Decision) bool {
	for i := range rs {
		if !lends(rs[i].Limit) && ds[i].Remaining < rs[i].N {
			return true
		}
	}
	return false
}

// hash returns the hash of a call.
func (s *Store) hash(rs []weir.Request) (h uint64) {
	for i := range rs {
		r := &rs[i]
		h = mix(h^maphash.String(s.seed, r.Key)) ^ r.Limit.Spec().ID
		h = mix(h ^ uint64(r.N)<<1 ^ uint64(r.Verb))
	}
	return h
}

func mix(h uint64) uint64 {
	high, low := bits.Mul64(h, 0x9e3779b97f4a7c15)
	return high ^ low
}
