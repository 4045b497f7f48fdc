package share

import (
	"bytes"
	"context"
	"sync"
	"time"
)

// Memory is a Ledger in this process, for tests and for shares among the stores of one process.
// Make it with NewMemory.
type Memory struct {
	now func() time.Time

	mu      sync.Mutex
	rows    map[string]memoryRow
	version uint64
	sweep   int // rows at which expired ones are deleted
}

type memoryRow struct {
	Stored
	until time.Time
}

// NewMemory makes a ledger whose time is now, or time.Now if now is nil.
func NewMemory(now func() time.Time) *Memory {
	if now == nil {
		start := time.Now()
		now = func() time.Time { return start.Add(time.Since(start)) }
	}
	return &Memory{now: now, rows: map[string]memoryRow{}, sweep: 64}
}

// Load implements [Ledger].
func (m *Memory) Load(ctx context.Context, names []string, rows []Stored) (time.Time, error) {
	if err := ctx.Err(); err != nil {
		return time.Time{}, unavailable("load", err)
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	now := m.now().Truncate(time.Microsecond)
	for i, name := range names {
		rows[i] = m.live(name, now)
		rows[i].Data = bytes.Clone(rows[i].Data)
	}
	return now, nil
}

// Swap implements [Ledger].
func (m *Memory) Swap(ctx context.Context, swaps []Swap) error {
	if err := ctx.Err(); err != nil {
		return unavailable("swap", err)
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	now := m.now().Truncate(time.Microsecond)
	for i := range swaps {
		s := &swaps[i]
		row := m.live(s.Name, now)
		if s.Done = row.Version == s.Version; !s.Done {
			s.Found, s.At = Stored{row.Version, bytes.Clone(row.Data)}, now
			continue
		}
		m.version++
		m.rows[s.Name] = memoryRow{Stored{m.version, bytes.Clone(s.Data)}, now.Add(s.Keep)}
	}
	if len(m.rows) > m.sweep {
		for name, row := range m.rows {
			if !now.Before(row.until) {
				delete(m.rows, name)
			}
		}
		m.sweep = max(64, 2*len(m.rows))
	}
	return nil
}

// live returns a row that is not to be deleted. It requires mu.
func (m *Memory) live(name string, now time.Time) Stored {
	row := m.rows[name]
	if !now.Before(row.until) {
		return Stored{}
	}
	return row.Stored
}

// Len returns the number of rows, with those that may be deleted.
func (m *Memory) Len() int {
	m.mu.Lock()
	defer m.mu.Unlock()
	return len(m.rows)
}
