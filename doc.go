// Package weir decides exactly and fast whether a request may go through now and, if
// not, when.
//
//	lim := memstore.MustLimiter("10/s burst 20")
//
//	if !lim.AllowKey("user:42") { … }         // allow or drop
//	err := lim.WaitKey(ctx, "user:42")        // or wait
//	d, err := lim.Take(ctx, "user:42", 1)     // or get the whole decision
//
// A decision has all that an answer needs:
//
//	if err != nil {
//		// no decision was made: the caller chooses to admit or to deny
//	}
//	if !d.OK {
//		// denied: retry after d.RetryAfter
//	}
//
// A [Limit] is a rule, a key says who is limited, a [Store] keeps the state of every
// key, and a [Limiter] asks the store. Package memstore keeps state in this process,
// and redisstore in Redis or Valkey, with the same decisions.
//
// # Units
//
// Time is [time.Duration] and [time.Time] in the API, and whole microseconds inside.
// Rounding is against the caller: RetryAfter up, Remaining down.
//
// # Guarantees
//
// A limit admits what the formula of its algorithm says, to the token. A denied
// request changes nothing. Several limits asked together are charged all or none.
// RetryAfter is exact: before it every retry is denied, and at it a retry is admitted
// if no other request came first.
//
// # Errors
//
// A denial is a [Decision], not an error. An error means that no decision was made.
// The short forms have no Decision: [Limiter.Wait] returns an error that wraps
// [ErrDenied], and [Limiter.Allow] returns false for an error too.
package weir
