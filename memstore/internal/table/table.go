// Package table finds the state of a hash without a lock.
//
// A Table uses open addressing with linear probing, 16 bytes per entry and no
// pointers, so the garbage collector does not scan it. Entries are added under a mutex
// of the table's owner, called mu here.
//
// Two rules allow reads without a lock.
//
// First, the hash of an entry is written once, and an entry never gets another hash.
// The state of a hash can be dropped, with the word Dropped, and added again. The
// garbage collector frees entries together with their table. So a reader may use the
// entry of its hash for any time, and its compare-and-swap cannot change the state of
// another key.
//
// Second, only the holder of mu adds entries, and it writes the word before the hash.
// So if a reader does not find its hash, the hash had no state when the reader loaded
// the table.
//
// A rebuild swaps every word for Dropped and copies the old word into a new table.
// After the swap no compare-and-swap on the old word succeeds, so no charge is lost. A
// reader that finds Dropped takes the mutex, and so waits for the new table.
package table

import (
	"math/bits"
	"sync/atomic"
)

// A Table finds the entry of a hash. New and Moved make it.
type Table struct {
	Entries []Entry
	Cursor  int // the position of its owner's sweep; guarded by mu

	bits int // the number of leading bits that all hashes have in common
	used int // entries with a hash; guarded by mu

	_ [16]byte // a Table has one cache line of its own
}

// An Entry holds the state of a hash.
type Entry struct {
	Hash atomic.Uint64 // 0 until the entry is used
	Word atomic.Uint64 // Dropped if there is no state
}

const (
	// Dropped is the word of an entry without a state, or whose state has moved to
	// another table. No state has this word.
	Dropped = 1<<64 - 1

	minSize = 8
)

// New returns an empty table for hashes whose leading bits are the same.
func New(bits int) *Table { return sized(bits, minSize) }

func sized(bits, size int) *Table { return &Table{bits: bits, Entries: make([]Entry, size)} }

// home returns the index at which the probe for a hash begins.
func (t *Table) home(hash uint64) int {
	hi, _ := bits.Mul64(hash<<t.bits, uint64(len(t.Entries)))
	return int(hi)
}

// Find returns the entry of a hash, or nil. It needs no lock.
func (t *Table) Find(hash uint64) *Entry {
	for i := t.home(hash); ; {
		e := &t.Entries[i]
		switch e.Hash.Load() {
		case hash:
			return e
		case 0:
			return nil
		}
		if i++; i == len(t.Entries) {
			i = 0
		}
	}
}

// Full reports whether the table has no room for another entry. At least a quarter of it
// stays free, so a probe always ends. It requires mu.
func (t *Table) Full() bool { return (t.used+1)*4 > len(t.Entries)*3 }

// Add adds a hash that is not in the table. It requires mu, and that the table is not
// full.
func (t *Table) Add(hash, word uint64) {
	i := t.home(hash)
	for t.Entries[i].Hash.Load() != 0 {
		if i++; i == len(t.Entries) {
			i = 0
		}
	}
	e := &t.Entries[i]
	e.Word.Store(word)
	e.Hash.Store(hash)
	t.used++
}

// live counts the entries with a state. It requires mu.
func (t *Table) live() (n int) {
	for i := range t.Entries {
		if e := &t.Entries[i]; e.Hash.Load() != 0 && e.Word.Load() != Dropped {
			n++
		}
	}
	return n
}

// Moved returns a table with all states of t, and room for half as many more. Then t has
// none. It requires mu, and that no caller uses a word that it read before.
func (t *Table) Moved() *Table {
	to := sized(t.bits, max(minSize, 2*(t.live()+1)))
	for i := range t.Entries {
		e := &t.Entries[i]
		hash := e.Hash.Load()
		if hash == 0 {
			continue
		}
		if w := e.Word.Swap(Dropped); w != Dropped {
			to.Add(hash, w)
		}
	}
	return to
}

// Len returns the number of entries to visit: 0 if all are unused. It requires mu.
func (t *Table) Len() int {
	if t.used == 0 {
		return 0
	}
	return len(t.Entries)
}
