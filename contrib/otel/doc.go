// Package weirotel exports the metrics of limits with OpenTelemetry, with the names that the
// program weir has.
//
//	m, err := weirotel.New(weirotel.Config{})
//	…
//	limits, err := httplimit.New(m.Store(store), policies, httplimit.Config{Observe: m.HTTP})
//
// [metrics.Metrics] has a method for each hook. docs/metrics.md lists the metrics.
//
// OpenTelemetry cannot end series, so Metrics.Retain does not end those of removed policies: they
// count for MaxSeries while the program runs.
package weirotel
