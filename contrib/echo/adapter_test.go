package weirecho_test

import (
	"context"
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/floodweir/weir"
	weirecho "github.com/floodweir/weir/contrib/echo"
	"github.com/labstack/echo/v5"
	"github.com/labstack/echo/v5/middleware"

	"github.com/floodweir/weir/httplimit/limittest"
)

func TestAdapter(t *testing.T) {
	limittest.Run(t, limittest.Adapter{ServeLimit: func(t testing.TB, store weir.Store, limit string) string {
		l := weirecho.Limit(store, limit, func(c *echo.Context) string { return c.Get("user").(string) })
		return serve(t, func(e *echo.Echo) {
			e.Use(func(next echo.HandlerFunc) echo.HandlerFunc {
				return func(c *echo.Context) error {
					c.Set("user", c.Request().Header.Get("X-User"))
					return next(c)
				}
			})
			e.GET("/text", func(c *echo.Context) error { return c.String(200, "hello") }, l)
		})
	}, Serve: func(t testing.TB, app limittest.App) string {
		return serve(t, func(e *echo.Echo) {
			if app.Recover {
				e.Use(middleware.Recover())
			}
			if app.Protect.Chain != nil {
				e.Use(weirecho.Protect(app.Protect))
			}
			e.Use(weirecho.Middleware(app.Limit))
			for _, r := range app.Endpoints {
				g := e.Group(r.Path)
				if r.Limit != nil {
					g.Use(weirecho.Middleware(r.Limit))
				}
				g.Add(r.Method, "", func(c *echo.Context) error { return r.Handle().Write(c.Response()) })
			}
		})
	}})
}

// serve returns the URL of a server with routes.
func serve(t testing.TB, routes func(*echo.Echo)) string {
	t.Helper()
	e := echo.New()
	routes(e)
	s := httptest.NewServer(e)
	t.Cleanup(s.Close)
	return s.URL
}

// A key is the key of a value that a handler puts into the context.
type key struct{}

func withKey(r *http.Request) context.Context { return context.WithValue(r.Context(), key{}, true) }
