package metrics

import (
	"context"
	"net/http"
	"runtime"
	"sync"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"github.com/floodweir/weir"
	"github.com/floodweir/weir/denycache"
	"github.com/floodweir/weir/failover"
	"github.com/floodweir/weir/memstore"
	"github.com/floodweir/weir/protect"
)

// A Config is the configuration of Metrics. Its zero value works.
type Config struct {
	// MaxSeries is the maximum number of policies, and of pairs of domain and descriptor,
	// with series of their own; DefaultMaxSeries if not positive.
	MaxSeries int

	// Version is the version of the program, for weir_build_info; "unknown" if empty.
	Version string
}

// DefaultMaxSeries is the default MaxSeries of a Config.
const DefaultMaxSeries = 1000

// Metrics holds the metrics of one program.
type Metrics struct {
	registry *prometheus.Registry

	decisions, shadow, degraded, expressions, unsettled, unpriced, exhausted, borrowed, webhooks *prometheus.CounterVec
	decisionTime, storeTime                                                                      *prometheus.HistogramVec
	storeErrors                                                                                  *prometheus.CounterVec
	overflow                                                                                     *prometheus.CounterVec
	hits                                                                                         *prometheus.CounterVec
	commands                                                                                     *prometheus.CounterVec
	throttle                                                                                     [results]prometheus.Counter

	protections *prometheus.CounterVec
	upstreams   upstreams
	system      collector[protect.SystemReading]

	connections        *prometheus.GaugeVec
	connectionsRefused *prometheus.CounterVec

	misconfigured  prometheus.Gauge
	reloads        *prometheus.CounterVec
	reloadTime     prometheus.Gauge
	lastReloadOK   prometheus.Gauge
	policyVersions *prometheus.GaugeVec

	interfaces   atomic.Pointer[map[string]*interfaceCounters]
	interfacesMu sync.Mutex // held to add an interface
	policies     names
	descriptors  descriptors
	memory       collector[memstore.Stats]
	failover     collector[failover.Stats]
	denials      collector[denycache.Stats]

	policyOverflow prometheus.Counter
}

// times are the bounds of durations in seconds. A decision takes about a microsecond in
// this process and a millisecond in Redis. After 50 ms the program stops waiting.
var times = []float64{1e-6, 1e-5, 1e-4, 2.5e-4, 5e-4, 1e-3, 2.5e-3, 5e-3, 0.01, 0.025, 0.05, 0.1, 0.25, 1}

// New returns Metrics.
func New(c Config) *Metrics {
	if c.MaxSeries <= 0 {
		c.MaxSeries = DefaultMaxSeries
	}
	if c.Version == "" {
		c.Version = "unknown"
	}
	m := &Metrics{registry: prometheus.NewRegistry(), policies: names{max: c.MaxSeries}}
	m.decisions = m.counters("weir_decisions_total",
		"Requests decided by an enforced policy, by outcome.", "interface", "policy", "outcome")
	m.shadow = m.counters("weir_shadow_decisions_total",
		"Requests evaluated by a policy in shadow mode, by the outcome they would have.", "interface", "policy", "outcome")
	m.degraded = m.counters("weir_degraded_decisions_total",
		"Requests decided without the store, by mode.", "policy", "mode")
	m.expressions = m.counters("weir_expression_errors_total",
		"Expressions that failed for a request.", "policy")
	m.unsettled = m.counters("weir_unsettled_total",
		"Requests whose cost, known from the response, was not settled.", "policy")
	m.unpriced = m.counters("weir_budget_unpriced_total",
		"Responses without a cost for a policy that charges by the response, by reason.", "policy", "reason")
	m.exhausted = m.counters("weir_budget_exhausted_total",
		"Streams for which a policy denied a further step of its budget.", "policy")
	m.borrowed = m.counters("weir_borrowed_total",
		"Admitted requests whose tokens were lent to their tenant.", "policy")
	m.webhooks = m.counters("weir_budget_webhooks_total",
		"Webhooks about budgets, by result: sent, failed after all attempts, or dropped before the first.", "result")
	for _, result := range [...]string{"sent", "failed", "dropped"} { // so that rate() sees the first of each
		m.webhooks.WithLabelValues(result)
	}
	m.decisionTime = m.histograms("weir_decision_duration_seconds",
		"Time from request to decision, in seconds, by interface.", "interface")
	m.storeTime = m.histograms("weir_store_duration_seconds",
		"Time of a call to the store in seconds, by operation; batch is several limits at once.", "op")
	m.storeErrors = m.counters("weir_store_errors_total",
		"Calls to the store without a decision, by operation and reason.", "op", "reason")
	m.hits = m.counters("weir_ratelimit_hits_total",
		"Hits of the Envoy rate limit service, by domain, descriptor and result.", "domain", "descriptor", "result")
	m.commands = m.counters("weir_resp_commands_total",
		"Commands on the RESP interface, by command and result.", "command", "result")
	m.overflow = m.counters("weir_series_overflow_total",
		"Events counted under \"other\" because there are more than MaxSeries names, by kind of name.", "kind")
	m.protections = m.counters("weir_protection_rejected_total",
		"Requests that a protection rejected, or would reject in shadow mode, by upstream.", "upstream", "protection", "mode")
	m.connections = prometheus.NewGaugeVec(prometheus.GaugeOpts{
		Name: "weir_connections", Help: "Open connections of clients, by interface.",
	}, []string{"interface"})
	m.connectionsRefused = m.counters("weir_connections_refused_total",
		"Connections closed at once because too many were open, by interface.", "interface")
	m.misconfigured = m.gauge("weir_store_misconfigured",
		"1 while the configuration of Redis, or of the connection to it, is wrong, else 0.")
	m.reloads = m.counters("weir_policies_reload_total",
		"Reloads of policies, by result.", "result")
	m.reloadTime = m.gauge("weir_policies_reload_success_timestamp_seconds",
		"Unix time of the last successful reload, in seconds.")
	m.lastReloadOK = m.gauge("weir_policies_last_reload_successful",
		"1 if the last reload succeeded, 0 if it failed.")
	m.policyVersions = prometheus.NewGaugeVec(prometheus.GaugeOpts{
		Name: "weir_policies_version", Help: "Always 1; the label is the version of the policies in force.",
	}, []string{"version"})
	build := prometheus.NewGaugeVec(prometheus.GaugeOpts{
		Name: "weir_build_info", Help: "Always 1; the labels are the version of the program and of Go.",
	}, []string{"version", "goversion"})
	build.WithLabelValues(label(c.Version), runtime.Version()).Set(1)
	m.memory.metrics, m.memory.hide = memoryMetrics(), true
	m.failover.metrics, m.failover.none = failoverMetrics(), failover.Stats{State: failover.Up}
	m.denials.metrics = denyCacheMetrics()
	m.system.metrics, m.system.hide = systemMetrics(), true
	m.registry.MustRegister(m.policyVersions, m.connections, build, &m.memory, &m.failover, &m.denials, &m.system, &m.upstreams,
		collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))

	m.interfaces.Store(&map[string]*interfaceCounters{})
	m.policyOverflow = m.overflow.WithLabelValues("policy")
	m.descriptors.init(m, c.MaxSeries)
	for i, result := range commandResults {
		m.throttle[i] = m.commands.WithLabelValues(throttle, result)
	}
	for _, result := range []string{"success", "failure"} {
		m.reloads.WithLabelValues(result)
	}
	return m
}

