package memstore

import (
	"context"
	"sync"
	"sync/atomic"

	"github.com/floodweir/weir"
	"github.com/floodweir/weir/internal/algo"
	"github.com/floodweir/weir/internal/bounds"
	"github.com/floodweir/weir/memstore/internal/slab"
)

// A Store keeps the state of keys in this process. New makes it. It is safe for
// concurrent use.
type Store struct {
	config  Config
	clock   clock
	hash    hasher
	bits    int // the number of bits of a hash that select its shard
	shards  []shard
	narrows narrows
	full    error // the result of a new key without room
	closing atomic.Bool

	_ [64]byte // the fields below are written more often

	txns sync.Pool // of *txn
	many sync.Pool // of *many

	used         atomic.Int64 // of MaxKeys
	keys         atomic.Int64
	reservations atomic.Int64

	shared  atomic.Int64 // requests charged to an overflow bucket
	refused atomic.Int64

	sweeper sweeper
	saver   saver
}

var _ weir.Store = (*Store)(nil)

func (s *Store) shard(hash uint64) *shard { return &s.shards[hash>>(64-s.bits)] }

// Do decides one request, as [weir.Store] defines. It ignores the context, because it
// never waits.
func (s *Store) Do(_ context.Context, r weir.Request) (d weir.Decision, err error) {
	if err := r.Validate(); err != nil {
		return d, err
	}
	if s.closing.Load() {
		return d, errClosed
	}
	now := s.clock.now()
	if r.Verb <= weir.Return || r.Limit.IsConcurrency() && r.Verb >= weir.Reserve {
		hash := stateHash(s.hash.sum(r.Key), r.Limit)
		rule := r.Limit.Spec().Rule
		if b := narrow(r.Limit); b != nil {
			if s.narrow(b, &r, hash, now, &d) || s.locked(b, &r, hash, now, &d) {
				return d, nil
			}
		} else if s.wide(rule, &r, hash, now, &d) {
			return d, nil
		}
	}
	return s.single(r, now)
}

// narrow decides without a lock on a state that fits a word. It returns false, without a
// change, if the state does not exist or is pinned, may have to be carried over, or does not fit
// the word.
func (s *Store) narrow(b stepper, r *weir.Request, hash uint64, now int64, d *weir.Decision) bool {
	e := s.narrows.find(hash)
	if e == nil {
		return false
	}
	a := algo.Ask{Op: algo.Op(r.Verb), Now: now, N: r.N, At: at(r)}
	for {
		w := e.Word.Load()
		if w&pin != 0 || len(r.From) > 0 && w <= pack(now, 0) {
			return false
		}
		us, rem := unpack(w)
		newUs, newRem, res := b.Step(us, rem, a)
		if newRem >= maxUnits {
			return false
		}
		if (newUs != us || newRem != rem) && !e.Word.CompareAndSwap(w, packed(newUs, newRem, now)) {
			continue
		}
		if r.Verb == weir.Return {
			s.sweeper.wake()
		}
		r.Limit.Spec().Fill(d, &res, now)
		return true
	}
}

// locked decides as narrow does, with the lock: on a state that does not exist or has
// reservations. It returns false, without a change, if only a txn can decide.
func (s *Store) locked(b stepper, r *weir.Request, hash uint64, now int64, d *weir.Decision) bool {
	sh := s.shard(hash)
	sh.mu.Lock()
	defer sh.mu.Unlock()
	if len(r.From) > 0 || s.closing.Load() {
		return false
	}
	a := algo.Ask{Op: algo.Op(r.Verb), Now: s.beginAt(sh, now), N: r.N, At: at(r)}
	for e := sh.narrow.Load().Find(hash); ; {
		w, us, rem := uint64(dropped), int64(0), int64(0)
		if e != nil {
			w = e.Word.Load()
		}
		if w != dropped {
			us, rem = sh.pair(hash, w)
		}
		us, rem, res := b.Step(us, rem, a)
		if w&pin != 0 && sh.reservations.Any(hash) {
			state := b.State(us, rem)
			res = algo.Await(r.Limit.Spec().Rule, state[:], a, res, sh.open(hash), nil)
		}
		switch {
		case w != dropped:
			if !e.Word.CompareAndSwap(w, sh.word(hash, us, rem, a.Now)) {
				continue // no longer pinned
			}
		case us == 0 || !s.acquire(1, int64(s.config.MaxKeys)):
			return false
		default:
			s.addNarrow(sh, hash, us, rem, a.Now)
		}
		if r.Verb == weir.Return {
			s.sweeper.wake()
		}
		r.Limit.Spec().Fill(d, &res, a.Now)
		return true
	}
}

