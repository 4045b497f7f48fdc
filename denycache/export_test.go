package denycache

import (
	"time"

	"github.com/floodweir/weir"
)

// SetClock sets the monotonic clock of s.
func (s *Store) SetClock(now func() time.Duration) { s.now = now }

// DenyLate answers a request that has waited since arrived, if a denial held then.
func (s *Store) DenyLate(r weir.Request, arrived time.Duration) (d [1]weir.Decision, denied bool) {
	rs := []weir.Request{r}
	e := s.table.find(s.hash(rs), rs)
	return d, e != nil && s.repeatLate(e, d[:], arrived)
}
