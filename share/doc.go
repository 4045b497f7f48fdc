// Package share divides limits among processes, which decide by their parts without a call.
//
//	store, err := share.New(redis, ledger, share.Config{}) // redis: the strict store
//	…
//	defer store.Close()
//	lim, err := weir.New(store, weir.MustLimit("100000/s"), weir.Config{Name: "api"})
//
// A share of a limit is itself a limit: a part of its rate and of its capacity. A process that
// asks for a key often gets a share from a [Ledger], and decides by it in memory. The remainder of
// the limit stays in a row of the ledger. Other processes decide by the row, in two round trips
// that concurrent requests share.
//
// # Guarantees
//
// The parts of a limit never sum to more than the limit. Therefore everything that the holders and
// the remainder admit, one limit admits too: over-admission is 0, whatever messages are lost,
// repeated or late, and whatever process dies. Only four events weaken this:
//
//   - The rate of a clock is wrong by more than Config.Drift, or the machine of a holder is
//     suspended so that its monotonic clock stops.
//   - The ledger loses a row, or an acknowledged write.
//   - The clock of the ledger jumps forward: the remainder refills, as in a strict store.
//   - A Charge puts a key into debt: holders learn of it when they renew their shares.
//
// A process that dies, or that gets no reply, leaves its share unused for one lease, and at most
// two. During this time less than the limit is admitted.
//
// A holder denies what its share has no tokens for, without a call, if two facts hold. The demand of
// all holders in the row, and its own, are the whole limit or more. It read the row within the last
// second. It keeps reading the row, and takes what the remainder has. A log does so only if a call
// takes 10 ms or more.
//
// Otherwise a holder whose share is empty asks the ledger before it denies. A denial holds for at
// most Config.Interval, and while one request asks again: the process repeats it meanwhile. Idle
// capacity of other holders returns within about two intervals, so a request may be denied that one
// limit would admit.
//
// A cost that is larger than the own share and the remainder is denied too.
//
// # Limits
//
// [Supports] reports whether a limit can be divided. The strict store decides all other limits,
// and a limit whose capacity is below 100. The state of a limit that can be divided is in the
// ledger only. All processes that share such a limit need a Store of this package.
//
// Config.Terms selects keys whose limits are divided, with bounds of their own. [Store.Over] puts a
// failover.Store between the shares and the calls of a Store, so that a process decides by its
// shares while the store is unavailable. [Store.Local] decides after their leases.
//
// Remaining counts the tokens that the deciding process knows of, so it is a lower bound. Reserve,
// Commit and Cancel of a limit that can be divided return an error that wraps weir.ErrInvalid.
//
// # Concurrency
//
// A Store is safe for concurrent use. It has one goroutine, which Close ends. Close returns the
// shares.
package share
