// Package weirecho limits the requests of an echo server by the policies of a
// [httplimit.Middleware].
//
//	m, err := httplimit.New(store, set, httplimit.Config{})
//	…
//	e := echo.New()
//	e.Use(weirecho.Middleware(m))
//
// Everything that package httplimit says holds here: what a request falls under, the
// response fields, the answer to a denial, waiting, shadow, slots of concurrency limits
// and counting by the response. A group or a route may have a middleware of its own.
//
// # The client's address
//
// It is found as httplimit.Config.Client says. The IPExtractor of echo is not asked, and
// RealIP is not used.
//
// # Errors
//
// An error that a handler returns becomes a response in the HTTPErrorHandler, when all
// middlewares have returned. If a policy of the request counts by the response, the
// middleware calls the handler of errors itself, as echo's request logger does with
// HandleError, and returns the error. So middlewares that stand outside, which is before,
// get the error as ever, but the response has been sent: what answers for errors instead
// of the HTTPErrorHandler stands inside. A handler of errors of one's own has to leave a
// response alone that is committed, as echo asks of it in any case.
//
// Of Recover the middleware may stand on either side: a handler that panics has answered
// 500, or what the HTTPErrorHandler makes of it if Recover stands inside.
package weirecho
