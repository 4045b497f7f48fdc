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
// order in which they came: only the first of them asks, and one that comes while others
// wait queues behind them. What can no longer be admitted in time is denied then.
// Config.MaxWaiters bounds how many wait; since one caller can fill that room, bound how
// many requests a caller has at once too, by a concurrency limit in front.
//
// The delay that a queue gives an admitted request is another wait: it has passed when
// Enter returns.
//
// # Counting by the outcome
//
// A policy that counts failures or successes, or finds the cost in the result,
// reserves what is known before, and is settled by Pass.Exit. A slot of a concurrency
// limit is renewed while the request runs and given back by Pass.Exit. If the process
// dies, all of it comes free by itself. Requests that were let through undecided are not
// charged afterwards.
//
// # Guarantees
//
// What does not pass holds nothing when Enter returns. Who goes away before it passes has
// taken nothing, as far as the store could be asked and its limits tell charges apart,
// unless Config.ChargeGone says that leaving does not give back. Pass.Cancel gives back
// what did pass.
//
// What the store may have granted without an answer in time is given back at the end of
// the request. After the decision the store is asked for at most a second at a time, also
// for callers that have gone away.
//
// # Errors
//
// A denial is an outcome. When the store makes no decision, the policies say what becomes
// of the request. If one that it falls under is closed, it is refused. Otherwise those
// that are local are decided by Config.Local, together, and a denial is one as ever; if
// Local makes no decision either, the request is refused. The others let it through.
// Pass.Err tells why there was no decision in each of these cases. A caller that goes
// away before the answer is refused: leaving is no way past a store that is slow. Where
// something is to be reserved, the store has another second to answer then, so that it
// holds nothing that nobody gives back.
//
// # Concurrency
//
// A Gate is safe for concurrent use. A Pass is of one request; its Exit may be called on
// another goroutine than its Enter, and of several calls of Exit and Cancel the first
// counts. To change policies, make a new Gate, give it the next request, and let the
// old one yield to it: what waits there would go on by the old policies, and a key have
// what both of them give.
package enforce
