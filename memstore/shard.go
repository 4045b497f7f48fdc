package memstore

import (
	"sync"
	"sync/atomic"

	"github.com/floodweir/weir/internal/algo"
	"github.com/floodweir/weir/memstore/internal/hold"
	"github.com/floodweir/weir/memstore/internal/slab"
	"github.com/floodweir/weir/memstore/internal/table"
)

// A shard keeps the states whose hashes begin with its number.
//
// Who may change a word of the narrow table: one that is not pinned anybody, by
// compare-and-swap; one that is pinned the holder of mu alone, who may also pin
// it. It is pinned while a txn works on a copy of it, and as long as its key has
// reservations: before each decision about those mu's holder looks at what has
// run out. Whoever meets a pin takes mu. Everything else is guarded by mu.
type shard struct {
	narrow atomic.Pointer[table.Table]

	_ [64]byte // what follows is written more often

	mu      sync.Mutex
	latest  int64 // the largest instant at which mu's holder decided or dropped anything
	wide    wide
	holds   hold.Queue
	dropped int64 // by how much what was dropped made the store emptier, in all
}

// open begins a decision at now, or at the latest instant of the shard, which it
// returns: what was dropped as having passed must not be asked at an instant
// before that. It gives back what has run out. It requires mu.
func (s *Store) open(sh *shard, now int64) int64 {
	now = max(now, sh.latest)
	sh.latest = now
	if sh.holds.Due() <= now {
		s.expire(sh, now)
	}
	return now
}

// expire gives the reservations back whose deadline has come. It requires mu.
func (s *Store) expire(sh *shard, now int64) {
	dropped := int64(0)
	for sh.holds.Due() <= now {
		h := sh.holds.Pop()
		if !h.Void {
			s.giveBack(sh, &h)
		}
		s.sooner()
		sh.wide.limits.release(h.Limit)
		dropped++
	}
	s.holds.Add(-dropped)
	s.emptier(sh, dropped)
}

// pins is the pin of a narrow state that no txn works on. It requires mu.
func (sh *shard) pins(state uint64) uint64 {
	if sh.holds.Any(state) {
		return pin
	}
	return 0
}

// giveBack does to a state what becomes of it as a hold, which has been popped,
// runs out: if the hold is not settled, its tokens are returned at its deadline,
// unless the state was as never used then. Whenever that is noticed, nobody can
// tell. It requires mu.
func (s *Store) giveBack(sh *shard, h *hold.Hold) {
	rule := sh.wide.limits.list[h.Limit].limit.Spec().Rule
	ask := algo.Ask{Op: algo.Return, Now: h.Deadline, N: h.N, At: h.At}
	if b := narrow(rule); b != nil {
		e := sh.narrow.Load().Find(h.State)
		if e == nil || e.Word.Load() == gone {
			return
		}
		w := e.Word.Load() &^ pin
		if !h.Settled && w > pack(h.Deadline, 0) {
			us, rem := unpack(w)
			us, rem, _ = b.Step(us, rem, ask)
			w = packed(us, rem, h.Deadline)
		}
		e.Word.Store(w | sh.pins(h.State))
		return
	}
	e := sh.wide.Find(h.State)
	if h.Settled || e == nil || e.Word.Load() == gone {
		return
	}
	words, _ := sh.wide.state(slab.Ref(e.Word.Load()))
	if rule.Until(words) <= h.Deadline {
		return
	}
	words, _ = rule.Do(words, ask)
	s.putWide(sh, e, words)
}

// putWide keeps the words of the wide state of an entry, and accounts for the room
// that they take. It requires mu.
func (s *Store) putWide(sh *shard, e *table.Entry, words []int64) {
	was := slab.Ref(e.Word.Load())
	is := sh.wide.put(was, words)
	if is != was {
		e.Word.Store(uint64(is))
		s.emptier(sh, price(was.Size())-price(is.Size()))
	}
}

// addNarrow keeps a narrow state of a hash. e is the entry of the hash if it has
// one, with the word gone. It requires mu, and that no txn works on an entry.
func (s *Store) addNarrow(sh *shard, e *table.Entry, hash, word uint64) {
	s.keys.Add(1)
	defer s.sooner()
	word |= sh.pins(hash)
	if e != nil {
		e.Word.Store(word)
		return
	}
	t := sh.narrow.Load()
	if t.Full() {
		for i := range t.Entries {
			s.dropNarrow(sh, &t.Entries[i], sh.latest)
		}
		t = t.Moved()
		t.Add(hash, word)
		sh.narrow.Store(t)
		return
	}
	t.Add(hash, word)
}

// addWide keeps a wide state of a hash, as addNarrow does.
func (s *Store) addWide(sh *shard, e *table.Entry, hash uint64, r slab.Ref) {
	s.keys.Add(1)
	defer s.sooner()
	if e != nil {
		e.Word.Store(uint64(r))
		return
	}
	if sh.wide.Full() {
		for i := range sh.wide.Entries {
			s.dropWide(sh, &sh.wide.Entries[i], sh.latest)
		}
		sh.wide.Table = sh.wide.Moved()
	}
	sh.wide.Add(hash, uint64(r))
}
