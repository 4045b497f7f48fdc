package weirecho_test

import (
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"

	weirecho "github.com/floodweir/weir/contrib/echo"
	"github.com/floodweir/weir/httplimit/limittest"
	"github.com/labstack/echo/v5"
	"github.com/labstack/echo/v5/middleware"

	"github.com/floodweir/weir/httplimit"
	"github.com/floodweir/weir/policy"
)

func failures(limit string) policy.Config {
	return policy.Config{Name: "p", Limits: limittest.Limits(limit), Count: policy.CountFailures}
}

func TestFailures(t *testing.T) {
	recovering := middleware.Recover()
	inner := func(m *httplimit.Middleware) []echo.MiddlewareFunc {
		return []echo.MiddlewareFunc{weirecho.Middleware(m), recovering}
	}
	outer := func(m *httplimit.Middleware) []echo.MiddlewareFunc {
		return []echo.MiddlewareFunc{recovering, weirecho.Middleware(m)}
	}
	teapot := errors.New("teapot")
	for _, tc := range []struct {
		name    string
		chain   func(*httplimit.Middleware) []echo.MiddlewareFunc
		handler echo.HandlerFunc
		status  int
		left    string
	}{
		{"fine", inner, func(c *echo.Context) error { return c.String(200, "x") }, 200, "4"},
		{"nothing", inner, func(*echo.Context) error { return nil }, 200, "4"},
		{"json", inner, func(c *echo.Context) error { return c.JSON(500, "x") }, 500, "3"},
		{"an error of echo", inner, func(*echo.Context) error { return echo.ErrUnauthorized }, 401, "3"},
		{"an error of HTTP", inner, func(*echo.Context) error { return echo.NewHTTPError(409, "no") }, 409, "3"},
		{"any error", inner, func(*echo.Context) error { return io.EOF }, 500, "3"},
		{"an error that the handler of errors calls fine", inner, func(*echo.Context) error { return teapot }, 200, "4"},
		{"an error after an answer", inner, func(c *echo.Context) error { return errors.Join(c.String(200, "x"), io.EOF) }, 200, "4"},
		{"panic, recovered inside", inner, func(*echo.Context) error { panic("no") }, 500, "3"},
		{"panic, recovered inside, as the handler of errors answers", inner, func(*echo.Context) error { panic(teapot) }, 200, "4"},
		{"panic, recovered outside", outer, func(*echo.Context) error { panic("no") }, 500, "3"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			store, _ := limittest.Store(t)
			m := limittest.Middleware(t, store, httplimit.Config{}, failures("5/m"))
			url := serve(t, func(e *echo.Echo) {
				fallback := e.HTTPErrorHandler
				e.HTTPErrorHandler = func(c *echo.Context, err error) {
					if r, _ := echo.UnwrapResponse(c.Response()); r.Committed {
						return
					}
					if errors.Is(err, teapot) {
						_ = c.String(200, "short and stout")
						return
					}
					fallback(c, err)
				}
				e.Use(tc.chain(m)...)
				e.GET("/", tc.handler)
				e.GET("/left", func(*echo.Context) error { return nil })
			})
			a := limittest.Do(t, "GET", url)
			if a.Status != tc.status || strings.Count(a.Body, "}") > 1 {
				t.Errorf("%d %q, want %d", a.Status, a.Body, tc.status)
			}
			if got := limittest.Remaining(t, url+"/left"); got != tc.left {
				t.Errorf("%s left, want %s", got, tc.left)
			}
		})
	}
}

