package memstore

import (
	"github.com/floodweir/weir/memstore/internal/slab"
)

// commit writes the copies of t back, or returns how many keys of room are lacking. It
// unpins what was pinned in both cases.
func (t *txn) commit() (lacking int64) {
	need, shared := t.need()
	most := int64(t.s.config.MaxKeys)
	if !t.s.acquire(need, most) {
		t.abandon()
		return need
	}
	if !t.s.acquire(shared, most+overflowStates) {
		t.s.used.Add(-need)
		t.abandon()
		return shared
	}
	// Reservations come first, because they decide what stays pinned. New states come
	// last, because they may move all states to another table.
	for i := range t.pending {
		t.applyReservation(&t.pending[i])
	}
	for i := range t.cells {
		if c := &t.cells[i]; c.known {
			t.write(c)
		}
	}
	for i := range t.cells {
		c := &t.cells[i]
		switch {
		case c.known || !c.changed || !c.live(t.now):
		case c.step != nil:
			us, rem := c.step.Pair(c.words)
			t.s.addNarrow(c.sh, c.hash, us, rem, t.now)
		default:
			t.s.addWide(c.sh, c.hash, c.sh.wide.keep(c.limit, c.words))
		}
	}
	for i := range t.cells {
		if c := &t.cells[i]; c.returned {
			t.s.sweeper.wake()
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

// need returns how many keys the commit adds to the store, and how many of overflow
// buckets.
func (t *txn) need() (keys, shared int64) {
	for i := range t.cells {
		c := &t.cells[i]
		if !c.changed {
			continue
		}
		n := int64(0)
		if c.known {
			n -= c.weightBefore()
		}
		if c.kept(t.now) {
			n += c.weightAfter()
		}
		if c.shared {
			shared += n
		} else {
			keys += n
		}
	}
	for i := range t.pending {
		if t.pending[i].kind == added {
			keys++
		}
	}
	return keys, shared
}

// hasUnknown reports whether a request is about a key that has no state, before and
// after t.
func (t *txn) hasUnknown() bool {
	for _, hash := range t.hashes {
		if c := t.cell(hash); !c.known && !c.changed {
			return true
		}
	}
	return false
}

// kept reports whether the store has a state for c after the commit. A state that is as
// if never used stays until its room is needed, unless it was deleted.
func (c *cell) kept(now int64) bool { return c.live(now) || c.known && !c.forgot }

// weightBefore returns how many keys c counts as before the commit.
func (c *cell) weightBefore() int64 {
	if c.step != nil {
		return 1
	}
	return weight(slab.Ref(c.was).Size())
}

// weightAfter returns how many keys c counts as after the commit.
func (c *cell) weightAfter() int64 {
	switch {
	case c.step != nil:
		return 1
	case c.known:
		return weight(fit(slab.Ref(c.was), len(c.words)))
	}
	return weight(slab.SizeOf(len(c.words)))
}

// write writes a state back that the store had.
func (t *txn) write(c *cell) {
	kept := c.kept(t.now)
	switch {
	case c.changed && !kept:
		if c.step == nil {
			c.sh.wide.drop(slab.Ref(c.was))
		}
		t.s.keys.Add(-1)
		delete(c.sh.counts, c.hash)
		c.entry.Word.Store(dropped)
	case c.step != nil && c.changed:
		us, rem := c.step.Pair(c.words)
		c.entry.Word.Store(c.sh.word(c.hash, us, rem, t.now))
	case c.step != nil:
		c.entry.Word.Store(c.was)
	case c.changed:
		is := c.sh.wide.put(slab.Ref(c.was), c.words)
		c.sh.wide.label(is, c.limit)
		c.entry.Word.Store(uint64(is))
	}
}

// applyReservation makes a pending write to a reservation.
func (t *txn) applyReservation(n *pendingWrite) {
	sh := t.s.shard(n.State)
	switch n.kind {
	case added:
		h := n.Record
		h.Limit = sh.wide.limits.retain(n.limit)
		sh.reservations.Add(h)
		t.s.reservations.Add(1)
	case settled:
		sh.reservations.Settle(n.Name, n.Actual)
	case forgotten:
		sh.reservations.Forget(n.State)
	}
}
