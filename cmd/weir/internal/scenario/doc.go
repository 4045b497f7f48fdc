// Package scenario tests policy files: `weir test` runs the requests of a test file in
// virtual time and compares the decisions with the expected ones.
//
//	file, err := scenario.Parse("weir_test.yaml", data, scenario.Config{Load: weirfile.Load})
//	…
//	report := file.Run(nil)
//	report.WriteText(os.Stdout, true)
//
// Requests pass through [httplimit.Middleware] over a memory store, as in the gateway. A
// simulated upstream returns the response of the step. Only the clock differs: it advances
// when every request waits, so a run takes milliseconds and always gives the same result.
//
// # Order
//
// At one instant, slots are renewed first. Then the requests that wait continue, in the
// order in which they began to wait. Then new requests begin, in the order of the file.
//
// # Errors
//
// A test file with faults gives strict.Errors. A decision that differs is no error but a
// [Failure] of its test.
//
// # Concurrency
//
// A File can run any number of times, also concurrently.
package scenario
