package traffic

import "time"

// Collect collects at an instant, as Run does.
func (r *Recorder) Collect(now time.Time) { r.collect(now) }

// Drain applies the records of all shards.
func (r *Recorder) Drain() { r.drain() }
