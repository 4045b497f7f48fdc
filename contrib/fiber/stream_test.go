package weirfiber_test

import (
	"bufio"
	"context"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"

	weirfiber "github.com/floodweir/weir/contrib/fiber"
	"github.com/gofiber/fiber/v3"
	"github.com/gofiber/fiber/v3/middleware/recover"
	"github.com/gofiber/fiber/v3/middleware/timeout"

	"github.com/floodweir/weir/enforce"
	"github.com/floodweir/weir/httplimit"
	"github.com/floodweir/weir/policy"
)

func slots() policy.Config {
	return policy.Config{Name: "slots", Match: policy.Match{Paths: []string{"/stream"}}, Limits: limits("1 concurrency lease 30s")}
}

// stream is a handler that flushes an event, waits for more, and sends another.
func stream(more <-chan struct{}) fiber.Handler {
	return func(c fiber.Ctx) error {
		c.Set("Content-Type", "text/event-stream")
		return c.SendStreamWriter(func(w *bufio.Writer) {
			for _, total := range []string{"1", "6"} {
				_, _ = w.WriteString("data: {\"usage\":{\"total\":" + total + "}}\n\n")
				if w.Flush() != nil {
					return
				}
				<-more
			}
		})
	}
}

// An event reaches the client while its stream goes on, and the slot is taken so long.
func TestStream(t *testing.T) {
	tokens := policy.Config{Name: "tokens", Limits: limits("20/m"), Settle: policy.Settle{JSON: "usage.total"}}
	for name, tc := range map[string]struct {
		policies []policy.Config
		left     string
	}{
		"a slot":            {[]policy.Config{slots(), {Name: "p", Limits: limits("20/m")}}, "17"},
		"a slot and tokens": {[]policy.Config{slots(), tokens}, "7"},
	} {
		t.Run(name, func(t *testing.T) {
			store, _ := clocked(t)
			more := make(chan struct{})
			url := served(t, limited(t, store, httplimit.Config{}, tc.policies...), func(app *fiber.App) {
				app.Get("/stream", stream(more))
				routes(app)
			})
			res, err := http.Get(url + "/stream")
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
			if rest, err := io.ReadAll(in); err != nil || string(rest) != "\ndata: {\"usage\":{\"total\":6}}\n\n" {
				t.Fatalf("the rest is %q, %v", rest, err)
			}
			if a := ask(t, "GET", url+"/stream"); a.status != 200 {
				t.Errorf("after a stream: status %d, want 200", a.status)
			}
			if got := remaining(t, url+"/text"); got != tc.left {
				t.Errorf("%s left, want %s", got, tc.left)
			}
		})
	}
}

// A client that goes away in the middle of a stream gives its slot back.
func TestStreamIsBrokenOff(t *testing.T) {
	store, _ := clocked(t)
	more := make(chan struct{})
	url := served(t, limited(t, store, httplimit.Config{}, slots()), func(app *fiber.App) {
		app.Get("/stream", func(c fiber.Ctx) error {
			return c.SendStreamWriter(func(w *bufio.Writer) {
				for w.Flush() == nil {
					_, _ = w.WriteString("event\n")
				}
				<-more
			})
		})
	})
	ctx, cancel := context.WithCancel(t.Context())
	r, err := http.NewRequestWithContext(ctx, "GET", url+"/stream", nil)
	if err != nil {
		t.Fatal(err)
	}
	res, err := http.DefaultClient.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	cancel()
	_ = res.Body.Close()
	close(more)
	waitFor(t, func() bool {
		res, err := http.Get(url + "/stream")
		if err != nil {
			t.Fatal(err)
		}
		_ = res.Body.Close()
		return res.StatusCode == 200
	})
}

// waitFor asks until it is so, or fails after a while.
func waitFor(t *testing.T, so func() bool) {
	t.Helper()
	until := time.Now().Add(10 * time.Second)
	for !so() {
		if time.Now().After(until) {
			t.Fatal("it did not come true")
		}
	}
}

// The file of a handler is sent whole, counted or not.
func TestFile(t *testing.T) {
	file := filepath.Join(t.TempDir(), "file.json")
	text := `{"usage":{"total":4},"text":"` + strings.Repeat("x", 300<<10) + `"}`
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	for left, settle := range map[string]policy.Settle{"8": {}, "5": {JSON: "usage.total"}, "1": {Header: "X-Cost"}} {
		store, _ := clocked(t)
		m := limited(t, store, httplimit.Config{}, policy.Config{Name: "p", Limits: limits("10/m"), Settle: settle})
		url := served(t, m, func(app *fiber.App) {
			app.Get("/file", func(c fiber.Ctx) error {
				c.Set("X-Cost", "8")
				return c.SendFile(file)
			})
			routes(app)
		})
		if a := ask(t, "GET", url+"/file"); a.status != 200 || a.body != text || a.header.Get("Content-Length") == "" {
			t.Errorf("status %d, %d bytes of %d, %v", a.status, len(a.body), len(text), a.header)
		}
		if got := remaining(t, url+"/text"); got != left {
			t.Errorf("%+v: %s left, want %s", settle, got, left)
		}
	}
}

