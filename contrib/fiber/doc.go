// Package weirfiber limits the requests of a fiber app by the policies of a
// [httplimit.Middleware].
//
//	m, err := httplimit.New(store, set, httplimit.Config{})
//	…
//	app := fiber.New()
//	app.Use(weirfiber.Middleware(m))
//
// Everything that package httplimit says holds here, but for what is said below: what a
// request falls under, the response fields, the answer to a denial, waiting, shadow,
// slots of concurrency limits and counting by the response. A group or a route may have a
// middleware of its own.
//
// Fiber is not of net/http, so each request is described to httplimit anew: its header is
// copied, its body is not. A goroutine holds what the request holds until it is answered.
//
// # The client's address
//
// It is found as httplimit.Config.Client says, from the peer of the connection. The
// TrustProxy of fiber is not asked, and its IP is not used.
//
// # The path
//
// Policies compare paths without case, as fiber does. They see the path that fiber looks
// for a route by: without a fragment, and as middlewares outside have rewritten it. A
// request whose target net/http would not accept is answered with status 400.
//
// # Responses
//
// A body that is streamed counts as it passes, and a slot is held until it has been
// sent. Any other response counts as it is when the middleware returns.
//
// An error that a handler returns becomes a response in the app's ErrorHandler, when all
// middlewares have returned. If a policy of the request counts by the response, the
// middleware calls the ErrorHandler itself, as fiber's logger does, and returns nil:
// middlewares that stand outside, which is before, see the response and not the error.
// A handler that panics has answered 500, wherever it is recovered outside.
//
// Response fields that are gone after the handler, as when it gave the whole response of
// another server, are set again.
//
// With fiber's StreamRequestBody, the connection of a request that is denied is closed
// after the answer: fasthttp would take what is left of its body for the next request,
// as it does after every handler that does not read a body to its end.
//
// # What fasthttp does not tell
//
// That a client goes away is not noticed: a request that waits for its turn keeps it, and
// takes its tokens; it can be ended by a context that a middleware outside sets by
// SetContext. A client that breaks off its own body is charged as the answer says. A
// connection that is taken over, as for a WebSocket, has answered 101 and holds no slot
// from then on.
package weirfiber
