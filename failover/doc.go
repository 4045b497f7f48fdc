// Package failover is a [weir.Store] over a store that may be slow or gone: it bounds
// the time of a decision, stops asking a store that does not answer, and decides by a
// fallback meanwhile.
//
//	local, err := failover.NewLocal(mem, 3) // mem: a memstore.Store; 3: processes like this one
//	…
//	store, err := failover.New(redis, failover.Config{Fallback: local})
//	…
//	lim, err := weir.New(store, weir.MustLimit("10/s burst 20"), weir.Config{})
//
// [Store.Else] is the same store with another fallback, for policies that go different
// ways.
//
// # Guarantees
//
// A decision takes no longer than Config.Deadline, and what the fallback takes, whatever
// the store does: it is asked on a goroutine that is left behind if need be. No more
// than Config.MaxCalls of them are under way.
//
// After Config.Failures failures in a row no request reaches the store for
// Config.Cooldown. Then one at a time tries; the others are decided by the fallback.
// So a store that comes back meets one request of each process, not all of them.
//
// Nothing is asked of the store twice. A request that passed the deadline may have been
// charged all the same; the fallback's decision about it stands.
//
// What the fallback decides, the store does not learn. A reservation made by the
// fallback is unknown to the store that is back: Commit and Cancel of it get
// weir.ErrNoReservation there. One made in the store goes back at its TTL if it was to
// be settled while the store was away.
//
// Together, processes that decide by their [Share] admit no more than the limit does,
// if its count and its capacity are at least as many as they are. Where they begin to,
// what the store has admitted just before does not count against the shares:
// docs/guarantees.md has the sum.
//
// # Errors
//
// A failure is any error but these, which reach the caller as they are: weir.ErrInvalid;
// weir.ErrNoReservation and weir.ErrFull, which are answers; weir.ErrClosed, since who
// closes a store wants no more decisions. A caller that leaves, as its context ends
// before the deadline, gets an error that wraps weir.ErrUnavailable and the context's;
// that is no failure of the store, unless callers leave one after the other for as long
// as it takes to fail and nobody gets an answer.
//
// # Cost
//
// One allocation, and about a microsecond, most of it to hand the question to another
// goroutine and the answer back. Over a store in memory there is nothing to gain.
package failover
