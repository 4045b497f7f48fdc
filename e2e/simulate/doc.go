// Package simulate runs Weir's nodes against a model of Redis in virtual time, with faults.
// Nodes are the real code: package enforce over policies, package failover with its breaker
// and fallback, and package redisstore with its coalescer. Below redisstore.Conn everything is
// a model: the client's connections, the network, and the servers of package redismodel, which
// run the real Lua script.
//
// A seed decides everything that happens, so it reproduces a run. One event happens at a time:
// the driver waits until every goroutine is blocked before it takes the next one. Goroutines
// of the nodes that become runnable at the same time stop at gates, and the driver releases
// them one by one in the order of their requests.
//
//	make simulate SEEDS=1000   # seeds 1 to 1000
//	make simulate SEED=17      # one seed, with its event log
//
// # Oracles
//
//  1. Exact: each run of the script decides like the memory store, for the same requests at the
//     same times. The log of runs without those that a failover lost is replayed to compare. A
//     former primary has a log of its own while a partition lasts.
//  2. Bound: in every span, what is admitted for good fits the formula of the limit, plus what
//     the faults in that span justify. Those are writes lost in a failover, evicted keys, and
//     steps of the clock as docs/guarantees.md bounds them. What a former primary admits fits
//     the formula too. For a limit that changes, the highest limit of the span is the bound.
//  3. Local: in every span, what a node admits without the store fits the formula of its share,
//     and what all nodes admit fits the documented sum.
//  4. Once: no request runs twice, and nothing is returned that was not charged.
//  5. All or none: a request over several slots is charged in all of them or in none, unless a
//     fault hit the messages that return its charges.
//  6. Replies: an admission that a client got from the store was decided by the store for this
//     request.
//  7. Recovery: after the faults have ended, every breaker closes within its bound, and then
//     every decision is exact.
//  8. RetryAfter: after the run, while reservations are open, each denied key is admitted at its
//     RetryAfter and, if the clock was never set back, denied 1 µs before.
//  9. Denied: no denial names a later time than the store, unless another process returned
//     tokens in the last second. Denials may be repeated by package denycache.
//  10. Change: a raise of a limit lengthens no wait, a lower forgets no token that was used, and
//     a reservation stays known until its TTL.
//  11. Overload: no node has more calls in progress than its bound, no decision takes longer
//     than documented, and a rejected request is not admitted.
package simulate
