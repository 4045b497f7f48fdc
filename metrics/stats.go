package metrics

import (
	"slices"
	"sync/atomic"

	"github.com/floodweir/weir/denycache"
	"github.com/floodweir/weir/failover"
	"github.com/floodweir/weir/memstore"
	"github.com/floodweir/weir/protect"
	"github.com/floodweir/weir/share"
)

// A source holds statistics that a part of the program counts itself. Without one there are no
// metrics.
type source[S any] struct{ stats atomic.Pointer[func() S] }

// set sets the source; nil for none.
func (c *source[S]) set(stats func() S) {
	if stats == nil {
		c.stats.Store(nil)
		return
	}
	c.stats.Store(&stats)
}

// A statistic is one series of an S: a gauge, or a counter. Those of one name are in sequence.
type statistic[S any] struct {
	name, help   string
	label, value string // "" if it has no label
	counter      bool
	read         func(S) float64
}

// collect makes the metrics of c.
func collect[S any](b Backend, c *source[S], all []statistic[S]) {
	var metrics []Polled
	for i, s := range all {
		if i > 0 && all[i-1].name == s.name {
			continue
		}
		m := Polled{Name: s.name, Help: s.help, Counter: s.counter}
		if s.label != "" {
			m.Labels = []string{s.label}
		}
		metrics = append(metrics, m)
	}
	b.Poll(metrics, func(emit func(int, float64, ...string)) {
		stats := c.stats.Load()
		if stats == nil {
			return
		}
		now, at := (*stats)(), -1
		for i, s := range all {
			if i == 0 || all[i-1].name != s.name {
				at++
			}
			if s.label == "" {
				emit(at, s.read(now))
			} else {
				emit(at, s.read(now), s.value)
			}
		}
	})
}

func gauge[S any](name, help string, read func(S) float64) statistic[S] {
	return statistic[S]{name: name, help: help, read: read}
}

func counter[S any](name, help string, read func(S) float64) statistic[S] {
	return statistic[S]{name: name, help: help, counter: true, read: read}
}

// labelled returns s with a label and its value.
func (s statistic[S]) labelled(label, value string) statistic[S] {
	s.label, s.value = label, value
	return s
}

// number returns 1 for true and 0 for false.
func number(b bool) float64 {
	if b {
		return 1
	}
	return 0
}

func memoryMetrics() []statistic[memstore.Stats] {
	type stats = memstore.Stats
	return []statistic[stats]{
		gauge("weir_keys", "Keys in the memory store.", func(s stats) float64 { return float64(s.Keys) }),
		gauge("weir_reservations", "Reservations in the memory store.", func(s stats) float64 { return float64(s.Reservations) }),
		gauge("weir_keys_used", "Used part of weir_keys_capacity, in keys.", func(s stats) float64 { return float64(s.Used) }),
		gauge("weir_keys_capacity", "Maximum number of keys in the memory store.", func(s stats) float64 { return float64(s.MaxKeys) }),
		counter("weir_keys_refused_total", "Requests that the memory store did not decide because it was at MaxKeys.",
			func(s stats) float64 { return float64(s.Refused) }),
		counter("weir_keys_shared_total", "Requests charged to the overflow bucket because the memory store was at MaxKeys.",
			func(s stats) float64 { return float64(s.Shared) }),
		counter("weir_snapshots_total", "Snapshots written by the memory store.", func(s stats) float64 { return float64(s.Snapshots) }),
		gauge("weir_snapshot_last_successful", "1 if the last snapshot was written or there was none, 0 if writing it failed.",
			func(s stats) float64 { return number(s.SnapshotErr == nil) }),
	}
}

