package weirfiber_test

import (
	"bufio"
	"errors"
	"io"
	"net"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"

	weirfiber "github.com/floodweir/weir/contrib/fiber"
	"github.com/floodweir/weir/httplimit/limittest"
	"github.com/gofiber/fiber/v3"
	"github.com/gofiber/fiber/v3/middleware/recover"

	"github.com/floodweir/weir/httplimit"
	"github.com/floodweir/weir/policy"
)

func failures(limit string) policy.Config {
	return policy.Config{Name: "p", Limits: limittest.Limits(limit), Count: policy.CountFailures}
}

func TestFailures(t *testing.T) {
	inner := func(m *httplimit.Middleware) []any { return []any{weirfiber.Middleware(m), recover.New()} }
	outer := func(m *httplimit.Middleware) []any { return []any{recover.New(), weirfiber.Middleware(m)} }
	teapot := errors.New("teapot")
	var handled atomic.Int64
	for _, tc := range []struct {
		name    string
		chain   func(*httplimit.Middleware) []any
		handler fiber.Handler
		status  int
		left    string
		errors  int64 // that the ErrorHandler had
	}{
		{"fine", inner, func(c fiber.Ctx) error { return c.SendString("x") }, 200, "4", 0},
		{"nothing", inner, func(fiber.Ctx) error { return nil }, 200, "4", 0},
		{"a status", inner, func(c fiber.Ctx) error { return c.SendStatus(403) }, 403, "3", 0},
		{"an error of fiber", inner, func(fiber.Ctx) error { return fiber.ErrUnauthorized }, 401, "3", 1},
		{"any error", inner, func(fiber.Ctx) error { return io.EOF }, 500, "3", 1},
		{"no route", inner, func(c fiber.Ctx) error { return c.Next() }, 404, "3", 1},
		{"an error that the handler of errors calls fine", inner, func(fiber.Ctx) error { return teapot }, 200, "4", 1},
		{"an error that the handler of errors fails at", inner, func(fiber.Ctx) error { return io.ErrNoProgress }, 500, "3", 1},
		{"panic, recovered inside", inner, func(fiber.Ctx) error { panic("no") }, 500, "3", 1},
		{"panic, recovered outside", outer, func(fiber.Ctx) error { panic("no") }, 500, "3", 1},
	} {
		t.Run(tc.name, func(t *testing.T) {
			handled.Store(0)
			store, _ := limittest.Store(t)
			m := limittest.Middleware(t, store, httplimit.Config{}, failures("5/m"))
			c := fiber.Config{ErrorHandler: func(c fiber.Ctx, err error) error {
				handled.Add(1)
				switch {
				case errors.Is(err, teapot):
					return c.SendString("short and stout")
				case errors.Is(err, io.ErrNoProgress):
					return err
				}
				return fiber.DefaultErrorHandler(c, err)
			}}
			url := serveConfig(t, c, func(app *fiber.App) {
				for _, h := range tc.chain(m) {
					app.Use(h)
				}
				app.Get("/", tc.handler)
				app.Get("/left", func(fiber.Ctx) error { return nil })
			})
			if a := limittest.Do(t, "GET", url); a.Status != tc.status || handled.Load() != tc.errors {
				t.Errorf("status %d after %d errors, want %d after %d", a.Status, handled.Load(), tc.status, tc.errors)
			}
			if got := limittest.Remaining(t, url+"/left"); got != tc.left {
				t.Errorf("%s left, want %s", got, tc.left)
			}
		})
	}
}

