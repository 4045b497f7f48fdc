// Package traffic records recent traffic for the console and `weir top`: counters by second,
// the keys with the most requests, and a sample of all keys.
//
//	r := traffic.New(traffic.Config{})
//	go r.Run(ctx)
//	enforcer, err := enforce.New(store, set, enforce.Config{Observe: func(_ context.Context, _ policy.Attributes, e enforce.Event) {
//		r.Observe(e)
//	}})
//
// # Counters
//
// Counters are exact. A History has them by second for ten minutes and by ten seconds for an
// hour. It is that of one node or the sum of several. Each node publishes its Snapshot once a
// second, and Merge adds it to the sum.
//
//	all := traffic.NewHistory()
//	err := all.Merge("gw-1", r.Snapshot())
//	…
//	rows := all.Series("login", time.Now().Add(-time.Minute)).Rows
//
// # Keys
//
// A Sample of package keystats has the keys of one policy in the last eight to ten minutes. Only
// policies that View names and the four busiest have one:
//
//	r.View("login") // at least every 15 minutes
//	sample := r.Sample("login")
//
// # Bounds
//
// Clients choose keys, so nothing here grows with their number. At most 16 policies have
// keys, which take 48 MB. A record that finds its buffer full is dropped, which lowers the
// coverage of the sample, and changes no counter.
//
// # Concurrency
//
// All methods are safe for concurrent use. A Sample is immutable.
package traffic
