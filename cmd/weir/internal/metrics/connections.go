package metrics

// Connected adds n, which may be negative, to the open connections of a listener.
func (m *Metrics) Connected(interfaceName string, n int) {
	m.connections.WithLabelValues(interfaceName).Add(float64(n))
}

// ConnectionRefused counts a connection that a listener closed because too many were open.
func (m *Metrics) ConnectionRefused(interfaceName string) {
	m.connectionsRefused.WithLabelValues(interfaceName).Inc()
}
