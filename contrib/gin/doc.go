// Package weirgin limits the requests of a gin server by the policies of a
// [httplimit.Middleware].
//
//	m, err := httplimit.New(store, set, httplimit.Config{})
//	…
//	r := gin.New()
//	r.Use(weirgin.Middleware(m))
//
// Package httplimit describes policies, response fields, denials, waiting, shadow mode,
// slots and counting by the response. A group or a route may have its own middleware.
//
// # Client address
//
// httplimit.Config.Client defines it. Trusted proxies and ClientIP of gin are not used.
//
// # Order
//
// A policy that counts by the response uses the status at the time when the middleware
// returns. So add the middleware before one that writes responses for the errors of a
// gin.Context. Recovery works on either side: a handler that panics counts as 500.
//
// A denied request gets its response, and the chain is aborted.
package weirgin
