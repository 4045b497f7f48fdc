package httpapi_test

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/floodweir/weir"
	"github.com/floodweir/weir/cmd/weir/internal/httpapi"
	"github.com/floodweir/weir/memstore"
	"github.com/floodweir/weir/policy"
)

const second = int64(1_000_000)

// frozen returns a store and its clock, which stands still.
func frozen(t testing.TB) (weir.Store, *int64) {
	t.Helper()
	now := 1_700_000_000 * second
	store, err := memstore.New(memstore.Config{Clock: func() int64 { return now }})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { store.Close() })
	return store, &now
}

func api(t testing.TB, c httpapi.Config) *httpapi.API {
	t.Helper()
	a, err := httpapi.New(c)
	if err != nil {
		t.Fatal(err)
	}
	return a
}

func ask(a http.Handler, method, path, body string) *httptest.ResponseRecorder {
	return askWith(a, method, path, body)
}

// askWith sends a request with header fields, each a name and a value.
func askWith(a http.Handler, method, path, body string, fields ...string) *httptest.ResponseRecorder {
	r := httptest.NewRequest(method, path, strings.NewReader(body))
	for i := 0; i < len(fields); i += 2 {
		r.Header.Add(fields[i], fields[i+1])
	}
	w := httptest.NewRecorder()
	a.ServeHTTP(w, r)
	return w
}

// TestVerbs plays a sequence of requests, with the clock moved between the lines.
func TestVerbs(t *testing.T) {
	store, now := frozen(t)
	a := api(t, httpapi.Config{Store: store})
	const q = `{"key":"user:42","limit":"2/s burst 4"`
	for i, step := range []struct {
		after int64 // µs
		verb  string
		body  string
		want  string // of the answer, without at
	}{
		{0, "take", q + `}`, `{"ok":true,"limit":"LIMIT","capacity":4,"granted":1,"remaining":3,"retry_after":0,"reset_after":0.5}`},
		{0, "peek", q + `,"n":4}`, `{"ok":false,"limit":"LIMIT","capacity":4,"granted":0,"remaining":3,"retry_after":0.5,"reset_after":0.5}`},
		{0, "take", q + `,"n":3}`, `{"ok":true,"limit":"LIMIT","capacity":4,"granted":3,"remaining":0,"retry_after":0,"reset_after":2}`},
		{1, "take", q + `}`, `{"ok":false,"limit":"LIMIT","capacity":4,"granted":0,"remaining":0,"retry_after":0.499999,"reset_after":1.999999}`},
		{0, "take", q + `,"n":0}`, `{"ok":true,"limit":"LIMIT","capacity":4,"granted":0,"remaining":0,"retry_after":0,"reset_after":1.999999}`},
		{0, "take", q + `,"n":5}`, `{"ok":false,"limit":"LIMIT","capacity":4,"granted":0,"remaining":0,"never":true,"reset_after":1.999999}`},
		{0, "take", q + `,"n":9223372036854775807}`, `{"ok":false,"limit":"LIMIT","capacity":4,"granted":0,"remaining":0,"never":true,"reset_after":1.999999}`},
		{499_999, "take", q + `}`, `{"ok":true,"limit":"LIMIT","capacity":4,"granted":1,"remaining":0,"retry_after":0,"reset_after":2}`},
		{0, "return", q + `,"n":2}`, `{"ok":true,"limit":"LIMIT","capacity":4,"granted":0,"remaining":2,"retry_after":0,"reset_after":1}`},
		{0, "reset", q + `}`, `{"ok":true,"limit":"LIMIT","capacity":4,"granted":0,"remaining":4,"retry_after":0,"reset_after":0}`},
	} {
		*now += step.after
		w := ask(a, "POST", "/v1/"+step.verb, step.body)
		var m map[string]any
		if err := json.Unmarshal(w.Body.Bytes(), &m); err != nil {
			t.Fatalf("step %d: %v", i, err)
		}
		at, _, _ := strings.Cut(w.Body.String(), `,"at":"`)
		step.want = strings.Replace(step.want, "LIMIT", weir.MustLimit("2/s burst 4").String(), 1)
		if got := at + "}"; w.Code != 200 || got != step.want {
			t.Errorf("step %d: %s %s = %d\n     %s\nwant %s", i, step.verb, step.body, w.Code, got, step.want)
		}
		if _, ok := m["at"]; !ok {
			t.Errorf("step %d: no at in %s", i, w.Body)
		}
		if got, want := w.Header().Get("X-RateLimit-Remaining"), fmt.Sprint(m["remaining"]); got != want {
			t.Errorf("step %d: X-RateLimit-Remaining = %q, want %q", i, got, want)
		}
	}
}

