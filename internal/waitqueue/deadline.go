package waitqueue

import (
	"math"
	"time"
)

// A Deadline is the end of a wait. It is measured by the clock of the store, which decisions
// report, since that clock decides when tokens come. The time since the latest decision is
// measured by the clock of the queue.
type Deadline struct {
	queue  *Queue
	left   time.Duration // at seen; math.MaxInt64 if the wait has no end
	seen   time.Time     // by the clock of the queue
	at     time.Time     // of the latest decision; zero before the first one
	source string        // the clock of at
}

// Deadline returns the end of a wait of maxWait that begins now. The wait has no end if
// maxWait is math.MaxInt64.
func (m *Queue) Deadline(maxWait time.Duration) Deadline {
	return Deadline{queue: m, left: max(0, maxWait), seen: m.Now()}
}

// Left returns what is left of the wait; it is negative after its end.
func (d *Deadline) Left() time.Duration {
	if d.left == math.MaxInt64 {
		return d.left
	}
	return d.left - d.queue.Now().Sub(d.seen)
}

// Until returns the end by the clock of the queue, or the zero Time if there is none.
func (d *Deadline) Until() time.Time {
	if d.left == math.MaxInt64 {
		return time.Time{}
	}
	return d.seen.Add(d.left)
}

// Observe returns what is left at the instant of a decision. A decision without an instant
// was made now. Decisions of another source have another clock. A clock that went back
// measures nothing.
func (d *Deadline) Observe(at time.Time, source string) time.Duration {
	if d.left == math.MaxInt64 {
		return d.left
	}
	now := d.queue.Now()
	passed := now.Sub(d.seen)
	if !at.IsZero() && !d.at.IsZero() && source == d.source {
		passed = max(0, at.Sub(d.at))
	}
	d.left, d.seen, d.at, d.source = d.left-passed, now, at, source
	return d.left
}