// TestOutside checks that middleware in front gets the original request, and an error only if
// no policy counts.
func TestOutside(t *testing.T) {
	store, _ := limittest.Store(t)
	m := limittest.Middleware(t, store, httplimit.Config{},
		policy.Config{Name: "p", Match: policy.Match{Paths: []string{"/json"}}, Limits: limittest.Limits("10/m"), Settle: policy.Settle{JSON: "usage.total"}})
	var outside, inside string
	var failed error
	url := serve(t, func(app *fiber.App) {
		app.Use(func(c fiber.Ctx) error {
			failed = c.Next()
			outside = c.Get("Accept-Encoding") + " " + c.Get("Range")
			return failed
		}, weirfiber.Middleware(m))
		app.Get("/json", func(c fiber.Ctx) error {
			inside = c.Get("Accept-Encoding") + " " + c.Get("Range")
			c.Set("Content-Type", "application/json")
			return c.SendString(`{"usage":{"total":4}}`)
		})
		app.Get("/error", func(fiber.Ctx) error { return fiber.ErrForbidden })
	})
	limittest.Do(t, "GET", url+"/json", "Accept-Encoding: gzip", "Range: bytes=0-1")
	if outside != "gzip bytes=0-1" || inside != "identity " {
		t.Errorf("Accept-Encoding and Range outside %q, inside %q", outside, inside)
	}
	if a := limittest.Do(t, "GET", url+"/error"); a.Status != 403 || !errors.Is(failed, fiber.ErrForbidden) {
		t.Errorf("status %d, error outside %v, want 403 and that", a.Status, failed)
	}
}

// TestFieldsStay checks that a handler that replaces the whole header, as a proxy does, keeps
// the fields.
func TestFieldsStay(t *testing.T) {
	store, _ := limittest.Store(t)
	m := limittest.Middleware(t, store, httplimit.Config{}, policy.Config{Name: "p", Limits: limittest.Limits("10/m")})
	url := served(t, m, func(app *fiber.App) {
		app.Get("/", func(c fiber.Ctx) error {
			c.Response().Reset()
			c.Set("X-Ratelimit-Limit", "of the other server")
			return c.SendString("x")
		})
	})
	a := limittest.Do(t, "GET", url)
	if got := a.Header.Get("X-Ratelimit-Remaining") + " " + a.Header.Get("X-Ratelimit-Limit"); got != "9 of the other server" {
		t.Errorf("fields %q", got)
	}
}

// TestCase checks that the policies of a route apply to a path in another case.
func TestCase(t *testing.T) {
	for _, tc := range []struct {
		sensitive bool
		path      string
		status    int
	}{
		{false, "/API/Users", 429}, {false, "/%41pi/users", 404}, {false, "/api/users/", 429}, {false, "/api/uSERS?x=A", 429},
		{true, "/API/users", 404}, {true, "/api/users", 429},
	} {
		store, _ := limittest.Store(t)
		m := limittest.Middleware(t, store, httplimit.Config{}, policy.Config{Name: "p", Match: policy.Match{Paths: []string{"/api/users"}}, Limits: limittest.Limits("1/m")})
		url := serveConfig(t, fiber.Config{CaseSensitive: tc.sensitive}, func(app *fiber.App) {
			app.Get("/api/users", weirfiber.Middleware(m), func(c fiber.Ctx) error { return c.SendString("x") })
		})
		limittest.Do(t, "GET", url+"/api/users")
		if a := limittest.Do(t, "GET", url+tc.path); a.Status != tc.status {
			t.Errorf("%s (case sensitive %v): status %d, want %d", tc.path, tc.sensitive, a.Status, tc.status)
		}
	}
}

// TestBadTarget checks that a target that net/http cannot parse does not avoid the limits.
func TestBadTarget(t *testing.T) {
	store, _ := limittest.Store(t)
	m := limittest.Middleware(t, store, httplimit.Config{}, policy.Config{Name: "p", Limits: limittest.Limits("10/m")})
	url := served(t, m, func(app *fiber.App) { app.Get("/*", func(c fiber.Ctx) error { return c.SendString("x") }) })
	for target, want := range map[string]int{"/%zz": 400, "/%2": 400, "/ok": 200, "/a//b?%zz": 200, "http://x/y": 200, "/a%2fB": 200} {
		conn, err := net.Dial("tcp", strings.TrimPrefix(url, "http://"))
		if err != nil {
			t.Fatal(err)
		}
		_, _ = io.WriteString(conn, "GET "+target+" HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n")
		res, err := http.ReadResponse(bufio.NewReader(conn), nil)
		if err != nil {
			t.Fatal(err)
		}
		if has := res.Header.Get("X-Ratelimit-Remaining") != ""; res.StatusCode != want || has != (want == 200) {
			t.Errorf("%s: status %d, fields %v, want %d", target, res.StatusCode, has, want)
		}
		_ = res.Body.Close()
		_ = conn.Close()
	}
}
