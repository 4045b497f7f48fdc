package failover

import "time"

// SetJitter replaces the jitter of cool-downs.
func (s *Store) SetJitter(f float64) { s.breaker.jitter = func() float64 { return f } }

// SetSchedulingDelay replaces the measurement of the scheduling delay.
func (s *Store) SetSchedulingDelay(f func(due time.Time) time.Duration) { s.measure = f }

// SchedulingDelay is schedulingDelay.
var SchedulingDelay = schedulingDelay
