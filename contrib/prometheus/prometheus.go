package weirprometheus

import (
	"fmt"
	"slices"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/floodweir/weir/metrics"
)

// A Config is the configuration of New. Its zero value works.
type Config struct {
	metrics.Config

	// Registerer gets the metrics; prometheus.DefaultRegisterer if nil.
	Registerer prometheus.Registerer
}

// New returns metrics that c.Registerer has. It is an error of the Registerer if it has some
// already: call New once for each.
func New(c Config) (*metrics.Metrics, error) {
	if c.Registerer == nil {
		c.Registerer = prometheus.DefaultRegisterer
	}
	b := new(backend)
	m := metrics.New(b, c.Config)
	if err := c.Registerer.Register(b); err != nil {
		return nil, fmt.Errorf("weirprometheus: register: %w", err)
	}
	return m, nil
}

// backend implements metrics.Backend. It is one collector, so that all metrics are registered or
// none.
type backend struct {
	all      []prometheus.Collector
	counters []counters
}

type counters struct {
	*prometheus.CounterVec
	labels []string
}

// Counter implements metrics.Backend.
func (b *backend) Counter(name, help string, labels ...string) func(...string) metrics.Counter {
	v := prometheus.NewCounterVec(prometheus.CounterOpts{Name: name, Help: help}, labels)
	b.all, b.counters = append(b.all, v), append(b.counters, counters{v, labels})
	return func(values ...string) metrics.Counter { return v.WithLabelValues(values...) }
}

// Histogram implements metrics.Backend. It has classic buckets for the text format, and native
// buckets, which are finer and bounded in number.
func (b *backend) Histogram(name, help string, bounds []float64, labels ...string) func(...string) metrics.Histogram {
	v := prometheus.NewHistogramVec(prometheus.HistogramOpts{
		Name: name, Help: help, Buckets: bounds,
		NativeHistogramBucketFactor:     1.1,
		NativeHistogramMaxBucketNumber:  100,
		NativeHistogramMinResetDuration: time.Hour,
	}, labels)
	b.all = append(b.all, v)
	return func(values ...string) metrics.Histogram { return v.WithLabelValues(values...) }
}

// Forget implements metrics.Backend.
func (b *backend) Forget(label, value string) bool {
	for _, c := range b.counters {
		if slices.Contains(c.labels, label) {
			c.DeletePartialMatch(prometheus.Labels{label: value})
		}
	}
	return true
}

// Poll implements metrics.Backend.
func (b *backend) Poll(all []metrics.Polled, read func(emit func(int, float64, ...string))) {
	p := polled{read: read}
	for _, m := range all {
		p.descs = append(p.descs, prometheus.NewDesc(m.Name, m.Help, m.Labels, nil))
		kind := prometheus.GaugeValue
		if m.Counter {
			kind = prometheus.CounterValue
		}
		p.kinds = append(p.kinds, kind)
	}
	b.all = append(b.all, p)
}

// Describe implements prometheus.Collector.
func (b *backend) Describe(to chan<- *prometheus.Desc) {
	for _, c := range b.all {
		c.Describe(to)
	}
}

// Collect implements prometheus.Collector.
func (b *backend) Collect(to chan<- prometheus.Metric) {
	for _, c := range b.all {
		c.Collect(to)
	}
}

// polled collects metrics that are read.
type polled struct {
	descs []*prometheus.Desc
	kinds []prometheus.ValueType
	read  func(emit func(int, float64, ...string))
}

// Describe implements prometheus.Collector.
func (p polled) Describe(to chan<- *prometheus.Desc) {
	for _, d := range p.descs {
		to <- d
	}
}

// Collect implements prometheus.Collector.
func (p polled) Collect(to chan<- prometheus.Metric) {
	p.read(func(i int, value float64, labels ...string) {
		to <- prometheus.MustNewConstMetric(p.descs[i], p.kinds[i], value, labels...)
	})
}
