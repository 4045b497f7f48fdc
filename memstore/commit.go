package memstore

import (
	"github.com/floodweir/weir/memstore/internal/slab"
)

// commit writes the copies of t back, or reports that there is no room for them
// and by how much. It unpins what was pinned, in any case.
func (t *txn) commit() (lacking int64) {
	need, shared := t.need()
	most := int64(t.s.config.MaxKeys)
	if !t.s.acquire(need, most) {
		t.abandon()
		return need
	}
	if !t.s.acquire(shared, most+overflowRoom) {
		t.s.used.Add(-need)
		t.abandon()
		return shared
	}
	// First the reservations, which say what is pinned from now on; then the known
	// states; then the others, which may move all of them to another table.
	for i := range t.news {
		t.publish(&t.news[i])
	}
	for i := range t.cells {
		if c := &t.cells[i]; c.known {
			t.write(c)
		}
	}
	for i := range t.cells {
		if c := &t.cells[i]; !c.known && c.changed && t.live(c) {
			t.insert(c)
		}
	}
	for i := range t.cells {
		if c := &t.cells[i]; c.returned {
			t.s.sooner()
		}
	}
	return 0
}

// abandon leaves all states as they were.
func (t *txn) abandon() {
	for i := range t.cells {
		if c := &t.cells[i]; c.step != nil && c.known {
			c.entry.Word.Store(c.was)
		}
	}
}

// need is by how much the commit makes the store fuller: its keys, and the states
// that strangers share.
func (t *txn) need() (keys, shared int64) {
	for i := range t.cells {
		c := &t.cells[i]
		if !c.changed {
			continue
		}
		n := int64(0)
		if c.known {
			n -= t.priceWas(c)
		}
		if t.kept(c) {
			n += t.price(c)
		}
		if c.shared {
			shared += n
		} else {
			keys += n
		}
	}
	for i := range t.news {
		if t.news[i].kind == added {
			keys++
		}
	}
	return keys, shared
}

// strangers reports whether there are requests about keys of which nothing is
// known or becomes known.
func (t *txn) strangers() bool {
	for _, hash := range t.hashes {
		if c := t.cell(hash); !c.known && !c.changed {
			return true
		}
	}
	return false
}

// kept reports whether the store knows c after the commit. A state that is as
// never used stays where it is until somebody needs the room, unless it was
// forgotten.
func (t *txn) kept(c *cell) bool { return t.live(c) || c.known && !c.forgot }

// priceWas and price are how many keys c counts as, before and after the commit.
func (t *txn) priceWas(c *cell) int64 {
	if c.step != nil {
		return 1
	}
	return price(slab.Ref(c.was).Size())
}

func (t *txn) price(c *cell) int64 {
	switch {
	case c.step != nil:
		return 1
	case c.known:
		return price(fit(slab.Ref(c.was), len(c.words)))
	}
	return price(slab.SizeOf(len(c.words)))
}

// write puts a state back that was known.
func (t *txn) write(c *cell) {
	kept := t.kept(c)
	switch {
	case c.changed && !kept:
		if c.step == nil {
			c.sh.wide.drop(slab.Ref(c.was))
		}
		t.s.keys.Add(-1)
		c.entry.Word.Store(gone)
	case c.step != nil && c.changed:
		c.entry.Word.Store(packed(c.words[0], c.words[1], t.now) | c.sh.pins(c.hash))
	case c.step != nil:
		c.entry.Word.Store(c.was)
	case c.changed:
		c.entry.Word.Store(uint64(c.sh.wide.put(slab.Ref(c.was), c.words)))
	}
}

// insert keeps a state that was not known.
func (t *txn) insert(c *cell) {
	if c.step != nil {
		t.s.addNarrow(c.sh, c.entry, c.hash, packed(c.words[0], c.words[1], t.now))
		return
	}
	t.s.addWide(c.sh, c.entry, c.hash, c.sh.wide.keep(c.limit, c.words))
}

// publish does to the reservations what t found.
func (t *txn) publish(n *news) {
	sh := t.s.shard(n.State)
	switch n.kind {
	case added:
		h := n.Hold
		h.Limit = sh.wide.limits.hold(n.limit)
		sh.holds.Add(h)
		t.s.holds.Add(1)
	case settled:
		h := sh.holds.Find(n.Name)
		h.Settled, h.Actual = true, n.Actual
	case forgotten:
		sh.holds.Forget(n.State)
	}
}
