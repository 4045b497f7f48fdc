package weirgin_test

import (
	"context"
	"io"
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/floodweir/weir"
	weirgin "github.com/floodweir/weir/contrib/gin"
	"github.com/gin-gonic/gin"

	"github.com/floodweir/weir/httplimit/limittest"
)

func TestAdapter(t *testing.T) {
	limittest.Run(t, limittest.Adapter{ServeLimit: func(t testing.TB, store weir.Store, limit string) string {
		l := weirgin.Limit(store, limit, func(c *gin.Context) string { return c.GetString("user") })
		return serve(t, func(e *gin.Engine) {
			e.Use(func(c *gin.Context) { c.Set("user", c.GetHeader("X-User")) })
			e.GET("/text", l, func(c *gin.Context) { c.String(200, "hello") })
		})
	}, Serve: func(t testing.TB, app limittest.App) string {
		return serve(t, func(e *gin.Engine) {
			if app.Recover {
				e.Use(gin.RecoveryWithWriter(io.Discard))
			}
			if app.Protect.Chain != nil {
				e.Use(weirgin.Protect(app.Protect))
			}
			e.Use(weirgin.Middleware(app.Limit))
			for _, r := range app.Endpoints {
				g := e.Group(r.Path)
				if r.Limit != nil {
					g.Use(weirgin.Middleware(r.Limit))
				}
				g.Handle(r.Method, "", func(c *gin.Context) { _ = r.Handle().Write(c.Writer) })
			}
		})
	}})
}

// serve returns the URL of an engine with routes.
func serve(t testing.TB, routes func(*gin.Engine)) string {
	t.Helper()
	gin.SetMode(gin.ReleaseMode)
	e := gin.New()
	routes(e)
	s := httptest.NewServer(e)
	t.Cleanup(s.Close)
	return s.URL
}

// A key is the key of a value that a handler puts into the context.
type key struct{}

func withKey(r *http.Request) context.Context { return context.WithValue(r.Context(), key{}, true) }
