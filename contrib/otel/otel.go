package weirotel

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"go.opentelemetry.io/otel"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/metric"

	"github.com/floodweir/weir/metrics"
)

// A Config is the configuration of New. Its zero value works.
type Config struct {
	metrics.Config

	// Provider has the meter; otel.GetMeterProvider() if nil.
	Provider metric.MeterProvider
}

// New returns metrics of a meter of c.Provider. An error is that of the meter.
func New(c Config) (*metrics.Metrics, error) {
	if c.Provider == nil {
		c.Provider = otel.GetMeterProvider()
	}
	b := &backend{meter: c.Provider.Meter("github.com/floodweir/weir")}
	m := metrics.New(b, c.Config)
	if err := errors.Join(b.errs...); err != nil {
		return nil, fmt.Errorf("weirotel: %w", err)
	}
	return m, nil
}

// backend implements metrics.Backend.
type backend struct {
	meter metric.Meter
	errs  []error
}

func (b *backend) failed(err error) {
	if err != nil {
		b.errs = append(b.errs, err)
	}
}

// set returns the attributes of a series.
func set(labels, values []string) metric.MeasurementOption {
	all := make([]attribute.KeyValue, len(labels))
	for i, l := range labels {
		all[i] = attribute.String(l, values[i])
	}
	return metric.WithAttributeSet(attribute.NewSet(all...))
}

// unit returns the unit of a name: Prometheus would add another one than seconds to the name.
func unit(name string) string {
	if strings.HasSuffix(strings.TrimSuffix(name, "_total"), "_seconds") {
		return "s"
	}
	return ""
}

// counter is a series.
type counter struct {
	of      metric.Float64Counter
	options []metric.AddOption
}

func (c *counter) Add(n float64) { c.of.Add(context.Background(), n, c.options...) }

// Counter implements metrics.Backend.
func (b *backend) Counter(name, help string, labels ...string) func(...string) metrics.Counter {
	of, err := b.meter.Float64Counter(name, metric.WithDescription(help), metric.WithUnit(unit(name)))
	b.failed(err)
	return func(values ...string) metrics.Counter {
		c := &counter{of, []metric.AddOption{set(labels, values)}}
		c.Add(0) // the series begins
		return c
	}
}

// histogram is a series.
type histogram struct {
	of      metric.Float64Histogram
	options []metric.RecordOption
}

func (h *histogram) Observe(value float64) { h.of.Record(context.Background(), value, h.options...) }

// Histogram implements metrics.Backend.
func (b *backend) Histogram(name, help string, bounds []float64, labels ...string) func(...string) metrics.Histogram {
	of, err := b.meter.Float64Histogram(name, metric.WithDescription(help), metric.WithUnit(unit(name)), metric.WithExplicitBucketBoundaries(bounds...))
	b.failed(err)
	return func(values ...string) metrics.Histogram {
		return &histogram{of, []metric.RecordOption{set(labels, values)}}
	}
}

// Poll implements metrics.Backend.
func (b *backend) Poll(all []metrics.Polled, read func(emit func(int, float64, ...string))) {
	observed := make([]metric.Float64Observable, len(all))
	instruments := make([]metric.Observable, len(all))
	for i, m := range all {
		var err error
		if m.Counter {
			observed[i], err = b.meter.Float64ObservableCounter(m.Name, metric.WithDescription(m.Help), metric.WithUnit(unit(m.Name)))
		} else {
			observed[i], err = b.meter.Float64ObservableGauge(m.Name, metric.WithDescription(m.Help), metric.WithUnit(unit(m.Name)))
		}
		b.failed(err)
		instruments[i] = observed[i]
	}
	_, err := b.meter.RegisterCallback(func(_ context.Context, to metric.Observer) error {
		read(func(i int, value float64, labels ...string) {
			to.ObserveFloat64(observed[i], value, set(all[i].Labels, labels))
		})
		return nil
	}, instruments...)
	b.failed(err)
}

// Forget implements metrics.Backend.
func (b *backend) Forget(string, string) bool { return false }