// TestSeveralLimits checks that several limits are charged all or nothing, and that each
// one is reported.
func TestSeveralLimits(t *testing.T) {
	store, _ := frozen(t)
	a := api(t, httpapi.Config{Store: store})
	const body = `{"key":"k","limits":["10/s","2/h"]}`
	var got struct {
		OK     bool
		Limit  string
		Limits []struct {
			OK        bool
			Remaining int64
		}
	}
	for i, want := range []struct {
		ok        bool
		remaining [2]int64
	}{{true, [2]int64{9, 1}}, {true, [2]int64{8, 0}}, {false, [2]int64{7, 0}}, {false, [2]int64{7, 0}}} {
		w := ask(a, "POST", "/v1/take", body)
		if err := json.Unmarshal(w.Body.Bytes(), &got); err != nil {
			t.Fatal(err)
		}
		if got.OK != want.ok || len(got.Limits) != 2 || got.Limits[1].Remaining != want.remaining[1] || got.Limit != weir.MustLimit("2/h").String() {
			t.Errorf("take %d = %s, want ok %v with %v remaining", i+1, w.Body, want.ok, want.remaining)
		}
	}
	w := ask(a, "POST", "/v1/peek", `{"key":"k","limit":"10/s","n":8}`)
	if !strings.Contains(w.Body.String(), `"ok":true`) {
		t.Errorf("the denied takes were charged to 10/s: %s", w.Body)
	}
}

// TestPolicy checks that a policy by name uses the same bucket as the gateway.
func TestPolicy(t *testing.T) {
	store, _ := frozen(t)
	per, err := policy.New(policy.Config{
		Name: "per-client", Match: policy.Match{Paths: []string{"/api/*"}}, Cost: 2,
		Key:       []policy.KeyPart{{Source: policy.ClientIP}, {Source: policy.Constant, Name: "api"}, {Source: policy.Header, Name: "X-User"}},
		Limits:    []weir.Limit{weir.MustLimit("1/s burst 5")},
		Overrides: []policy.Override{{Key: []string{"203.0.113.7", "api", "vip"}, Limits: []weir.Limit{weir.MustLimit("1/s burst 50")}}},
	})
	if err != nil {
		t.Fatal(err)
	}
	tenants, err := policy.New(policy.Config{
		Name: "per-tenant", Match: policy.Match{Hosts: []string{"*.shop.example"}, Headers: map[string][]string{"X-User": {"none"}}},
		Key: []policy.KeyPart{{Source: policy.Host}}, Limits: []weir.Limit{weir.MustLimit("1/h")},
	})
	if err != nil {
		t.Fatal(err)
	}
	set, err := policy.NewSet(per, tenants)
	if err != nil {
		t.Fatal(err)
	}
	a := api(t, httpapi.Config{Store: store, Policies: set})
	var q policy.Matches
	r := httptest.NewRequest("GET", "/api/x", nil)
	r.Header.Set("X-User", "ann")
	set.Match(&q, gatewayRequest{r})
	if len(q.Requests) != 1 {
		t.Fatalf("the gateway asks %d questions, want 1", len(q.Requests))
	}
	if _, err := store.Do(t.Context(), q.Requests[0]); err != nil {
		t.Fatal(err)
	}
	for _, step := range []struct{ body, want string }{
		{`{"policy":"per-client","key":["192.0.2.1","ann"]}`, `"remaining":1`}, // 5, less 2 at the gateway, less 2 here
		{`{"policy":"per-client","key":["192.0.2.1","ann"],"n":1}`, `"remaining":0`},
		{`{"policy":"per-client","key":["::ffff:192.0.2.1","ann"],"n":1}`, `"ok":false`},
		{`{"policy":"per-client","key":["192.0.2.1","bob"]}`, `"remaining":3`},
		{`{"policy":"per-client","key":["203.0.113.7","vip"]}`, `"remaining":48`},
		{`{"policy":"per-client","key":["192.0.2.1"]}`, `"expected":"2 parts, as policy per-client has"`},
		{`{"policy":"per-client","key":["localhost","ann"]}`, `"field":"key[0]","value":"localhost","expected":"an IP address"`},
		{`{"policy":"per-tenant","key":"a.shop.example"}`, `"ok":true`},
		{`{"policy":"per-tenant","key":"A.shop.example.:443"}`, `"ok":false`},
		{`{"policy":"per-tenant","key":"evil.example"}`, `"expected":"a key that policy per-tenant matches"`},
		{`{"policy":"other","key":"x"}`, `"field":"policy","value":"\"other\""`},
	} {
		if w := ask(a, "POST", "/v1/take", step.body); !strings.Contains(w.Body.String(), step.want) {
			t.Errorf("take %s = %d %s, want %s", step.body, w.Code, w.Body, step.want)
		}
	}
}

