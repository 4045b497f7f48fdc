package memstore

// Stats say how full a store is, and what that has led to.
type Stats struct {
	// Keys is the number of keys that the store knows, reservations not counted.
	// Some of them may be as never used: they make way when room is needed.
	Keys int
	// Reservations is the number of reservations that it remembers.
	Reservations int
	// Used is how much of MaxKeys is used. It may be above it by the states that
	// keys share with Share.
	Used, MaxKeys int
	// Refused counts requests that met weir.ErrFull.
	Refused int64
	// Shared counts requests that were decided by a shared state.
	Shared int64
	// Snapshots counts the snapshots written, and SnapshotErr is what kept the
	// latest one from being written.
	Snapshots   int64
	SnapshotErr error
}

// Stats reads a few counters; it is cheap, and changes nothing.
func (s *Store) Stats() Stats {
	s.saver.mu.Lock()
	defer s.saver.mu.Unlock()
	return Stats{
		Keys:         int(s.keys.Load()),
		Reservations: int(s.holds.Load()),
		Used:         int(s.used.Load()),
		MaxKeys:      s.config.MaxKeys,
		Refused:      s.refused.Load(),
		Shared:       s.shared.Load(),
		Snapshots:    s.saver.done,
		SnapshotErr:  s.saver.err,
	}
}

// Len is the number of keys that the store knows; see Stats.
func (s *Store) Len() int { return int(s.keys.Load()) }
