package share

import (
	"math/bits"
	"sync"
	"sync/atomic"

	"github.com/floodweir/weir"
	"github.com/floodweir/weir/share/internal/parts"
)

// ways is the number of slots that may have an entry.
const ways = 8

// A table holds entries in sets of ways slots. Its reads do not block.
type table struct {
	slots []atomic.Pointer[entry]

	mu    sync.Mutex   // of enter
	local atomic.Int64 // decisions of removed entries
}

func newTable(entries int) *table {
	return &table{slots: make([]atomic.Pointer[entry], max(ways, 1<<bits.Len(uint(entries-1))))}
}

func (t *table) set(hash uint64) []atomic.Pointer[entry] {
	at := (hash >> 32 * ways) & uint64(len(t.slots)-1)
	return t.slots[at : at+ways]
}

// find returns the entry of a key under a limit, or nil.
func (t *table) find(hash uint64, key string, l weir.Limit) *entry {
	set := t.set(hash)
	for i := range set {
		if e := set[i].Load(); e != nil && e.hash == hash && e.key == key && same(e.limit.Limit, l) {
			return e
		}
	}
	return nil
}

// same reports whether two limits decide equally and by the same state.
func same(a, b weir.Limit) bool {
	if a == b {
		return true
	}
	s, t := a.Spec(), b.Spec()
	return s.ID == t.ID && s.State == t.State
}

// enter returns the entry of a key, and counts an op of it. The entry is not in the table if all
// slots have entries in use: it then never gets a share.
func (t *table) enter(hash uint64, key string, d *parts.Limit) *entry {
	if e := t.find(hash, key, d.Limit); e != nil && e.enter() {
		return e
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	if e := t.find(hash, key, d.Limit); e != nil && e.enter() {
		return e
	}
	e := newEntry(key, d, hash)
	e.ops = 1
	set := t.set(hash)
	var slot *atomic.Pointer[entry]
	least := 0.0
	for i := range set {
		old := set[i].Load()
		if old == nil {
			slot = &set[i]
			break
		}
		if demand, ok := old.spare(); ok && (slot == nil || demand < least) {
			slot, least = &set[i], demand
		}
	}
	if slot == nil {
		e.removed = true
		return e
	}
	if old := slot.Load(); old != nil {
		if !old.remove() {
			e.removed = true
			return e
		}
		t.local.Add(old.local)
	}
	slot.Store(e)
	return e
}

// enter counts an op. It returns false if the entry was removed.
func (e *entry) enter() bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.removed {
		return false
	}
	e.ops++
	return true
}

// leave ends ops.
func (e *entry) leave() {
	e.mu.Lock()
	e.ops--
	e.mu.Unlock()
}

// spare returns the demand of an entry that may be removed.
func (e *entry) spare() (demand float64, ok bool) {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.demand, e.ops == 0 && !e.queued && !e.listed
}

// remove marks an entry as removed, unless it is in use.
func (e *entry) remove() bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.ops > 0 || e.queued || e.listed {
		return false
	}
	e.removed = true
	return true
}

// holds reports whether an entry has the id of a holder.
func (t *table) holds(id uint64) bool {
	for i := range t.slots {
		if e := t.slots[i].Load(); e != nil && e.id == id {
			return true
		}
	}
	return false
}
