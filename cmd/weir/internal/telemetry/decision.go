package telemetry

import (
	"context"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/trace"

	"github.com/floodweir/weir"
	"github.com/floodweir/weir/enforce"
)

// Decision adds an event with the decision of one policy, without the key, to the span of
// ctx. If the span is not recorded, it does nothing and allocates nothing.
func (t *Telemetry) Decision(ctx context.Context, interfaceName string, e enforce.Event) {
	if t == nil || t.traces == nil || e.Policy == nil {
		return
	}
	span := trace.SpanFromContext(ctx)
	if !span.IsRecording() {
		return
	}
	attrs := make([]attribute.KeyValue, 0, 10)
	attrs = append(attrs,
		attribute.String("weir.interface", interfaceName),
		attribute.String("weir.policy", e.Policy.Name()),
		attribute.String("weir.outcome", string(e.Outcome)))
	if e.Shadow {
		attrs = append(attrs, attribute.Bool("weir.shadow", true))
	}
	if d := &e.Decision; !d.Limit.IsZero() {
		attrs = append(attrs, attribute.String("weir.limit", d.Limit.Brief()), attribute.Int64("weir.remaining", d.Remaining))
		switch {
		case d.RetryAfter == weir.Never:
			attrs = append(attrs, attribute.Bool("weir.never", true))
		case d.RetryAfter > 0:
			attrs = append(attrs, attribute.Float64("weir.retry_after", d.RetryAfter.Seconds()))
		}
	}
	if e.Decision.Borrowed {
		attrs = append(attrs, attribute.Bool("weir.borrowed", true))
	}
	if d := e.Decision.Degraded; d != "" {
		attrs = append(attrs, attribute.String("weir.degraded", string(d)))
	}
	if e.Err != nil {
		attrs = append(attrs, attribute.String("weir.error", e.Err.Error()))
	}
	if e.Fault != nil {
		attrs = append(attrs, attribute.String("weir.fault", e.Fault.Error()))
	}
	span.AddEvent("weir.decision", trace.WithAttributes(attrs...))
	if e.Outcome == enforce.Denied && !e.Shadow {
		span.SetAttributes(attribute.String("weir.denied_by", e.Policy.Name()))
	}
}
