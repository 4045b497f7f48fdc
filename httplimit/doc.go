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
// What is decided is said in package gate; this one knows HTTP: the attributes of a
// request, the address of its client, the fields and denials that it is answered with,
// and what a response tells of its cost.
//
// A policy with several limits names them NAME/1, NAME/2 and so on in response
// fields and problems, in the order of the policy; with a single limit it is NAME.
//
// # Waiting
//
// A policy with a wait holds a denied request back, and asks again when the store says
// that it can be admitted. Requests that wait for one key in a Middleware are served
// in the order in which they came: only the first of them asks, and one that comes
// while others wait queues behind them. What can no longer be admitted in time is
// denied then. Who goes away while waiting takes nothing, but that a client of HTTP/1
// went is only seen when its body has been read. Config.MaxWaiters bounds how
// many wait; since one client can fill that room, bound how many requests a client has
// at once too, by a concurrency limit in front.
//
// # Counting by the response
//
// A policy that counts failures or successes, or finds the cost in the response,
// reserves what is known before: that is what the response fields tell of, and as
// many requests as the limit has tokens can be under way at once. The reservation is
// settled when the handler returns, before the server ends the response. What does not
// count goes back; what counts costs what the response tells, in debt if need be, or
// else what was reserved. A client that goes away, or breaks its own body off, is charged
// all the same: an error that is answered after that counts, whatever is counted. A
// handler that panics has answered 500, unless its client had gone away before. A
// connection that was taken over has answered 101.
//
// A number in a header, or in a trailer, is digits alone, in its last line; one in a
// JSON body is a whole number without sign, fraction and exponent, and the last one
// where an object has a member twice. Of an event stream the last data line that tells
// counts. What stands in arrays is not looked at. A response does not tell if its number
// is above 2^40, if its JSON is broken, if it is longer than 1 MiB (of a stream: a line
// of it) without its arrays and what is beyond 8 KiB of a text, or if it is encoded: to
// be able to read it, the middleware asks the handler for no encoding and for no part of
// it. A client that goes away before the end may miss what would have told: it costs
// what was reserved.
//
// Requests that were let through undecided are not charged afterwards.
//
// # Doors without a response
//
// A door that only answers whether a request may pass, such as forward-auth, wraps a
// handler that answers 200 and gives it a request made of what was asked about. Set
// Config.NoResponse: such a response says nothing. A slot of a concurrency limit is then
// free again at once.
//
// # Guarantees
//
// The client's address is that of the connection unless a trusted proxy says
// otherwise; see [ClientAddress]. Nothing that a client sent is ever sent back, and
// keys are not sent at all. What the handler gets is said at [Middleware.Wrap].
//
// A slot of a concurrency limit is held while the handler runs, kept alive as long
// as that takes, and given back when it returns or panics. What the store may have
// granted without an answer in time is given back at the end of the request too.
//
// # Errors
//
// When the store makes no decision, the policies say what becomes of the request. If
// one that it falls under is closed, it is refused with status 503 and Retry-After.
// Otherwise those that are local are decided by Config.Local, together, and a denial is
// one as ever; if Local makes no decision either, the request is refused. The others let
// it through. The field [DegradedField] tells which. A client that goes away before it
// is answered is not served: cutting a connection is no way past a store that is slow.
// Where something is to be reserved, the store has another second to answer then, so
// that it holds nothing that nobody gives back. Of a client that goes away while a limit
// holds it back, what was reserved goes back, and what was taken stays taken: it would
// otherwise ask for nothing.
//
// # Concurrency
//
// A Middleware is safe for concurrent use. To change policies, make a new one, give it the
// next request, and let the old one yield to it; what has passed the old one ends there.
package httplimit
