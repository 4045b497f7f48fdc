package weirecho

import (
	"net/http"

	"github.com/floodweir/weir/httplimit"
	"github.com/labstack/echo/v5"
)

// Middleware is m for an echo server, group or route. It is safe for concurrent use, and
// may be used in several places: they then share their limits.
func Middleware(m *httplimit.Middleware) echo.MiddlewareFunc {
	return func(next echo.HandlerFunc) echo.HandlerFunc {
		return func(c *echo.Context) (err error) {
			m.Wrap(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				err = serve(next, c, w, r)
			})).ServeHTTP(writer{c.Response()}, c.Request())
			return err
		}
	}
}

// serve runs next with w and r, which are those of c unless a policy counts by the
// response.
func serve(next echo.HandlerFunc, c *echo.Context, w http.ResponseWriter, r *http.Request) error {
	if own := c.Request(); own != r {
		c.SetRequest(r)
		defer func() {
			if c.Request() == r {
				c.SetRequest(own) // but one that a handler made stays
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
		c.Echo().HTTPErrorHandler(c, err) // so that what it answers is counted
	}
	return err
}

// A writer is echo's own, to be known again.
type writer struct{ http.ResponseWriter }

// Unwrap is what an [http.ResponseController] goes on with.
func (w writer) Unwrap() http.ResponseWriter { return w.ResponseWriter }
