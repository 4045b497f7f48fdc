package memstore

import (
	"sync"
	"sync/atomic"

	"github.com/floodweir/weir/memstore/internal/slab"
	"github.com/floodweir/weir/memstore/internal/table"
)

// overflowStates is the number of overflow buckets, one per limit, that may exist beyond
// MaxKeys.
const overflowStates = 1024

// acquire takes n keys of room if no more than most are then in use, and none otherwise.
func (s *Store) acquire(n, most int64) bool {
	for {
		used := s.used.Load()
		if n > 0 && used+n > most {
			return false
		}
		if s.used.CompareAndSwap(used, used+n) {
			return true
		}
	}
}

// freeKeys gives n keys of MaxKeys back. It requires the shard's mu.
func (s *Store) freeKeys(sh *shard, n int64) {
	s.used.Add(-n)
	sh.freed += n
}

// A sweeper makes room in a full store, in steps of bounded work. It visits all shards
// in turn. If a round finds nothing to drop, the sweeper is idle until the earliest
// instant at which a key can be dropped. So a flood of new keys against a store in which
// all keys have debt causes no scans.
type sweeper struct {
	// woken is set after every change that adds a key, or may allow a key to be
	// dropped earlier than a sweep found. It is cleared when a round begins, so a
	// change is either visible to the round or sets it again.
	woken atomic.Bool

	mu        sync.Mutex
	shard     int   // the next one of the round
	freed     int64 // in this round
	earliest  int64 // the earliest instant, in this round, at which a key is as if never used
	idleUntil int64 // until then there is nothing to drop, unless woken
}

const (
	// sweepSteps bounds the work of one sweep, in narrow entries.
	sweepSteps = 1024
	// wideSteps is the cost of a wide entry, in narrow ones.
	wideSteps = 4
)

// sweep drops keys that are as if never used, and returns how many keys of room it
// freed. It continues where the last sweep stopped. So in a large store almost full of
// keys with debt, finding the one key to drop takes several sweeps.
func (s *Store) sweep(now int64) (freed int64) {
	w := &s.sweeper
	w.mu.Lock()
	defer w.mu.Unlock()
	if now < w.idleUntil && !w.woken.Load() {
		return 0
	}
	w.idleUntil = 0
	for steps, shards := sweepSteps, 0; steps > 0 && shards < len(s.shards); {
		sh := &s.shards[w.shard]
		sh.mu.Lock()
		if w.shard == 0 && sh.cursors() == 0 {
			w.woken.Store(false)
			w.freed, w.earliest = 0, never
		}
		n, whole := s.sweepShard(sh, now, &steps)
		sh.mu.Unlock()
		freed += n
		w.freed += n
		if !whole {
			break
		}
		shards++
		if w.shard++; w.shard == len(s.shards) {
			w.shard = 0
			if w.freed == 0 {
				w.idleUntil = w.earliest
			}
		}
	}
	return freed
}

// sweepShard sweeps a shard in at most so many steps, and subtracts the steps that it
// took. It reports whether the shard is complete. It requires mu.
func (s *Store) sweepShard(sh *shard, now int64, steps *int) (freed int64, whole bool) {
	before := sh.freed
	now = s.beginAt(sh, now)
	t, first := sh.narrow.Load(), &s.sweeper.earliest
	for ; t.Cursor < t.Len() && *steps > 0; t.Cursor++ {
		*first = min(*first, s.dropNarrow(sh, &t.Entries[t.Cursor], now))
		*steps--
	}
	for w := &sh.wide; w.Cursor < w.Len() && *steps > 0; w.Cursor++ {
		*first = min(*first, s.dropWide(sh, &w.Entries[w.Cursor], now))
		*steps -= wideSteps
	}
	*first = min(*first, sh.reservations.Due())
	if whole = t.Cursor >= t.Len() && sh.wide.Cursor >= sh.wide.Len(); whole {
		t.Cursor, sh.wide.Cursor = 0, 0
	}
	return sh.freed - before, whole
}

// cursors returns 0 if no sweep of the shard is in progress. It requires mu.
func (sh *shard) cursors() int { return sh.narrow.Load().Cursor + sh.wide.Cursor }

// dropNarrow drops the state of an entry if it is as if never used at now. Otherwise it
// returns the instant from which it is. It requires mu.
func (s *Store) dropNarrow(sh *shard, e *table.Entry, now int64) (until int64) {
	w := e.Word.Load()
	switch us, rem := unpack(w); {
	case e.Hash.Load() == 0 || w == dropped:
		return never
	case w&^pin > pack(now, 0):
		return us + min(rem, 1)
	case s.dropWord(sh, e, w):
		return never
	}
	return now // in use: try again
}

// dropWord drops the state of an entry if its word is still w: a concurrent decision
// either came first, or finds it dropped. It requires mu.
func (s *Store) dropWord(sh *shard, e *table.Entry, w uint64) bool {
	if !e.Word.CompareAndSwap(w, dropped) {
		return false
	}
	delete(sh.counts, e.Hash.Load())
	s.keys.Add(-1)
	s.freeKeys(sh, 1)
	return true
}

// dropWide drops the state of an entry as dropNarrow does. It requires mu.
func (s *Store) dropWide(sh *shard, e *table.Entry, now int64) (until int64) {
	w := e.Word.Load()
	if e.Hash.Load() == 0 || w == dropped {
		return never
	}
	words, limit := sh.wide.state(slab.Ref(w))
	if until = limit.Spec().Rule.Until(words); until <= now {
		s.forget(sh, e)
		return never
	}
	return until
}

// forget drops the wide state of an entry. It requires mu.
func (s *Store) forget(sh *shard, e *table.Entry) {
	r := slab.Ref(e.Word.Load())
	s.keys.Add(-1)
	s.freeKeys(sh, weight(r.Size()))
	sh.wide.drop(r)
	e.Word.Store(dropped)
}

// wake ends the idle time of the sweeper.
func (w *sweeper) wake() {
	if !w.woken.Load() {
		w.woken.Store(true)
	}
}
