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
	"github.com/floodweir/weir/memstore"
)

// A Config adjusts Metrics. Its zero value works.
type Config struct {
	// MaxSeries is how many policies, and how many pairs of a domain and a descriptor,
	// have series of their own; DefaultMaxSeries if not positive.
	MaxSeries int

	// Version is that of the program, for weir_build_info; "unknown" if empty.
	Version string
}

// DefaultMaxSeries is the MaxSeries of a Config that names none.
const DefaultMaxSeries = 1000

// Metrics are the instruments of one program.
type Metrics struct {
	registry *prometheus.Registry

	decisions, shadow, degraded, expressions, unsettled *prometheus.CounterVec
	decisionTime, storeTime                             *prometheus.HistogramVec
	storeErrors                                         *prometheus.CounterVec
	overflow                                            *prometheus.CounterVec
	hits                                                *prometheus.CounterVec
	commands                                            *prometheus.CounterVec
	throttle                                            [results]prometheus.Counter

	breakerOpen    prometheus.Gauge
	reloads        *prometheus.CounterVec
	reloadTime     prometheus.Gauge
	lastReloadOK   prometheus.Gauge
	policyVersions *prometheus.GaugeVec

	interfaces   atomic.Pointer[map[string]*interfaceCounters]
	interfacesMu sync.Mutex // of those who add one
	policies     names
	descriptors  descriptors
	memory       atomic.Pointer[func() memstore.Stats]

	policyOverflow prometheus.Counter
}

// Times of a decision in seconds: in this process it takes a microsecond, in Redis a
// millisecond, and after 50 of them the program stops waiting.
var times = []float64{1e-6, 1e-5, 1e-4, 2.5e-4, 5e-4, 1e-3, 2.5e-3, 5e-3, 0.01, 0.025, 0.05, 0.1, 0.25, 1}

// New makes Metrics with nothing counted yet.
func New(c Config) *Metrics {
	if c.MaxSeries <= 0 {
		c.MaxSeries = DefaultMaxSeries
	}
	if c.Version == "" {
		c.Version = "unknown"
	}
	m := &Metrics{registry: prometheus.NewRegistry(), policies: names{max: c.MaxSeries}}
	m.decisions = m.counters("weir_decisions_total",
		"Requests that an enforced policy was asked about, by what became of them.", "interface", "policy", "outcome")
	m.shadow = m.counters("weir_shadow_decisions_total",
		"Requests that a policy in shadow was asked about, by what would have become of them.", "interface", "policy", "outcome")
	m.degraded = m.counters("weir_degraded_decisions_total",
		"Requests that were decided without the store, by how.", "policy", "mode")
	m.expressions = m.counters("weir_expression_errors_total",
		"Expressions that could not be evaluated for a request.", "policy")
	m.unsettled = m.counters("weir_unsettled_total",
		"Requests whose cost, known only by their response, could not be charged or given back.", "policy")
	m.decisionTime = m.histograms("weir_decision_duration_seconds",
		"How long a door waited for a decision.", "interface")
	m.storeTime = m.histograms("weir_store_duration_seconds",
		"How long the store took, by what it was asked; batch is several limits at once.", "op")
	m.storeErrors = m.counters("weir_store_errors_total",
		"Requests that the store did not decide, by what it was asked and why.", "op", "reason")
	m.hits = m.counters("weir_ratelimit_hits_total",
		"Hits of Envoy's rate limit service, by the limit that they met.", "domain", "descriptor", "result")
	m.commands = m.counters("weir_resp_commands_total",
		"Commands of the RESP door.", "command", "result")
	m.overflow = m.counters("weir_series_overflow_total",
		"Events that were counted under \"other\" because there are too many names, by what they name.", "kind")
	m.breakerOpen = m.gauge("weir_store_breaker_open",
		"1 while the store is left alone because it does not answer, else 0.")
	m.reloads = m.counters("weir_policies_reload_total",
		"Times that policies were read again, by result.", "result")
	m.reloadTime = m.gauge("weir_policies_reload_success_timestamp_seconds",
		"When policies were last taken into use.")
	m.lastReloadOK = m.gauge("weir_policies_last_reload_successful",
		"1 if the policies that were last read are in use, 0 if they were refused.")
	m.policyVersions = prometheus.NewGaugeVec(prometheus.GaugeOpts{
		Name: "weir_policies_version", Help: "Always 1; the label is the version of the policies in use.",
	}, []string{"version"})
	build := prometheus.NewGaugeVec(prometheus.GaugeOpts{
		Name: "weir_build_info", Help: "Always 1; the labels are what this program was built from.",
	}, []string{"version", "goversion"})
	build.WithLabelValues(label(c.Version), runtime.Version()).Set(1)
	m.registry.MustRegister(m.policyVersions, build, memory{&m.memory},
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

// histograms have classic buckets for whoever reads text, and native ones, which are
// finer and are limited in number, for whoever asks for them.
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

// Gatherer reads all instruments.
func (m *Metrics) Gatherer() prometheus.Gatherer { return m.registry }

// Handler answers with all instruments in the formats that Prometheus reads.
func (m *Metrics) Handler() http.Handler {
	return promhttp.HandlerFor(m.registry, promhttp.HandlerOpts{
		ErrorHandling:       promhttp.ContinueOnError, // what can be told is told
		EnableOpenMetrics:   true,
		MaxRequestsInFlight: 4,
	})
}

// BreakerOpen says whether the store is left alone at present. It fits the Observe of a
// failover.Config.
func (m *Metrics) BreakerOpen(away bool) {
	if away {
		m.breakerOpen.Set(1)
	} else {
		m.breakerOpen.Set(0)
	}
}

// Memory names the store in memory whose keys are to be told; nil for none.
func (m *Metrics) Memory(stats func() memstore.Stats) {
	if stats == nil {
		m.memory.Store(nil)
		return
	}
	m.memory.Store(&stats)
}

// Store is next, with the time that it takes and what it does not decide counted. It
// belongs around the store itself, below failover.
func (m *Metrics) Store(next weir.Store) weir.Store {
	return &timed{next, (&storeCalls{m: m}).done}
}

// Door is next, with the time that a door waits for a decision counted. It belongs
// around all that stands between the door and the store.
func (m *Metrics) Interface(name string, next weir.Store) weir.Store {
	took := m.decisionTime.WithLabelValues(m.forInterface(name).label)
	return &timed{next, func(_ context.Context, _ int, start time.Time, _ error) { took.Observe(time.Since(start).Seconds()) }}
}
