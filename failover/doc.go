// Package failover adds a deadline, a circuit breaker and a fallback to a [weir.Store].
//
//	local, err := failover.NewLocal(mem, 3) // mem: a memstore.Store; 3: processes like this one
//	…
//	store, err := failover.New(redis, failover.Config{})
//	…
//	lim, err := weir.New(failover.WithFallback(store, local), weir.MustLimit("10/s burst 20"), weir.Config{})
//
// Policies need only [New]: the OnStoreError of each policy selects its fallback.
//
// # Guarantees
//
// A round trip to the store takes at most Config.Deadline, from the request to its reply. Time
// in a queue of this process, and time in which the process is not scheduled, does not count
// against the store. The store returns when its context ends, as package redisstore does.
//
// At most Config.MaxCalls calls and one probe are in progress. Further requests wait for at most
// Config.Deadline, the newest first. A request that waits longer, because this process is
// overloaded, gets an error that wraps weir.ErrOverloaded. No fallback decides it.
//
// The circuit breaker opens on evidence about the store. Either no call gets a reply in three
// deadlines, or at least half of 20 calls or more fail within 20 deadlines. While it is open, requests fail at once and do not reach the store. The first cool-down is about one
// deadline, and the next ones are longer. After each, one request is a probe. A late reply
// ends the cool-down. So the fallback decides about as long as the store stalls, and at most
// twice as long.
//
// No request is sent twice. A request that passed the deadline may have been charged; the
// decision of the fallback stands nevertheless.
//
// The store does not learn the decisions of the fallback. It has no reservation that the
// fallback made: Commit and Cancel of it return weir.ErrNoReservation. A reservation of the
// store that was to be settled during the outage is returned at its TTL.
//
// Processes that decide by their [Share] together admit no more than the limit, if its count
// and its capacity are at least their number. Requests that the store admitted just before
// do not count against the shares; docs/guarantees.md has the sum.
//
// # Errors
//
// Every error is a failure, except five, which are returned unchanged: weir.ErrInvalid,
// weir.ErrNoReservation, weir.ErrFull, weir.ErrClosed and weir.ErrOverloaded. A caller whose
// context ends before the deadline gets an error that wraps weir.ErrUnavailable and the
// context's error. That is no failure of the store. But if no call gets a reply in three
// deadlines, the breaker opens.
//
// # Cost
//
// A call costs one allocation and less than a microsecond. There is no benefit over a store in
// memory.
package failover
