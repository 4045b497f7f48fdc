// Package weirprometheus exports the metrics of limits to Prometheus, with the names that the
// program weir has.
//
//	m, err := weirprometheus.New(weirprometheus.Config{})
//	…
//	limits, err := httplimit.New(m.Store(store), policies, httplimit.Config{Observe: m.HTTP})
//	…
//	http.Handle("/metrics", promhttp.Handler())
//
// [metrics.Metrics] has a method for each hook. docs/metrics.md lists the metrics, and
// deploy/grafana has a dashboard for them.
package weirprometheus
