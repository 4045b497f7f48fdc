package metrics

import (
	"slices"
	"sync/atomic"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/floodweir/weir/protect"
)

// Protection returns the Observe function of the protections of an upstream.
func (m *Metrics) Protection(upstream string) func(protection string, shadow bool) {
	upstream = label(upstream)
	return func(protection string, shadow bool) {
		mode := "enforce"
		if shadow {
			mode = "shadow"
		}
		m.protections.WithLabelValues(upstream, protection, mode).Inc()
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

func systemMetrics() []statistic[protect.SystemReading] {
	all := []statistic[protect.SystemReading]{
		{desc("weir_system_cpu_ratio", "CPU in use, as a fraction of what the process may use; 0 without a rule."),
			prometheus.GaugeValue, func(s protect.SystemReading) float64 { return s.CPU }},
		{desc("weir_system_memory_ratio", "Memory in use, as a fraction of what the process may use; 0 without a rule."),
			prometheus.GaugeValue, func(s protect.SystemReading) float64 { return s.Memory }},
		{desc("weir_system_load", "Load average of the machine; 0 without a rule."),
			prometheus.GaugeValue, func(s protect.SystemReading) float64 { return s.Load }},
		{desc("weir_system_in_flight", "Requests at the gateway until the end of their response, without exempt ones."),
			prometheus.GaugeValue, func(s protect.SystemReading) float64 { return float64(s.InFlight) }},
	}
	for _, metric := range []string{"cpu", "memory", "load"} {
		all = append(all, statistic[protect.SystemReading]{
			prometheus.NewDesc("weir_system_metric_missing", "1 while a metric of a system rule is unavailable, so the rule is inactive, else 0.", nil, prometheus.Labels{"metric": metric}),
			prometheus.GaugeValue, func(s protect.SystemReading) float64 { return number(slices.Contains(s.Missing, metric)) },
		})
	}
	return all
}

// An Upstream has the protections of an upstream with the settings of a route, the first of those
// that share them.
type Upstream struct {
	Name, Route string
	Protections []protect.Protection
}

// Upstreams sets the protections with metrics. Their number is that of the routes of the file.
func (m *Metrics) Upstreams(all []Upstream) { m.upstreams.all.Store(&all) }

// upstreams collects the metrics of protections.
type upstreams struct{ all atomic.Pointer[[]Upstream] }

var (
	breakerState       = upstreamMetric("weir_breaker_state", "1 for the state of the circuit breaker of an upstream, 0 for the others.", "state")
	protectionLimit    = upstreamMetric("weir_protection_limit", "Requests in flight that a protection admits now.", "protection")
	protectionInFlight = upstreamMetric("weir_protection_in_flight", "Requests in flight that a protection has admitted.", "protection")
	protectionWaiters  = upstreamMetric("weir_protection_waiters", "Requests that wait for a protection.", "protection")
)

func upstreamMetric(name, help, more string) *prometheus.Desc {
	return prometheus.NewDesc(name, help, []string{"upstream", "route", more}, nil)
}

// Describe implements [prometheus.Collector].
func (u *upstreams) Describe(to chan<- *prometheus.Desc) {
	for _, d := range []*prometheus.Desc{breakerState, protectionLimit, protectionInFlight, protectionWaiters} {
		to <- d
	}
}

// Collect implements [prometheus.Collector].
func (u *upstreams) Collect(to chan<- prometheus.Metric) {
	all := u.all.Load()
	if all == nil {
		return
	}
	sent := map[[2]string]bool{} // long names are cut, and may be equal then
	for _, one := range *all {
		name, route := label(one.Name), label(one.Route)
		if sent[[2]string{name, route}] {
			continue
		}
		sent[[2]string{name, route}] = true
		send := func(d *prometheus.Desc, value float64, more string) {
			to <- prometheus.MustNewConstMetric(d, prometheus.GaugeValue, value, name, route, more)
		}
		for _, p := range one.Protections {
			measured, ok := p.(protect.Measured)
			if !ok {
				continue
			}
			r := measured.Read()
			if r.State != "" {
				for _, state := range []string{"closed", "half-open", "open"} {
					send(breakerState, number(state == r.State), state)
				}
				continue
			}
			send(protectionLimit, float64(r.Limit), p.Name())
			send(protectionInFlight, float64(r.InFlight), p.Name())
			send(protectionWaiters, float64(r.Waiters), p.Name())
		}
	}
}
