package metrics

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
