package telemetry

import (
	"context"
	"log/slog"
	"strings"
	"sync"
	"time"

	"go.opentelemetry.io/otel/attribute"
	sdkmetric "go.opentelemetry.io/otel/sdk/metric"
	"go.opentelemetry.io/otel/sdk/metric/metricdata"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
)

// reportEvery is the minimum time between two lines about a failing collector.
const reportEvery = time.Minute

// An errorLog logs the errors of one signal. They do not reach the error handler that all
// users of the SDK in a process share.
type errorLog struct {
	logger *slog.Logger
	signal string

	mu         sync.Mutex
	next       time.Time
	suppressed int
}

func newErrorLog(log *slog.Logger, signal string) *errorLog {
	return &errorLog{logger: log, signal: signal}
}

func (r *errorLog) log(err error) {
	if err == nil {
		return
	}
	now := time.Now()
	r.mu.Lock()
	due, before := !now.Before(r.next), r.suppressed
	if due {
		r.next, r.suppressed = now.Add(reportEvery), 0
	} else {
		r.suppressed++
	}
	r.mu.Unlock()
	if due {
		r.logger.Warn("telemetry not exported", "signal", r.signal, "error", err, "suppressed", before)
	}
}

// spans exports spans without private attributes.
type spans struct {
	sdktrace.SpanExporter
	report *errorLog
}

// ExportSpans implements [sdktrace.SpanExporter].
func (s *spans) ExportSpans(ctx context.Context, all []sdktrace.ReadOnlySpan) error {
	clean := make([]sdktrace.ReadOnlySpan, len(all))
	for i, span := range all {
		clean[i] = cleaned{span}
	}
	s.report.log(s.SpanExporter.ExportSpans(ctx, clean))
	return nil
}

// cleaned is a span without attributes that identify the client. Client addresses are
// keys of limits, the instrumentation takes X-Forwarded-For from any client, and queries
// contain secrets.
type cleaned struct{ sdktrace.ReadOnlySpan }

// Attributes implements [sdktrace.ReadOnlySpan].
func (c cleaned) Attributes() []attribute.KeyValue {
	all := c.ReadOnlySpan.Attributes()
	kept := make([]attribute.KeyValue, 0, len(all))
	for _, a := range all {
		switch a.Key {
		case "client.address", "client.port", "network.peer.address", "network.peer.port", "url.query":
			continue
		case "url.full":
			before, _, _ := strings.Cut(a.Value.AsString(), "?")
			a.Value = attribute.StringValue(before)
		}
		kept = append(kept, a)
	}
	return kept
}

// points exports metrics.
type points struct {
	sdkmetric.Exporter
	report *errorLog
}

// Export implements [sdkmetric.Exporter].
func (p *points) Export(ctx context.Context, m *metricdata.ResourceMetrics) error {
	p.report.log(p.Exporter.Export(ctx, m))
	return nil
}