func TestInvalidRequests(t *testing.T) {
	store, _ := frozen(t)
	a := api(t, httpapi.Config{Store: store})
	long := strings.Repeat("k", 64<<10)
	for _, test := range []struct{ body, field, value, expected string }{
		{``, "body", "nothing", "a JSON object"},
		{`[]`, "body", "[]", "a JSON object"},
		{`{"key":"k"`, "body", "incomplete", "a JSON object"},
		{`{"key":"k","limit":"1/s"} {}`, "body", "{}", "nothing after"},
		{`{"key":"k","limit":"1/s",}`, "body", "byte", "JSON"},
		{`{"key":"k","limit":"1/s","n":NaN}`, "body", `"NaN}" at byte 30`, "JSON"},
		{`{"key":"k" "limit":"1/s"}`, "body", `at byte 12`, "JSON"},
		{"{\"key\":\"\xff\",\"limit\":\"1/s\"}", "body", "", "UTF-8"},
		{`{"key":"k","limit":"1/s","nn":1}`, "nn", "1", "a known field"},
		{`{"KEY":"k","limit":"1/s"}`, "KEY", `"k"`, "a known field"},
		{`{"key":"k","key":"l","limit":"1/s"}`, "key", "two values", "once"},
		{`{"limit":"1/s"}`, "key", "nothing", "at least 1 byte"},
		{`{"key":"","limit":"1/s"}`, "key", `""`, "at least 1 byte"},
		{`{"key":42,"limit":"1/s"}`, "key", "42", "a string"},
		{`{"key":null,"limit":"1/s"}`, "key", "null", "a string"},
		{`{"key":["a","b"],"limit":"1/s"}`, "key", "array", "a string"},
		{`{"key":[],"policy":"p"}`, "key", "[]", "one for each part"},
		{`{"key":"\ud800","limit":"1/s"}`, "key", `\ud800`, "surrogate"},
		{`{"key":"k` + long + `","limit":"1/s"}`, "key", "65537 bytes", "at most 65536 bytes"},
		{`{"key":"k"}`, "limit", "nothing", "a limit"},
		{`{"key":"k","limit":"1/s","policy":"p"}`, "limit", "policy", "one of"},
		{`{"key":"k","limit":"0/s"}`, "limit", "0/s", "a limit"},
		{`{"key":"k","limit":"-1/s"}`, "limit", "-1/s", "a limit"},
		{`{"key":"k","limit":"NaN/s"}`, "limit", "NaN/s", "a limit"},
		{`{"key":"k","limit":"1/0s"}`, "limit", "1/0s", "a limit"},
		{`{"key":"k","limit":"1/s burst 0"}`, "limit", "burst 0", "a limit"},
		{`{"key":"k","limit":"99999999999999999999/s"}`, "limit", "9999", "a limit"},
		{`{"key":"k","limit":10}`, "limit", "10", "a limit"},
		{`{"key":"k","limits":[]}`, "limits", "[]", "an array"},
		{`{"key":"k","limits":"1/s"}`, "limits", `"1/s"`, "an array"},
		{`{"key":"k","limits":["1/s","x"]}`, "limits[1]", `"x"`, "a limit"},
		{`{"key":"k","limit":"1/s","n":-1}`, "n", "-1", "a whole number from 0"},
		{`{"key":"k","limit":"1/s","n":1.5}`, "n", "1.5", "a whole number"},
		{`{"key":"k","limit":"1/s","n":1e3}`, "n", "1e3", "a whole number"},
		{`{"key":"k","limit":"1/s","n":"1"}`, "n", `"1"`, "a whole number"},
		{`{"key":"k","limit":"1/s","n":NaN}`, "body", "NaN", "JSON"},
		{`{"key":"k","limit":"1/s","n":9223372036854775808}`, "n", "9223372036854775808", "9223372036854775807"},
	} {
		w := ask(a, "POST", "/v1/take", test.body)
		var p struct{ Field, Value, Expected, Detail string }
		if err := json.Unmarshal(w.Body.Bytes(), &p); err != nil {
			t.Fatal(err)
		}
		body := fmt.Sprintf("%.80s", test.body)
		if w.Code != 400 || w.Header().Get("Content-Type") != "application/problem+json" || p.Detail == "" ||
			p.Field != test.field || !strings.Contains(p.Value, test.value) || !strings.Contains(p.Expected, test.expected) || len(w.Body.String()) > 1000 {
			t.Errorf("take %s = %d %s, want 400 with %q, %q, %q", body, w.Code, w.Body, test.field, test.value, test.expected)
		}
	}
	if w := ask(a, "POST", "/v1/reset", `{"key":"k","limit":"1/s","n":1}`); w.Code != 400 || !strings.Contains(w.Body.String(), `"field":"n"`) {
		t.Errorf("reset with n = %d %s, want 400", w.Code, w.Body)
	}
	if w := ask(a, "POST", "/v1/take", `{"key":"`+strings.Repeat("k", 1<<20)+`"}`); w.Code != 413 || !strings.Contains(w.Body.String(), "at most 1048576 bytes") {
		t.Errorf("a body of 1 MiB = %d %s, want 413", w.Code, w.Body)
	}
}

