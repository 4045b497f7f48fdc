// Package decisionlog writes a sample of decisions to a structured log.
//
//	d, err := decisionlog.New(decisionlog.Config{Log: log, Every: 1000, Denied: 1})
//	…
//	d.Observe(ctx, "gateway", event)
//
// A line has the interface, the policy, the outcome, the limit that decided, the remaining
// quota and the time to retry. A policy in shadow mode has the outcome that it would have.
//
// # Guarantees
//
// Clients cannot fill the disk: there are at most Config.PerSecond lines per second, and a
// line has the number of lines suppressed since the last one. The handler of the log
// quotes values, line ends included. Keys are hashed by default.
//
// Problems are logged regardless of the sample, at most once per second for each policy. A
// request without a decision and a cost that was not settled are errors. A decision
// without the store and an expression that failed are warnings.
//
// # Concurrency
//
// A Log is safe for concurrent use. Observe allocates nothing if it writes nothing.
package decisionlog
