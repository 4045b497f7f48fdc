package memstore

import (
	"cmp"
	"slices"
	"sync"

	"github.com/floodweir/weir"
	"github.com/floodweir/weir/internal/algo"
	"github.com/floodweir/weir/memstore/internal/reservation"
	"github.com/floodweir/weir/memstore/internal/slab"
	"github.com/floodweir/weir/memstore/internal/table"
)

// A txn decides requests together, at one instant, all or nothing. It locks the shards
// of every state that they may use, pins the narrow states, and works on copies, which
// it writes back only if all requests were OK.
//
// So it is atomic to other goroutines. Those that need a lock wait for it. Those that
// need none find a pin or no state, and then take the lock. Shards are locked in the
// order of their numbers, and only the holder of a lock sets pins, so there is no
// deadlock.
type txn struct {
	s        *Store
	now      int64
	overflow bool // keys without a state use the overflow bucket of their limit
	shared   int  // requests that did so
	rs       []weir.Request
	oneR     [1]weir.Request
	oneD     [1]weir.Decision
	hashes   []uint64 // of the requests
	names    []name
	cells    []cell         // by hash, each once
	pending  []pendingWrite // of reservations, in order
	words    []int64        // the words of the cells are parts of it

	pendingBefore int // the length of pending before the decisions

	res algo.Result // of the latest request
}

// A cell is a state in a txn.
type cell struct {
	hash  uint64
	limit weir.Limit
	rule  algo.Rule
	sh    *shard
	step  stepper // nil if the state is wide

	entry *table.Entry // nil if the hash has none
	known bool         // the entry has a state
	was   uint64       // its word then

	words    []int64 // the state, as decided so far
	changed  bool
	migrated bool // to another limit
	returned bool // tokens may have been returned
	forgot   bool // deleted by Reset, or carried over
	shared   bool // the overflow bucket of a limit

	savedChanged bool // changed before the decisions: stays even if they are denials
	savedForgot  bool
	savedWords   []int64
	savedLimit   weir.Limit
}

// A pendingWrite is a change of a reservation that a txn makes when it commits.
type pendingWrite struct {
	reservation.Record // after the write
	kind               writeKind
	limit              weir.Limit
}

type writeKind uint8

const (
	added writeKind = iota
	settled
	forgotten // with all others of its state
)

// reset drops the references of t, and keeps its memory for the next use.
func (t *txn) reset() {
	clear(t.cells)
	clear(t.pending)
	clear(t.names)
	t.s, t.rs, t.overflow = nil, nil, false
	t.oneR[0], t.oneD[0] = weir.Request{}, weir.Decision{}
	t.cells, t.pending, t.names = t.cells[:0], t.pending[:0], t.names[:0]
	if cap(t.words) > maxWords {
		t.words = nil // unusually large
	}
}

// release returns t to its pool.
func release(t *txn, to *sync.Pool) {
	t.reset()
	to.Put(t)
}

// maxWords is the number of words that a txn keeps for its next use.
const maxWords = 1 << 14

// A name identifies a state that the requests may use.
type name struct {
	hash   uint64
	limit  weir.Limit
	shared bool
}

// gather makes a cell of each state that the requests may use.
func (t *txn) gather() {
	t.names, t.hashes = t.names[:0], t.hashes[:0]
	for i := range t.rs {
		r := &t.rs[i]
		key := t.s.hash.sum(r.Key)
		hash := stateHash(key, r.Limit)
		t.hashes = append(t.hashes, hash)
		t.names = append(t.names, name{hash: hash, limit: r.Limit})
		for _, f := range r.From {
			if !f.IsZero() {
				t.names = append(t.names, name{hash: stateHash(key, f), limit: f})
			}
		}
		if t.overflow {
			hash := stateHash(t.s.hash.sum(""), r.Limit)
			t.names = append(t.names, name{hash: hash, limit: r.Limit, shared: true})
		}
	}
	if len(t.names) > 1 {
		slices.SortFunc(t.names, func(a, b name) int { return cmp.Compare(a.hash, b.hash) })
	}
	clear(t.cells)
	t.cells = slices.Grow(t.cells[:0], len(t.names))
	for i := range t.names {
		n := &t.names[i]
		if i > 0 && n.hash == t.names[i-1].hash {
			continue
		}
		t.cells = t.cells[:len(t.cells)+1]
		c := &t.cells[len(t.cells)-1]
		c.hash, c.limit, c.shared = n.hash, n.limit, n.shared
		c.rule, c.sh = n.limit.Spec().Rule, t.s.shard(n.hash)
		c.step = narrow(c.limit)
	}
}

// cell returns the cell of a hash, which must exist.
func (t *txn) cell(hash uint64) *cell {
	if len(t.cells) <= 8 {
		for i := range t.cells {
			if t.cells[i].hash == hash {
				return &t.cells[i]
			}
		}
	}
	i, _ := slices.BinarySearchFunc(t.cells, hash, func(c cell, h uint64) int { return cmp.Compare(c.hash, h) })
	return &t.cells[i]
}

