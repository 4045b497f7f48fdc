package memstore

import (
	"context"
	"fmt"
	"math"
	"sync"
	"sync/atomic"

	"github.com/floodweir/weir"
	"github.com/floodweir/weir/algo"
)

// A Store keeps the state of keys in this process. It is made by New, and is safe
// for concurrent use.
type Store struct {
	config Config
	clock  clock
	hash   hasher
	bits   int // of a hash, that choose its shard
	shards []shard
	txns   sync.Pool

	used  atomic.Int64 // of MaxKeys
	keys  atomic.Int64
	holds atomic.Int64

	shared  atomic.Int64 // requests decided by a shared state
	refused atomic.Int64

	full    error // what a new key meets when there is no room
	sweeper sweeper

	closing atomic.Bool
	saver   saver
}

var _ weir.Store = (*Store)(nil)

// closed is the due of a shard whose store is closed: before every instant.
const closed = math.MinInt64

func (s *Store) shard(hash uint64) *shard { return &s.shards[hash>>(64-s.bits)] }

// Do decides one request, as [weir.Store] says. It doesn't look at the context,
// since it never waits for anything.
func (s *Store) Do(_ context.Context, r weir.Request) (d weir.Decision, err error) {
	if err := r.Validate(); err != nil {
		return d, err
	}
	now := s.clock.now()
	if r.Verb <= weir.Return {
		hash := stateHash(s.hash.sum(r.Key), r.Limit)
		rule := r.Limit.Rule()
		if b := narrow(rule); b != nil {
			if s.narrow(b, &r, hash, now, &d) {
				return d, nil
			}
		} else if s.wide(rule, &r, hash, now, &d) {
			return d, nil
		}
	}
	return s.single(r, now)
}

// narrow decides on a state that fits a word: without a lock, if it is known. It
// reports false, having changed nothing, where only a txn can decide.
func (s *Store) narrow(b stepper, r *weir.Request, hash uint64, now int64, d *weir.Decision) bool {
	sh := s.shard(hash)
	e := sh.narrow.Load().find(hash)
	if e == nil {
		return s.begin(b, r, hash, now, d)
	}
	a := algo.Ask{Op: algo.Op(r.Verb), Now: now, N: r.N}
	for {
		w := e.word.Load()
		if !s.free(sh, r, w, now) {
			return false
		}
		us, rem := unpack(w)
		newUs, newRem, res := b.Step(us, rem, a)
		if newUs == us && newRem == rem {
			// Nothing to write; but what ran out between the two loads in free may have
			// been given back since.
			if e.word.Load() != w {
				continue
			}
		} else if !e.word.CompareAndSwap(w, packed(newUs, newRem, now)) {
			continue
		}
		if r.Verb == weir.Return {
			s.sooner()
		}
		*d = r.Limit.Decision(res, now)
		return true
	}
}

// begin decides on a state that is not known and fits a word. Like narrow it may
// leave it to a txn.
func (s *Store) begin(b stepper, r *weir.Request, hash uint64, now int64, d *weir.Decision) bool {
	sh := s.shard(hash)
	sh.mu.Lock()
	defer sh.mu.Unlock()
	if len(r.From) > 0 || sh.due.Load() == closed || sh.narrow.Load().find(hash) != nil {
		return false
	}
	now = s.open(sh, now)
	us, rem, res := b.Step(0, 0, algo.Ask{Op: algo.Op(r.Verb), Now: now, N: r.N})
	if us == 0 || !s.acquire(1, int64(s.config.MaxKeys)) {
		return false
	}
	s.addNarrow(sh, nil, hash, pack(us, rem))
	*d = r.Limit.Decision(res, now)
	return true
}

// free reports whether a request may be decided on the word w without a lock: w
// is neither pinned nor gone, no reservation of the shard has run out, and
// nothing may have to be carried over. due must be loaded after w.
func (s *Store) free(sh *shard, r *weir.Request, w uint64, now int64) bool {
	return w&pin == 0 && sh.due.Load() > now && (len(r.From) == 0 || w > pack(now, 0))
}

