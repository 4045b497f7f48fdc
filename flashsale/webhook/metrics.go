package webhook

import (
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// metrics counts attempts. Its series are fixed, whatever the number of endpoints.
type metrics struct {
	outcomes    map[outcome]*atomic.Int64
	spent       atomic.Int64 // nanoseconds
	storeErrors atomic.Int64
	pending     atomic.Int64
	dead        atomic.Int64
	oldest      atomic.Int64 // age of the oldest pending event, in nanoseconds

	descAttempts, descSpent, descErrors, descOpen, descOldest *prometheus.Desc
}

func newMetrics() *metrics {
	m := &metrics{
		outcomes:     map[outcome]*atomic.Int64{},
		descAttempts: prometheus.NewDesc("flashsale_webhook_attempts_total", "Requests to endpoints of merchants, by outcome.", []string{"outcome"}, nil),
		descSpent:    prometheus.NewDesc("flashsale_webhook_attempt_seconds_total", "Sum of the durations of these requests.", nil, nil),
		descErrors:   prometheus.NewDesc("flashsale_webhook_store_errors_total", "Failed calls of the ledger by the delivery of webhooks.", nil, nil),
		descOpen:     prometheus.NewDesc("flashsale_webhook_deliveries", "Deliveries that are pending or dead letters, of all processes.", []string{"state"}, nil),
		descOldest:   prometheus.NewDesc("flashsale_webhook_oldest_seconds", "Age of the oldest pending delivery.", nil, nil),
	}
	for _, o := range []outcome{delivered, refused, timedOut, private, failed} {
		m.outcomes[o] = new(atomic.Int64)
	}
	return m
}

// count counts an attempt.
func (m *metrics) count(o outcome, d time.Duration) {
	m.outcomes[o].Add(1)
	m.spent.Add(int64(d))
}

// set sets the counts of open deliveries.
func (m *metrics) set(n Counts, now time.Time) {
	m.pending.Store(n.Pending)
	m.dead.Store(n.Dead)
	age := time.Duration(0)
	if !n.Oldest.IsZero() {
		age = max(0, now.Sub(n.Oldest))
	}
	m.oldest.Store(int64(age))
}

// Describe implements prometheus.Collector.
func (m *metrics) Describe(to chan<- *prometheus.Desc) {
	for _, d := range []*prometheus.Desc{m.descAttempts, m.descSpent, m.descErrors, m.descOpen, m.descOldest} {
		to <- d
	}
}

// Collect implements prometheus.Collector.
func (m *metrics) Collect(to chan<- prometheus.Metric) {
	for o, n := range m.outcomes {
		to <- prometheus.MustNewConstMetric(m.descAttempts, prometheus.CounterValue, float64(n.Load()), string(o))
	}
	to <- prometheus.MustNewConstMetric(m.descSpent, prometheus.CounterValue, time.Duration(m.spent.Load()).Seconds())
	to <- prometheus.MustNewConstMetric(m.descErrors, prometheus.CounterValue, float64(m.storeErrors.Load()))
	to <- prometheus.MustNewConstMetric(m.descOpen, prometheus.GaugeValue, float64(m.pending.Load()), string(Pending))
	to <- prometheus.MustNewConstMetric(m.descOpen, prometheus.GaugeValue, float64(m.dead.Load()), string(Dead))
	to <- prometheus.MustNewConstMetric(m.descOldest, prometheus.GaugeValue, time.Duration(m.oldest.Load()).Seconds())
}
