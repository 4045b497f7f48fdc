// Package weirfiber limits the requests of a fiber app by the policies of a
// [httplimit.Middleware].
//
//	m, err := httplimit.New(store, set, httplimit.Config{})
//	…
//	app := fiber.New()
//	app.Use(weirfiber.Middleware(m))
//
// Package httplimit describes policies, response fields, denials, waiting, shadow mode,
// slots and counting by the response. This page lists the differences. A group or a route
// may have its own middleware.
//
// Fiber does not use net/http, so the header of each request is copied for httplimit, and
// its body is not. A goroutine holds the admission until the response is complete.
//
// # Client address
//
// httplimit.Config.Client defines it, from the peer of the connection. TrustProxy and IP of
// fiber are not used.
//
// # Path
//
// Policies compare paths case-insensitively, as fiber does. They use the path by which
// fiber finds a route: without a fragment, and as outer middlewares have rewritten it. A
// request with a target that net/http rejects gets status 400.
//
// # Responses
//
// A streamed body counts while it is sent, and holds its slot until the end. Any other
// response counts when the middleware returns.
//
// An error of a handler becomes a response in the app's ErrorHandler, after all middlewares
// have returned. If a policy counts by the response, the middleware calls the ErrorHandler
// itself and returns nil, as fiber's logger does. Outer middlewares then see the response
// and not the error. A handler that panics counts as 500.
//
// Response fields that a handler removes, for example by returning the response of another
// server, are set again.
//
// With StreamRequestBody, the connection of a denied request is closed after the response.
// fasthttp would read the rest of the body as the next request.
//
// # Limits of fasthttp
//
// fasthttp does not report disconnected clients. A waiting request keeps its place and takes
// its tokens, unless an outer middleware sets a context that ends with SetContext. A client
// that aborts its own body is charged by the response. A hijacked connection, such as a
// WebSocket, counts as 101 and holds no slot.
package weirfiber
