package denycache

import "time"

// SetClock sets the monotonic clock of s.
func (s *Store) SetClock(now func() time.Duration) { s.now = now }
