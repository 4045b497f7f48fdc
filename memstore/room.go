package memstore

import (
	"sync"
	"sync/atomic"

	"github.com/floodweir/weir/memstore/internal/slab"
	"github.com/floodweir/weir/memstore/internal/table"
)

// overflowRoom is how many states there may be beyond MaxKeys for strangers to
// share: one for each of so many limits.
const overflowRoom = 1024

// acquire takes n of the keys that most leaves, or none.
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

// emptier gives n keys of MaxKeys back. It requires the shard's mu.
func (s *Store) emptier(sh *shard, n int64) {
	s.used.Add(-n)
	sh.dropped += n
}

// A sweeper makes room in a full store, in steps of bounded work. It goes round
// all shards; when a round has found nothing to drop, it rests until the earliest
// instant at which there can be something, so that a flood of new keys against a
// store full of debtors costs no look at them.
type sweeper struct {
	// sooner is set after every change that can make a key as never used sooner
	// than a sweep may have found, or that adds one. It is cleared when a round
	// begins: a change is either seen by the round, or sets it during or after it.
	sooner atomic.Bool

	mu    sync.Mutex
	shard int   // where the round is
	freed int64 // in this round
	first int64 // the earliest instant, of those seen in this round, at which a key is as never used
	rest  int64 // until then there is nothing to drop, unless sooner
}

const (
	// sweepSteps bounds the work of one sweep, in narrow entries.
	sweepSteps = 1024
	// wideSteps is what a wide entry counts for.
	wideSteps = 4
)

// sweep drops keys that are as never used, and reports by how much the store is
// emptier. It goes on where the sweep before it stopped: in a large store that
// is nearly full of debtors, the one key that can be dropped is found after some
// sweeps, not by each.
func (s *Store) sweep(now int64) (freed int64) {
	w := &s.sweeper
	w.mu.Lock()
	defer w.mu.Unlock()
	if now < w.rest && !w.sooner.Load() {
		return 0
	}
	w.rest = 0
	for steps, shards := sweepSteps, 0; steps > 0 && shards < len(s.shards); {
		sh := &s.shards[w.shard]
		sh.mu.Lock()
		if w.shard == 0 && sh.cursors() == 0 {
			w.sooner.Store(false)
			w.freed, w.first = 0, never
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
				w.rest = w.first
			}
		}
	}
	return freed
}

// sweepShard goes on in one shard, in at most so many steps, and takes those that
// it needed from steps. It reports whether the shard is through. It requires mu.
func (s *Store) sweepShard(sh *shard, now int64, steps *int) (freed int64, whole bool) {
	before := sh.dropped
	now = s.open(sh, now)
	t, first := sh.narrow.Load(), &s.sweeper.first
	for ; t.Cursor < t.Len() && *steps > 0; t.Cursor++ {
		*first = min(*first, s.dropNarrow(sh, &t.Entries[t.Cursor], now))
		*steps--
	}
	for w := &sh.wide; w.Cursor < w.Len() && *steps > 0; w.Cursor++ {
		*first = min(*first, s.dropWide(sh, &w.Entries[w.Cursor], now))
		*steps -= wideSteps
	}
	*first = min(*first, sh.holds.Due())
	if whole = t.Cursor >= t.Len() && sh.wide.Cursor >= sh.wide.Len(); whole {
		t.Cursor, sh.wide.Cursor = 0, 0
	}
	return sh.dropped - before, whole
}

// cursors is 0 if no sweep has begun with the shard. It requires mu.
func (sh *shard) cursors() int { return sh.narrow.Load().Cursor + sh.wide.Cursor }

// dropNarrow drops what an entry knows if it is as never used at now. Otherwise it
// returns the instant from which it is. It requires mu.
func (s *Store) dropNarrow(sh *shard, e *table.Entry, now int64) (until int64) {
	w := e.Word.Load()
	switch us, _ := unpack(w); {
	case e.Hash.Load() == 0 || w == gone:
		return never
	case w&^pin > pack(now, 0):
		return us
	case s.dropWord(sh, e, w):
		return never
	}
	return now // it is in use: ask again
}

// dropWord drops what an entry knows if that is still w: whoever wants to change
// it at the same time either was first, or finds it gone. It requires mu.
func (s *Store) dropWord(sh *shard, e *table.Entry, w uint64) bool {
	if !e.Word.CompareAndSwap(w, gone) {
		return false
	}
	s.keys.Add(-1)
	s.emptier(sh, 1)
	return true
}

// dropWide drops what an entry knows as dropNarrow does. It requires mu.
func (s *Store) dropWide(sh *shard, e *table.Entry, now int64) (until int64) {
	w := e.Word.Load()
	if e.Hash.Load() == 0 || w == gone {
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
	s.emptier(sh, price(r.Size()))
	sh.wide.drop(r)
	e.Word.Store(gone)
}

// sooner tells the sweeper that its rest may be over.
func (s *Store) sooner() {
	if w := &s.sweeper; !w.sooner.Load() {
		w.sooner.Store(true)
	}
}