// wide decides on a state that is known and does not fit a word, in its place. It
// reports false, having changed nothing, where that can't be done.
func (s *Store) wide(rule algo.Rule, r *weir.Request, hash uint64, now int64, d *weir.Decision) bool {
	sh := s.shard(hash)
	sh.mu.Lock()
	defer sh.mu.Unlock()
	if sh.due.Load() == closed {
		return false
	}
	a := algo.Ask{Op: algo.Op(r.Verb), Now: s.open(sh, now), N: r.N, At: at(r)}
	e := sh.wide.find(hash)
	if e == nil || e.word.Load() == gone {
		return false
	}
	lies := ref(e.word.Load())
	words, limit := sh.wide.state(lies)
	if limit != r.Limit && limit.Fingerprint() != r.Limit.Fingerprint() || len(r.From) > 0 && rule.Until(words) <= a.Now {
		return false
	}
	if rule.Variable() && len(words)+room(rule) > capOf(lies.size()) {
		return false // it may grow out of its place, for which there may be no room
	}
	words, res := rule.Do(words, a)
	if rule.Variable() && res.OK && a.Op != algo.Peek {
		s.putWide(sh, e, words)
	}
	if a.Op == algo.Return {
		s.sooner()
	}
	*d = r.Limit.Decision(res, a.Now)
	return true
}

// DoAll decides requests together, as [weir.Store] says.
func (s *Store) DoAll(_ context.Context, rs []weir.Request, ds []weir.Decision) (bool, error) {
	if len(rs) != len(ds) || len(rs) > weir.MaxBatch {
		return false, fmt.Errorf("memstore: batch: %w: want as many decisions as requests, at most %d, got %d and %d", weir.ErrInvalid, weir.MaxBatch, len(ds), len(rs))
	}
	for i := range rs {
		if err := rs[i].Validate(); err != nil {
			return false, err
		}
	}
	t := s.txns.Get().(*txn)
	t.rs = rs
	ok, err := s.run(t, ds, s.clock.now())
	s.done(t)
	return ok, err
}

// single decides one request by a txn.
func (s *Store) single(r weir.Request, now int64) (weir.Decision, error) {
	t := s.txns.Get().(*txn)
	t.oneR[0] = r
	t.rs = t.oneR[:]
	_, err := s.run(t, t.oneD[:], now)
	d := t.oneD[0]
	s.done(t)
	if err != nil {
		return weir.Decision{}, err
	}
	return d, nil
}

func (s *Store) done(t *txn) {
	t.reset()
	s.txns.Put(t)
}

// run decides t, and makes room for it if need be.
func (s *Store) run(t *txn, ds []weir.Decision, now int64) (bool, error) {
	t.s = s
	for swept := 0; ; swept++ {
		ok, lacking, err := t.try(ds, now)
		switch {
		case err == s.full:
			s.refused.Add(1)
			return false, err
		case lacking == 0:
			s.shared.Add(int64(t.shared))
			return ok, err
		case swept < maxSweeps && s.sweep(t.now) >= lacking:
			// As there is room now, try again, if others were not faster.
		case s.config.Full == Share && !t.overflow:
			t.overflow = true
		default:
			s.refused.Add(1)
			return false, s.full
		}
	}
}

// maxSweeps bounds how often a request makes room that others take away.
const maxSweeps = 4

// try decides all requests of t. It reports whether all were OK and, if there was
// no room to keep that, how many keys are lacking.
func (t *txn) try(ds []weir.Decision, now int64) (ok bool, lacking int64, err error) {
	t.news, t.words, t.shared = t.news[:0], t.words[:0], 0 // of the try before
	t.gather()
	t.lock(now)
	defer t.unlock()
	if t.s.closing.Load() { // Close waits for the locks before it writes the snapshot
		return false, 0, errClosed
	}
	t.load()
	for i := range t.rs {
		t.precede(i)
	}
	t.preceded()
	ok = true
	for i := range t.rs {
		if err = t.decide(i, &ds[i]); err != nil {
			t.abandon()
			return false, 0, err
		}
		ok = ok && ds[i].OK
	}
	if s := t.s; s.config.Full == Share && !t.overflow && s.used.Load() >= int64(s.config.MaxKeys) && t.strangers() {
		t.abandon()
		return false, 1, nil // one that needs no room is told of the state that strangers share
	}
	if !ok && !t.deny() {
		t.abandon()
		return false, 0, nil
	}
	return ok, t.commit(), nil
}
