// Package telemetry exports traces and metrics to an OpenTelemetry collector, if the
// environment names one.
//
//	t, err := telemetry.Start(ctx, telemetry.Config{Gatherer: m.Gatherer(), Log: log})
//	…
//	defer t.Shutdown(ctx)
//	handler = t.Handler("gateway", handler)
//
// It is enabled by OTEL_EXPORTER_OTLP_ENDPOINT, or by the variable of one signal, with
// _TRACES_ or _METRICS_. Without them, handlers and transports are returned unchanged. The
// protocol is OTLP over HTTP, in protobuf. The standard variables apply;
// docs/operations.md lists them.
//
// # Guarantees
//
// A collector that fails does not slow down or fail requests: spans wait in a queue of
// fixed length and are dropped beyond it. Its errors are logged at most once a minute.
//
// Spans contain no keys, no client addresses and no URL queries, and their texts are cut at
// 512 bytes.
//
// Metrics are those of the Prometheus registry. There are no global providers.
//
// # Errors
//
// [Start] returns an error for an invalid variable, with its name, its value and what was
// expected.
//
// # Concurrency
//
// All methods are safe for concurrent use, and do nothing on a nil Telemetry.
package telemetry