// TestOddKeys checks that keys with special characters are ordinary keys.
func TestOddKeys(t *testing.T) {
	store, _ := frozen(t)
	a := api(t, httpapi.Config{Store: store})
	for _, key := range []string{`{}`, `a:b`, `a\nb`, `\u0000`, `😀`, `\ud83d\ude00!`, `\ufffd`, "\uFFFD!", `{user}:1`, " "} {
		body := `{"key":"` + key + `","limit":"1/h"}`
		first, again := ask(a, "POST", "/v1/take", body), ask(a, "POST", "/v1/take", body)
		if !strings.Contains(first.Body.String(), `"ok":true`) || !strings.Contains(again.Body.String(), `"ok":false`) {
			t.Errorf("key %s: first %s, again %s", key, first.Body, again.Body)
		}
	}
}

func TestMethodsAndPaths(t *testing.T) {
	store, _ := frozen(t)
	a := api(t, httpapi.Config{Store: store})
	for _, test := range []struct {
		method, path string
		status       int
	}{
		{"GET", "/v1/take", 405}, {"PUT", "/v1/reset", 405}, {"GET", "/", 404}, {"POST", "/v1/none", 404},
		{"GET", "/healthz", 200}, {"GET", "/readyz", 200},
	} {
		if w := ask(a, test.method, test.path, ""); w.Code != test.status {
			t.Errorf("%s %s = %d, want %d", test.method, test.path, w.Code, test.status)
		}
	}
}

// TestPages checks that a web page cannot consume the limits of its reader, also by a
// name that it points at this address.
func TestPages(t *testing.T) {
	store, _ := frozen(t)
	a := api(t, httpapi.Config{Store: store})
	for _, test := range []struct {
		host, header, value string
		status              int
	}{
		{"127.0.0.1:8080", "Sec-Fetch-Site", "cross-site", 403},
		{"127.0.0.1:8080", "Origin", "http://evil.example", 403},
		{"127.0.0.1:8080", "Origin", "null", 403},
		{"evil.example:8080", "Origin", "http://evil.example:8080", 403},
		{"evil.example:8080", "Sec-Fetch-Site", "same-origin", 403},
		{"localhost.evil.example", "Origin", "http://localhost.evil.example", 403},
		{"", "Origin", "http://", 403},
		{"127.0.0.1:8080", "Origin", "http://127.0.0.1:8080", 200},
		{"[::1]:8080", "Origin", "http://[::1]:8080", 200},
		{"Localhost:8080", "Sec-Fetch-Site", "same-origin", 200},
		{"weir.internal:8080", "User-Agent", "curl", 200},
	} {
		r := httptest.NewRequest("POST", "/v1/peek", strings.NewReader(`{"key":"k","limit":"1/s"}`))
		r.Host = test.host
		r.Header.Set(test.header, test.value)
		w := httptest.NewRecorder()
		a.ServeHTTP(w, r)
		if w.Code != test.status {
			t.Errorf("%s: %s at %q = %d, want %d", test.header, test.value, test.host, w.Code, test.status)
		}
	}
}

