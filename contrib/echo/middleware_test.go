package weirecho_test

import (
	"bufio"
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	weirecho "github.com/floodweir/weir/contrib/echo"
	"github.com/labstack/echo/v5"
	"github.com/labstack/echo/v5/middleware"

	"github.com/floodweir/weir/httplimit"
	"github.com/floodweir/weir/memstore"
	"github.com/floodweir/weir/policy"
)

func failures(limit string) policy.Config {
	return policy.Config{Name: "p", Limits: limits(limit), Count: policy.CountFailures}
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
			store, _ := clocked(t)
			m := limited(t, store, httplimit.Config{}, failures("5/m"))
			url := serving(t, func(e *echo.Echo) {
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
			a := ask(t, "GET", url)
			if a.status != tc.status || strings.Count(a.body, "}") > 1 {
				t.Errorf("%d %q, want %d", a.status, a.body, tc.status)
			}
			if got := remaining(t, url+"/left"); got != tc.left {
				t.Errorf("%s left, want %s", got, tc.left)
			}
		})
	}
}

// What stands outside sees the error, and echo's own writer and request again.
func TestOutside(t *testing.T) {
	store, _ := clocked(t)
	m := limited(t, store, httplimit.Config{}, policy.Config{Name: "p", Limits: limits("10/m"), Settle: policy.Settle{JSON: "usage.total"}})
	var outside, inside string
	var failed error
	var sameWriter, status, size, kept, hooked atomic.Int64
	url := serving(t, func(e *echo.Echo) {
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
			return c.Blob(200, "application/json", []byte(usage))
		})
		e.GET("/error", func(*echo.Context) error { return echo.ErrForbidden })
		e.GET("/replaced", func(c *echo.Context) error {
			c.SetRequest(c.Request().WithContext(withKey(c.Request())))
			return c.Blob(200, "application/json", []byte(usage))
		})
	})
	ask(t, "GET", url+"/replaced")
	if kept.Load() != 1 {
		t.Error("a request that the handler made is lost")
	}
	if a := ask(t, "GET", url+"/error"); a.status != 403 || !errors.Is(failed, echo.ErrForbidden) {
		t.Errorf("status %d, error outside %v, want 403 and that", a.status, failed)
	}
	ask(t, "GET", url+"/json", "Accept-Encoding: gzip")
	if outside != "gzip" || inside != "identity" || hooked.Load() != 1 {
		t.Errorf("Accept-Encoding outside %q, inside %q, hook ran %d times", outside, inside, hooked.Load())
	}
	if sameWriter.Load() != 1 || status.Load() != 200 || size.Load() != int64(len(usage)) {
		t.Errorf("writer %d, status %d, size %d", sameWriter.Load(), status.Load(), size.Load())
	}
}

