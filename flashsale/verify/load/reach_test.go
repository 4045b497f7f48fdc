package load_test

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/floodweir/weir/flashsale/verify/load"
)

// TestReach checks that a run without a shop or a sale fails before it starts.
func TestReach(t *testing.T) {
	var asked atomic.Value
	responds := func(status int, body string) string {
		srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			asked.Store(r.Method + " " + r.URL.Path)
			w.WriteHeader(status)
			io.WriteString(w, body)
		}))
		t.Cleanup(srv.Close)
		return srv.URL
	}
	listens := func(greeting string) string {
		return listen(t, func(c net.Conn) {
			io.WriteString(c, greeting)
			t.Cleanup(func() { c.Close() })
		})
	}
	srv := httptest.NewServer(http.NotFoundHandler())
	closed := srv.URL
	srv.Close()
	for _, c := range []struct{ name, url, want string }{
		{"a view", responds(200, `{"id":"s1"}`), ""},
		{"a limit", responds(429, `{}`), ""},
		{"a shop that recovers", responds(503, `{}`), ""},
		{"another sale", responds(404, `{}`), `load: sale "s1": want the ID of a sale at `},
		{"a proxy without a shop", responds(502, `<html>`), "got status 502 from a proxy without one"},
		{"an office", responds(401, `{}`), "want a shop with public sales, got status 401"},
		{"another server", responds(200, `<html>`), "got a response that is not a sale"},
		{"nothing", closed, fmt.Sprintf("load: url %q: no response: connection refused", closed)},
		{"no HTTP", listens("-ERR unknown command\r\n\r\n"), "no response: invalid HTTP response"},
		{"silent", listens(""), "no response: timeout"},
		{"no URL", "nowhere", `load: url "nowhere": want http://HOST:PORT`},
	} {
		within := time.Minute
		if c.name == "silent" {
			within = time.Second
		}
		ctx, cancel := context.WithTimeout(t.Context(), within)
		err := load.Reach(ctx, load.Config{URL: c.url, Sale: "s1", Users: 1})
		cancel()
		if c.want == "" && err != nil || c.want != "" && (err == nil || !strings.Contains(err.Error(), c.want) || strings.Contains(err.Error(), "\n")) {
			t.Errorf("%s: %v, want %q", c.name, err, c.want)
		}
	}
	if got := asked.Load(); got != "GET /api/sales/s1" {
		t.Errorf("requested %v", got)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := load.Reach(ctx, load.Config{URL: closed, Sale: "s1"}); err == nil || !strings.Contains(err.Error(), "before the start") {
		t.Errorf("interrupted: %v", err)
	}
}

// TestProcesses checks that a process which does not exist is an error.
func TestProcesses(t *testing.T) {
	for _, pid := range []int{0, -1, 1 << 30} {
		_, err := load.Run(t.Context(), load.Config{URL: "http://127.0.0.1:1", Sale: "s1", Users: 1, Duration: time.Millisecond, Processes: map[string]int{"shop": pid}})
		if want := fmt.Sprintf("load: processes shop=%d: want the ID of a process of this machine", pid); err == nil || !strings.HasPrefix(err.Error(), want) {
			t.Errorf("%v, want %s", err, want)
		}
	}
}
