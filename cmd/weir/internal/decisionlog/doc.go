// Package decisionlog writes a sample of decisions to a structured log.
//
//	d, err := decisionlog.New(decisionlog.Config{Log: log, Every: 1000, Denied: 1})
//	…
//	d.Observe(ctx, "gateway", event)
//
// A line tells the door, the policy, what became of the request, the limit that
// decided, what is left of it and when to come back. In shadow says what would have
// become of it.
//
// # Guarantees
//
// Whoever sends requests cannot fill the disk: there are at most Config.PerSecond lines
// in a second, and a line says how many were left out since the one before. What it
// says is quoted by the handler of the log, line ends too. Keys are hashed unless they
// are asked for.
//
// What is wrong is told whatever is sampled, at most once a second for each policy: a
// store that made no decision and a cost that could not be settled as errors, a decision
// that was made without the store and an expression that could not be evaluated as
// warnings.
//
// # Concurrency
//
// A Log is safe for concurrent use. One that has nothing to write allocates nothing.
package decisionlog
