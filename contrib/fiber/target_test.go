package weirfiber_test

import (
	"bufio"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	weirfiber "github.com/floodweir/weir/contrib/fiber"
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

// TestTargets: however a client writes a target, what reaches the handler has been
// limited, by the path and the query that fiber goes by.
func TestTargets(t *testing.T) {
	store, _ := clocked(t)
	users := policy.Config{Name: "p", Limits: limits("9/m"), Key: []policy.KeyPart{{Source: policy.Query, Name: "user"}}}
	users.Match.Paths = []string{"/login"}
	m := limited(t, store, httplimit.Config{}, users)
	url := serving(t, func(app *fiber.App) {
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
