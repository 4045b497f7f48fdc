package main

import (
	"bufio"
	"context"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/floodweir/weir"
	"github.com/floodweir/weir/memstore"
)

func memory(t *testing.T) weir.Store {
	t.Helper()
	store, err := memstore.New(memstore.Config{Clock: func() int64 { return 1 }})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = store.Close() })
	return store
}

func TestRouter(t *testing.T) {
	h, err := router("weir.yaml", memory(t))
	if err != nil {
		t.Fatal(err)
	}
	for i, step := range []struct {
		method, target string
		status         int
		policy         string // the one that denied
	}{
		{"GET", "/reports/1", 200, ""},
		{"GET", "/reports/2", 200, ""},
		{"GET", "/reports/3", 429, "reports"},
		{"GET", "/", 200, ""},
		{"POST", "/login?password=secret", 200, ""},
		{"POST", "/login?password=a", 401, ""},
		{"POST", "/login?password=b", 401, ""},
		{"POST", "/login?password=secret", 200, ""},
		{"POST", "/login?password=c", 401, ""},
		{"POST", "/login?password=secret", 429, "login"},
		{"GET", "/nowhere", 404, ""},
	} {
		w := httptest.NewRecorder()
		h.ServeHTTP(w, httptest.NewRequest(step.method, step.target, nil))
		if w.Code != step.status {
			t.Errorf("step %d: %s %s: status %d, want %d", i, step.method, step.target, w.Code, step.status)
		}
		if step.policy != "" && !strings.Contains(w.Body.String(), `"violated-policies":["`+step.policy+`"]`) {
			t.Errorf("step %d: %s, want the policy %s", i, w.Body, step.policy)
		}
		if (step.policy != "") != (w.Header().Get("Retry-After") != "") {
			t.Errorf("step %d: Retry-After %q", i, w.Header().Get("Retry-After"))
		}
	}
}

func TestRouterNeedsItsFile(t *testing.T) {
	path := filepath.Join(t.TempDir(), "weir.yaml")
	if _, err := router(path, memory(t)); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("without a file: %v", err)
	}
	if err := os.WriteFile(path, []byte("policies: [{name: a, key: [client.ip], limits: often}]"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := router(path, memory(t)); err == nil || !strings.Contains(err.Error(), "policies[0].limits") {
		t.Errorf("with a bad file: %v, want an error that names policies[0].limits", err)
	}
}

// TestRun checks that the program says where it listens, and serves there until it is stopped.
func TestRun(t *testing.T) {
	ctx, stop := context.WithCancel(t.Context())
	out, in := io.Pipe()
	over := make(chan error, 1)
	go func() {
		err := run(ctx, in)
		_ = in.CloseWithError(err)
		over <- err
	}()
	line, err := bufio.NewReader(out).ReadString('\n')
	if err != nil {
		t.Fatal(err)
	}
	url := strings.TrimSpace(strings.TrimPrefix(line, "listening on "))
	res, err := http.Get(url)
	if err != nil {
		t.Fatal(err)
	}
	body, err := io.ReadAll(res.Body)
	_ = res.Body.Close()
	if err != nil || string(body) != "hello\n" || res.Header.Get("RateLimit") == "" {
		t.Errorf("%q, %v, %v", body, res.Header, err)
	}
	stop()
	if err := <-over; err != nil {
		t.Errorf("run = %v", err)
	}
}
