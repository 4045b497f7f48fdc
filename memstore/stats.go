package memstore

// Stats reports how full a store is, and the effects of that.
type Stats struct {
	// Keys is the number of keys with a state, without reservations. It includes keys
	// that are as if never used, which are dropped when room is needed.
	Keys int
	// Reservations is the number of reservations, settled or not.
	Reservations int
	// Used is the used part of MaxKeys. Overflow buckets may raise it above MaxKeys.
	Used, MaxKeys int
	// Refused counts requests that returned weir.ErrFull.
	Refused int64
	// Shared counts requests that were charged to an overflow bucket.
	Shared int64
	// Snapshots counts the snapshots written. SnapshotErr is the error of the latest
	// one.
	Snapshots   int64
	SnapshotErr error
}

// Stats returns a few counters. It is cheap.
func (s *Store) Stats() Stats {
	s.saver.mu.Lock()
	defer s.saver.mu.Unlock()
	return Stats{
		Keys:         int(s.keys.Load()),
		Reservations: int(s.reservations.Load()),
		Used:         int(s.used.Load()),
		MaxKeys:      s.config.MaxKeys,
		Refused:      s.refused.Load(),
		Shared:       s.shared.Load(),
		Snapshots:    s.saver.done,
		SnapshotErr:  s.saver.err,
	}
}
