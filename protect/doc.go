// Package protect rejects requests before a resource is overloaded: an upstream, the processors
// or the memory of this machine.
//
//	chain := protect.New(protect.Config{Protections: protections}) // such as those of contrib/failsafe
//	ctx, pass, err := chain.Enter(ctx, "")
//	if err != nil {
//		return err // a *protect.Rejected with the name of the protection
//	}
//	defer pass.End(nil)
//
// A [Chain] asks its protections in order. It comes before rate limits, so a rejected request
// costs no tokens. If a rate limit denies the request afterwards, Pass.Cancel releases slots and
// probes.
//
// # Latency
//
// The latency of a request ends with the first byte of its response (Pass.Respond), so streams
// are measured correctly. Breakers and adaptive limits end there. A bulkhead, and the bound of
// all requests in flight, hold a request until Pass.End.
//
// # Concurrency
//
// All functions and types are safe for concurrent use.
package protect