// An error of a request under no policy that counts is left to echo.
func TestErrorIsLeftAlone(t *testing.T) {
	store, _ := clocked(t)
	m := limited(t, store, httplimit.Config{}, policy.Config{Name: "p", Limits: limits("10/m")})
	var committed atomic.Bool
	url := serving(t, func(e *echo.Echo) {
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
	if a := ask(t, "GET", url); a.status != 403 || committed.Load() {
		t.Errorf("status %d, committed inside %v, want 403 and not", a.status, committed.Load())
	}
}

// A server that answers HEAD by GET has a writer of its own for it.
func TestHead(t *testing.T) {
	store, _ := clocked(t)
	m := limited(t, store, httplimit.Config{}, failures("2/m"))
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
		a := ask(t, "HEAD", s.URL+want.path)
		if a.status != want.status || a.header.Get("X-Ratelimit-Remaining") == "" {
			t.Errorf("step %d: status %d %v, want %d", i, a.status, a.header, want.status)
		}
	}
}

// A denial ends the chain, wherever it stands.
func TestDenialEnds(t *testing.T) {
	store, _ := clocked(t)
	m := limited(t, store, httplimit.Config{}, policy.Config{Name: "p", Limits: limits("1/m")})
	var reached atomic.Int64
	url := serving(t, func(e *echo.Echo) {
		e.Use(weirecho.Middleware(m), func(next echo.HandlerFunc) echo.HandlerFunc {
			return func(c *echo.Context) error { reached.Add(1); return next(c) }
		})
		e.GET("/", func(c *echo.Context) error { reached.Add(1); return c.String(200, "x") })
	})
	for range 3 {
		ask(t, "GET", url)
	}
	if reached.Load() != 2 {
		t.Errorf("reached %d, want 2", reached.Load())
	}
}

func TestGroups(t *testing.T) {
	store, _ := clocked(t)
	in := func(name, limit string) echo.MiddlewareFunc {
		return weirecho.Middleware(limited(t, store, httplimit.Config{}, policy.Config{Name: name, Limits: limits(limit), Count: policy.CountFailures}))
	}
	url := serving(t, func(e *echo.Echo) {
		e.Use(in("all", "5/m"))
		fail := func(*echo.Context) error { return echo.ErrInternalServerError }
		e.Group("/a", in("a", "1/m")).GET("", fail)
		e.Group("/b", in("b", "2/m")).GET("", fail)
		e.GET("/c", fail)
	})
	var got []int
	for _, path := range []string{"/a", "/a", "/b", "/b", "/b", "/c", "/nowhere"} {
		got = append(got, ask(t, "GET", url+path).status)
	}
	// The denials of the groups are failures for all: 1, 2, 3, 4, 5, and then it denies.
	want := []int{500, 429, 500, 500, 429, 429, 429}
	for i := range want {
		if got[i] != want[i] {
			t.Fatalf("statuses %v, want %v", got, want)
		}
	}
}

// An event reaches the client while its stream goes on, and the slot is taken so long.
func TestStream(t *testing.T) {
	store, _ := clocked(t)
	m := limited(t, store, httplimit.Config{},
		policy.Config{Name: "slots", Match: policy.Match{Paths: []string{"/stream"}}, Limits: limits("1 concurrency lease 30s")},
		policy.Config{Name: "tokens", Limits: limits("10/m"), Settle: policy.Settle{JSON: "usage.total"}})
	more := make(chan bool)
	url := served(t, m, func(e *echo.Echo) {
		e.GET("/stream", func(c *echo.Context) error {
			w := c.Response()
			w.Header().Set("Content-Type", "text/event-stream")
			for _, total := range []string{"1", "6"} {
				_, _ = io.WriteString(w, "data: {\"usage\":{\"total\":"+total+"}}\n\n")
				if err := http.NewResponseController(w).Flush(); err != nil {
					return err
				}
				<-more
			}
			return nil
		})
		routes(e)
	})
	res, err := http.Get(url + "/stream") // returns when the first event was flushed
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = res.Body.Close() }()
	in := bufio.NewReader(res.Body)
	if line, _ := in.ReadString('\n'); line != "data: {\"usage\":{\"total\":1}}\n" {
		t.Errorf("first line %q", line)
	}
	if a := ask(t, "GET", url+"/stream"); a.status != 429 {
		t.Errorf("beside a stream: status %d, want 429", a.status)
	}
	close(more)
	if _, err := io.Copy(io.Discard, in); err != nil {
		t.Fatal(err)
	}
	if got := remaining(t, url+"/text"); got != "3" {
		t.Errorf("%s left, want 3", got)
	}
	if a := ask(t, "GET", url+"/stream"); a.status != 200 {
		t.Errorf("after a stream: status %d, want 200", a.status)
	}
}

