package metrics

// QuotaService begins the metrics of Envoy's rate limit quota service: its actions, and the numbers
// that stats returns. Domains are those of the configuration.
func (m *Metrics) QuotaService(domains, actions []string, stats func() (streams, buckets int64)) {
	for _, domain := range domains {
		for _, action := range actions { // so that rate() sees the first of each
			m.quotaActions.WithLabelValues(domain, action)
		}
	}
	m.quotaStats.Store(&stats)
}

// Quota counts an action of the quota service.
func (m *Metrics) Quota(domain, action string) { m.quotaActions.WithLabelValues(domain, action).Inc() }

// quotaNumbers returns the numbers of the quota service; 0 without one.
func (m *Metrics) quotaNumbers() (streams, buckets int64) {
	if stats := m.quotaStats.Load(); stats != nil {
		return (*stats)()
	}
	return 0, 0
}

func (m *Metrics) initQuota() {
	m.quotaActions = m.counters("weir_quota_actions_total",
		"Actions of the Envoy rate limit quota service for buckets of clients, by domain and action.", "domain", "action")
	m.gaugeFunc("weir_quota_streams", "Open streams of the Envoy rate limit quota service.", func() int64 {
		streams, _ := m.quotaNumbers()
		return streams
	})
	m.gaugeFunc("weir_quota_buckets", "Buckets of the clients of the Envoy rate limit quota service.", func() int64 {
		_, buckets := m.quotaNumbers()
		return buckets
	})
}
