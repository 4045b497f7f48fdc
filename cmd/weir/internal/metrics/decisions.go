package metrics

import (
	"maps"
	"sync"
	"sync/atomic"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/floodweir/weir"
	"github.com/floodweir/weir/httplimit"
	"github.com/floodweir/weir/policy"
)

// maxDoors is how many doors have series of their own. A program has a handful.
const maxDoors = 16

// A door knows the counters of the policies that it asked about, by the policy itself:
// that is faster than by name, and a policy that is not in use any more is forgotten
// with all others at a reload.
type door struct {
	label string
	known sync.Map // *policy.Policy to *counters
	n     atomic.Int64
}

// The outcomes that are counted, in the order of counters.outcomes.
var outcomes = [...]httplimit.Outcome{
	httplimit.Admitted, httplimit.Denied, httplimit.Held, httplimit.FailedOpen, httplimit.FailedClosed,
}

// The modes of a decision without the store, in the order of counters.degraded.
var modes = [...]weir.Degraded{weir.FailedOpen, weir.FailedClosed, weir.FailedLocal}

// counters are those of one policy at one door.
type counters struct {
	outcomes [len(outcomes)]prometheus.Counter
	rest     func() prometheus.Counter // of an outcome that is none of them
	degraded [len(modes)]prometheus.Counter
	overflow prometheus.Counter // nil for one that has series of its own
	inShadow bool
}

func (c *counters) outcome(o httplimit.Outcome) prometheus.Counter {
	for i := range outcomes {
		if outcomes[i] == o {
			return c.outcomes[i]
		}
	}
	return c.rest()
}

// Observe counts what became of a request under one policy, at the door of that name.
func (m *Metrics) Observe(name string, e httplimit.Event) {
	if e.Policy == nil {
		return
	}
	c := m.door(name).counters(m, e.Policy)
	c.outcome(e.Outcome).Inc()
	mode := e.Decision.Degraded
	switch {
	case mode != weir.Exact || c.inShadow:
	case e.Outcome == httplimit.FailedOpen:
		mode = weir.FailedOpen
	case e.Outcome == httplimit.FailedClosed:
		mode = weir.FailedClosed
	}
	if mode != weir.Exact {
		for i, d := range modes {
			if d == mode {
				c.degraded[i].Inc()
			}
		}
	}
	if c.overflow != nil {
		c.overflow.Inc()
	}
}

// ExpressionFailed counts an expression of the policy of that name that could not be
// evaluated.
func (m *Metrics) ExpressionFailed(policy string) {
	value, own := m.policies.place(policy)
	m.expressions.WithLabelValues(value).Inc()
	if !own {
		m.policyOverflow.Inc()
	}
}

// door is the door of that name.
func (m *Metrics) door(name string) *door {
	if d := (*m.doors.Load())[name]; d != nil {
		return d
	}
	m.doorsMu.Lock()
	defer m.doorsMu.Unlock()
	old := *m.doors.Load()
	if d := old[name]; d != nil {
		return d
	}
	d := &door{label: label(name)}
	if len(old) >= maxDoors {
		if d := old[other]; d != nil {
			return d
		}
		name, d.label = other, other
	}
	now := maps.Clone(old)
	now[name] = d
	m.doors.Store(&now)
	return d
}

// counters are those of p.
func (d *door) counters(m *Metrics, p *policy.Policy) *counters {
	if c, ok := d.known.Load(p); ok {
		return c.(*counters)
	}
	if d.n.Add(1) > int64(2*m.policies.max) { // of policies that come and go without a reload
		d.n.Store(0)
		d.known.Clear()
	}
	c := m.newCounters(d.label, p)
	d.known.Store(p, c)
	return c
}

func (m *Metrics) newCounters(door string, p *policy.Policy) *counters {
	name, own := m.policies.place(p.Name())
	c := &counters{inShadow: p.Config().Mode == policy.Shadow}
	v := m.decisions
	if c.inShadow {
		v = m.shadow
	}
	for i, o := range outcomes {
		c.outcomes[i] = v.WithLabelValues(door, name, string(o))
	}
	c.rest = func() prometheus.Counter { return v.WithLabelValues(door, name, other) }
	for i, mode := range modes {
		c.degraded[i] = m.degraded.WithLabelValues(name, string(mode))
	}
	m.expressions.WithLabelValues(name) // there, and 0, so that its first rise is seen
	if !own {
		c.overflow = m.policyOverflow
	}
	return c
}
