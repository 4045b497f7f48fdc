package metrics

import "github.com/floodweir/weir/protect"

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
func (m *Metrics) System(s *protect.System) { m.system.Store(s) }

// systemCPU returns the fraction of CPU that the system rules have measured.
func (m *Metrics) systemCPU() float64 {
	s := m.system.Load()
	if s == nil {
		return 0
	}
	cpu, _ := s.Sample()
	return cpu / 100
}

// SystemMetricMissing sets whether a metric of a system rule is unavailable.
func (m *Metrics) SystemMetricMissing(metric string, missing bool) {
	value := 0.0
	if missing {
		value = 1
	}
	m.systemMissing.WithLabelValues(metric).Set(value)
}
