package weir

import "context"

// A Store keeps the state of keys and decides requests by its own clock. Every
// implementation keeps these rules, which the suite in package storetest checks
// under the same numbers:
//
//  1. A decision is what the limit's rule in package algo says for the state of
//     (Key, State), where State is that of Limit.Spec, at the store's instant.
//  2. A denied request changes nothing that any later request could see, but for
//     what comes before every decision other than a Peek and stays: that a key's
//     state under a former limit (Request.From) is carried over, and that a key
//     of a limit with initial tokens has been seen.
//  3. DoAll decides all requests at one instant and charges all or none. Requests
//     in it are decided in order, each seeing the charges of those before it. If
//     one is denied, or cannot be decided, none is charged.
//  4. A key whose state is as if never used costs nothing once it is asked for
//     memory, and a key that owes is never forgotten to make room.
//  5. The clock never goes back far enough to create tokens.
//  6. Reserve, Commit and Cancel are idempotent by ID until the reservation's TTL
//     has passed; an unsettled reservation goes back at its TTL. When that is
//     noticed makes no difference: the rule is asked for the instant of the TTL.
//  7. An invalid request gets an error that wraps ErrInvalid and changes nothing.
//     A denial is never an error.
//  8. The methods are safe for concurrent use, and each decision is linearizable.
//
// A Store over a Store (leases, failover, metrics) wraps these two methods.
type Store interface {
	// Do decides one request.
	Do(ctx context.Context, r Request) (Decision, error)

	// DoAll decides requests together, all or nothing, and puts their decisions
	// into ds, which has the length of rs. It reports whether all were OK. If not,
	// the decisions say what each request would have got, and none is charged.
	// An error means that nothing was decided and ds means nothing.
	DoAll(ctx context.Context, rs []Request, ds []Decision) (bool, error)
}
