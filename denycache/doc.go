// Package denycache adds a cache of denials to a [weir.Store].
//
//	store, err := denycache.New(redis, denycache.Config{}) // redis: a redisstore.Store
//
// A denial is repeated in this process, without another call of the store, until its
// RetryAfter has passed. Put it over failover.Store, so that a repeated denial needs no
// permission to call. There is no benefit over a store in memory.
//
// # What is repeated
//
// Denials of Take and TakeUpTo, and of batches of them with up to 16 requests. The repeated
// request or batch must be the same: keys, costs, limits and former limits. RetryAfter,
// ResetAfter and At are those of the moment of the repetition; At of a request that has waited,
// of the last moment at which the denial held. Remaining and Debt are those
// of the repeated decision, and so are the decisions of a denied batch that are OK.
//
// Every other request calls the store: Peek, a request of 0 tokens, and Reserve, whose ID may
// be reserved already. So does a request that a concurrency limit denies, because a slot can
// be returned at any time. Decisions without the store (Degraded) are not repeated.
//
// # Guarantees
//
// The cache never admits. In virtual time, tests compare each repeated denial with the store.
//
// A request of this process that changes a denied key ends the repetition of its denials. Such
// requests are Return, Reset, Commit, Cancel, Charge, an admission, a call without a reply, and
// a change of the limit. Requests of other processes do not. After one of those, a denial is
// repeated for at most Config.MaxAge. The same applies if the clock of the store jumps, or if
// the store executes a request after its caller got an error.
//
// # Calls of the store
//
// When a repeated denial ends, one request calls the store. Concurrent equal requests wait
// for its decision, for about two recent long round trips and 5 ms at most. If it is denied,
// they are, provided that the denial held at some time since they arrived. If it is admitted
// and no tokens are left, one more of them calls the store, and so on; if tokens are left, all
// of them do. So a key with many more requests than its limit costs about two calls for each
// admission, and one more in each MaxAge. Before the first denial, all requests call the store.
//
// # Memory
//
// A cache has at most Config.MaxKeys denials. A further one replaces one that has ended, or
// the one that ends first among a few. Requests with keys of more than 1 KiB in total are not
// cached.
package denycache
