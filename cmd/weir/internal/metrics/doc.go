// Package metrics counts the program's work for Prometheus.
//
//	m := metrics.New(metrics.Config{Version: "v1.2.3"})
//	store = m.Interface("gateway", m.Store(store))
//	…
//	m.Observe("gateway", event)
//	…
//	http.Handle("/metrics", m.Handler())
//
// Each Metrics has a registry of its own.
//
// # Units
//
// Names begin with weir_ and end with their unit: _seconds, _total for counts, nothing for
// a state. docs/operations.md lists them, and a test compares the list.
//
// # Guarantees
//
// The number of series is bounded, whatever clients send. A key is never a label. Names of
// policies, domains and descriptors have series of their own up to Config.MaxSeries of each
// kind. Further names are counted under "other", and weir_series_overflow_total counts
// these events. A name is cut at 128 bytes.
//
// Observe, Descriptor and Command allocate nothing for a label that was used before.
//
// # Concurrency
//
// All methods are safe for concurrent use.
package metrics
