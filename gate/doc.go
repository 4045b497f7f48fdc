// Package gate decides about what comes to a door by policies: it asks a store about
// all policies together, holds back what may wait, tries out what is in shadow, does
// what each policy says when the store makes no decision, and settles what is counted
// by the outcome. It knows no protocol: HTTP, gRPC and Go functions stand behind it.
//
//	g, err := gate.New(store, set, gate.Config{})
//	…
//	var p gate.Pass
//	if g.Enter(ctx, attributes, &p).Passes() {
//		// do it
//		p.Exit(gate.Result{Status: 200})
//	}
//
// # Waiting
//
// A policy with a wait holds a denied request back, and asks again when the store says
// that it can be admitted. Requests that wait for one key in a Gate are served in the
// order in which they came. Config.MaxWaiting bounds how many wait.
//
// # Counting by the outcome
//
// A policy that counts failures or successes, or finds the cost in the result,
// reserves what is known before, and is settled by Pass.Exit. A slot of a concurrency
// limit is renewed while the request runs and given back by Pass.Exit. If the process
// dies, all of it comes free by itself.
//
// # Concurrency
//
// A Gate is safe for concurrent use. A Pass is of one request; its Exit may be called on
// another goroutine than its Enter.
package gate