// An error after a stream was set closes the stream, and nothing stays taken.
func TestStreamIsReplaced(t *testing.T) {
	store, _ := clocked(t)
	url := served(t, limited(t, store, httplimit.Config{}, slots()), func(app *fiber.App) {
		app.Get("/stream", func(c fiber.Ctx) error {
			if err := c.SendStream(strings.NewReader("x")); err != nil {
				return err
			}
			return fiber.ErrTeapot
		})
	})
	for i := range 3 {
		if a := ask(t, "GET", url+"/stream"); a.status != 418 {
			t.Errorf("request %d: status %d, want 418", i, a.status)
		}
	}
}

func TestHijack(t *testing.T) {
	store, _ := clocked(t)
	m := limited(t, store, httplimit.Config{}, policy.Config{Name: "slots", Limits: limits("1 concurrency lease 30s")}, failures("2/m"))
	url := served(t, m, func(app *fiber.App) {
		app.Get("/socket", func(c fiber.Ctx) error {
			c.Status(101)
			c.Set("Connection", "Upgrade")
			c.Set("Upgrade", "echo")
			c.RequestCtx().Hijack(func(conn net.Conn) { _, _ = io.CopyN(conn, conn, 5) })
			return nil
		})
		routes(app)
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
	if a := ask(t, "GET", url+"/text"); a.status != 200 || !strings.Contains(a.header.Get("RateLimit"), `"p";r=1`) {
		t.Errorf("beside a socket: %d %s", a.status, a.header.Get("RateLimit"))
	}
	_, _ = io.WriteString(conn, "ping\n")
	if line, err := in.ReadString('\n'); err != nil || line != "ping\n" {
		t.Errorf("echo %q, %v", line, err)
	}
}

// A context that a middleware sets ends what waits.
func TestContext(t *testing.T) {
	store, _ := clocked(t)
	m := limited(t, store, httplimit.Config{}, policy.Config{Name: "p", Limits: limits("2/m"), OnDenied: policy.OnDenied{Wait: time.Minute}})
	url := serving(t, func(app *fiber.App) {
		app.Use(func(c fiber.Ctx) error {
			ctx, cancel := context.WithTimeout(c.Context(), 10*time.Millisecond)
			defer cancel()
			c.SetContext(ctx)
			return c.Next()
		}, weirfiber.Middleware(m))
		routes(app)
	})
	for i, want := range []int{200, 200, 503} {
		if a := ask(t, "GET", url+"/text"); a.status != want {
			t.Errorf("request %d: status %d, want %d", i, a.status, want)
		}
	}
}

// What the middleware was configured with may panic as a handler may.
func TestObservePanics(t *testing.T) {
	store, _ := clocked(t)
	c := httplimit.Config{Observe: func(*http.Request, enforce.Event) { panic("no") }}
	m := limited(t, store, c, policy.Config{Name: "p", Limits: limits("1 concurrency lease 30s")})
	url := serving(t, func(app *fiber.App) {
		app.Use(recover.New(), weirfiber.Middleware(m))
		routes(app)
	})
	for range 2 {
		if a := ask(t, "GET", url+"/text"); a.status != 500 {
			t.Errorf("status %d, want 500", a.status)
		}
	}
}

// A handler that takes too long is answered for, and its slot is given back.
func TestTimeout(t *testing.T) {
	for _, settle := range []policy.Settle{{}, {JSON: "usage.total"}} {
		store, _ := clocked(t)
		p := failures("5/m")
		p.Settle = settle
		m := limited(t, store, httplimit.Config{}, slots(), p)
		more, left := make(chan struct{}), make(chan struct{})
		url := served(t, m, func(app *fiber.App) {
			app.Get("/stream", timeout.New(func(c fiber.Ctx) error {
				<-more
				defer func() { left <- struct{}{} }()
				return c.SendStream(strings.NewReader("late"))
			}, timeout.Config{Timeout: 10 * time.Millisecond}))
			routes(app)
		})
		for i := range 2 {
			if a := ask(t, "GET", url+"/stream"); a.status != 408 {
				t.Errorf("request %d: status %d, want 408", i, a.status)
			}
		}
		if got := remaining(t, url+"/text"); got != "2" {
			t.Errorf("%s left, want 2", got)
		}
		close(more)
		<-left
		<-left
	}
}

// A response that is thrown away, since the request ran out of time when its handlers had
// returned, keeps no slot, though nobody closes its body.
func TestStreamThrownAway(t *testing.T) {
	store, _ := clocked(t)
	m := limited(t, store, httplimit.Config{}, policy.Config{Name: "slots", Limits: limits("1 concurrency lease 30s")})
	url := serving(t, func(app *fiber.App) {
		app.Use(func(c fiber.Ctx) error {
			err := c.Next()
			if c.Response().IsBodyStream() {
				c.RequestCtx().TimeoutErrorWithCode("late", 408)
			}
			return err
		}, weirfiber.Middleware(m))
		app.Get("/", func(c fiber.Ctx) error { return c.SendStream(strings.NewReader("x")) })
	})
	for i := range 3 {
		for try := 0; ; try++ {
			status := ask(t, "GET", url).status
			if status == 408 {
				break
			}
			if status != 429 || try == 1000 {
				t.Fatalf("request %d: status %d, want 408 as soon as the slot is free", i, status)
			}
			runtime.GC()
		}
	}
}