// TestOutside checks that middleware in front gets the error, and echo's own writer and
// request.
func TestOutside(t *testing.T) {
	store, _ := limittest.Store(t)
	m := limittest.Middleware(t, store, httplimit.Config{}, policy.Config{Name: "p", Limits: limittest.Limits("10/m"), Settle: policy.Settle{JSON: "usage.total"}})
	var outside, inside string
	var failed error
	var sameWriter, status, size, kept, hooked atomic.Int64
	url := serve(t, func(e *echo.Echo) {
		e.Use(func(next echo.HandlerFunc) echo.HandlerFunc {
			return func(c *echo.Context) error {
				w := c.Response()
				err := next(c)
				failed = err
				outside = c.Request().Header.Get("Accept-Encoding")
				r, _ := echo.UnwrapResponse(c.Response())
				status.Store(int64(r.Status))
				size.Store(r.Size)
				if c.Response() == w {
					sameWriter.Store(1)
				}
				if c.Request().Context().Value(key{}) != nil {
					kept.Store(1)
				}
				return err
			}
		}, weirecho.Middleware(m))
		e.GET("/json", func(c *echo.Context) error {
			inside = c.Request().Header.Get("Accept-Encoding")
			if r, err := echo.UnwrapResponse(c.Response()); err == nil {
				r.Before(func() { hooked.Add(1) })
			}
			return c.Blob(200, "application/json", []byte(`{"usage":{"total":4}}`))
		})
		e.GET("/error", func(*echo.Context) error { return echo.ErrForbidden })
		e.GET("/replaced", func(c *echo.Context) error {
			c.SetRequest(c.Request().WithContext(withKey(c.Request())))
			return c.Blob(200, "application/json", []byte(`{"usage":{"total":4}}`))
		})
	})
	limittest.Do(t, "GET", url+"/replaced")
	if kept.Load() != 1 {
		t.Error("a request that the handler made is lost")
	}
	if a := limittest.Do(t, "GET", url+"/error"); a.Status != 403 || !errors.Is(failed, echo.ErrForbidden) {
		t.Errorf("status %d, error outside %v, want 403 and that", a.Status, failed)
	}
	limittest.Do(t, "GET", url+"/json", "Accept-Encoding: gzip")
	if outside != "gzip" || inside != "identity" || hooked.Load() != 1 {
		t.Errorf("Accept-Encoding outside %q, inside %q, hook ran %d times", outside, inside, hooked.Load())
	}
	if sameWriter.Load() != 1 || status.Load() != 200 || size.Load() != int64(len(`{"usage":{"total":4}}`)) {
		t.Errorf("writer %d, status %d, size %d", sameWriter.Load(), status.Load(), size.Load())
	}
}

// TestErrorIsLeftAlone checks that echo handles the error of a request if no policy counts.
func TestErrorIsLeftAlone(t *testing.T) {
	store, _ := limittest.Store(t)
	m := limittest.Middleware(t, store, httplimit.Config{}, policy.Config{Name: "p", Limits: limittest.Limits("10/m")})
	var committed atomic.Bool
	url := serve(t, func(e *echo.Echo) {
		e.Use(func(next echo.HandlerFunc) echo.HandlerFunc {
			return func(c *echo.Context) error {
				err := next(c)
				r, _ := echo.UnwrapResponse(c.Response())
				committed.Store(r.Committed)
				return err
			}
		}, weirecho.Middleware(m))
		e.GET("/", func(*echo.Context) error { return echo.ErrForbidden })
	})
	if a := limittest.Do(t, "GET", url); a.Status != 403 || committed.Load() {
		t.Errorf("status %d, committed inside %v, want 403 and not", a.Status, committed.Load())
	}
}

// TestHead checks a server that answers HEAD by GET with its own writer.
func TestHead(t *testing.T) {
	store, _ := limittest.Store(t)
	m := limittest.Middleware(t, store, httplimit.Config{}, failures("2/m"))
	s := httptest.NewServer(func() http.Handler {
		e := echo.NewWithConfig(echo.Config{Router: echo.NewRouter(echo.RouterConfig{AutoHandleHEAD: true})})
		e.GET("/", func(c *echo.Context) error { return c.String(200, "hello") }, weirecho.Middleware(m))
		e.GET("/error", func(*echo.Context) error { return echo.ErrForbidden }, weirecho.Middleware(m))
		return e
	}())
	t.Cleanup(s.Close)
	for i, want := range []struct {
		path   string
		status int
	}{{"/", 200}, {"/", 200}, {"/", 200}, {"/error", 403}, {"/error", 403}, {"/", 429}} {
		a := limittest.Do(t, "HEAD", s.URL+want.path)
		if a.Status != want.status || a.Header.Get("X-Ratelimit-Remaining") == "" {
			t.Errorf("step %d: status %d %v, want %d", i, a.Status, a.Header, want.status)
		}
	}
}
