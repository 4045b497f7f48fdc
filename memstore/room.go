package memstore

// overflowRoom is how many overflow states there may be beyond MaxKeys: one for
// each of so many limits.
const overflowRoom = 1024

// acquire takes n of the keys that most leaves, or none.
func (s *Store) acquire(n, most int64) bool {
	for {
		used := s.used.Load()
		if n > 0 && used+n > most {
			return false
		}
		if s.used.CompareAndSwap(used, used+n) {
			return true
		}
	}
}

const (
	// sweepSteps bounds the work of one sweep, in narrow entries.
	sweepSteps = 1024
	// wideSteps is what a wide entry counts for.
	wideSteps = 4
)

// sweep drops keys that are as never used, and reports by how much the store is
// emptier. It goes on where the sweep before it stopped and looks at a bounded
// number of entries: in a large store that is nearly full of debtors, the one key
// that could be dropped is found after a few sweeps, not by each.
func (s *Store) sweep(now int64) int64 {
	s.sweeping.Lock()
	defer s.sweeping.Unlock()
	freed, steps := int64(0), sweepSteps
	for range s.shards {
		freed += s.sweepShard(&s.shards[s.sweepAt], now, &steps)
		if steps <= 0 {
			break
		}
		if s.sweepAt++; s.sweepAt == len(s.shards) {
			s.sweepAt = 0
		}
	}
	return freed
}

// sweepShard sweeps one shard, in at most so many steps, and takes those that it
// needed from steps.
func (s *Store) sweepShard(sh *shard, now int64, steps *int) int64 {
	sh.mu.Lock()
	defer sh.mu.Unlock()
	before := sh.dropped
	now = s.open(sh, now)
	t := sh.narrow.Load()
	for range t.entries {
		if *steps <= 0 {
			break
		}
		s.dropNarrow(sh, t.next(), now)
		*steps--
	}
	for range sh.wide.entries {
		if *steps <= 0 {
			break
		}
		s.dropWide(sh, sh.wide.next(), now)
		*steps -= wideSteps
	}
	return sh.dropped - before
}
