package metrics

import (
	"sync/atomic"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/floodweir/weir/denycache"
	"github.com/floodweir/weir/failover"
	"github.com/floodweir/weir/memstore"
)

// collector collects the metrics of statistics that a part of the program counts itself.
type collector[S any] struct {
	stats   atomic.Pointer[func() S] // nil: none
	none    S                        // the statistics without a source
	hide    bool                     // without a source there are no metrics
	metrics []statistic[S]
}

// A statistic is one metric of an S.
type statistic[S any] struct {
	desc  *prometheus.Desc
	kind  prometheus.ValueType
	value func(S) float64
}

// set sets the source; nil for none.
func (c *collector[S]) set(stats func() S) {
	if stats == nil {
		c.stats.Store(nil)
		return
	}
	c.stats.Store(&stats)
}

// Describe implements [prometheus.Collector].
func (c *collector[S]) Describe(to chan<- *prometheus.Desc) {
	for _, f := range c.metrics {
		to <- f.desc
	}
}

// Collect implements [prometheus.Collector].
func (c *collector[S]) Collect(to chan<- prometheus.Metric) {
	s := c.none
	if read := c.stats.Load(); read != nil {
		s = (*read)()
	} else if c.hide {
		return
	}
	for _, f := range c.metrics {
		to <- prometheus.MustNewConstMetric(f.desc, f.kind, f.value(s))
	}
}

func desc(name, help string) *prometheus.Desc { return prometheus.NewDesc(name, help, nil, nil) }

// number returns 1 for true and 0 for false.
func number(b bool) float64 {
	if b {
		return 1
	}
	return 0
}

func memoryMetrics() []statistic[memstore.Stats] {
	return []statistic[memstore.Stats]{
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
			prometheus.GaugeValue, func(s memstore.Stats) float64 { return number(s.SnapshotErr == nil) }},
	}
}

func failoverMetrics() []statistic[failover.Stats] {
	all := []statistic[failover.Stats]{
		{desc("weir_store_breaker_open", "1 while the circuit breaker of the store is open, else 0."),
			prometheus.GaugeValue, func(s failover.Stats) float64 { return number(s.State != failover.Up) }},
		{desc("weir_store_calls_in_progress", "Calls of the Redis store in progress."),
			prometheus.GaugeValue, func(s failover.Stats) float64 { return float64(s.InProgress) }},
		{desc("weir_store_calls_waiting", "Requests that wait for a call of the Redis store."),
			prometheus.GaugeValue, func(s failover.Stats) float64 { return float64(s.Queued) }},
		{desc("weir_store_undecided_total", "Requests that the Redis store did not decide, or not in time."),
			prometheus.CounterValue, func(s failover.Stats) float64 { return float64(s.Unavailable) }},
		{desc("weir_store_late_replies_total", "Replies of the Redis store after the deadline."),
			prometheus.CounterValue, func(s failover.Stats) float64 { return float64(s.LateReplies) }},
		{desc("weir_overloaded", "1 if this process rejected a request within a second because it was overloaded, else 0."),
			prometheus.GaugeValue, func(s failover.Stats) float64 { return number(s.Overloaded) }},
		{desc("weir_scheduling_delay_seconds_total", "Time in which this process was not scheduled while calls of the Redis store were in progress, in seconds."),
			prometheus.CounterValue, func(s failover.Stats) float64 { return s.SchedulingDelay.Seconds() }},
	}
	for _, state := range []failover.State{failover.Up, failover.Slow, failover.Down} {
		all = append(all, statistic[failover.Stats]{
			prometheus.NewDesc("weir_store_state", "1 for the state of the Redis store, 0 for the others.", nil, prometheus.Labels{"state": string(state)}),
			prometheus.GaugeValue, func(s failover.Stats) float64 { return number(s.State == state) },
		})
	}
	for reason, count := range map[string]func(failover.Stats) int64{
		"queue_full": func(s failover.Stats) int64 { return s.QueueFull },
		"queue_wait": func(s failover.Stats) int64 { return s.QueueWait },
		"scheduling": func(s failover.Stats) int64 { return s.Scheduling },
	} {
		all = append(all, statistic[failover.Stats]{
			prometheus.NewDesc("weir_overload_rejected_total", "Requests rejected because this process was overloaded, by reason.", nil, prometheus.Labels{"reason": reason}),
			prometheus.CounterValue, func(s failover.Stats) float64 { return float64(count(s)) },
		})
	}
	return all
}

func denyCacheMetrics() []statistic[denycache.Stats] {
	return []statistic[denycache.Stats]{
		{desc("weir_denials_repeated_total", "Denials that this process repeated without a call of the Redis store, because their RetryAfter had not passed."),
			prometheus.CounterValue, func(s denycache.Stats) float64 { return float64(s.Repeated) }},
		{desc("weir_denials_cached", "Denials in the cache of this process, also those that have ended."),
			prometheus.GaugeValue, func(s denycache.Stats) float64 { return float64(s.Keys) }},
	}
}
