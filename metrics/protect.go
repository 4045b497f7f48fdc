package metrics

import "github.com/floodweir/weir/protect"

// Protection returns the Observe function of a protect.Config, for the protections of an upstream.
func (m *Metrics) Protection(upstream string) func(protection string, shadow bool) {
	upstream = Label(upstream)
	return func(protection string, shadow bool) {
		mode := "enforce"
		if shadow {
			mode = "shadow"
		}
		m.protection(upstream, protection, mode).Add(1)
	}
}

// System sets the source of the metrics of the system rules; nil for none.
func (m *Metrics) System(s *protect.System) {
	if s == nil {
		m.system.set(nil)
		return
	}
	m.system.set(s.Read)
}

// An Upstream has the protections of an upstream with the settings of a route, the first of those
// that share them.
type Upstream struct {
	Name, Route string
	Protections []protect.Protection
}

// Upstreams sets the protections with metrics. Their number bounds the series.
func (m *Metrics) Upstreams(all []Upstream) { m.upstreams.Store(&all) }

const (
	breakerState = iota
	protectionLimit
	protectionInFlight
	protectionWaiters
)

var upstreamMetrics = []Polled{
	breakerState:       {Name: "weir_breaker_state", Help: "1 for the state of the circuit breaker of an upstream, 0 for the others.", Labels: []string{"upstream", "route", "state"}},
	protectionLimit:    {Name: "weir_protection_limit", Help: "Requests in flight that a protection admits now.", Labels: []string{"upstream", "route", "protection"}},
	protectionInFlight: {Name: "weir_protection_in_flight", Help: "Requests in flight that a protection has admitted.", Labels: []string{"upstream", "route", "protection"}},
	protectionWaiters:  {Name: "weir_protection_waiters", Help: "Requests that wait for a protection.", Labels: []string{"upstream", "route", "protection"}},
}

// collectUpstreams reads the protections.
func (m *Metrics) collectUpstreams(emit func(i int, value float64, labels ...string)) {
	all := m.upstreams.Load()
	if all == nil {
		return
	}
	sent := map[[2]string]bool{} // long names are cut, and may be equal then
	for _, one := range *all {
		name, route := Label(one.Name), Label(one.Route)
		if sent[[2]string{name, route}] {
			continue
		}
		sent[[2]string{name, route}] = true
		for _, p := range one.Protections {
			measured, ok := p.(protect.Measured)
			if !ok {
				continue
			}
			r := measured.Read()
			if r.State != "" {
				for _, state := range []string{"closed", "half-open", "open"} {
					emit(breakerState, number(state == r.State), name, route, state)
				}
				continue
			}
			emit(protectionLimit, float64(r.Limit), name, route, p.Name())
			emit(protectionInFlight, float64(r.InFlight), name, route, p.Name())
			emit(protectionWaiters, float64(r.Waiters), name, route, p.Name())
		}
	}
}
