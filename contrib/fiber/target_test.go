package weirfiber_test

import (
	"bufio"
	"io"
	"net"
	"net/http"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	weirfiber "github.com/floodweir/weir/contrib/fiber"
	"github.com/floodweir/weir/httplimit/limittest"
	"github.com/gofiber/fiber/v3"

	"github.com/floodweir/weir/httplimit"
	"github.com/floodweir/weir/policy"
)

// raw sends target as it is, which no client of net/http does, and returns the status and
// what is left.
func raw(t *testing.T, url, target string) (status int, left string) {
	t.Helper()
	conn, err := net.Dial("tcp", strings.TrimPrefix(url, "http://"))
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = conn.Close() }()
	_ = conn.SetDeadline(time.Now().Add(10 * time.Second))
	if _, err := conn.Write([]byte("GET " + target + " HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n")); err != nil {
		t.Fatal(err)
	}
	res, err := http.ReadResponse(bufio.NewReader(conn), nil)
	if err != nil {
		t.Fatal(err)
	}
	_ = res.Body.Close()
	return res.StatusCode, res.Header.Get("X-Ratelimit-Remaining")
}

// TestTargets checks however a client writes a target, what reaches the handler has been
// limited, by the path and the query that fiber goes by.
func TestTargets(t *testing.T) {
	store, _ := limittest.Store(t)
	users := policy.Config{Name: "p", Limits: limittest.Limits("9/m"), Key: []policy.KeyPart{{Source: policy.Query, Name: "user"}}}
	users.Match.Paths = []string{"/login"}
	m := limittest.Middleware(t, store, httplimit.Config{}, users)
	url := serve(t, func(app *fiber.App) {
		app.Use(func(c fiber.Ctx) error {
			switch c.Path() {
			case "/old":
				c.Path("/login")
			case "/spaced":
				c.Path("/a ?b")
			}
			return c.Next()
		}, weirfiber.Middleware(m))
		app.Get("/login", func(c fiber.Ctx) error {
			if user := c.Query("user"); user != "ada" {
				return c.Status(418).SendString(user)
			}
			return nil
		})
		app.Get("/a ?b", func(c fiber.Ctx) error { return nil })
	})
	for _, tc := range []struct {
		target string
		status int
		left   string
	}{
		{"/login?user=ada", 200, "8"},
		{"/login?user=ada#1", 200, "7"},
		{"/login?user=ada#2", 200, "6"},
		{"/login/?user=ada", 200, "5"},
		{"http://a/login?user=ada#3", 200, "4"},
		{"/old?user=ada", 200, "3"},
		{"/login#?user=bob", 418, "8"},
		{"/login#1", 418, "7"},
		{"/spaced", 200, ""},
		{"/%zz", 400, ""},
	} {
		if status, left := raw(t, url, tc.target); status != tc.status || left != tc.left {
			t.Errorf("%s: status %d with %q left, want %d with %q", tc.target, status, left, tc.status, tc.left)
		}
	}
}

// TestUnreadBody checks that the body of a denied request is not read as the next request,
// also with streamed bodies.
func TestUnreadBody(t *testing.T) {
	store, _ := limittest.Store(t)
	m := limittest.Middleware(t, store, httplimit.Config{}, policy.Config{Name: "p", Limits: limittest.Limits("1/m")})
	var asked, inside atomic.Int64
	url := serveConfig(t, fiber.Config{StreamRequestBody: true}, func(app *fiber.App) {
		app.Get("/inside", func(fiber.Ctx) error {
			inside.Add(1)
			return nil
		})
		app.Use(weirfiber.Middleware(m))
		app.Post("/", func(c fiber.Ctx) error {
			asked.Add(1)
			return c.SendString(string(c.Body()[:1]))
		})
	})
	body := strings.Repeat("GET /inside HTTP/1.1\r\nHost: a\r\n\r\n", 20_000)
	for _, target := range []string{"/", "/", "/%zz"} {
		conn, err := net.Dial("tcp", strings.TrimPrefix(url, "http://"))
		if err != nil {
			t.Fatal(err)
		}
		_ = conn.SetDeadline(time.Now().Add(10 * time.Second))
		sent := make(chan error, 1)
		go func() {
			_, err := io.WriteString(conn, "POST "+target+" HTTP/1.1\r\nHost: a\r\nContent-Length: "+strconv.Itoa(len(body))+"\r\n\r\n"+body)
			sent <- err // an error if the server has enough
		}()
		in := bufio.NewReader(conn)
		res, err := http.ReadResponse(in, nil)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := io.Copy(io.Discard, res.Body); err != nil {
			t.Fatal(err)
		}
		if admitted := res.StatusCode == 200; res.Close == admitted {
			t.Errorf("%s: status %d and closes %t, want it to close what it did not read", target, res.StatusCode, res.Close)
		}
		if res.Close {
			_, _ = io.Copy(io.Discard, in) // until it is closed
		}
		<-sent
		_ = conn.Close()
	}
	if asked.Load() != 1 || inside.Load() != 0 {
		t.Errorf("%d requests and %d of their insides were answered, want 1 and none", asked.Load(), inside.Load())
	}
}
