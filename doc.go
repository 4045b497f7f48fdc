// Package weir answers one question, exactly and fast: may this go through now,
// and if not, when?
//
//	store, err := memstore.New(memstore.Config{})
//	…
//	lim, err := weir.New(store, weir.MustLimit("10/s burst 20"), weir.Config{})
//	…
//	d, err := lim.Take(ctx, "user:42", 1)
//	if err != nil {
//		// no decision was made: the caller chooses open or closed
//	}
//	if !d.OK {
//		// denied: try again after d.RetryAfter
//	}
//
// A [Limit] is the rule, a key says who is limited, a [Store] keeps the state of
// every key, and a [Limiter] asks. Stores live in packages of their own:
// memstore keeps state in this process, redisstore in Redis or Valkey, with the
// same answers.
//
// # Units
//
// Time is [time.Duration] and [time.Time] at the surface and whole microseconds
// inside. What a caller is told is rounded against the caller: RetryAfter up,
// Remaining down.
//
// # Guarantees
//
// A limit admits what its algorithm's formula says, to the token. A denied
// request changes nothing. Several limits asked together are charged all or none.
// RetryAfter is tight: before it a retry is denied, at it a retry is admitted if
// nobody else came.
//
// # Errors
//
// A denial is a [Decision], never an error. An error means that no decision was
// made.
package weir
