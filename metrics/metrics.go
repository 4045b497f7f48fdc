package metrics

import (
	"cmp"
	"context"
	"net/http"
	"runtime"
	"runtime/debug"
	"sync"
	"sync/atomic"

	"github.com/floodweir/weir/denycache"
	"github.com/floodweir/weir/enforce"
	"github.com/floodweir/weir/failover"
	"github.com/floodweir/weir/memstore"
	"github.com/floodweir/weir/policy"
	"github.com/floodweir/weir/protect"
	"github.com/floodweir/weir/share"
)

// A Config is the configuration of Metrics. Its zero value works.
type Config struct {
	// MaxSeries is the maximum number of policies, and of limiters, with series of their own;
	// DefaultMaxSeries if not positive.
	MaxSeries int

	// Version is the label of weir_build_info; the version of this module in the program if empty.
	Version string
}

// DefaultMaxSeries is the default MaxSeries of a Config.
const DefaultMaxSeries = 1000

// Metrics holds the metrics of one program.
type Metrics struct {
	backend Backend

	decisions, shadow, degraded, expressions, unsettled, unpriced, exhausted, borrowed func(...string) Counter

	decisionTime, storeTime           func(...string) Histogram
	storeErrors, overflow, protection func(...string) Counter

	interfaces         atomic.Pointer[map[string]*interfaceCounters]
	interfacesMu       sync.Mutex // held to add an interface
	policies, limiters names

	memory    source[memstore.Stats]
	failover  source[failover.Stats]
	denials   source[denycache.Stats]
	shares    source[share.Stats]
	system    source[protect.SystemReading]
	upstreams atomic.Pointer[[]Upstream]
}

// times are the bounds of durations in seconds. A decision takes about a microsecond in
// this process and a millisecond in Redis. After 50 ms the program weir stops waiting.
var times = []float64{1e-6, 1e-5, 1e-4, 2.5e-4, 5e-4, 1e-3, 2.5e-3, 5e-3, 0.01, 0.025, 0.05, 0.1, 0.25, 1}

// New returns Metrics in b.
func New(b Backend, c Config) *Metrics {
	if c.MaxSeries <= 0 {
		c.MaxSeries = DefaultMaxSeries
	}
	m := &Metrics{backend: b}
	m.decisions = b.Counter("weir_decisions_total",
		"Requests decided by an enforced policy, by outcome.", "interface", "policy", "outcome")
	m.shadow = b.Counter("weir_shadow_decisions_total",
		"Requests evaluated by a policy in shadow mode, by the outcome they would have.", "interface", "policy", "outcome")
	m.degraded = b.Counter("weir_degraded_decisions_total",
		"Requests decided without the store, by mode.", "policy", "mode")
	m.expressions = b.Counter("weir_expression_errors_total",
		"Expressions that failed for a request.", "policy")
	m.unsettled = b.Counter("weir_unsettled_total",
		"Requests whose cost, known from the response, was not settled.", "policy")
	m.unpriced = b.Counter("weir_budget_unpriced_total",
		"Responses without a cost for a policy that charges by the response, by reason.", "policy", "reason")
	m.exhausted = b.Counter("weir_budget_exhausted_total",
		"Streams for which a policy denied a further step of its budget.", "policy")
	m.borrowed = b.Counter("weir_borrowed_total",
		"Admitted requests whose tokens were lent to their tenant.", "policy")
	m.decisionTime = b.Histogram("weir_decision_duration_seconds",
		"Time from request to decision, in seconds, by interface.", times, "interface")
	m.storeTime = b.Histogram("weir_store_duration_seconds",
		"Time of a call to the store in seconds, by operation; batch is several limits at once.", times, "op")
	m.storeErrors = b.Counter("weir_store_errors_total",
		"Calls to the store without a decision, by operation and reason.", "op", "reason")
	m.overflow = b.Counter("weir_series_overflow_total",
		"Events counted under \"other\" because there are more than MaxSeries names, by kind of name.", "kind")
	m.protection = b.Counter("weir_protection_rejected_total",
		"Requests that a protection rejected, or would reject in shadow mode, by upstream.", "upstream", "protection", "mode")
	collect(b, &m.memory, memoryMetrics())
	collect(b, &m.failover, failoverMetrics())
	collect(b, &m.denials, denyCacheMetrics())
	collect(b, &m.shares, shareMetrics())
	collect(b, &m.system, systemMetrics())
	b.Poll(upstreamMetrics, m.collectUpstreams)
	build := Polled{Name: "weir_build_info", Help: "Always 1; the labels are the version of Weir and of Go.", Labels: []string{"version", "goversion"}}
	version := Label(cmp.Or(c.Version, moduleVersion()))
	b.Poll([]Polled{build}, func(emit func(int, float64, ...string)) { emit(0, 1, version, runtime.Version()) })

	m.interfaces.Store(&map[string]*interfaceCounters{})
	m.policies = names{max: c.MaxSeries, overflow: m.overflow("policy")}
	m.limiters = names{max: c.MaxSeries, overflow: m.overflow("limiter")}
	return m
}

// moduleVersion returns the version of this module in the program.
func moduleVersion() string {
	const path = "github.com/floodweir/weir"
	if build, ok := debug.ReadBuildInfo(); ok {
		for _, d := range build.Deps {
			if d.Path == path && d.Version != "" {
				return d.Version
			}
		}
	}
	return "unknown"
}

// HTTP counts requests, as Observe of an httplimit.Config. Its interface is "http".
func (m *Metrics) HTTP(_ *http.Request, e enforce.Event) { m.Observe("http", e) }

// RPC counts calls of gRPC and Connect, as Observe of a rpclimit.ServerConfig. Its interface is
// "rpc".
func (m *Metrics) RPC(_ context.Context, _ policy.Attributes, e enforce.Event) { m.Observe("rpc", e) }

// Function counts calls of functions, as Observe of a guard.Config. Its interface is "function".
func (m *Metrics) Function(_ context.Context, _ string, e enforce.Event) { m.Observe("function", e) }

// Memory sets the source of the metrics of the memory store; nil for none.
func (m *Metrics) Memory(stats func() memstore.Stats) { m.memory.set(stats) }

// Failover sets the source of the metrics of a failover.Store; nil for none.
func (m *Metrics) Failover(stats func() failover.Stats) { m.failover.set(stats) }

// Shares sets the source of the metrics of shares; nil for none.
func (m *Metrics) Shares(stats func() share.Stats) { m.shares.set(stats) }

// DenyCache sets the source of the metrics of repeated denials; nil for none.
func (m *Metrics) DenyCache(stats func() denycache.Stats) { m.denials.set(stats) }

// Overflow returns the counter of events of further names of a kind, for a program that bounds
// names itself.
func (m *Metrics) Overflow(kind string) Counter { return m.overflow(Label(kind)) }

// Retain ends the series of policies that keep rejects, except those with the name of a limiter.
// Call it when policies were replaced, if their names change often.
func (m *Metrics) Retain(keep func(policy string) bool) {
	m.policies.prune(func(name string) bool {
		return keep(name) || m.limiters.has(name) || !m.backend.Forget("policy", name)
	})
	for _, d := range *m.interfaces.Load() {
		d.n.Store(0)
		d.known.Clear()
	}
}
