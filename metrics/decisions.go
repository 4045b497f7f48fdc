package metrics

import (
	"context"
	"errors"
	"maps"
	"sync"
	"sync/atomic"
	"time"

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
type tally [len(outcomes)]Counter

// counters are the counters of one policy on one interface.
type counters struct {
	tallies      [2]atomic.Pointer[tally] // enforced and shadow; nil before the first event
	make         func(shadow int) *tally
	otherOutcome func(shadow int) Counter // of an unknown outcome
	degraded     [len(modes)]Counter
	took         Histogram
	expressions  Counter
	unsettled    Counter
	borrowed     Counter // nil if the policy has no tenants
	unpriced     func(reason string) Counter
	exhausted    Counter
	overflow     Counter // nil for a name with series of its own
}

// Observe counts the decision of one policy on the named interface.
func (m *Metrics) Observe(name string, e enforce.Event) {
	if e.Policy == nil {
		return
	}
	c := m.forInterface(name).counters(m, e.Policy)
	if c.overflow != nil {
		c.overflow.Add(1)
	}
	if e.Fault != nil {
		c.expressions.Add(1)
	}
	outcome := e.Outcome
	switch {
	case outcome == enforce.Unsettled: // in addition to the outcome
		c.unsettled.Add(1)
		return
	case outcome == enforce.Unpriced:
		c.unpriced(budget.Reason(e.Err)).Add(1)
		return
	case outcome == enforce.Exhausted:
		c.exhausted.Add(1)
		return
	case outcome == enforce.Settled:
		return
	case outcome == enforce.FailedClosed && errors.Is(e.Err, context.Canceled):
		outcome = canceled
	}
	if e.Decision.Borrowed && c.borrowed != nil && outcome == enforce.Admitted {
		c.borrowed.Add(1)
	}
	c.decided(outcome, e.Shadow, e.Decision.Degraded, e.Took)
}

// decided counts a decision.
func (c *counters) decided(outcome enforce.Outcome, inShadow bool, mode weir.FailMode, took time.Duration) {
	c.outcome(outcome, inShadow).Add(1)
	if took > 0 {
		c.took.Observe(took.Seconds())
	}
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
			c.degraded[i].Add(1)
		}
	}
}

// outcome returns the counter of o.
func (c *counters) outcome(o enforce.Outcome, inShadow bool) Counter {
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
	d := &interfaceCounters{label: Label(name)}
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
	name, overflow := m.policies.place(p.Name())
	c := m.newCounters(d.label, name)
	c.overflow = overflow
	if len(p.Config().Tenants) > 0 {
		c.borrowed = m.borrowed(name)
	}
	d.known.Store(p, c)
	return c
}

func (m *Metrics) newCounters(interfaceName, name string) *counters {
	of := func(shadow int, o enforce.Outcome) Counter {
		if shadow == 1 {
			return m.shadow(interfaceName, name, string(o))
		}
		return m.decisions(interfaceName, name, string(o))
	}
	c := &counters{
		make: func(shadow int) *tally {
			t := new(tally) // all of them, so that rate() sees the first event of each
			for i, o := range outcomes {
				t[i] = of(shadow, o)
			}
			return t
		},
		otherOutcome: func(shadow int) Counter { return of(shadow, other) },
		took:         m.decisionTime(interfaceName),
		expressions:  m.expressions(name),
		unsettled:    m.unsettled(name),
		exhausted:    m.exhausted(name),
		unpriced:     func(reason string) Counter { return m.unpriced(name, reason) },
	}
	for i, mode := range modes {
		c.degraded[i] = m.degraded(name, string(mode))
	}
	return c
}
