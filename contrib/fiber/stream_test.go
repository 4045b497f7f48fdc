package weirfiber_test

import (
	"bufio"
	"context"
	"net/http"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	weirfiber "github.com/floodweir/weir/contrib/fiber"
	"github.com/floodweir/weir/httplimit/limittest"
	"github.com/gofiber/fiber/v3"
	"github.com/gofiber/fiber/v3/middleware/recover"
	"github.com/gofiber/fiber/v3/middleware/timeout"

	"github.com/floodweir/weir/enforce"
	"github.com/floodweir/weir/httplimit"
	"github.com/floodweir/weir/policy"
)

func slots() policy.Config {
	return policy.Config{Name: "slots", Match: policy.Match{Paths: []string{"/stream"}}, Limits: limittest.Limits("1 concurrency lease 30s")}
}

// TestStreamIsBrokenOff checks that a client that disconnects during a stream returns its
// slot.
func TestStreamIsBrokenOff(t *testing.T) {
	store, _ := limittest.Store(t)
	more := make(chan struct{})
	url := served(t, limittest.Middleware(t, store, httplimit.Config{}, slots()), func(app *fiber.App) {
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

// TestFile checks that a file is sent whole, with and without a policy that counts by the
// response.
func TestFile(t *testing.T) {
	file := filepath.Join(t.TempDir(), "file.json")
	text := `{"usage":{"total":4},"text":"` + strings.Repeat("x", 300<<10) + `"}`
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	for left, settle := range map[string]policy.Settle{"8": {}, "5": {JSON: "usage.total"}, "1": {Header: "X-Cost"}} {
		store, _ := limittest.Store(t)
		m := limittest.Middleware(t, store, httplimit.Config{}, policy.Config{Name: "p", Limits: limittest.Limits("10/m"), Settle: settle})
		url := served(t, m, func(app *fiber.App) {
			app.Get("/file", func(c fiber.Ctx) error {
				c.Set("X-Cost", "8")
				return c.SendFile(file)
			})
			textRoute(app)
		})
		if a := limittest.Do(t, "GET", url+"/file"); a.Status != 200 || a.Body != text || a.Header.Get("Content-Length") == "" {
			t.Errorf("status %d, %d bytes of %d, %v", a.Status, len(a.Body), len(text), a.Header)
		}
		if got := limittest.Remaining(t, url+"/text"); got != left {
			t.Errorf("%+v: %s left, want %s", settle, got, left)
		}
	}
}

// TestStreamIsReplaced checks that an error after a stream was set closes the stream and
// returns its slot.
func TestStreamIsReplaced(t *testing.T) {
	store, _ := limittest.Store(t)
	url := served(t, limittest.Middleware(t, store, httplimit.Config{}, slots()), func(app *fiber.App) {
		app.Get("/stream", func(c fiber.Ctx) error {
			if err := c.SendStream(strings.NewReader("x")); err != nil {
				return err
			}
			return fiber.ErrTeapot
		})
	})
	for i := range 3 {
		if a := limittest.Do(t, "GET", url+"/stream"); a.Status != 418 {
			t.Errorf("request %d: status %d, want 418", i, a.Status)
		}
	}
}

// TestContext checks that the context that a middleware sets ends a wait. Only the request that
// waits has a deadline, so a slow machine does not end the others.
func TestContext(t *testing.T) {
	store, _ := limittest.Store(t)
	m := limittest.Middleware(t, store, httplimit.Config{}, policy.Config{Name: "p", Limits: limittest.Limits("2/m"), OnDenied: policy.OnDenied{Wait: time.Minute}})
	var requests atomic.Int64
	url := serve(t, func(app *fiber.App) {
		app.Use(func(c fiber.Ctx) error {
			if requests.Add(1) == 3 {
				ctx, cancel := context.WithTimeout(c.Context(), 100*time.Millisecond)
				defer cancel()
				c.SetContext(ctx)
			}
			return c.Next()
		}, weirfiber.Middleware(m))
		textRoute(app)
	})
	for i, want := range []int{200, 200, 503} {
		if a := limittest.Do(t, "GET", url+"/text"); a.Status != want {
			t.Errorf("request %d: status %d, want %d", i, a.Status, want)
		}
	}
}

// TestObservePanics checks that a panic of Observe is handled as that of a handler.
func TestObservePanics(t *testing.T) {
	store, _ := limittest.Store(t)
	c := httplimit.Config{Observe: func(*http.Request, enforce.Event) { panic("no") }}
	m := limittest.Middleware(t, store, c, policy.Config{Name: "p", Limits: limittest.Limits("1 concurrency lease 30s")})
	url := serve(t, func(app *fiber.App) {
		app.Use(recover.New(), weirfiber.Middleware(m))
		textRoute(app)
	})
	for range 2 {
		if a := limittest.Do(t, "GET", url+"/text"); a.Status != 500 {
			t.Errorf("status %d, want 500", a.Status)
		}
	}
}

// TestTimeout checks that a handler that takes too long is answered by the timeout, and
// returns its slot.
func TestTimeout(t *testing.T) {
	for _, settle := range []policy.Settle{{}, {JSON: "usage.total"}} {
		store, _ := limittest.Store(t)
		p := failures("5/m")
		p.Settle = settle
		m := limittest.Middleware(t, store, httplimit.Config{}, slots(), p)
		more, left := make(chan struct{}), make(chan struct{})
		url := served(t, m, func(app *fiber.App) {
			app.Get("/stream", timeout.New(func(c fiber.Ctx) error {
				<-more
				defer func() { left <- struct{}{} }()
				return c.SendStream(strings.NewReader("late"))
			}, timeout.Config{Timeout: 10 * time.Millisecond}))
			textRoute(app)
		})
		for i := range 2 {
			if a := limittest.Do(t, "GET", url+"/stream"); a.Status != 408 {
				t.Errorf("request %d: status %d, want 408", i, a.Status)
			}
		}
		if got := limittest.Remaining(t, url+"/text"); got != "2" {
			t.Errorf("%s left, want 2", got)
		}
		close(more)
		<-left
		<-left
	}
}

// TestStreamThrownAway checks that a response that a timeout discards after its handlers
// returned holds no slot, although its body is not closed.
func TestStreamThrownAway(t *testing.T) {
	store, _ := limittest.Store(t)
	m := limittest.Middleware(t, store, httplimit.Config{}, policy.Config{Name: "slots", Limits: limittest.Limits("1 concurrency lease 30s")})
	url := serve(t, func(app *fiber.App) {
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
			status := limittest.Do(t, "GET", url).Status
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
