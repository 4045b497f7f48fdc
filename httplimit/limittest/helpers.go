package limittest

import (
	"io"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/floodweir/weir"
	"github.com/floodweir/weir/httplimit"
	"github.com/floodweir/weir/memstore"
	"github.com/floodweir/weir/policy"
)

// Store returns a memory store whose clock only advance changes.
func Store(t testing.TB) (s *memstore.Store, advance func(time.Duration)) {
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

// Limits parses limits.
func Limits(texts ...string) []weir.Limit {
	var ls []weir.Limit
	for _, text := range texts {
		ls = append(ls, weir.MustLimit(text))
	}
	return ls
}

// Middleware returns a middleware of policies. A policy without a key has the client's address
// as its key.
func Middleware(t testing.TB, store weir.Store, c httplimit.Config, policies ...policy.Config) *httplimit.Middleware {
	t.Helper()
	var compiled []*policy.Policy
	for _, pc := range policies {
		if pc.Key == nil {
			pc.Key = []policy.KeyPart{{Source: policy.ClientIP}}
		}
		p, err := policy.New(pc)
		if err != nil {
			t.Fatal(err)
		}
		compiled = append(compiled, p)
	}
	set, err := policy.NewSet(compiled...)
	if err != nil {
		t.Fatal(err)
	}
	m, err := httplimit.New(store, set, c)
	if err != nil {
		t.Fatal(err)
	}
	return m
}

// A ClientResponse holds a received response with its body.
type ClientResponse struct {
	Status int
	Header http.Header
	Body   string
}

// Do sends a request with header lines such as "X-Key: a". It does not follow redirects.
func Do(t testing.TB, method, url string, lines ...string) ClientResponse {
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
	return ClientResponse{res.StatusCode, res.Header, string(body)}
}

// Remaining sends a GET request, and returns X-RateLimit-Remaining of the response.
func Remaining(t testing.TB, url string) string {
	t.Helper()
	return Do(t, "GET", url).Header.Get("X-Ratelimit-Remaining")
}
