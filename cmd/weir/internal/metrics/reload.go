package metrics

import (
	"strings"
	"sync/atomic"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/floodweir/weir/memstore"
	"github.com/floodweir/weir/policy"
)

// Reloaded counts that policies were read. If err is nil, set is in use from now on
// under the name version, and the series of policies that it does not have end.
func (m *Metrics) Reloaded(version string, set *policy.Set, err error) {
	if err != nil {
		m.reloads.WithLabelValues("failure").Inc()
		m.lastReloadOK.Set(0)
		return
	}
	m.reloads.WithLabelValues("success").Inc()
	m.lastReloadOK.Set(1)
	m.reloadTime.SetToCurrentTime()
	m.policyVersions.Reset()
	m.policyVersions.WithLabelValues(label(version)).Set(1)
	if set == nil {
		return
	}
	gone := m.policies.prune(func(name string) bool {
		name, _, _ = strings.Cut(name, "~") // a candidate lives with its policy
		return set.Policy(name) != nil
	})
	for _, name := range gone {
		l := prometheus.Labels{"policy": name}
		for _, v := range []*prometheus.CounterVec{m.decisions, m.shadow, m.degraded, m.expressions, m.unsettled} {
			v.DeletePartialMatch(l)
		}
	}
	for _, d := range *m.interfaces.Load() {
		d.n.Store(0)
		d.known.Clear()
	}
}

// memory tells of a store in memory, if there is one.
type memory struct {
	stats *atomic.Pointer[func() memstore.Stats]
}

// A fact is one number of a memstore.Stats.
type memoryMetric struct {
	desc  *prometheus.Desc
	kind  prometheus.ValueType
	value func(memstore.Stats) float64
}

func memoryMetrics() []memoryMetric {
	desc := func(name, help string) *prometheus.Desc { return prometheus.NewDesc(name, help, nil, nil) }
	return []memoryMetric{
		{desc("weir_keys", "Keys that the store in memory knows."),
			prometheus.GaugeValue, func(s memstore.Stats) float64 { return float64(s.Keys) }},
		{desc("weir_reservations", "Reservations that the store in memory remembers."),
			prometheus.GaugeValue, func(s memstore.Stats) float64 { return float64(s.Reservations) }},
		{desc("weir_keys_used", "How much of weir_keys_capacity is used."),
			prometheus.GaugeValue, func(s memstore.Stats) float64 { return float64(s.Used) }},
		{desc("weir_keys_capacity", "The most keys that the store in memory knows at once."),
			prometheus.GaugeValue, func(s memstore.Stats) float64 { return float64(s.MaxKeys) }},
		{desc("weir_keys_refused_total", "Requests that the store in memory did not decide because it was full."),
			prometheus.CounterValue, func(s memstore.Stats) float64 { return float64(s.Refused) }},
		{desc("weir_keys_shared_total", "Requests that were decided by a state that strangers share because the store in memory was full."),
			prometheus.CounterValue, func(s memstore.Stats) float64 { return float64(s.Shared) }},
		{desc("weir_snapshots_total", "Snapshots that the store in memory wrote."),
			prometheus.CounterValue, func(s memstore.Stats) float64 { return float64(s.Snapshots) }},
		{desc("weir_snapshot_last_successful", "1 unless the latest snapshot could not be written."),
			prometheus.GaugeValue, func(s memstore.Stats) float64 {
				if s.SnapshotErr != nil {
					return 0
				}
				return 1
			}},
	}
}

// Describe implements [prometheus.Collector].
func (memory) Describe(to chan<- *prometheus.Desc) {
	for _, f := range memoryMetrics() {
		to <- f.desc
	}
}

// Collect implements [prometheus.Collector].
func (m memory) Collect(to chan<- prometheus.Metric) {
	read := m.stats.Load()
	if read == nil {
		return
	}
	s := (*read)()
	for _, f := range memoryMetrics() {
		to <- prometheus.MustNewConstMetric(f.desc, f.kind, f.value(s))
	}
}