func TestReady(t *testing.T) {
	store, _ := frozen(t)
	checks := []httpapi.Check{{Name: "store", OK: true, Detail: "memory"}}
	a := api(t, httpapi.Config{Store: store, Ready: func(context.Context) []httpapi.Check { return checks }})
	if w := ask(a, "GET", "/readyz", ""); w.Code != 200 || w.Body.String() != `{"ready":true,"checks":[{"name":"store","ok":true,"detail":"memory"}]}`+"\n" {
		t.Errorf("readyz = %d %s", w.Code, w.Body)
	}
	checks[0] = httpapi.Check{Name: "store", Detail: "gone"}
	if w := ask(a, "GET", "/readyz", ""); w.Code != 503 || w.Body.String() != `{"ready":false,"checks":[{"name":"store","ok":false,"detail":"gone"}]}`+"\n" {
		t.Errorf("readyz = %d %s", w.Code, w.Body)
	}
	if w := ask(a, "GET", "/healthz", ""); w.Code != 200 {
		t.Errorf("healthz = %d, want 200: the process is alive", w.Code)
	}
	checks[0] = httpapi.Check{Name: "policies", Warn: true, Detail: "the last reload failed"}
	if w := ask(a, "GET", "/readyz", ""); w.Code != 200 || w.Body.String() != `{"ready":true,"checks":[{"name":"policies","ok":false,"warn":true,"detail":"the last reload failed"}]}`+"\n" {
		t.Errorf("readyz with a warning = %d %s", w.Code, w.Body)
	}
}

// TestStoreUnavailable checks that the log has the error of the store, and the client has
// not.
func TestStoreUnavailable(t *testing.T) {
	var log strings.Builder
	gone := storeFunc(func(weir.Request) (weir.Decision, error) {
		return weir.Decision{}, fmt.Errorf("redis at 10.0.0.1: %w", weir.ErrUnavailable)
	})
	a := api(t, httpapi.Config{Store: gone, Log: slog.New(slog.NewTextHandler(&log, nil))})
	for _, body := range []string{`{"key":"k","limit":"1/s"}`, `{"key":"k","limits":["1/s","2/s"]}`} {
		w := ask(a, "POST", "/v1/take", body)
		if w.Code != 503 || strings.Contains(w.Body.String(), "10.0.0.1") || w.Header().Get("Retry-After") == "" {
			t.Errorf("take = %d %s, want 503 without the address", w.Code, w.Body)
		}
	}
	if !strings.Contains(log.String(), "10.0.0.1") {
		t.Errorf("log = %s, want the cause", log.String())
	}
}

// TestOverload checks the response to a request that this process is too busy to decide.
func TestOverload(t *testing.T) {
	busy := storeFunc(func(weir.Request) (weir.Decision, error) {
		return weir.Decision{}, fmt.Errorf("store: %w", &weir.OverloadError{Reason: "busy", RetryAfter: 2500 * time.Millisecond})
	})
	a := api(t, httpapi.Config{Store: busy})
	w := ask(a, "POST", "/v1/take", `{"key":"k","limit":"1/s"}`)
	if w.Code != 503 || w.Header().Get("Retry-After") != "3" || !strings.Contains(w.Body.String(), "overloaded") {
		t.Errorf("take = %d, Retry-After %q, %s, want 503, 3 and the reason", w.Code, w.Header().Get("Retry-After"), w.Body)
	}
}

// TestStoreUnavailableLog checks that the log has one line per second, however many
// requests fail.
func TestStoreUnavailableLog(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var log strings.Builder
		gone := storeFunc(func(weir.Request) (weir.Decision, error) { return weir.Decision{}, weir.ErrUnavailable })
		a := api(t, httpapi.Config{Store: gone, Log: slog.New(slog.NewTextHandler(&log, nil))})
		for range 3 {
			for range 100 {
				ask(a, "POST", "/v1/take", `{"key":"k","limit":"1/s"}`)
			}
			<-time.After(time.Second)
		}
		if n := strings.Count(log.String(), "\n"); n != 3 {
			t.Errorf("300 questions in 3 seconds: %d lines, want 3", n)
		}
	})
}

type storeFunc func(weir.Request) (weir.Decision, error)

func (f storeFunc) Do(_ context.Context, r weir.Request) (weir.Decision, error) { return f(r) }

func (f storeFunc) DoAll(_ context.Context, rs []weir.Request, ds []weir.Decision) (bool, error) {
	d, err := f(rs[0])
	return d.OK, err
}

func FuzzRequest(f *testing.F) {
	f.Add(`{"key":"k","limit":"10/s burst 20","n":3}`)
	f.Add(`{"key":["a","b"],"policy":"p"}`)
	f.Add(`{"key":"\ud800","limits":["1/s","5000/24h"],"n":-0}`)
	store, err := memstore.New(memstore.Config{Clock: func() int64 { return 1 }})
	if err != nil {
		f.Fatal(err)
	}
	a, err := httpapi.New(httpapi.Config{Store: store})
	if err != nil {
		f.Fatal(err)
	}
	f.Fuzz(func(t *testing.T, body string) {
		w := ask(a, "POST", "/v1/take", body)
		data, _ := io.ReadAll(w.Body)
		if w.Code != 200 && w.Code != 400 || !json.Valid(data) {
			t.Errorf("take %q = %d %s", body, w.Code, data)
		}
	})
}
