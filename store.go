package weir

import "context"

// A Store keeps the state of keys and decides requests by its own clock. Every
// implementation keeps these rules, which package storetest checks under the same
// numbers:
//
//  1. A decision is the result of the limit's rule in package internal/algo for the
//     state of the key at the store's instant. State of the limit's Spec names that
//     state.
//  2. A denied request changes nothing that a later request could observe. Two
//     changes precede every decision except a Peek and stay. The state under a former
//     limit (Request.From) is carried over, and a key under a limit with initial
//     tokens is no longer new. A request of 0 tokens is a Peek.
//  3. DoAll decides all requests at one instant and charges all or none. It decides
//     them in order, each after the charges of those before it. If one is denied or
//     fails, none is charged.
//  4. A key whose state is as if never used gives its memory back on demand. A key
//     with debt is never evicted.
//  5. If the clock goes back, no tokens appear.
//  6. Reserve, Commit and Cancel are idempotent by ID until the reservation's TTL has
//     passed. An unsettled reservation goes back at its TTL, with the same result
//     whenever the store processes that.
//  7. An invalid request returns an error that wraps ErrInvalid and changes nothing. A
//     denial is never an error.
//  8. The methods are safe for concurrent use, and each decision is linearizable.
//
// A Store over a Store, such as failover or metrics, wraps these two methods.
type Store interface {
	// Do decides one request.
	Do(ctx context.Context, r Request) (Decision, error)

	// DoAll decides requests together, all or nothing, and writes their decisions to
	// ds, which has the length of rs. It reports whether all were OK. If not, ds has
	// the decision of each request on its own, and none is charged. After an error ds
	// is undefined.
	DoAll(ctx context.Context, rs []Request, ds []Decision) (bool, error)
}
