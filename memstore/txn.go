package memstore

import (
	"cmp"
	"slices"

	"github.com/floodweir/weir"
	"github.com/floodweir/weir/internal/algo"
	"github.com/floodweir/weir/memstore/internal/hold"
	"github.com/floodweir/weir/memstore/internal/slab"
	"github.com/floodweir/weir/memstore/internal/table"
)

// A txn decides requests together, at one instant, all or nothing: it locks the
// shards of every state that they may touch, pins the narrow states, works on
// copies, and writes back only if all were OK. So it is atomic to the world: who
// needs a lock waits for it, and who needs none meets a pin, or a key that is not
// known, and then waits too.
//
// Shards are locked in the order of their numbers, and pins are taken by those
// who hold the locks only, so that no two can wait for each other.
type txn struct {
	s        *Store
	now      int64
	overflow bool // strangers, keys not known, share one state per limit
	shared   int  // requests that did so
	rs       []weir.Request
	oneR     [1]weir.Request
	oneD     [1]weir.Decision
	hashes   []uint64 // of the requests
	names    []name
	cells    []cell  // by hash, each once
	news     []news  // of reservations, in order
	words    []int64 // what cells' words are cut from

	newsBefore int // how much news there was before the decisions

	res algo.Result // of the latest question
}

// A cell is a state in a txn.
type cell struct {
	hash  uint64
	limit weir.Limit
	rule  algo.Rule
	sh    *shard
	step  stepper // nil if the state is wide

	entry *table.Entry // nil if the hash has none
	known bool         // the entry knows something
	was   uint64       // then, its word

	words    []int64 // the state, as decided so far
	changed  bool
	returned bool // tokens, perhaps
	forgot   bool // by Reset, or by being carried over
	shared   bool // by strangers, beyond the cap

	preceded     bool // changed before the decisions, and so even if they are denials
	forgotBefore bool
	before       []int64
}

// news is what a txn does to a reservation.
type news struct {
	hold.Hold // as it is then
	kind      newsKind
	limit     weir.Limit
}

type newsKind uint8

const (
	added newsKind = iota
	settled
	forgotten // and all others of its state
)

// reset lets go of what t points to, and keeps its memory.
func (t *txn) reset() {
	clear(t.cells)
	clear(t.news)
	clear(t.names)
	t.s, t.rs, t.overflow = nil, nil, false
	t.oneR[0], t.oneD[0] = weir.Request{}, weir.Decision{}
	t.cells, t.news, t.names = t.cells[:0], t.news[:0], t.names[:0]
	if cap(t.words) > mostWords {
		t.words = nil // it was a large one
	}
}

// mostWords is how many words a txn keeps room for.
const mostWords = 1 << 14

// A name is that of a state that the requests may touch.
type name struct {
	hash   uint64
	limit  weir.Limit
	shared bool
}

// gather names the states that the requests may touch, and makes a cell of each.
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
		c.step = narrow(c.rule)
	}
}

// cell is the one of a hash, which must be there.
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

// lock locks the shards and finds the instant at which all of them decide.
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
			t.s.open(sh, now)
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
	c.words = t.cut(2, 2)
	if c.entry = c.sh.narrow.Load().Find(c.hash); c.entry == nil {
		return
	}
	for {
		w := c.entry.Word.Load()
		if w == gone {
			return
		}
		if c.entry.Word.CompareAndSwap(w, w|pin) {
			c.known, c.was = true, w
			c.words[0], c.words[1] = unpack(w)
			return
		}
	}
}

func (t *txn) loadWide(c *cell) {
	if c.entry = c.sh.wide.Find(c.hash); c.entry != nil {
		if w := c.entry.Word.Load(); w != gone {
			words, limit := c.sh.wide.state(slab.Ref(w))
			if limit.Spec().StateID == c.limit.Spec().StateID {
				c.known, c.was = true, w
				c.words = t.cut(len(words), len(words)+room(c.rule))
				copy(c.words, words)
				return
			}
			t.s.forget(c.sh, c.entry) // an accident of the hash
		}
	}
	c.words = t.cut(c.rule.Words(), c.rule.Words()+room(c.rule))
}

// room is how much longer a state may become in one decision: by an admission or
// a slot.
func room(rule algo.Rule) int {
	if rule.Variable() {
		return 8
	}
	return 0
}

// cut is n words, zero, with room for most.
func (t *txn) cut(n, most int) []int64 {
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

// live reports whether the state of c is other than never used.
func (t *txn) live(c *cell) bool { return c.rule.Until(c.words) > t.now }

// under makes l the limit by which c is judged from now on: one of several that have
// its state in common.
func (c *cell) under(l weir.Limit) *cell {
	if c.limit != l {
		c.limit, c.rule = l, l.Spec().Rule
	}
	return c
}

// find is the reservation of an id as it stands in the txn.
func (t *txn) find(c *cell, id hold.Name) (hold.Hold, bool) {
	for i := len(t.news) - 1; i >= 0; i-- {
		switch n := &t.news[i]; {
		case n.kind == forgotten && n.State == id.State:
			return hold.Hold{}, false
		case n.kind != forgotten && n.Name == id:
			return n.Hold, true
		}
	}
	if h := c.sh.holds.Find(id); h != nil {
		return *h, true
	}
	return hold.Hold{}, false
}

// reserved reports whether the state of c has reservations, settled or not.
func (t *txn) reserved(c *cell) bool {
	for i := len(t.news) - 1; i >= 0; i-- {
		if n := &t.news[i]; n.State == c.hash && n.kind != settled {
			return n.kind == added
		}
	}
	return c.sh.holds.Any(c.hash)
}

// forget makes the state of c as never used, and its reservations with it.
func (t *txn) forget(c *cell) {
	c.words = t.cut(len(c.words), cap(c.words))
	c.changed, c.forgot = true, true
	if t.reserved(c) {
		t.news = append(t.news, news{kind: forgotten, Hold: hold.Hold{Name: hold.Name{State: c.hash}}, limit: c.limit})
	}
}
