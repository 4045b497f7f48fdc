// Package metrics counts what the program does, for Prometheus.
//
//	m := metrics.New(metrics.Config{Version: "v1.2.3"})
//	store = m.Interface("gateway", m.Store(store))
//	…
//	m.Observe("gateway", event)
//	…
//	http.Handle("/metrics", m.Handler())
//
// Everything stands in a registry of its own: two Metrics know nothing of each other.
//
// # Units
//
// Names begin with weir_ and end with their unit: _seconds, _total for counts, nothing
// for a state. docs/operations.md lists them, and a test compares the list.
//
// # Guarantees
//
// The number of series is bounded, whatever is asked of the program. No key is ever a
// label. Names that others choose (of policies, domains, descriptors) have series of
// their own up to Config.MaxSeries of each kind; all further ones are counted together
// under "other", and weir_series_overflow_total counts how often. Such a name is cut at
// 128 bytes.
//
// Observe, Descriptor and Command allocate nothing once a label was seen.
//
// # Concurrency
//
// All methods are safe for concurrent use.
package metrics
