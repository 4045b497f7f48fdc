package weirecho

import (
	"net/http"

	"github.com/floodweir/weir"
	"github.com/floodweir/weir/httplimit"
	"github.com/floodweir/weir/policy"
	"github.com/labstack/echo/v5"
)

// Middleware returns m for an echo server, group or route. It is safe for concurrent use. If it
// is used in several places, they share their limits.
func Middleware(m *httplimit.Middleware) echo.MiddlewareFunc { return middleware(m.Wrap) }

// Protect returns [httplimit.Protect] for echo. It belongs in front of the limits.
func Protect(c httplimit.ProtectConfig) echo.MiddlewareFunc { return middleware(httplimit.Protect(c)) }

func middleware(wrap func(http.Handler) http.Handler) echo.MiddlewareFunc {
	return func(next echo.HandlerFunc) echo.HandlerFunc {
		return func(c *echo.Context) (err error) {
			wrap(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				err = serve(next, c, w, r)
			})).ServeHTTP(writer{c.Response(), c}, c.Request())
			return err
		}
	}
}

// serve runs next with w and r, which differ from those of c if a policy counts by the
// response.
func serve(next echo.HandlerFunc, c *echo.Context, w http.ResponseWriter, r *http.Request) error {
	if own := c.Request(); own != r {
		c.SetRequest(r)
		defer func() {
			if c.Request() == r {
				c.SetRequest(own) // a request that a handler set stays
			}
		}()
	}
	if _, plain := w.(writer); plain {
		return next(c)
	}
	own := c.Response()
	c.SetResponse(w)
	defer c.SetResponse(own)
	err := next(c)
	if err != nil {
		c.Echo().HTTPErrorHandler(c, err) // so that its response is counted
	}
	return err
}

// A writer wraps the writer of echo, so that serve recognizes it, and carries the context to key
// functions.
type writer struct {
	http.ResponseWriter
	c *echo.Context
}

// Unwrap returns the writer of echo for an [http.ResponseController].
func (w writer) Unwrap() http.ResponseWriter { return w.ResponseWriter }

// Limit returns a middleware that limits the requests of each key: see [httplimit.Limit].
//
//	e.Use(weirecho.Limit(store, "10/s burst 20", weirecho.ByIP))
func Limit(store weir.Store, limit string, key func(*echo.Context) string) echo.MiddlewareFunc {
	return Middleware(httplimit.MustKeyed(store, limit, KeyFunc(key)))
}

// LimitFunc returns a middleware with a limit for each key from code: see [httplimit.LimitFunc].
func LimitFunc(store weir.Store, limit weir.LimitFunc, key func(*echo.Context) string) echo.MiddlewareFunc {
	return Middleware(httplimit.MustKeyedFunc(store, limit, KeyFunc(key)))
}

// KeyFunc returns a part of a policy's key that key computes, for example from the user that a
// middleware in front has set. See [httplimit.KeyFunc].
func KeyFunc(key func(*echo.Context) string) policy.KeyPart {
	return httplimit.WriterKeyFunc(func(w http.ResponseWriter) string { return key(w.(writer).c) })
}

// ByIP is a key function that returns the address of the peer: see [httplimit.ByIP].
func ByIP(c *echo.Context) string { return httplimit.ByIP(c.Request()) }
