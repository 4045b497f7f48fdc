package metrics

import (
	"strings"
	"sync/atomic"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/floodweir/weir/memstore"
	"github.com/floodweir/weir/policy"
)

// Reloaded counts a reload. If err is nil, set is in force from now on under the name
// version, and series of policies that it does not contain end.
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
	removed := m.policies.prune(func(name string) bool {
		name, _, _ = strings.Cut(name, "~") // a candidate is kept with its policy
		return set.Policy(name) != nil
	})
	for _, name := range removed {
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

// memory collects the metrics of the memory store, if there is one.
type memory struct {
	stats *atomic.Pointer[func() memstore.Stats]
}

// A memoryMetric is one metric of a memstore.Stats.
type memoryMetric struct {
	desc  *prometheus.Desc
	kind  prometheus.ValueType
	value func(memstore.Stats) float64
}

func memoryMetrics() []memoryMetric {
	desc := func(name, help string) *prometheus.Desc { return prometheus.NewDesc(name, help, nil, nil) }
	return []memoryMetric{
		{desc("weir_keys", "Keys in the memory store."),
			prometheus.GaugeValue, func(s memstore.Stats) float64 { return float64(s.Keys) }},
		{desc("weir_reservations", "Reservations in the memory store."),
			prometheus.GaugeValue, func(s memstore.Stats) float64 { return float64(s.Reservations) }},
		{desc("weir_keys_used", "Used part of weir_keys_capacity, in keys."),
			prometheus.GaugeValue, func(s memstore.Stats) float64 { return float64(s.Used) }},
		{desc("weir_keys_capacity", "Maximum number of keys in the memory store."),
			prometheus.GaugeValue, func(s memstore.Stats) float64 { return float64(s.MaxKeys) }},
		{desc("weir_keys_refused_total", "Requests that the memory store did not decide because it was at MaxKeys."),
			prometheus.CounterValue, func(s memstore.Stats) float64 { return float64(s.Refused) }},
		{desc("weir_keys_shared_total", "Requests charged to the overflow bucket because the memory store was at MaxKeys."),
			prometheus.CounterValue, func(s memstore.Stats) float64 { return float64(s.Shared) }},
		{desc("weir_snapshots_total", "Snapshots written by the memory store."),
			prometheus.CounterValue, func(s memstore.Stats) float64 { return float64(s.Snapshots) }},
		{desc("weir_snapshot_last_successful", "1 if the last snapshot was written or there was none, 0 if writing it failed."),
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