func failoverMetrics() []statistic[failover.Stats] {
	type stats = failover.Stats
	all := []statistic[stats]{
		gauge("weir_store_breaker_open", "1 while the circuit breaker of the store is open, else 0.",
			func(s stats) float64 { return number(s.State != failover.Up) }),
		gauge("weir_store_calls_in_progress", "Calls of the Redis store in progress.", func(s stats) float64 { return float64(s.InProgress) }),
		gauge("weir_store_calls_waiting", "Requests that wait for a call of the Redis store.", func(s stats) float64 { return float64(s.Queued) }),
		counter("weir_store_undecided_total", "Requests that the Redis store did not decide, or not in time.",
			func(s stats) float64 { return float64(s.Unavailable) }),
		counter("weir_store_late_replies_total", "Replies of the Redis store after the deadline.",
			func(s stats) float64 { return float64(s.LateReplies) }),
		gauge("weir_overloaded", "1 if this process rejected a request within a second because it was overloaded, else 0.",
			func(s stats) float64 { return number(s.Overloaded) }),
		counter("weir_scheduling_delay_seconds_total", "Time in which this process was not scheduled while calls of the Redis store were in progress, in seconds.",
			func(s stats) float64 { return s.SchedulingDelay.Seconds() }),
	}
	for _, state := range []failover.State{failover.Up, failover.Slow, failover.Down} {
		is := func(s stats) float64 { return number(s.State == state) }
		all = append(all, gauge("weir_store_state", "1 for the state of the Redis store, 0 for the others.", is).labelled("state", string(state)))
	}
	rejected := func(reason string, read func(stats) float64) statistic[stats] {
		return counter("weir_overload_rejected_total", "Requests rejected because this process was overloaded, by reason.", read).labelled("reason", reason)
	}
	return append(all,
		rejected("queue_full", func(s stats) float64 { return float64(s.QueueFull) }),
		rejected("queue_wait", func(s stats) float64 { return float64(s.QueueWait) }),
		rejected("scheduling", func(s stats) float64 { return float64(s.Scheduling) }))
}

func denyCacheMetrics() []statistic[denycache.Stats] {
	type stats = denycache.Stats
	return []statistic[stats]{
		counter("weir_denials_repeated_total", "Denials that this process repeated without a call of the Redis store, because their RetryAfter had not passed.",
			func(s stats) float64 { return float64(s.Repeated) }),
		gauge("weir_denials_cached", "Denials in the cache of this process, also those that have ended.", func(s stats) float64 { return float64(s.Keys) }),
	}
}

func shareMetrics() []statistic[share.Stats] {
	type stats = share.Stats
	decisions := func(by string, read func(stats) int64) statistic[stats] {
		return counter("weir_shares_decisions_total", "Requests by what decided them: share (without a call), ledger, or strict (limits that are not divided).",
			func(s stats) float64 { return float64(read(s)) }).labelled("by", by)
	}
	return []statistic[stats]{
		gauge("weir_shares_held", "Shares of limits that this process holds.", func(s stats) float64 { return float64(s.Shares) }),
		gauge("weir_shares_keys", "Keys whose demand is measured for shares.", func(s stats) float64 { return float64(s.Keys) }),
		gauge("weir_shares_stranded", "Sum over the shares of this process of the part of the limit's rate that is above its demand; 1 is a whole limit.",
			func(s stats) float64 { return s.Stranded }),
		decisions("share", func(s stats) int64 { return s.Local }),
		decisions("ledger", func(s stats) int64 { return s.Ledger }),
		decisions("strict", func(s stats) int64 { return s.Strict }),
		counter("weir_shares_conflicts_total", "Exchanges with the ledger that were repeated, because another process wrote the row.",
			func(s stats) float64 { return float64(s.Conflicts) }),
	}
}

func systemMetrics() []statistic[protect.SystemReading] {
	type stats = protect.SystemReading
	all := []statistic[stats]{
		gauge("weir_system_cpu_ratio", "CPU in use, as a fraction of what the process may use; 0 without a rule.", func(s stats) float64 { return s.CPU }),
		gauge("weir_system_memory_ratio", "Memory in use, as a fraction of what the process may use; 0 without a rule.", func(s stats) float64 { return s.Memory }),
		gauge("weir_system_load", "Load average of the machine; 0 without a rule.", func(s stats) float64 { return s.Load }),
		gauge("weir_system_in_flight", "Requests in flight until the end of their response, without exempt ones.", func(s stats) float64 { return float64(s.InFlight) }),
	}
	for _, metric := range []string{"cpu", "memory", "load"} {
		missing := func(s stats) float64 { return number(slices.Contains(s.Missing, metric)) }
		all = append(all, gauge("weir_system_metric_missing", "1 while a metric of a system rule is unavailable, so the rule is inactive, else 0.", missing).labelled("metric", metric))
	}
	return all
}
