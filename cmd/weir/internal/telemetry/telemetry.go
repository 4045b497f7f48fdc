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

// A Config describes a Telemetry. Its zero value works.
type Config struct {
	// ServiceName and Version are what the program calls itself, unless OTEL_SERVICE_NAME
	// or OTEL_RESOURCE_ATTRIBUTES do; "weir" and nothing if empty.
	ServiceName, Version string

	// Gatherer has the metrics that are sent; none are if nil.
	Gatherer prometheus.Gatherer

	// Getenv reads what this package looks at itself: where to send, which protocol,
	// what to sample and to propagate. It is os.Getenv if nil. The libraries read the
	// other variables (headers, certificates, timeouts, intervals, attributes) from the
	// environment of the process.
	Getenv func(string) string

	// Log is told of a collector that does not take what is sent; nobody is if nil.
	Log *slog.Logger
}

// A Telemetry sends traces and metrics. Off, it does nothing.
type Telemetry struct {
	traces     *sdktrace.TracerProvider // nil: none are sent
	metrics    *sdkmetric.MeterProvider // nil: none are sent
	propagator propagation.TextMapPropagator
	once       sync.Once
	err        error // of Shutdown
}

// maxText is the longest text of an attribute, in bytes.
const maxText = 512

// shutdown is the most that Shutdown takes.
const shutdownTimeout = 5 * time.Second

// Start begins to send what the environment says. It does not wait for a collector.
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
	c.Log.Info("telemetry is sent", "traces", redacted(s.traces), "metrics", redacted(s.metrics))
	return t, nil
}

// describe is what is said about this program with all that is sent. What comes later
// in it wins.
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
	if limits.AttributeValueLengthLimit < 0 { // nobody said so: what clients send is not kept at any length
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

// Handler is next with a span around each request, at the door of that name. It is next
// itself if no traces are sent.
func (t *Telemetry) Handler(name string, next http.Handler) http.Handler {
	if t == nil || t.traces == nil {
		return next
	}
	return otelhttp.NewHandler(next, name,
		otelhttp.WithTracerProvider(t.traces), otelhttp.WithPropagators(t.propagator), otelhttp.WithMeterProvider(noop.NewMeterProvider()),
		otelhttp.WithSpanOptions(trace.WithAttributes(attribute.String("weir.interface", name))))
}

// Transport is next with a span around each request to an upstream, which is told the
// trace. It is next itself if no traces are sent.
func (t *Telemetry) Transport(next http.RoundTripper) http.RoundTripper {
	if t == nil || t.traces == nil {
		return next
	}
	return otelhttp.NewTransport(next,
		otelhttp.WithTracerProvider(t.traces), otelhttp.WithPropagators(t.propagator), otelhttp.WithMeterProvider(noop.NewMeterProvider()))
}

// GRPC makes a span of each call of a gRPC server; nil if no traces are sent.
func (t *Telemetry) GRPC() stats.Handler {
	if t == nil || t.traces == nil {
		return nil
	}
	return otelgrpc.NewServerHandler(
		otelgrpc.WithTracerProvider(t.traces), otelgrpc.WithPropagators(t.propagator), otelgrpc.WithMeterProvider(noop.NewMeterProvider()))
}

// Shutdown sends what is left, for at most five seconds, and ends. Later calls do
// nothing and return what the first one did.
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
