package metrics

import (
	"net/http"
	"sync/atomic"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	weirprometheus "github.com/floodweir/weir/contrib/prometheus"
	"github.com/floodweir/weir/denycache"
	"github.com/floodweir/weir/failover"
	library "github.com/floodweir/weir/metrics"
	"github.com/floodweir/weir/share"
)

// A Config is the configuration of Metrics. Its zero value works.
type Config struct {
	// MaxSeries is the maximum number of policies, and of pairs of domain and descriptor,
	// with series of their own; metrics.DefaultMaxSeries if not positive.
	MaxSeries int

	// Version is the version of the program, for weir_build_info; "unknown" if empty.
	Version string
}

// Metrics holds the metrics of one program: those of a Go program, and its own.
type Metrics struct {
	*library.Metrics
	registry *prometheus.Registry

	webhooks, hits, commands *prometheus.CounterVec
	throttle                 [results]prometheus.Counter

	connections        *prometheus.GaugeVec
	connectionsRefused *prometheus.CounterVec

	misconfigured  prometheus.Gauge
	reloads        *prometheus.CounterVec
	reloadTime     prometheus.Gauge
	lastReloadOK   prometheus.Gauge
	policyVersions *prometheus.GaugeVec

	quotaActions *prometheus.CounterVec
	quotaStats   atomic.Pointer[func() (streams, buckets int64)]
	regions      atomic.Pointer[func() RegionStats]

	descriptors descriptors
}

// An Upstream has the protections of an upstream.
type Upstream = library.Upstream

// other is the label of names without series of their own.
const other = "other"

// New returns Metrics.
func New(c Config) *Metrics {
	if c.MaxSeries <= 0 {
		c.MaxSeries = library.DefaultMaxSeries
	}
	if c.Version == "" {
		c.Version = "unknown"
	}
	m := &Metrics{registry: prometheus.NewRegistry()}
	var err error
	m.Metrics, err = weirprometheus.New(weirprometheus.Config{
		Config: library.Config{MaxSeries: c.MaxSeries, Version: c.Version}, Registerer: m.registry,
	})
	if err != nil {
		panic(err) // a new registry has no metric
	}
	m.Failover(nil)
	m.DenyCache(nil)
	m.Shares(nil)
	m.webhooks = m.counters("weir_budget_webhooks_total",
		"Webhooks about budgets, by result: sent, failed after all attempts, or dropped before the first.", "result")
	for _, result := range [...]string{"sent", "failed", "dropped"} { // so that rate() sees the first of each
		m.webhooks.WithLabelValues(result)
	}
	m.hits = m.counters(hitsFamily,
		"Hits of the Envoy rate limit service, by domain, descriptor and result.", "domain", "descriptor", "result")
	m.commands = m.counters("weir_resp_commands_total",
		"Commands on the RESP interface, by command and result.", "command", "result")
	m.connections = prometheus.NewGaugeVec(prometheus.GaugeOpts{
		Name: "weir_connections", Help: "Open connections of clients, by interface.",
	}, []string{"interface"})
	m.connectionsRefused = m.counters("weir_connections_refused_total",
		"Connections closed at once because too many were open, by interface.", "interface")
	m.misconfigured = m.gauge("weir_store_misconfigured",
		"1 while the configuration of Redis, or of the connection to it, is wrong, else 0.")
	m.reloads = m.counters(reloadFamily,
		"Reloads of policies, by result.", "result")
	m.reloadTime = m.gauge("weir_policies_reload_success_timestamp_seconds",
		"Unix time of the last successful reload, in seconds.")
	m.lastReloadOK = m.gauge("weir_policies_last_reload_successful",
		"1 if the last reload succeeded, 0 if it failed.")
	m.policyVersions = prometheus.NewGaugeVec(prometheus.GaugeOpts{
		Name: "weir_policies_version", Help: "Always 1; the label is the version of the policies in force.",
	}, []string{"version"})
	m.registry.MustRegister(m.policyVersions, m.connections,
		collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))

	m.initQuota()
	m.initRegions()
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

func (m *Metrics) gaugeFunc(name, help string, value func() int64) {
	m.registry.MustRegister(prometheus.NewGaugeFunc(prometheus.GaugeOpts{Name: name, Help: help}, func() float64 { return float64(value()) }))
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

// Failover sets the source of the metrics of the Redis store. If it is nil, they are those of a
// store that is up, so that alerts on them work without one.
func (m *Metrics) Failover(stats func() failover.Stats) {
	if stats == nil {
		stats = func() failover.Stats { return failover.Stats{State: failover.Up} }
	}
	m.Metrics.Failover(stats)
}

// DenyCache sets the source of the metrics of repeated denials. They are 0 if it is nil.
func (m *Metrics) DenyCache(stats func() denycache.Stats) {
	if stats == nil {
		stats = func() denycache.Stats { return denycache.Stats{} }
	}
	m.Metrics.DenyCache(stats)
}

// Shares sets the source of the metrics of shares. They are 0 if it is nil.
func (m *Metrics) Shares(stats func() share.Stats) {
	if stats == nil {
		stats = func() share.Stats { return share.Stats{} }
	}
	m.Metrics.Shares(stats)
}

// Webhook counts a webhook about a budget by its result.
func (m *Metrics) Webhook(result string) { m.webhooks.WithLabelValues(result).Inc() }
