// Package metrics counts what limits decide, for any metrics library. Programs use it through
// contrib/prometheus or contrib/otel, which have one function each, New:
//
//	m, err := weirprometheus.New(weirprometheus.Config{})
//	…
//	limits, err := httplimit.New(m.Store(store), policies, httplimit.Config{Observe: m.HTTP})
//
// The other hooks are the Observe fields of package guard and of the RPC interceptors:
//
//	guard.Config{Observe: m.Function}
//	weirgrpc.Config{ServerConfig: rpclimit.ServerConfig{Observe: m.RPC}}
//	limiter, err := weir.New(m.Limiter("mail", store), limit, weir.Config{})
//
// For another metrics library, write a [Backend].
//
// # Units
//
// Names begin with weir_ and end with their unit: _seconds, _total for counts, nothing for a
// state. The program weir has the same names, and docs/operations.md lists them.
//
// # Guarantees
//
// The number of series is bounded, whatever clients send. A key is never a label. Names of
// policies have series of their own up to Config.MaxSeries; further names are counted under
// "other", and weir_series_overflow_total counts these events. A name is cut at 128 bytes.
//
// A request counts once for each of its policies. Observe, and calls of a Store, allocate nothing
// for names that were used before, if the Backend does not.
//
// # Concurrency
//
// All methods are safe for concurrent use.
package metrics