// wide decides in place on an existing state that does not fit a word. It returns false,
// without a change, if only a txn can decide.
func (s *Store) wide(rule algo.Rule, r *weir.Request, hash uint64, now int64, d *weir.Decision) bool {
	sh := s.shard(hash)
	sh.mu.Lock()
	defer sh.mu.Unlock()
	if s.closing.Load() {
		return false
	}
	a := algo.Ask{Op: algo.Op(r.Verb), Place: place(r), Now: s.beginAt(sh, now), N: r.N, At: at(r)}
	if r.Verb >= weir.Reserve {
		if a.Op, a.ID, a.TTL = algo.Return, s.hash.reservation(r), ttlOf(r); r.Verb == weir.Reserve {
			a.Op = algo.Take
		}
	}
	e := sh.wide.Find(hash)
	if e == nil || e.Word.Load() == dropped {
		return false
	}
	ref := slab.Ref(e.Word.Load())
	words, limit := sh.wide.state(ref)
	if limit != r.Limit && !sameState(limit, r.Limit) || len(r.From) > 0 && rule.Until(words) <= a.Now {
		return false
	}
	if rule.Variable() && weight(slab.SizeOf(len(words)+growth(rule))) > weight(ref.Size()) {
		return false // it may need a larger record, for which there may be no room
	}
	if r.Verb >= weir.Reserve && sh.reservations.Any(hash) {
		return false
	}
	words, res := rule.Do(words, a)
	if sh.reservations.Any(hash) {
		res = algo.Await(rule, words, a, res, sh.open(hash), nil)
	}
	if rule.Variable() && res.OK && a.Op != algo.Peek || sh.wide.isJoined(ref) {
		s.putWide(sh, e, words)
	}
	if a.Op == algo.Return {
		s.sweeper.wake()
	}
	if r.Verb >= weir.Commit {
		if res.Granted == 0 {
			return false // only expired slots are gone: the slot may be that of a former limit
		}
		res.Granted = 0
	}
	r.Limit.Spec().Fill(d, &res, a.Now)
	return true
}

// DoAll decides requests together, as [weir.Store] defines.
func (s *Store) DoAll(_ context.Context, rs []weir.Request, ds []weir.Decision) (bool, error) {
	if err := bounds.Check("memstore", weir.ErrInvalid, rs, len(ds)); err != nil {
		return false, err
	}
	now := s.clock.now()
	if ok, decided := decideTogether(s, rs, ds, now); decided {
		return ok, nil
	}
	t := s.txns.Get().(*txn)
	t.rs = rs
	ok, err := s.run(t, ds, now)
	release(t, &s.txns)
	return ok, err
}

// single decides one request by a txn.
func (s *Store) single(r weir.Request, now int64) (weir.Decision, error) {
	t := s.txns.Get().(*txn)
	t.oneR[0] = r
	t.rs = t.oneR[:]
	_, err := s.run(t, t.oneD[:], now)
	d := t.oneD[0]
	release(t, &s.txns)
	if err != nil {
		return weir.Decision{}, err
	}
	return d, nil
}

// run decides t, and makes room for it if needed.
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
			// There was room for a moment: try again.
		case s.config.Full == Share && !t.overflow:
			t.overflow = true
		default:
			s.refused.Add(1)
			return false, s.full
		}
	}
}

// maxSweeps bounds how often a request makes room that other requests then take.
const maxSweeps = 4

// try decides all requests of t. It reports whether all were OK and, if there was no
// room for the result, how many keys of room are lacking.
func (t *txn) try(ds []weir.Decision, now int64) (ok bool, lacking int64, err error) {
	t.pending, t.words, t.shared = t.pending[:0], t.words[:0], 0 // of the last try
	t.gather()
	t.lock(now)
	defer t.unlock()
	if t.s.closing.Load() { // Close waits for the locks before it writes the snapshot
		return false, 0, errClosed
	}
	t.load()
	for i := range t.rs {
		t.applyCarryOver(i)
	}
	t.saveUndo()
	ok = true
	for i := range t.rs {
		if err = t.decide(i, &ds[i]); err != nil {
			t.abandon()
			return false, 0, err
		}
		ok = ok && ds[i].OK
	}
	if s := t.s; s.config.Full == Share && !t.overflow && s.used.Load() >= int64(s.config.MaxKeys) && t.hasUnknown() {
		t.abandon()
		return false, 1, nil // a request that needs no room uses the overflow bucket too
	}
	if !ok && !t.rollBack() {
		t.abandon()
		return false, 0, nil
	}
	return ok, t.commit(), nil
}
