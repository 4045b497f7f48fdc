package metrics

import (
	"context"
	"errors"
	"maps"
	"sync"
	"sync/atomic"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/floodweir/weir"
	"github.com/floodweir/weir/enforce"
	"github.com/floodweir/weir/policy"
)

// maxDoors is how many doors have series of their own. A program has a handful.
const maxInterfaces = 16

// A door knows the counters of the policies that it asked about, by the policy itself:
// that is faster than by name, and a policy that is not in use any more is forgotten
// with all others at a reload.
type interfaceCounters struct {
	label string
	known sync.Map // *policy.Policy to *counters
	n     atomic.Int64
}

// gone is the outcome of a request whose client left before it was decided: cutting
// connections is not to look like a store that fails.
const canceled enforce.Outcome = "canceled"

// The outcomes that are counted, in the order of a tally.
var outcomes = [...]enforce.Outcome{
	enforce.Admitted, enforce.Denied, enforce.Held, enforce.FailedOpen, enforce.FailedClosed, canceled,
}

// The modes of a decision without the store, in the order of counters.degraded.
var modes = [...]weir.FailMode{policy.Open, policy.Closed, policy.Local}

// A tally is the counters of the outcomes of one policy at one door.
type tally [len(outcomes)]prometheus.Counter

// counters are those of one policy at one door.
type counters struct {
	tallies      [2]atomic.Pointer[tally] // enforced and in shadow; nil until there is one
	make         func(shadow int) *tally
	otherOutcome func(shadow int) prometheus.Counter // of an outcome that nobody knows
	degraded     [len(modes)]prometheus.Counter
	expressions  prometheus.Counter
	unsettled    prometheus.Counter
	overflow     prometheus.Counter // nil for one that has series of its own
}

// Observe counts what became of a request under one policy, at the door of that name.
func (m *Metrics) Observe(name string, e enforce.Event) {
	if e.Policy == nil {
		return
	}
	c := m.forInterface(name).counters(m, e.Policy)
	if c.overflow != nil {
		c.overflow.Inc()
	}
	if e.Fault != nil {
		c.expressions.Inc()
	}
	outcome := e.Outcome
	switch {
	case outcome == enforce.Unsettled: // beside the outcome
		c.unsettled.Inc()
		return
	case outcome == enforce.FailedClosed && errors.Is(e.Err, context.Canceled):
		outcome = canceled
	}
	c.outcome(outcome, e.Shadow).Inc()
	mode := e.Decision.Degraded
	if mode == "" {
		switch outcome {
		case enforce.FailedOpen:
			mode = policy.Open
		case enforce.FailedClosed:
			mode = policy.Closed
		default:
			return
		}
	}
	for i, d := range modes {
		if d == mode {
			c.degraded[i].Inc()
		}
	}
}

// outcome is the counter of o.
func (c *counters) outcome(o enforce.Outcome, inShadow bool) prometheus.Counter {
	shadow := 0
	if inShadow {
		shadow = 1
	}
	t := c.tallies[shadow].Load()
	if t == nil {
		t = c.make(shadow)
		c.tallies[shadow].Store(t)
	}
	for i := range outcomes {
		if outcomes[i] == o {
			return t[i]
		}
	}
	return c.otherOutcome(shadow)
}

// door is the door of that name.
func (m *Metrics) forInterface(name string) *interfaceCounters {
	if d := (*m.interfaces.Load())[name]; d != nil {
		return d
	}
	m.interfacesMu.Lock()
	defer m.interfacesMu.Unlock()
	old := *m.interfaces.Load()
	if d := old[name]; d != nil {
		return d
	}
	d := &interfaceCounters{label: label(name)}
	if len(old) >= maxInterfaces {
		if d := old[other]; d != nil {
			return d
		}
		name, d.label = other, other
	}
	now := maps.Clone(old)
	now[name] = d
	m.interfaces.Store(&now)
	return d
}

// counters are those of p.
func (d *interfaceCounters) counters(m *Metrics, p *policy.Policy) *counters {
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
	of := func(shadow int, o enforce.Outcome) prometheus.Counter {
		if shadow == 1 {
			return m.shadow.WithLabelValues(door, name, string(o))
		}
		return m.decisions.WithLabelValues(door, name, string(o))
	}
	c := &counters{
		make: func(shadow int) *tally {
			t := new(tally) // all of them, so that the first rise of each is seen
			for i, o := range outcomes {
				t[i] = of(shadow, o)
			}
			return t
		},
		otherOutcome: func(shadow int) prometheus.Counter { return of(shadow, other) },
		expressions:  m.expressions.WithLabelValues(name),
		unsettled:    m.unsettled.WithLabelValues(name),
	}
	for i, mode := range modes {
		c.degraded[i] = m.degraded.WithLabelValues(name, string(mode))
	}
	if !own {
		c.overflow = m.policyOverflow
	}
	return c
}
