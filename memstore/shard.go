package memstore

import (
	"sync"
	"sync/atomic"

	"github.com/floodweir/weir/algo"
)

// A shard keeps the states whose hashes begin with its number.
//
// Who may change a word of the narrow table: anybody, by compare-and-swap from a
// word that is not pinned; the holder of mu may also pin it, and store into what
// it has pinned. So pins are only ever seen while somebody holds mu, and whoever
// meets one waits for mu in the end. Everything else is guarded by mu.
type shard struct {
	narrow atomic.Pointer[table]

	// due is an instant up to which no reservation of the shard runs out. A
	// decision that finds it past takes mu, and so settles them first. It is
	// lowered before the tokens of a new reservation are charged: whoever sees
	// the charge sees its deadline. Below all instants once the store is closed.
	due atomic.Int64

	_ [64]byte // what follows is written more often

	mu      sync.Mutex
	latest  int64 // the largest instant at which mu's holder decided or dropped anything
	wide    wide
	holds   holds
	dropped int64 // by how much what was dropped made the store emptier, in all
}

// open begins a decision at now, or at the latest instant of the shard, which it
// returns: what was dropped as having passed must not be asked at an instant
// before that. It gives back what has run out. It requires mu.
func (s *Store) open(sh *shard, now int64) int64 {
	now = max(now, sh.latest)
	sh.latest = now
	if sh.holds.due() <= now {
		s.expire(sh, now)
	}
	return now
}

// expire gives the reservations back whose deadline has come. It requires mu.
func (s *Store) expire(sh *shard, now int64) {
	dropped := int64(0)
	for sh.holds.due() <= now {
		h := sh.holds.pop()
		if !h.settled && !h.void {
			s.giveBack(sh, &h)
		}
		s.sooner()
		sh.wide.limits.release(h.limit)
		dropped++
	}
	s.holds.Add(-dropped)
	s.emptier(sh, dropped)
	sh.watch()
}

// watch sets due, unless the store is closed. It requires mu.
func (sh *shard) watch() {
	if sh.due.Load() != closed {
		sh.due.Store(sh.holds.due())
	}
}

// giveBack returns a hold's tokens to its state at its deadline, if the state was
// not as never used then: whenever that is noticed, nobody can tell. It requires
// mu.
func (s *Store) giveBack(sh *shard, h *hold) {
	rule := sh.wide.limits.list[h.limit].limit.Rule()
	ask := algo.Ask{Op: algo.Return, Now: h.deadline, N: h.n, At: h.at}
	if b := narrow(rule); b != nil {
		e := sh.narrow.Load().find(h.state)
		for e != nil {
			w := e.word.Load()
			if w == gone || w <= pack(h.deadline, 0) {
				return
			}
			us, rem := unpack(w)
			us, rem, _ = b.Step(us, rem, ask)
			if e.word.CompareAndSwap(w, packed(us, rem, h.deadline)) {
				return
			}
		}
		return
	}
	e := sh.wide.find(h.state)
	if e == nil || e.word.Load() == gone {
		return
	}
	r := ref(e.word.Load())
	words, _ := sh.wide.state(r)
	if rule.Until(words) <= h.deadline {
		return
	}
	words, _ = rule.Do(words, ask)
	s.putWide(sh, e, words)
}

// putWide keeps the words of the wide state of an entry, and accounts for the room
// that they take. It requires mu.
func (s *Store) putWide(sh *shard, e *entry, words []int64) {
	was := ref(e.word.Load())
	is := sh.wide.put(was, words)
	if is != was {
		e.word.Store(uint64(is))
		s.emptier(sh, price(was.size())-price(is.size()))
	}
}

// addNarrow keeps a narrow state of a hash. e is the entry of the hash if it has
// one, with the word gone. It requires mu, and that no entry is pinned.
func (s *Store) addNarrow(sh *shard, e *entry, hash, word uint64) {
	s.keys.Add(1)
	defer s.sooner()
	if e != nil {
		e.word.Store(word)
		return
	}
	t := sh.narrow.Load()
	if t.full() {
		for i := range t.entries {
			s.dropNarrow(sh, &t.entries[i], sh.latest)
		}
		t = t.moved()
		t.add(hash, word)
		sh.narrow.Store(t)
		return
	}
	t.add(hash, word)
}

// addWide keeps a wide state of a hash, as addNarrow does.
func (s *Store) addWide(sh *shard, e *entry, hash uint64, r ref) {
	s.keys.Add(1)
	defer s.sooner()
	if e != nil {
		e.word.Store(uint64(r))
		return
	}
	if sh.wide.full() {
		for i := range sh.wide.entries {
			s.dropWide(sh, &sh.wide.entries[i], sh.latest)
		}
		sh.wide.table = sh.wide.moved()
	}
	sh.wide.add(hash, uint64(r))
}
