package memstore

import (
	"sync"
	"sync/atomic"

	"github.com/floodweir/weir/internal/algo"
	"github.com/floodweir/weir/memstore/internal/reservation"
	"github.com/floodweir/weir/memstore/internal/slab"
	"github.com/floodweir/weir/memstore/internal/table"
)

// A shard keeps the states whose hashes begin with its number.
//
// Any goroutine may change a word of the narrow table that is not pinned, by
// compare-and-swap. Only the holder of mu changes a pinned word, and only it sets a pin.
// A word is pinned while a txn works on a copy of it, and while a part of its state is in counts.
// It is pinned while its key has reservations, too, because expired ones must be applied before
// each decision. A goroutine that finds a pin takes mu. All other fields are guarded by mu.
type shard struct {
	narrow *atomic.Pointer[table.Table] // of narrows

	mu           sync.Mutex
	latest       int64 // the largest instant of a decision or a drop under mu
	wide         wide
	reservations reservation.Queue
	counts       map[uint64]int64 // the tokens of narrow states that do not fit their words, by hash
	freed        int64            // the keys of room that drops have freed, in all
}

// narrows has the tables of the narrow states of all shards, beside each other: a decision on a
// narrow state needs no other part of a shard.
type narrows struct {
	tables []atomic.Pointer[table.Table]
	shift  int // of a hash, to the number of its shard
}

// makeShards makes the shards of a new store.
func makeShards(s *Store) {
	s.shards = make([]shard, 1<<s.bits)
	s.narrows = narrows{make([]atomic.Pointer[table.Table], 1<<s.bits), 64 - s.bits}
	for i := range s.shards {
		sh := &s.shards[i]
		sh.narrow = &s.narrows.tables[i]
		sh.narrow.Store(table.New(s.bits))
		sh.wide.Table = table.New(s.bits)
	}
}

// find returns the entry of a narrow state, or nil.
func (n *narrows) find(hash uint64) *table.Entry {
	return n.tables[hash>>n.shift].Load().Find(hash)
}

// beginAt begins a decision and returns its instant: now, or the latest instant of the
// shard if that is later. A dropped state must not be used at an earlier instant. It
// applies expired reservations. It requires mu.
func (s *Store) beginAt(sh *shard, now int64) int64 {
	now = max(now, sh.latest)
	sh.latest = now
	if sh.reservations.Due() <= now {
		s.expire(sh, now)
	}
	return now
}

// expire applies the reservations whose deadline has passed. It requires mu.
func (s *Store) expire(sh *shard, now int64) {
	dropped := int64(0)
	for sh.reservations.Due() <= now {
		h := sh.reservations.Pop()
		if !h.Void {
			expireOne(s, sh, &h)
		}
		s.sweeper.wake()
		sh.wide.limits.release(h.Limit)
		dropped++
	}
	s.reservations.Add(-dropped)
	s.freeKeys(sh, dropped)
}

// pinFor returns the pin of a narrow state that no txn works on. It requires mu.
func (sh *shard) pinFor(state uint64) uint64 {
	if sh.reservations.Any(state) {
		return pin
	}
	return 0
}

// pair returns the state of a hash whose entry has the word w. It requires mu.
func (sh *shard) pair(hash, w uint64) (us, rem int64) {
	us, rem = unpack(w)
	if w&pin != 0 && len(sh.counts) > 0 {
		if n, ok := sh.counts[hash]; ok {
			rem = n
		}
	}
	return us, rem
}

// word returns the word of a state that no txn works on, as a decision at now leaves it. It
// requires mu.
func (sh *shard) word(hash uint64, us, rem, now int64) uint64 {
	if rem < maxUnits {
		delete(sh.counts, hash)
		return packed(us, rem, now) | sh.pinFor(hash)
	}
	if sh.counts == nil {
		sh.counts = map[uint64]int64{}
	}
	sh.counts[hash] = rem
	return pack(us, maxUnits-1) | pin
}

// expireOne applies the end of a reservation that was popped. Unsettled tokens go back
// as of its deadline, unless the state was as if never used then. So the result does not
// depend on when this is done. It requires mu.
func expireOne(s *Store, sh *shard, h *reservation.Record) {
	ask := algo.Ask{Op: algo.Return, Place: algo.Place(h.Place), Now: h.Deadline, N: h.N, At: h.At}
	charged := sh.wide.limits.list[h.Limit].limit
	if b := narrow(charged); b != nil {
		e := sh.narrow.Load().Find(h.State)
		if e == nil || e.Word.Load() == dropped {
			return
		}
		w := e.Word.Load()
		us, rem := sh.pair(h.State, w)
		if !h.Settled && w&^pin > pack(h.Deadline, 0) {
			us, rem, _ = b.Step(us, rem, ask)
		}
		e.Word.Store(sh.word(h.State, us, rem, h.Deadline))
		return
	}
	e := sh.wide.Find(h.State)
	if h.Settled || e == nil || e.Word.Load() == dropped {
		return
	}
	words, limit := sh.wide.state(slab.Ref(e.Word.Load())) // its limit may have changed since
	rule := limit.Spec().Rule
	if rule.Until(words) <= h.Deadline {
		return
	}
	words, _ = algo.Settling(rule, charged.Spec().Rule).Do(words, ask)
	s.putWide(sh, e, words)
}

// putWide writes the words of a wide state, and accounts for their room. It requires mu.
func (s *Store) putWide(sh *shard, e *table.Entry, words []int64) {
	was := slab.Ref(e.Word.Load())
	is := sh.wide.put(was, words)
	if is != was {
		e.Word.Store(uint64(is))
		s.freeKeys(sh, weight(was.Size())-weight(is.Size()))
	}
}

// A key that is as if never used stays in a table that grows for so many µs. Otherwise a key in use
// would be added again at its next request. A wide state takes more room. A full store drops both at
// once.
const (
	keepNarrow = 10_000_000
	keepWide   = 1_000_000
)

// idle returns the instant up to which keys must have been as if never used to be dropped by a
// table that grows. It requires mu.
func (sh *shard) idle(keep int64) int64 { return max(0, sh.latest-keep) }

// addNarrow adds the narrow state of a hash that has none, as a decision at now leaves it. It
// requires mu, and that no txn works on an entry.
func (s *Store) addNarrow(sh *shard, hash uint64, us, rem, now int64) {
	s.keys.Add(1)
	defer s.sweeper.wake()
	word, t := sh.word(hash, us, rem, now), sh.narrow.Load()
	if e := t.Find(hash); e != nil { // dropped
		e.Word.Store(word)
		return
	}
	if t.Full() {
		idle := sh.idle(keepNarrow)
		for i := range t.Entries {
			s.dropNarrow(sh, &t.Entries[i], idle)
		}
		t = t.Moved()
		t.Add(hash, word)
		sh.narrow.Store(t)
		return
	}
	t.Add(hash, word)
}

// addWide adds a wide state of a hash, as addNarrow does.
func (s *Store) addWide(sh *shard, hash uint64, r slab.Ref) {
	s.keys.Add(1)
	defer s.sweeper.wake()
	if e := sh.wide.Find(hash); e != nil {
		e.Word.Store(uint64(r))
		return
	}
	if sh.wide.Full() {
		idle := sh.idle(keepWide)
		for i := range sh.wide.Entries {
			s.dropWide(sh, &sh.wide.Entries[i], idle)
		}
		sh.wide.Table = sh.wide.Moved()
	}
	sh.wide.Add(hash, uint64(r))
}
