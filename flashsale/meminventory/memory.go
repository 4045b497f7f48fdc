package meminventory

import (
	"context"
	"slices"
	"sync"

	"github.com/floodweir/weir/flashsale/sale"
)

// MemoryJournal implements Journal in memory, for tests and for programs that may lose
// reservations without an order. It is safe for concurrent use. A test can pass it to another
// Inventory to simulate a restart.
type MemoryJournal struct {
	mu      sync.Mutex
	streams map[memoryKey]*memoryStream
	epochs  map[[2]string]int64 // by sale and entry ID
}

type memoryKey struct {
	sale  string
	epoch int64
}

type memoryStream struct {
	entries map[string]memoryEntry
	seq     int64
}

type memoryEntry struct {
	seq int64
	sale.Reservation
}

// NewMemoryJournal returns an empty MemoryJournal.
func NewMemoryJournal() *MemoryJournal {
	return &MemoryJournal{streams: make(map[memoryKey]*memoryStream), epochs: make(map[[2]string]int64)}
}

var _ Journal = (*MemoryJournal)(nil)

// Append implements Journal.
func (m *MemoryJournal) Append(_ context.Context, id string, epoch int64, rs []sale.Reservation) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, r := range rs {
		m.remove(id, r.ID)
		st := m.streams[memoryKey{id, epoch}]
		if st == nil {
			st = &memoryStream{entries: make(map[string]memoryEntry)}
			m.streams[memoryKey{id, epoch}] = st
		}
		st.seq++
		st.entries[r.ID] = memoryEntry{st.seq, r}
		m.epochs[[2]string{id, r.ID}] = epoch
	}
	return nil
}

// remove requires mu.
func (m *MemoryJournal) remove(id, entry string) {
	epoch, ok := m.epochs[[2]string{id, entry}]
	if !ok {
		return
	}
	delete(m.epochs, [2]string{id, entry})
	st := m.streams[memoryKey{id, epoch}]
	delete(st.entries, entry)
	if len(st.entries) == 0 {
		delete(m.streams, memoryKey{id, epoch})
	}
}

// Pending implements Journal.
func (m *MemoryJournal) Pending(_ context.Context, id string, epoch int64) ([]sale.Entry, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	st := m.streams[memoryKey{id, epoch}]
	if st == nil {
		return nil, nil
	}
	all := make([]memoryEntry, 0, len(st.entries))
	for _, e := range st.entries {
		all = append(all, e)
	}
	slices.SortFunc(all, func(a, b memoryEntry) int { return int(a.seq - b.seq) })
	out := make([]sale.Entry, len(all))
	for i, e := range all {
		out[i] = sale.Entry{ID: e.ID, Reservation: e.Reservation}
	}
	return out, nil
}

// Remove implements Journal.
func (m *MemoryJournal) Remove(_ context.Context, id string, ids ...string) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, entry := range ids {
		m.remove(id, entry)
	}
	return nil
}
