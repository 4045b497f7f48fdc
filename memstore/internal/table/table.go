// Package table finds what is known of a hash, without a lock.
//
// A Table is open addressing with linear probing, 16 bytes an entry and no
// pointers, so that the garbage collector has nothing to look at. Entries are
// added under a mutex of the table's owner, called mu here.
//
// Two rules make it safe to read without a lock.
//
// First, the hash of an entry is written once. An entry never changes hands:
// what is known of a hash can be dropped, by the word Gone, and known again, but
// an entry is reclaimed only together with its table, by the garbage collector.
// So a reader that found its hash in a table may use the entry for as long as it
// likes, and a compare-and-swap on its word can't hit the state of another key.
//
// Second, only the holder of mu adds entries, and it writes the word before the
// hash. So a reader that doesn't find its hash was right at the moment when it
// loaded the table: nothing was known of it.
//
// A rebuild swaps every word for Gone and puts what it found there into a new
// table. A swap takes exactly the value after which no compare-and-swap
// succeeds any more, so no charge is lost; a reader that meets Gone takes the
// mutex, and with it waits until the new table is in place.
package table

import (
	"math/bits"
	"sync/atomic"
)

// A Table finds what is known of a hash. It is made by New or Moved.
type Table struct {
	Entries []Entry
	Cursor  int // where its owner's sweep is; guarded by mu

	bits int // of a hash, that are the same for all in the table
	used int // entries with a hash; guarded by mu
}

// An Entry says what is known of a hash.
type Entry struct {
	Hash atomic.Uint64 // 0 until the entry is used
	Word atomic.Uint64 // Gone if nothing is known any more
}

const (
	// Gone is the word of an entry of which nothing is known, or which has moved to
	// another table. No state may look like it.
	Gone = 1<<64 - 1

	least = 8
)

// New is an empty table for hashes whose first bits, so many, are the same.
func New(bits int) *Table { return sized(bits, least) }

func sized(bits, size int) *Table { return &Table{bits: bits, Entries: make([]Entry, size)} }

// home is where the probe for a hash begins.
func (t *Table) home(hash uint64) int {
	hi, _ := bits.Mul64(hash<<t.bits, uint64(len(t.Entries)))
	return int(hi)
}

// Find is the entry of a hash, or nil. It needs no lock.
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

// Full reports whether one more entry makes the table too full, which leaves at
// least a quarter of it free: a probe always ends. It requires mu.
func (t *Table) Full() bool { return (t.used+1)*4 > len(t.Entries)*3 }

// Add adds a hash that is not in the table. It requires mu, and that the table is
// not full.
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

// live counts the entries of which something is known. It requires mu.
func (t *Table) live() (n int) {
	for i := range t.Entries {
		if e := &t.Entries[i]; e.Hash.Load() != 0 && e.Word.Load() != Gone {
			n++
		}
	}
	return n
}

// Moved is a table with everything that is known, and room for half as much
// again. Nothing is known to t after that. It requires mu, and that nobody relies
// on a word that he has read.
func (t *Table) Moved() *Table {
	to := sized(t.bits, max(least, 2*(t.live()+1)))
	for i := range t.Entries {
		e := &t.Entries[i]
		hash := e.Hash.Load()
		if hash == 0 {
			continue
		}
		if w := e.Word.Swap(Gone); w != Gone {
			to.Add(hash, w)
		}
	}
	return to
}

// Len is how many entries there are to look at: none if all are unused. It requires mu.
func (t *Table) Len() int {
	if t.used == 0 {
		return 0
	}
	return len(t.Entries)
}
