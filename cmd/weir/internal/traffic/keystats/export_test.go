package keystats

// Bounds returns the first second of s and that after the last.
func (s *Sample) Bounds() (from, until int64) { return s.from, s.until }

// Theta returns the bound of the hashes in s.
func (s *Sample) Theta() uint64 { return s.theta }

// Sampled returns the requests by second of the sampled keys whose hash is below theta, by hash.
func (s *Sample) Sampled(theta uint64) map[uint64]map[int64]uint64 {
	all := map[uint64]map[int64]uint64{}
	for _, k := range s.sampled {
		if k.hash >= theta {
			continue
		}
		all[k.hash] = map[int64]uint64{}
		for _, t := range k.ticks {
			all[k.hash][t.second] += t.n
		}
	}
	return all
}
