// Package enforce decides requests by policies. An [Enforcer] asks a store for all policies of
// a request together, queues requests that may wait, and evaluates policies in shadow mode.
// It applies OnStoreError when the store makes no decision, and settles costs that the result
// determines. It is independent of protocols: the interfaces for HTTP, gRPC and Go functions
// use it.
//
//	e, err := enforce.New(store, set, enforce.Config{})
//	…
//	var a enforce.Admission
//	if e.Enter(ctx, attributes, &a).Passes() {
//		// handle the request
//		a.Exit(enforce.Result{Status: 200})
//	}
//
// # Waiting
//
// A policy with an OnDenied.Wait holds a denied request back and asks again when the store
// can admit it. Requests that wait for one key in an Enforcer are served in their order: only
// the first of them asks, and a new request queues behind them. A request that cannot be
// admitted in time is denied at once. Config.MaxWaiters bounds the waiting requests. One
// client can fill that queue, so also bound the concurrent requests of a client by a
// concurrency limit in front.
//
// The delay of an admitted request in a leaky bucket's queue has passed when Enter returns.
//
// # Counting by the result
//
// A policy may count failures or successes, or read the cost from the result. Its tokens are
// reserved, and Admission.Exit settles them. A slot of a concurrency limit is renewed while
// the request runs, and Admission.Exit returns it. If the process ends, reservations and
// slots expire. A request that was admitted without a decision is not charged later.
//
// # Guarantees
//
// A request that does not pass has no reservation when Enter returns. A request that is
// canceled before it passes is not charged, as far as the store is available and its limits
// can return charges, unless Config.KeepOnCancel is set. Admission.Cancel returns the charges
// of a request that passed.
//
// A reservation without a reply in time may exist in the store; it is canceled at the end of
// the request. After the decision, calls of the store take at most a second each, and run for
// canceled requests too.
//
// # Errors
//
// A denial is an outcome, not an error. If the store makes no decision, the policies decide:
//
//  1. If a policy of the request is closed, the request is refused.
//  2. Otherwise Config.Local decides the policies that are local, together. If Local makes no
//     decision either, the request is refused.
//  3. Policies that are open admit the request.
//
// Admission.Err returns the error in each of these cases. A canceled request is refused, not
// failed open. So is a request that this process is too busy to decide, whatever the modes are:
// the error then wraps weir.ErrOverloaded. If the request reserves something, the store gets
// another second to reply, so that the reservation can be canceled.
//
// # Concurrency
//
// An Enforcer is safe for concurrent use. An Admission belongs to one request. Its Exit may
// run on another goroutine than its Enter, and only the first call of Exit or Cancel counts.
// SetPolicies changes policies. To change another setting, make a new Enforcer, use it for new
// requests, and call Replace on the old one. Without Replace, waiting requests would be decided
// by the old policies, and a key would get tokens from both.
package enforce
