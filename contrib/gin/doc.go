// Package weirgin limits the requests of a gin server by the policies of a
// [httplimit.Middleware].
//
//	m, err := httplimit.New(store, set, httplimit.Config{})
//	…
//	r := gin.New()
//	r.Use(weirgin.Middleware(m))
//
// Everything that package httplimit says holds here: what a request falls under, the
// response fields, the answer to a denial, waiting, shadow, slots of concurrency limits
// and counting by the response. A group or a route may have a middleware of its own.
//
// # The client's address
//
// It is found as httplimit.Config.Client says. Trusted proxies of gin are not asked, and
// gin's ClientIP is not used.
//
// # Where it stands
//
// What counts by the response counts what has been answered when the middleware returns.
// So it stands outside, which is before, a middleware that answers for the errors of a
// gin.Context. Of Recovery it may stand on either side: a handler that panics has
// answered 500.
//
// A request that is denied is answered, and the chain is aborted.
package weirgin