// lock locks the shards, and sets the instant at which all of them decide.
func (t *txn) lock(now int64) {
	for i := range t.cells {
		if sh := t.cells[i].sh; i == 0 || sh != t.cells[i-1].sh {
			sh.mu.Lock()
			now = max(now, sh.latest)
		}
	}
	t.now = now
	for i := range t.cells {
		if sh := t.cells[i].sh; i == 0 || sh != t.cells[i-1].sh {
			t.s.beginAt(sh, now)
		}
	}
}

func (t *txn) unlock() {
	for i := range t.cells {
		if sh := t.cells[i].sh; i == 0 || sh != t.cells[i-1].sh {
			sh.mu.Unlock()
		}
	}
}

// load copies the states, and pins the narrow ones. All shards must be locked.
func (t *txn) load() {
	for i := range t.cells {
		c := &t.cells[i]
		if c.step != nil {
			t.loadNarrow(c)
		} else {
			t.loadWide(c)
		}
	}
}

func (t *txn) loadNarrow(c *cell) {
	c.words = t.alloc(2, 2)
	if c.entry = c.sh.narrow.Load().Find(c.hash); c.entry == nil {
		return
	}
	for {
		w := c.entry.Word.Load()
		if w == dropped {
			return
		}
		if c.entry.Word.CompareAndSwap(w, w|pin) {
			c.known, c.was = true, w
			state := c.step.State(c.sh.pair(c.hash, w))
			copy(c.words, state[:])
			return
		}
	}
}

func (t *txn) loadWide(c *cell) {
	if c.entry = c.sh.wide.Find(c.hash); c.entry != nil {
		if w := c.entry.Word.Load(); w != dropped {
			words, limit := c.sh.wide.state(slab.Ref(w))
			if limit.Spec().StateID == c.limit.Spec().StateID {
				c.known, c.was = true, w
				c.limit, c.rule = limit, limit.Spec().Rule // under migrates the copy
				c.words = t.alloc(len(words), len(words)+growth(c.rule))
				copy(c.words, words)
				return
			}
			t.s.forget(c.sh, c.entry) // two states with one hash
		}
	}
	c.words = t.alloc(c.rule.Words(), c.rule.Words()+growth(c.rule))
}

// growth returns how many words one decision may add to a state: those of an admission
// or a slot.
func growth(rule algo.Rule) int {
	if rule.Variable() {
		return 8
	}
	return 0
}

// alloc returns n zero words with room for most.
func (t *txn) alloc(n, most int) []int64 {
	at := len(t.words)
	if at+most > cap(t.words) {
		t.words = make([]int64, 0, max(512, 2*most))
		at = 0
	}
	t.words = t.words[:at+most]
	w := t.words[at : at+n : at+most]
	clear(w)
	return w
}

// live reports whether the state of c differs from one that was never used.
func (c *cell) live(now int64) bool { return c.rule.Until(c.words) > now }

// under makes l the limit of c, and migrates the copy of its state.
func (c *cell) under(t *txn, l weir.Limit) *cell {
	if c.limit == l {
		return c
	}
	if rule := l.Spec().Rule; !sameState(c.limit, l) {
		n := rule.Words()
		c.words = algo.Migrate(c.rule, c.words, rule, t.alloc(n, n+growth(rule)), t.now)
		c.migrated = true
	}
	c.limit, c.rule = l, l.Spec().Rule
	return c
}

// find returns the reservation of an id, with the pending writes of t.
func (t *txn) find(c *cell, id reservation.Name) (reservation.Record, bool) {
	for i := len(t.pending) - 1; i >= 0; i-- {
		switch n := &t.pending[i]; {
		case n.kind == forgotten && n.State == id.State:
			return reservation.Record{}, false
		case n.kind != forgotten && n.Name == id:
			return n.Record, true
		}
	}
	if h := c.sh.reservations.Find(id); h != nil {
		return *h, true
	}
	return reservation.Record{}, false
}

// reserved reports whether the state of c has reservations, settled or not.
func (t *txn) reserved(c *cell) bool {
	for i := len(t.pending) - 1; i >= 0; i-- {
		if n := &t.pending[i]; n.State == c.hash && n.kind != settled {
			return n.kind == added
		}
	}
	return c.sh.reservations.Any(c.hash)
}

// forget deletes the state of c and its reservations.
func (t *txn) forget(c *cell) {
	c.words = t.alloc(len(c.words), cap(c.words))
	c.changed, c.forgot = true, true
	if t.reserved(c) {
		t.pending = append(t.pending, pendingWrite{kind: forgotten, Record: reservation.Record{Name: reservation.Name{State: c.hash}}, limit: c.limit})
	}
}
