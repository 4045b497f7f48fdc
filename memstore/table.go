package memstore

import (
	"math/bits"
	"sync/atomic"
)

// A table finds what is known of a hash: open addressing, linear probing, 16
// bytes an entry and no pointers, so that the garbage collector has nothing to
// look at.
//
// Two rules make it safe to read without a lock.
//
// First, the hash of an entry is written once. An entry never changes hands:
// what is known of a hash can be dropped, by the word gone, and known again, but
// an entry is reclaimed only together with its table, by the garbage collector.
// So a reader that found its hash in a table may use the entry for as long as it
// likes, and a compare-and-swap on its word can't hit the state of another key.
//
// Second, only the holder of the shard's mutex adds entries, and it writes the
// word before the hash. So a reader that doesn't find its hash was right at the
// moment when it loaded the table: nothing was known of it.
//
// A rebuild swaps every word for gone and puts what it found there into a new
// table. A swap takes exactly the value after which no compare-and-swap
// succeeds any more, so no charge is lost; a reader that meets gone takes the
// mutex, and with it waits until the new table is in place.
type table struct {
	bits    int // of a hash, that chose the shard
	entries []entry
	used    int // entries with a hash; guarded by the shard's mu
	cursor  int // where the sweep is; guarded by the shard's mu
}

// An entry says what is known of a hash.
type entry struct {
	hash atomic.Uint64 // 0 until the entry is used
	word atomic.Uint64 // gone if nothing is known any more
}

const (
	// gone is the word of an entry of which nothing is known, or which has moved to
	// another table. No state is packed so: it would be pinned, and at an instant
	// that the clock never reaches.
	gone = 1<<64 - 1

	minTable = 8
)

func newTable(shardBits, size int) *table {
	return &table{bits: shardBits, entries: make([]entry, max(size, minTable))}
}

// home is where the probe for a hash begins. The first bits chose the shard and
// are the same for all in the table.
func (t *table) home(hash uint64) int {
	hi, _ := bits.Mul64(hash<<t.bits, uint64(len(t.entries)))
	return int(hi)
}

// find is the entry of a hash, or nil. It needs no lock.
func (t *table) find(hash uint64) *entry {
	for i := t.home(hash); ; {
		e := &t.entries[i]
		switch e.hash.Load() {
		case hash:
			return e
		case 0:
			return nil
		}
		if i++; i == len(t.entries) {
			i = 0
		}
	}
}

// full reports whether one more entry makes the table too full, which leaves at
// least a quarter of it free: a probe always ends. It requires mu.
func (t *table) full() bool { return (t.used+1)*4 > len(t.entries)*3 }

// add adds a hash that is not in the table. It requires mu, and that the table is
// not full.
func (t *table) add(hash, word uint64) *entry {
	i := t.home(hash)
	for t.entries[i].hash.Load() != 0 {
		if i++; i == len(t.entries) {
			i = 0
		}
	}
	e := &t.entries[i]
	e.word.Store(word)
	e.hash.Store(hash)
	t.used++
	return e
}

// live counts the entries of which something is known. It requires mu.
func (t *table) live() (n int) {
	for i := range t.entries {
		if e := &t.entries[i]; e.hash.Load() != 0 && e.word.Load() != gone {
			n++
		}
	}
	return n
}

// moved is a table with everything that is known, and room for half as much
// again. Nothing is known to t after that. It requires mu, and that no txn
// works on an entry.
func (t *table) moved() *table {
	to := newTable(t.bits, 2*(t.live()+1))
	for i := range t.entries {
		e := &t.entries[i]
		hash := e.hash.Load()
		if hash == 0 {
			continue
		}
		if w := e.word.Swap(gone); w != gone {
			to.add(hash, w)
		}
	}
	return to
}

// length is how many entries there are to look at. It requires mu.
func (t *table) length() int {
	if t.used == 0 {
		return 0
	}
	return len(t.entries)
}
