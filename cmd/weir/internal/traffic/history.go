package traffic

import (
	"slices"
	"sync"
	"time"
)

// The columns of Counts. Each decision of a policy is in exactly one of Admitted, Denied,
// Shadow and Overloaded.
const (
	Admitted   = iota // admitted, also without a decision of the store
	Denied            // by this policy
	Delayed           // those of Admitted that waited in a queue
	Shadow            // admitted because the policy in shadow mode does not deny
	Overloaded        // refused without a decision, by this process or because of the store
	Candidate         // requests that the candidate of the policy would deny
	columns
)

// Counts has the number of decisions by column.
type Counts [columns]uint32

// Requests returns the number of requests that the policy decided.
func (c *Counts) Requests() uint64 {
	return uint64(c[Admitted]) + uint64(c[Denied]) + uint64(c[Shadow]) + uint64(c[Overloaded])
}

const (
	fineSlots    = 600 // of a second
	finePolicies = 64
	coarseSlots  = 360
	coarseStep   = 10 // s
	maxNodes     = 1024
)

// A History has the counters of the last minutes by policy, of one node or the sum of several.
// The policy "" is all of them.
type History struct {
	mu           sync.RWMutex
	last         int64            // the last complete second
	nodes        map[string]int64 // the last second of each node in Merge
	latency      *ring
	fine, coarse level
}

// A level has counters with one step.
type level struct {
	most     int   // policies
	present  *ring // slots with data
	all      *ring
	policies map[string]*ring
}

// NewHistory returns an empty history.
func NewHistory() *History {
	return &History{
		nodes: map[string]int64{}, latency: newRing(1, fineSlots, latencyBuckets),
		fine: newLevel(1, fineSlots, finePolicies), coarse: newLevel(coarseStep, coarseSlots, maxPolicies),
	}
}

func newLevel(step int64, slots, most int) level {
	return level{most: most, present: newRing(step, slots, 1), all: newRing(step, slots, columns), policies: map[string]*ring{}}
}

// A Series has the counters of one policy.
type Series struct {
	Step int    // the length of a row in seconds: 1, or 10 for a time before the last ten minutes and for policies above 64
	From int64  // the start of the first row, in s since the epoch
	Rows []*Row // nil for a time without data
}

// A Row has the counters of one step of a Series.
type Row struct {
	Counts   Counts        // sums, not rates
	P50, P99 time.Duration // of the store's decisions, in the series of all policies by second; 0 if there are none
}

// Series returns the counters of a policy from since to the last complete second, for at most ten
// minutes by second or an hour by ten seconds. It has no rows if the policy has no data.
func (h *History) Series(policy string, since time.Time) Series {
	h.mu.RLock()
	defer h.mu.RUnlock()
	l := &h.fine
	if since.Unix() < h.last+1-fineSlots && h.coarse.present.first*coarseStep < h.last+1-fineSlots || policy != "" && l.policies[policy] == nil {
		l = &h.coarse
	}
	s := Series{Step: int(l.present.step)}
	counts := l.policies[policy]
	if policy == "" {
		counts = l.all
	}
	if counts == nil {
		return s
	}
	step := l.present.step
	end := (h.last + 1) / step // of complete slots
	slot := max(since.Unix()/step, l.present.first, end-int64(l.present.slots))
	for s.From = slot * step; slot < end; slot++ {
		s.Rows = append(s.Rows, h.row(l, counts, slot))
	}
	return s
}

// row returns a row of a series, or nil for a time without data. It requires h.mu.
func (h *History) row(l *level, counts *ring, slot int64) *Row {
	if present := l.present.at(slot); present == nil || present[0] == 0 {
		return nil
	}
	row := &Row{}
	copy(row.Counts[:], counts.at(slot))
	if counts == h.fine.all {
		buckets := h.latency.at(slot)
		row.P50, row.P99 = quantile(buckets, 0.5), quantile(buckets, 0.99)
	}
	return row
}

// Policies returns the names of the policies with decisions in the last hour, sorted.
func (h *History) Policies() []string {
	h.mu.RLock()
	defer h.mu.RUnlock()
	var names []string
	for name, r := range h.coarse.policies {
		if r.last > h.last/coarseStep-coarseSlots {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	return names
}

// begin makes second the last complete one. If the clock went back, it removes what is later. It
// requires h.mu.
func (h *History) begin(second int64, back bool) {
	if back {
		h.last = min(h.last, second)
		h.latency.truncate(second)
		for _, l := range []*level{&h.fine, &h.coarse} {
			l.present.truncate(second)
			l.all.truncate(second)
			for _, r := range l.policies {
				r.truncate(second)
			}
		}
	}
	h.last = max(h.last, second)
	h.fine.present.add(second, []uint32{1})
	h.coarse.present.add(second, []uint32{1})
}

// add adds counts of a policy to a second; "" is those of all policies. It requires h.mu.
func (h *History) add(policy string, second int64, counts []uint32) {
	for _, l := range []*level{&h.fine, &h.coarse} {
		r := l.all
		if policy != "" {
			r = l.place(policy, second)
		}
		if r != nil {
			r.add(second, counts)
		}
	}
}

// place returns the counters of a policy. If there are l.most already, it replaces those of a
// policy without data in the time of l. It returns nil if there are none.
func (l *level) place(policy string, second int64) *ring {
	if r := l.policies[policy]; r != nil {
		return r
	}
	if len(l.policies) >= l.most {
		oldest := second/l.present.step - int64(l.present.slots)
		for name, r := range l.policies {
			if r.last < oldest {
				delete(l.policies, name)
				break
			}
		}
	}
	if len(l.policies) >= l.most {
		return nil
	}
	r := newRing(l.present.step, l.present.slots, columns)
	l.policies[policy] = r
	return r
}
