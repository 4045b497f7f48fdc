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
// A call of the store returns within Config.Deadline, whatever the store does: it runs on a
// goroutine that is abandoned if necessary. At most Config.MaxCalls of them are in flight.
//
// Config.Failures failures in a row open the circuit breaker. While it is open, requests fail
// at once and do not reach the store. After Config.Cooldown one request at a time is a probe,
// until one succeeds. So a store that becomes available receives one request of each process,
// not all of them.
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
// Every error is a failure, except four, which are returned unchanged: weir.ErrInvalid,
// weir.ErrNoReservation, weir.ErrFull and weir.ErrClosed. A caller whose context ends before
// the deadline gets an error that wraps weir.ErrUnavailable and the context's error. That is
// no failure of the store. But if all callers cancel for as long as it takes to fail, and no
// call returns in that time, the breaker opens.
//
// # Cost
//
// A call costs one allocation and about a microsecond, mostly for two switches between
// goroutines. There is no benefit over a store in memory.
package failover
