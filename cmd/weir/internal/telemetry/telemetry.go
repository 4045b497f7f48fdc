package telemetry

import (
	"context"
	"errors"
	"log/slog"
	"net/http"
	"os"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	bridge "go.opentelemetry.io/contrib/bridges/prometheus"
	"go.opentelemetry.io/contrib/instrumentation/google.golang.org/grpc/otelgrpc"
	"go.opentelemetry.io/contrib/instrumentation/net/http/otelhttp"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/exporters/otlp/otlpmetric/otlpmetrichttp"
	"go.opentelemetry.io/otel/exporters/otlp/otlptrace/otlptracehttp"
	"go.opentelemetry.io/otel/metric/noop"
	"go.opentelemetry.io/otel/propagation"
	sdkmetric "go.opentelemetry.io/otel/sdk/metric"
	"go.opentelemetry.io/otel/sdk/resource"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/trace"
	"google.golang.org/grpc/stats"
)

// A Config is the configuration of a Telemetry. Its zero value works.
type Config struct {
	// ServiceName and Version identify the program, unless OTEL_SERVICE_NAME or
	// OTEL_RESOURCE_ATTRIBUTES do; "weir" and no version if empty.
	ServiceName, Version string

	// Gatherer holds the metrics to export; none if nil.
	Gatherer prometheus.Gatherer

	// Getenv reads the variables that this package uses itself: endpoints, protocol,
	// sampler and propagators; os.Getenv if nil. The libraries read the other variables
	// (headers, certificates, timeouts, intervals, attributes) from the environment of
	// the process.
	Getenv func(string) string

	// Log receives export errors; nothing is logged if nil.
	Log *slog.Logger
}

// A Telemetry exports traces and metrics. Without an endpoint it does nothing.
type Telemetry struct {
	traces     *sdktrace.TracerProvider // nil: not exported
	metrics    *sdkmetric.MeterProvider // nil: not exported
	propagator propagation.TextMapPropagator
	once       sync.Once
	err        error // of Shutdown
}

// maxText is the maximum length of a text attribute, in bytes.
const maxText = 512

// shutdownTimeout bounds the time of Shutdown.
const shutdownTimeout = 5 * time.Second

// Start begins to export as the environment configures it. It does not wait for a
// collector.
func Start(ctx context.Context, c Config) (*Telemetry, error) {
	if c.Getenv == nil {
		c.Getenv = os.Getenv
	}
	if c.Log == nil {
		c.Log = slog.New(slog.DiscardHandler)
	}
	if c.ServiceName == "" {
		c.ServiceName = "weir"
	}
	s, err := read(c.Getenv)
	if err != nil {
		return nil, err
	}
	t := &Telemetry{propagator: s.propagator}
	if s.traces == "" && (s.metrics == "" || c.Gatherer == nil) {
		return t, nil
	}
	about, err := newResource(ctx, &c)
	if err != nil {
		return nil, err
	}
	if s.traces != "" {
		if err := t.startTraces(ctx, s, about, c.Log); err != nil {
			return nil, err
		}
	}
	if s.metrics != "" && c.Gatherer != nil {
		if err := t.startMetrics(ctx, s, about, &c); err != nil {
			return nil, errors.Join(err, t.Shutdown(ctx))
		}
	}
	c.Log.Info("telemetry enabled", "traces", redacted(s.traces), "metrics", redacted(s.metrics))
	return t, nil
}

// newResource returns the attributes of the program. Later options override earlier ones.
func newResource(ctx context.Context, c *Config) (*resource.Resource, error) {
	about := []attribute.KeyValue{attribute.String("service.name", c.ServiceName)}
	if c.Version != "" {
		about = append(about, attribute.String("service.version", c.Version))
	}
	r, err := resource.New(ctx, resource.WithAttributes(about...), resource.WithTelemetrySDK(), resource.WithFromEnv())
	if err != nil {
		return nil, invalidVariable("OTEL_RESOURCE_ATTRIBUTES", os.Getenv("OTEL_RESOURCE_ATTRIBUTES"), "want KEY=VALUE,KEY=VALUE: %v", err)
	}
	return r, nil
}

func (t *Telemetry) startTraces(ctx context.Context, s *settings, about *resource.Resource, log *slog.Logger) error {
	to, err := otlptracehttp.New(ctx, otlptracehttp.WithEndpointURL(s.traces))
	if err != nil {
		return err
	}
	limits := sdktrace.NewSpanLimits()
	if limits.AttributeValueLengthLimit < 0 { // not configured: bound the length of client data
		limits.AttributeValueLengthLimit = maxText
	}
	t.traces = sdktrace.NewTracerProvider(
		sdktrace.WithSampler(s.sampler),
		sdktrace.WithResource(about),
		sdktrace.WithRawSpanLimits(limits),
		sdktrace.WithBatcher(&spans{to, newErrorLog(log, "traces")}),
	)
	return nil
}

func (t *Telemetry) startMetrics(ctx context.Context, s *settings, about *resource.Resource, c *Config) error {
	to, err := otlpmetrichttp.New(ctx, otlpmetrichttp.WithEndpointURL(s.metrics))
	if err != nil {
		return err
	}
	t.metrics = sdkmetric.NewMeterProvider(
		sdkmetric.WithResource(about),
		sdkmetric.WithReader(sdkmetric.NewPeriodicReader(&points{to, newErrorLog(c.Log, "metrics")},
			sdkmetric.WithProducer(bridge.NewMetricProducer(bridge.WithGatherer(c.Gatherer))))),
	)
	return nil
}

// Handler returns next with a span around each request of the named interface, or next
// itself if traces are not exported.
func (t *Telemetry) Handler(name string, next http.Handler) http.Handler {
	if t == nil || t.traces == nil {
		return next
	}
	return otelhttp.NewHandler(next, name,
		otelhttp.WithTracerProvider(t.traces), otelhttp.WithPropagators(t.propagator), otelhttp.WithMeterProvider(noop.NewMeterProvider()),
		otelhttp.WithSpanOptions(trace.WithAttributes(attribute.String("weir.interface", name))))
}

// Transport returns next with a span around each request to an upstream and the trace in
// its header, or next itself if traces are not exported.
func (t *Telemetry) Transport(next http.RoundTripper) http.RoundTripper {
	if t == nil || t.traces == nil {
		return next
	}
	return otelhttp.NewTransport(next,
		otelhttp.WithTracerProvider(t.traces), otelhttp.WithPropagators(t.propagator), otelhttp.WithMeterProvider(noop.NewMeterProvider()))
}

// GRPC returns a handler that makes a span of each call of a gRPC server; nil if traces
// are not exported.
func (t *Telemetry) GRPC() stats.Handler {
	if t == nil || t.traces == nil {
		return nil
	}
	return otelgrpc.NewServerHandler(
		otelgrpc.WithTracerProvider(t.traces), otelgrpc.WithPropagators(t.propagator), otelgrpc.WithMeterProvider(noop.NewMeterProvider()))
}

// Shutdown exports what is left and ends, within five seconds. Further calls return the
// first result.
func (t *Telemetry) Shutdown(ctx context.Context) error {
	if t == nil {
		return nil
	}
	t.once.Do(func() {
		ctx, cancel := context.WithTimeout(ctx, shutdownTimeout)
		defer cancel()
		if t.traces != nil {
			t.err = t.traces.Shutdown(ctx)
		}
		if t.metrics != nil {
			t.err = errors.Join(t.err, t.metrics.Shutdown(ctx))
		}
	})
	return t.err
}
