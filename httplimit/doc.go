// Package httplimit limits the requests of an HTTP server by policies.
//
//	m, err := httplimit.New(store, set, httplimit.Config{})
//	…
//	http.ListenAndServe("127.0.0.1:8000", m.Wrap(handler))
//
// A request asks all policies that it falls under, and the store decides them
// together: it takes from all of their limits, or it is denied and takes from none.
// A denial is answered as the policy says, by default with status 429, Retry-After,
// and a problem that names the violated policies. Every answer tells what is left;
// see [Fields].
//
// A policy with several limits names them NAME/1, NAME/2 and so on in response
// fields and problems, in the order of the policy; with a single limit it is NAME.
//
// # Guarantees
//
// The client's address is that of the connection unless a trusted proxy says
// otherwise; see [ClientAddress]. Nothing that a client sent is ever sent back, and
// keys are not sent at all. The handler gets the server's ResponseWriter itself.
//
// A slot of a concurrency limit is held while the handler runs, kept alive as long
// as that takes, and given back when it returns or panics.
//
// # Errors
//
// When the store makes no decision, the policies say what becomes of the request. If
// all that it falls under are open, it goes through, with the field [DegradedField]
// in the answer; otherwise it is refused with status 503 and Retry-After. A client
// that goes away before it is answered is not served: cutting a connection is no
// way past a store that is slow.
//
// # Concurrency
//
// A Middleware is safe for concurrent use.
package httplimit