func TestHijack(t *testing.T) {
	store, _ := clocked(t)
	m := limited(t, store, httplimit.Config{},
		policy.Config{Name: "slots", Limits: limits("1 concurrency lease 30s")}, failures("2/m"))
	url := served(t, m, func(e *echo.Echo) {
		e.GET("/socket", func(c *echo.Context) error {
			conn, rw, err := http.NewResponseController(c.Response()).Hijack()
			if err != nil {
				return err
			}
			defer func() { _ = conn.Close() }()
			_, _ = rw.WriteString("HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: echo\r\n\r\n")
			_ = rw.Flush()
			line, _ := rw.ReadString('\n')
			_, _ = rw.WriteString(line)
			return rw.Flush()
		})
		e.GET("/text", func(c *echo.Context) error { return c.String(200, "hello") })
	})
	conn, err := net.Dial("tcp", strings.TrimPrefix(url, "http://"))
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = conn.Close() }()
	_, _ = io.WriteString(conn, "GET /socket HTTP/1.1\r\nHost: x\r\nConnection: Upgrade\r\nUpgrade: echo\r\n\r\n")
	in := bufio.NewReader(conn)
	res, err := http.ReadResponse(in, nil)
	if err != nil || res.StatusCode != 101 {
		t.Fatalf("upgrade: %v %v", res, err)
	}
	if a := ask(t, "GET", url+"/text"); a.status != 429 {
		t.Errorf("beside a socket: status %d, want 429", a.status)
	}
	_, _ = io.WriteString(conn, "ping\n")
	if rest, err := io.ReadAll(in); err != nil || string(rest) != "ping\n" {
		t.Errorf("echo %q, %v", rest, err)
	}
	// The connection ends before the handler has returned.
	a := ask(t, "GET", url+"/text")
	for range 1000 {
		if a.status == 200 {
			break
		}
		a = ask(t, "GET", url+"/text")
	}
	if a.status != 200 || !strings.Contains(a.header.Get("RateLimit"), `"p";r=1`) {
		t.Errorf("after a socket: %d %s", a.status, a.header.Get("RateLimit"))
	}
}

func TestSlotAfterPanic(t *testing.T) {
	store, _ := clocked(t)
	m := limited(t, store, httplimit.Config{}, policy.Config{Name: "slots", Limits: limits("1 concurrency lease 30s")})
	url := serving(t, func(e *echo.Echo) {
		e.Use(middleware.Recover(), weirecho.Middleware(m))
		e.GET("/", func(*echo.Context) error { panic("no") })
	})
	for i := range 3 {
		if a := ask(t, "GET", url); a.status != 500 {
			t.Fatalf("request %d: status %d, want 500", i, a.status)
		}
	}
}

// A request that waits is let in when its turn comes.
func TestWait(t *testing.T) {
	store, err := memstore.New(memstore.Config{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = store.Close() })
	m := limited(t, store, httplimit.Config{}, policy.Config{Name: "p", Limits: limits("100/s burst 1"), OnDenied: policy.OnDenied{Wait: time.Minute}})
	url := served(t, m, routes)
	began := time.Now()
	for range 5 {
		if a := ask(t, "GET", url+"/text"); a.status != 200 {
			t.Fatalf("status %d, want 200", a.status)
		}
	}
	if took := time.Since(began); took < 35*time.Millisecond {
		t.Errorf("five at 100/s took %v", took)
	}
}

func TestMany(t *testing.T) {
	store, _ := clocked(t)
	m := limited(t, store, httplimit.Config{}, policy.Config{Name: "p", Limits: limits("40/m")}, policy.Config{Name: "tokens", Limits: limits("1000/m"), Settle: policy.Settle{JSON: "usage.total"}})
	url := served(t, m, routes)
	var admitted, denied atomic.Int64
	var wg sync.WaitGroup
	for range 8 {
		wg.Go(func() {
			for range 10 {
				switch ask(t, "GET", url+"/json").status {
				case 200:
					admitted.Add(1)
				case 429:
					denied.Add(1)
				}
			}
		})
	}
	wg.Wait()
	if admitted.Load() != 40 || denied.Load() != 40 {
		t.Errorf("%d admitted, %d denied, want 40 and 40", admitted.Load(), denied.Load())
	}
}
