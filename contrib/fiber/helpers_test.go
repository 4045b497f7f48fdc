package weirfiber_test

import (
	"io"
	"net"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	weirfiber "github.com/floodweir/weir/contrib/fiber"
	"github.com/gofiber/fiber/v3"

	"github.com/floodweir/weir"
	"github.com/floodweir/weir/httplimit"
	"github.com/floodweir/weir/memstore"
	"github.com/floodweir/weir/policy"
)

// clocked is a memory store whose clock the test sets.
func clocked(t testing.TB) (s weir.Store, advance func(time.Duration)) {
	t.Helper()
	var now atomic.Int64
	now.Store(time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC).UnixMicro())
	store, err := memstore.New(memstore.Config{Clock: now.Load})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = store.Close() })
	return store, func(d time.Duration) { now.Add(d.Microseconds()) }
}

// limited is a middleware of policies that, unless they say otherwise, are about the
// client's address.
func limited(t testing.TB, store weir.Store, c httplimit.Config, ps ...policy.Config) *httplimit.Middleware {
	t.Helper()
	var of []*policy.Policy
	for _, one := range ps {
		if one.Key == nil {
			one.Key = []policy.KeyPart{{Source: policy.ClientIP}}
		}
		p, err := policy.New(one)
		if err != nil {
			t.Fatal(err)
		}
		of = append(of, p)
	}
	set, err := policy.NewSet(of...)
	if err != nil {
		t.Fatal(err)
	}
	m, err := httplimit.New(store, set, c)
	if err != nil {
		t.Fatal(err)
	}
	return m
}

func limits(texts ...string) []weir.Limit {
	var ls []weir.Limit
	for _, text := range texts {
		ls = append(ls, weir.MustLimit(text))
	}
	return ls
}

// served is the URL of an app behind m on a real connection.
func served(t testing.TB, m *httplimit.Middleware, routes func(*fiber.App)) string {
	t.Helper()
	return serving(t, func(e *fiber.App) {
		e.Use(weirfiber.Middleware(m))
		routes(e)
	})
}

func serving(t testing.TB, routes func(*fiber.App)) string {
	t.Helper()
	return listening(t, fiber.Config{}, routes)
}

func listening(t testing.TB, c fiber.Config, routes func(*fiber.App)) string {
	t.Helper()
	app := fiber.New(c)
	routes(app)
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	over := make(chan error, 1)
	go func() { over <- app.Listener(ln, fiber.ListenConfig{DisableStartupMessage: true}) }()
	t.Cleanup(func() {
		_ = ln.Close()
		<-over
	})
	return "http://" + ln.Addr().String()
}

// An answer is what a client got.
type answer struct {
	status int
	header http.Header
	body   string
}

// ask sends a request with header lines such as "X-Key: a", and reads the answer.
func ask(t testing.TB, method, url string, lines ...string) answer {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), method, url, nil)
	if err != nil {
		t.Fatal(err)
	}
	for _, line := range lines {
		name, value, _ := strings.Cut(line, ": ")
		r.Header.Add(name, value)
	}
	client := http.Client{CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
	res, err := client.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = res.Body.Close() }()
	body, err := io.ReadAll(res.Body)
	if err != nil {
		t.Fatal(err)
	}
	return answer{res.StatusCode, res.Header, string(body)}
}

// remaining is what X-RateLimit-Remaining says at url.
func remaining(t testing.TB, url string) string {
	t.Helper()
	return ask(t, "GET", url).header.Get("X-Ratelimit-Remaining")
}
