// Package httplimit limits the requests of an HTTP server by policies.
//
//	m, err := httplimit.New(store, set, httplimit.Config{})
//	…
//	http.ListenAndServe("127.0.0.1:8000", m.Wrap(handler))
//
// For one limit, [Limit] is shorter.
//
// All policies that match a request are charged together, or none: one denial denies the request.
// The policy sets the response to a denial; by default it has status 429, Retry-After, and a
// problem that names the violated policies. Every response reports the remaining quota; see
// [Fields].
//
// Package enforce makes the decisions. This package adds HTTP: the attributes of a request, the
// address of its client, the response, and the cost that a response contains.
//
// A policy with several limits names them NAME/1, NAME/2 and so on in fields and problems, in the
// order of the policy. A single limit is NAME.
//
// # Waiting
//
// A policy with a wait holds a denied request back, and asks again when the store can admit
// it. Requests of one key wait in the order in which they arrived: only the first asks.
// A request that cannot be admitted in time is denied at once. A client that disconnects takes
// nothing; over HTTP/1, the server detects that only after it has read the body. Options.MaxWaiters
// bounds the waiting requests. One client can fill that queue, so add a concurrency limit per
// client in front.
//
// # Counting by the response
//
// A policy that counts failures or successes, or finds the cost in the response, reserves the
// known cost before the handler runs. The response fields report that, and at most as many
// requests as the limit has tokens run at a time. The reservation is settled when the handler
// returns, before the server ends the response. If the response does not count, the tokens are
// returned. If it counts, it costs the number in the response, as debt if necessary, or else what
// was reserved. A client that disconnects, or breaks off its body, is charged: an error after that
// counts for every policy. A handler that panics has answered 500, unless its client had
// disconnected. A hijacked connection has answered 101.
//
// A number in a header or trailer is digits alone, in its last line. A number in a JSON body is a
// whole number without sign, fraction and exponent; of a duplicate member the last one counts. In
// an event stream the last data line with a number counts. Members inside arrays are not found.
//
// A response has no number if it is above 2^40, if the JSON is malformed, or if the body is
// encoded. The same holds for a body, or a line of a stream, of more than 1 MiB without its arrays
// and without the text of strings beyond 8 KiB. The middleware asks the handler for no encoding and
// no range, so that it can read the body. If a client disconnects before the number is written, the
// request costs what was reserved.
//
// Requests that were admitted without a decision are not charged later.
//
// # Language models
//
// A policy with a Settle.Meter reads the body of a request, up to MeterConfig.MaxBody, for its model
// and its maximum of tokens, before the request is decided. The handler then reads the same body. At
// most 256 MiB of bodies are held at a time; further requests get 503. A connection of HTTP/1 needs a
// read deadline of its server.
//
// With a MeterConfig.Step, a stream reserves its output in steps. When a step is denied, the
// middleware ends the stream as MeterConfig.Exhausted selects: see package budget/stream. Writes of
// the handler then fail, and its context ends.
//
// Unless MeterConfig.Disconnected is "cancel", the context of the handler lasts up to 30 s after its
// client has disconnected, for 100 requests at a time, and writes go nowhere.
//
// # Interfaces without a response
//
// Forward-auth only answers whether a request may pass: it wraps a handler that answers 200, and
// passes it a request that describes the original one. Set Config.NoResponse, because such a
// response has no result. A slot of a concurrency limit is then returned at once.
//
// # Guarantees
//
// The client's address is that of the connection unless a trusted proxy reports another one; see
// [ClientAddress]. Responses contain no keys, and nothing that a client sent except
// the quoted name of a model without a price. [Middleware.Wrap]
// describes what the handler receives.
//
// A slot of a concurrency limit is renewed while the handler runs, and returned when it returns or
// panics. A reservation that the store made after its deadline is canceled at the end of the
// request.
//
// # Errors
//
// If the store makes no decision, the policies decide. If one that matches is closed, the request
// is refused with status 503 and Retry-After. Otherwise Options.Local decides for those that are
// local, together. If Local makes no decision either, the request is refused. The other policies
// admit it. The field [DegradedField] reports the mode.
//
// A request whose client disconnects before the decision, or during the delay of a queue, is not
// served. Its reservations are returned, but not its tokens, so that disconnecting early does not
// avoid the charge. If it reserves something, the store has another second to respond, so that no
// reservation is left behind.
//
// # Concurrency
//
// A Middleware is safe for concurrent use. To change policies, make a new Middleware, route new
// requests to it, and call Replace on the old one.
package httplimit
