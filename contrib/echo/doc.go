// Package weirecho limits the requests of an echo server by the policies of a
// [httplimit.Middleware].
//
//	m, err := httplimit.New(store, set, httplimit.Config{})
//	…
//	e := echo.New()
//	e.Use(weirecho.Middleware(m))
//
// Package httplimit describes policies, response fields, denials, waiting, shadow mode,
// slots and counting by the response. A group or a route may have its own middleware.
//
// # Client address
//
// httplimit.Config.Client defines it. IPExtractor and RealIP of echo are not used.
//
// # Errors
//
// An error of a handler becomes a response in the HTTPErrorHandler, after all middlewares
// have returned. If a policy counts by the response, the middleware calls the
// HTTPErrorHandler itself and returns the error, as echo's request logger does with
// HandleError. Outer middlewares get the error, but the response is sent. So add a
// middleware that writes responses for errors after this one. A custom HTTPErrorHandler
// must ignore a committed response, as echo requires.
//
// Recover works on either side: a handler that panics counts as 500, or as the response of
// the HTTPErrorHandler if Recover is inside.
package weirecho
