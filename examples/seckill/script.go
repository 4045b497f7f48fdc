package main

// A script is the token bucket that many write in Lua for Redis: a hash with max_permits,
// rate, pre_permits and last_mill_second, and this arithmetic. It is here, in Go, to be
// asked at the same instants as the limit beside it.
type script struct {
	maxPermits, rate int64
	prePermits       int64
	last             int64 // µs; 0 until something was taken
}

// acquire takes a permit at the instant now, in µs, if there is one.
func (s *script) acquire(now int64) bool {
	permits := s.maxPermits
	if s.last != 0 {
		// Whole permits alone are added, and yet the time moves on to now: what is left
		// of a permit is lost.
		permits = min(permits, s.prePermits+(now-s.last)*s.rate/1e6)
	}
	if permits < 1 {
		return false
	}
	s.prePermits, s.last = permits-1, now
	return true
}