func (m *Metrics) counters(name, help string, labels ...string) *prometheus.CounterVec {
	v := prometheus.NewCounterVec(prometheus.CounterOpts{Name: name, Help: help}, labels)
	m.registry.MustRegister(v)
	return v
}

func (m *Metrics) gauge(name, help string) prometheus.Gauge {
	g := prometheus.NewGauge(prometheus.GaugeOpts{Name: name, Help: help})
	m.registry.MustRegister(g)
	return g
}

// histograms registers a histogram with classic buckets for the text format, and native
// buckets, which are finer and bounded in number.
func (m *Metrics) histograms(name, help string, labels ...string) *prometheus.HistogramVec {
	v := prometheus.NewHistogramVec(prometheus.HistogramOpts{
		Name: name, Help: help, Buckets: times,
		NativeHistogramBucketFactor:     1.1,
		NativeHistogramMaxBucketNumber:  100,
		NativeHistogramMinResetDuration: time.Hour,
	}, labels)
	m.registry.MustRegister(v)
	return v
}

// Gatherer returns the gatherer of all metrics.
func (m *Metrics) Gatherer() prometheus.Gatherer { return m.registry }

// Handler serves all metrics in the formats of Prometheus.
func (m *Metrics) Handler() http.Handler {
	return promhttp.HandlerFor(m.registry, promhttp.HandlerOpts{
		ErrorHandling:       promhttp.ContinueOnError, // serve the metrics that can be collected
		EnableOpenMetrics:   true,
		MaxRequestsInFlight: 4,
	})
}

// Misconfigured sets whether the configuration of the store is wrong.
func (m *Metrics) Misconfigured(wrong bool) {
	if wrong {
		m.misconfigured.Set(1)
	} else {
		m.misconfigured.Set(0)
	}
}

// Memory sets the source of the metrics of the memory store; nil for none.
func (m *Metrics) Memory(stats func() memstore.Stats) { m.memory.set(stats) }

// Failover sets the source of the metrics of the Redis store; nil for none.
func (m *Metrics) Failover(stats func() failover.Stats) { m.failover.set(stats) }

// DenyCache sets the source of the metrics of repeated denials; nil for none.
func (m *Metrics) DenyCache(stats func() denycache.Stats) { m.denials.set(stats) }

// Store returns next with metrics of its duration and errors. A failover.Store reports them
// by StoreCalls.
func (m *Metrics) Store(next weir.Store) weir.Store {
	return &timed{next, (&storeCalls{m: m}).done}
}

// StoreCalls returns a function that records the duration and the error of a call of the
// store. It fits the ObserveCall of a failover.Config.
func (m *Metrics) StoreCalls() func(ctx context.Context, verb weir.Verb, isBatch bool, start time.Time, err error) {
	calls := storeCalls{m: m}
	return func(ctx context.Context, verb weir.Verb, isBatch bool, start time.Time, err error) {
		op := int(verb)
		if isBatch {
			op = batch
		}
		calls.done(ctx, op, start, err)
	}
}

// Interface returns next with a metric of the time that the named interface waits for a
// decision. It belongs around everything between the interface and the store. An interface
// with policies reports that time to Observe.
func (m *Metrics) Interface(name string, next weir.Store) weir.Store {
	took := m.decisionTime.WithLabelValues(m.forInterface(name).label)
	return &timed{next, func(_ context.Context, _ int, start time.Time, _ error) { took.Observe(time.Since(start).Seconds()) }}
}
