// Package telemetry sends traces and metrics to an OpenTelemetry collector, if the
// environment names one.
//
//	t, err := telemetry.Start(ctx, telemetry.Config{Gatherer: m.Gatherer(), Log: log})
//	…
//	defer t.Shutdown(ctx)
//	handler = t.Handler("gateway", handler)
//
// Nothing happens unless OTEL_EXPORTER_OTLP_ENDPOINT, or that of _TRACES_ or _METRICS_
// in it, is set: handlers and transports are then returned as they are. What is sent
// goes by OTLP over HTTP, in protobuf. The standard variables hold; docs/operations.md
// lists them.
//
// # Guarantees
//
// A collector that does not answer slows and fails no request: spans wait in a queue of
// a fixed length and are dropped beyond it. Its errors are logged at most once a minute.
//
// Spans hold no keys, no addresses of clients and no queries of URLs, and texts in them
// are cut at 512 bytes.
//
// Metrics are those of the Prometheus registry, and nothing else is measured. There are
// no global providers: two Telemetry know nothing of each other.
//
// # Errors
//
// A variable that is not understood is an error of [Start], which names it, its value
// and what was expected.
//
// # Concurrency
//
// All methods are safe for concurrent use, and do nothing on a nil Telemetry.
package telemetry
