package metrics

import (
	"context"
	"errors"
	"maps"
	"sync"
	"sync/atomic"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/floodweir/weir"
	"github.com/floodweir/weir/budget"
	"github.com/floodweir/weir/enforce"
	"github.com/floodweir/weir/policy"
)

// maxInterfaces is the maximum number of interfaces with series of their own. A program
// has a handful.
const maxInterfaces = 16

// interfaceCounters holds the counters of an interface by policy. The policy itself is
// the key, because that is faster than its name. A reload clears them, and with them the
// policies that are no longer in force.
type interfaceCounters struct {
	label string
	known sync.Map // *policy.Policy to *counters
	n     atomic.Int64
}

// canceled is the outcome of a request whose client disconnected before the decision. It
// is separate from failed_closed, so that disconnects do not look like a failing store.
const canceled enforce.Outcome = "canceled"

// outcomes are counted in this order in a tally.
var outcomes = [...]enforce.Outcome{
	enforce.Admitted, enforce.Denied, enforce.Held, enforce.FailedOpen, enforce.FailedClosed, canceled, enforce.Overloaded,
}

// modes are the degraded modes, in the order of counters.degraded.
var modes = [...]weir.FailMode{policy.Open, policy.Closed, policy.Local}

// A tally holds the counters of one policy on one interface by outcome.
type tally [len(outcomes)]prometheus.Counter

// counters are the counters of one policy on one interface.
type counters struct {
	tallies      [2]atomic.Pointer[tally] // enforced and shadow; nil before the first event
	make         func(shadow int) *tally
	otherOutcome func(shadow int) prometheus.Counter // of an unknown outcome
	degraded     [len(modes)]prometheus.Counter
	took         prometheus.Observer
	expressions  prometheus.Counter
	unsettled    prometheus.Counter
	borrowed     prometheus.Counter // nil if the policy has no tenants
	unpriced     func(reason string) prometheus.Counter
	exhausted    prometheus.Counter
	overflow     prometheus.Counter // nil for a policy with series of its own
}

// Observe counts the decision of one policy on the named interface.
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
	case outcome == enforce.Unsettled: // in addition to the outcome
		c.unsettled.Inc()
		return
	case outcome == enforce.Unpriced:
		c.unpriced(budget.Reason(e.Err)).Inc()
		return
	case outcome == enforce.Exhausted:
		c.exhausted.Inc()
		return
	case outcome == enforce.Settled:
		return
	case outcome == enforce.FailedClosed && errors.Is(e.Err, context.Canceled):
		outcome = canceled
	}
	c.outcome(outcome, e.Shadow).Inc()
	if e.Decision.Borrowed && c.borrowed != nil && outcome == enforce.Admitted {
		c.borrowed.Inc()
	}
	if e.Took > 0 {
		c.took.Observe(e.Took.Seconds())
	}
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

// Webhook counts a webhook about a budget by its result.
func (m *Metrics) Webhook(result string) { m.webhooks.WithLabelValues(result).Inc() }

// outcome returns the counter of o.
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

// forInterface returns the counters of the named interface.
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

// counters returns the counters of p.
func (d *interfaceCounters) counters(m *Metrics, p *policy.Policy) *counters {
	if c, ok := d.known.Load(p); ok {
		return c.(*counters)
	}
	if d.n.Add(1) > int64(2*m.policies.max) { // policies changed without a reload
		d.n.Store(0)
		d.known.Clear()
	}
	c := m.newCounters(d.label, p)
	d.known.Store(p, c)
	return c
}

func (m *Metrics) newCounters(interfaceName string, p *policy.Policy) *counters {
	name, own := m.policies.place(p.Name())
	of := func(shadow int, o enforce.Outcome) prometheus.Counter {
		if shadow == 1 {
			return m.shadow.WithLabelValues(interfaceName, name, string(o))
		}
		return m.decisions.WithLabelValues(interfaceName, name, string(o))
	}
	c := &counters{
		make: func(shadow int) *tally {
			t := new(tally) // all of them, so that rate() sees the first event of each
			for i, o := range outcomes {
				t[i] = of(shadow, o)
			}
			return t
		},
		otherOutcome: func(shadow int) prometheus.Counter { return of(shadow, other) },
		took:         m.decisionTime.WithLabelValues(interfaceName),
		expressions:  m.expressions.WithLabelValues(name),
		unsettled:    m.unsettled.WithLabelValues(name),
		exhausted:    m.exhausted.WithLabelValues(name),
		unpriced:     func(reason string) prometheus.Counter { return m.unpriced.WithLabelValues(name, reason) },
	}
	if len(p.Config().Tenants) > 0 {
		c.borrowed = m.borrowed.WithLabelValues(name)
	}
	for i, mode := range modes {
		c.degraded[i] = m.degraded.WithLabelValues(name, string(mode))
	}
	if !own {
		c.overflow = m.policyOverflow
	}
	return c
}
