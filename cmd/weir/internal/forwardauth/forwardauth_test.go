package forwardauth_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"strings"
	"testing"
	"time"

	"github.com/floodweir/weir"
	"github.com/floodweir/weir/cmd/weir/internal/forwardauth"
	"github.com/floodweir/weir/httplimit"
	"github.com/floodweir/weir/memstore"
	"github.com/floodweir/weir/policy"
)

func memory(t testing.TB) weir.Store {
	t.Helper()
	store, err := memstore.New(memstore.Config{Clock: func() int64 { return 1_700_000_000_000_000 }})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { store.Close() })
	return store
}

func middleware(t testing.TB, store weir.Store, configs ...policy.Config) *httplimit.Middleware {
	t.Helper()
	var all []*policy.Policy
	for _, c := range configs {
		p, err := policy.New(c)
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, p)
	}
	set, err := policy.NewSet(all...)
	if err != nil {
		t.Fatal(err)
	}
	m, err := httplimit.New(store, set, httplimit.Config{NoResponse: true})
	if err != nil {
		t.Fatal(err)
	}
	return m
}

func handler(t testing.TB, c forwardauth.Config) *forwardauth.Handler {
	t.Helper()
	h, err := forwardauth.New(c)
	if err != nil {
		t.Fatal(err)
	}
	return h
}

// perClient returns a policy with a limit per client.
func perClient(limit string) policy.Config {
	return policy.Config{
		Name: "per-client", Key: []policy.KeyPart{{Source: policy.ClientIP}}, Limits: []weir.Limit{weir.MustLimit(limit)},
	}
}

// proxyRequest returns the request of a proxy on this machine. Fields are pairs of name
// and value; an empty value removes the field.
func proxyRequest(target string, fields ...string) *http.Request {
	r := httptest.NewRequest("GET", target, nil)
	r.RemoteAddr = "127.0.0.1:4711"
	r.Header = http.Header{"X-Forwarded-Method": {"GET"}, "X-Forwarded-Uri": {"/a"}, "X-Forwarded-For": {"192.0.2.1"}}
	for i := 0; i < len(fields); i += 2 {
		name := http.CanonicalHeaderKey(fields[i])
		if fields[i+1] == "" {
			delete(r.Header, name)
			continue
		}
		r.Header[name] = strings.Split(fields[i+1], "\n") // a line each
	}
	return r
}

func ask(h http.Handler, r *http.Request) *httptest.ResponseRecorder {
	w := httptest.NewRecorder()
	h.ServeHTTP(w, r)
	return w
}

// TestAnswers checks that a client gets the limit of its policy, and that responses carry
// the remaining quota.
func TestAnswers(t *testing.T) {
	h := handler(t, forwardauth.Config{Limit: middleware(t, memory(t), perClient("2/h")).Wrap})
	for i, want := range []struct {
		status            int
		left, retry, body string
	}{
		{200, `"per-client";r=1;t=1800`, "", ""},
		{200, `"per-client";r=0;t=3600`, "", ""},
		{429, `"per-client";r=0;t=1800`, "1800", `"violated-policies":["per-client"]`},
	} {
		w := ask(h, proxyRequest("/v1/auth"))
		if w.Code != want.status || w.Header().Get("RateLimit") != want.left || w.Header().Get("Retry-After") != want.retry ||
			!strings.Contains(w.Body.String(), want.body) || want.body == "" && w.Body.Len() != 0 || w.Header().Get("Cache-Control") != "no-store" {
			t.Errorf("request %d = %d %v %s, want %v", i+1, w.Code, w.Header(), w.Body, want)
		}
	}
	if w := ask(h, proxyRequest("/v1/auth", "X-Forwarded-For", "192.0.2.2")); w.Code != 200 {
		t.Errorf("another client = %d, want 200", w.Code)
	}
}

// TestDenied checks that a denial never has a status that admits the request, and has the
// status that the proxy requests.
func TestDenied(t *testing.T) {
	gone := storeFunc(func(weir.Request) (weir.Decision, error) { return weir.Decision{}, weir.ErrUnavailable })
	busy := storeFunc(func(weir.Request) (weir.Decision, error) {
		return weir.Decision{}, &weir.OverloadError{Reason: "busy", RetryAfter: 2500 * time.Millisecond}
	})
	for _, test := range []struct {
		name             string
		store            weir.Store
		denied           policy.OnDenied
		onError          policy.FailMode
		query            string
		status           int
		stands, location string
	}{
		{"as it is", nil, policy.OnDenied{}, "", "", 429, "", ""},
		{"for nginx", nil, policy.OnDenied{}, "", "?denied=403", 403, "429", ""},
		{"as 401", nil, policy.OnDenied{}, "", "?denied=401", 401, "429", ""},
		{"status of the policy", nil, policy.OnDenied{Status: 503, Body: "later", ContentType: "text/plain"}, "", "", 503, "", ""},
		{"status of the policy for nginx", nil, policy.OnDenied{Status: 503}, "", "?denied=403", 403, "503", ""},
		{"the same status", nil, policy.OnDenied{Status: 403}, "", "?denied=403", 403, "403", ""},
		{"a yes is no refusal", nil, policy.OnDenied{Status: 200, Body: "fallback"}, "", "", 429, "200", ""},
		{"a yes is no refusal for nginx", nil, policy.OnDenied{Status: 203, Body: "fallback"}, "", "?denied=401", 401, "203", ""},
		{"a client's query", nil, policy.OnDenied{}, "", "?denied=no&denied=200&x=%zz&;", 429, "", ""},
		{"redirect", nil, policy.OnDenied{Redirect: "/queue"}, "", "", 303, "", "/queue"},
		{"redirect for nginx", nil, policy.OnDenied{Redirect: "/queue"}, "", "?denied=403", 403, "303", "/queue"},
		{"store gone, closed", gone, policy.OnDenied{}, policy.Closed, "", 503, "", ""},
		{"store gone, closed, for nginx", gone, policy.OnDenied{}, policy.Closed, "?denied=403", 403, "503", ""},
		{"overloaded, open", busy, policy.OnDenied{}, policy.Open, "", 503, "", ""},
		{"overloaded, open, for nginx", busy, policy.OnDenied{}, policy.Open, "?denied=403", 403, "503", ""},
		{"store gone, open", gone, policy.OnDenied{}, policy.Open, "?denied=403", 200, "", ""},
	} {
		c := perClient("1/h")
		c.OnDenied, c.OnStoreError = test.denied, test.onError
		if test.store == nil {
			test.store = memory(t)
		}
		h := handler(t, forwardauth.Config{Limit: middleware(t, test.store, c).Wrap})
		ask(h, proxyRequest("/v1/auth"))
		w := ask(h, proxyRequest("/v1/auth"+test.query))
		if w.Code != test.status || w.Header().Get("Weir-Status") != test.stands || w.Header().Get("Location") != test.location {
			t.Errorf("%s: %d %v, want %d, Weir-Status %q, Location %q", test.name, w.Code, w.Header(), test.status, test.stands, test.location)
		}
		if (test.status == 200 || test.location != "") != (w.Header().Get("Retry-After") == "") {
			t.Errorf("%s: Retry-After = %q", test.name, w.Header().Get("Retry-After"))
		}
		if got := w.Header().Get("Retry-After"); strings.HasPrefix(test.name, "overloaded") {
			if got != "3" {
				t.Errorf("%s: Retry-After = %q, want 3", test.name, got)
			}
			continue
		}
		// nginx reads no body of a refusal, and closes the connection for one.
		if bare := test.status != 200 && test.query != "" && test.stands != ""; bare && (w.Body.Len() != 0 || w.Header().Get("Content-Length") != "0" || w.Header().Get("Content-Type") != "") {
			t.Errorf("%s: %v %q, want no body", test.name, w.Header(), w.Body)
		}
		if want := map[policy.FailMode]string{policy.Open: "open", policy.Closed: "closed"}[test.onError]; w.Header().Get("Weir-Degraded") != want {
			t.Errorf("%s: Weir-Degraded = %q, want %q", test.name, w.Header().Get("Weir-Degraded"), want)
		}
	}
}

// TestTrust checks which peers are trusted, and which client they name.
func TestTrust(t *testing.T) {
	networks := func(texts ...string) httplimit.ClientAddress {
		var c httplimit.ClientAddress
		for _, s := range texts {
			c.Trusted = append(c.Trusted, netip.MustParsePrefix(s))
		}
		return c
	}
	unix := httplimit.ClientAddress{TrustUnix: true}
	forwarded := networks("10.0.0.0/8")
	forwarded.Header = "Forwarded"
	for _, test := range []struct {
		name   string
		client httplimit.ClientAddress
		peer   string
		fields []string
		want   string // the client, or the status
	}{
		{"this machine, without a configuration", httplimit.ClientAddress{}, "127.0.0.1:1", []string{"X-Forwarded-For", "192.0.2.1"}, "192.0.2.1"},
		{"this machine by IPv6", httplimit.ClientAddress{}, "[::1]:1", []string{"X-Forwarded-For", "2001:db8::1"}, "2001:db8::1"},
		{"the last entry is the client", httplimit.ClientAddress{}, "127.0.0.1:1", []string{"X-Forwarded-For", "6.6.6.6, 192.0.2.1"}, "192.0.2.1"},
		{"even of this machine", httplimit.ClientAddress{}, "127.0.0.1:1", []string{"X-Forwarded-For", "6.6.6.6, 127.0.0.1"}, "127.0.0.1"},
		{"the last line", httplimit.ClientAddress{}, "127.0.0.1:1", []string{"X-Forwarded-For", "6.6.6.6\n192.0.2.1"}, "192.0.2.1"},
		{"with a port", httplimit.ClientAddress{}, "127.0.0.1:1", []string{"X-Forwarded-For", "192.0.2.1:80"}, "192.0.2.1"},
		{"mapped", httplimit.ClientAddress{}, "[::ffff:127.0.0.1]:1", []string{"X-Forwarded-For", "::ffff:192.0.2.1"}, "192.0.2.1"},
		{"another machine, without a configuration", httplimit.ClientAddress{}, "10.0.0.1:1", []string{"X-Forwarded-For", "192.0.2.1"}, "403"},
		{"a Unix socket, without a configuration", httplimit.ClientAddress{}, "@", []string{"X-Forwarded-For", "192.0.2.1"}, "403"},
		{"a trusted proxy", networks("10.0.0.0/8"), "10.0.0.1:1", []string{"X-Forwarded-For", "192.0.2.1"}, "192.0.2.1"},
		{"behind another", networks("10.0.0.0/8"), "10.0.0.1:1", []string{"X-Forwarded-For", "6.6.6.6, 192.0.2.1, 10.0.0.9"}, "192.0.2.1"},
		{"this machine, if another is trusted", networks("10.0.0.0/8"), "127.0.0.1:1", []string{"X-Forwarded-For", "192.0.2.1"}, "403"},
		{"a trusted Unix socket", unix, "@", []string{"X-Forwarded-For", "192.0.2.1"}, "192.0.2.1"},
		{"a network beside the trusted Unix socket", unix, "127.0.0.1:1", []string{"X-Forwarded-For", "192.0.2.1"}, "403"},
		{"Forwarded", forwarded, "10.0.0.1:1", []string{"X-Forwarded-For", "6.6.6.6", "Forwarded", `for=6.6.6.6, for="[2001:db8::1]:80";proto=https`}, "2001:db8::1"},
		{"Forwarded that is missing", forwarded, "10.0.0.1:1", []string{"X-Forwarded-For", "192.0.2.1"}, "400 Forwarded"},
		{"no address", httplimit.ClientAddress{}, "127.0.0.1:1", []string{"X-Forwarded-For", ""}, "400 X-Forwarded-For"},
		{"a word for an address", httplimit.ClientAddress{}, "127.0.0.1:1", []string{"X-Forwarded-For", "192.0.2.1, unknown"}, "400 X-Forwarded-For"},
		{"an empty last entry", httplimit.ClientAddress{}, "127.0.0.1:1", []string{"X-Forwarded-For", "192.0.2.1,"}, "400 X-Forwarded-For"},
		{"a word before it", httplimit.ClientAddress{}, "127.0.0.1:1", []string{"X-Forwarded-For", "unknown, 192.0.2.1"}, "192.0.2.1"},
		{"no peer", httplimit.ClientAddress{}, "", []string{"X-Forwarded-For", "192.0.2.1"}, "403"},
	} {
		got := ""
		h := handler(t, forwardauth.Config{Client: test.client, Limit: func(next http.Handler) http.Handler {
			return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				got = new(httplimit.ClientAddress).Addr(r).String()
				next.ServeHTTP(w, r)
			})
		}})
		r := proxyRequest("/v1/auth", test.fields...)
		r.RemoteAddr = test.peer
		w := ask(h, r)
		if w.Code != 200 {
			var p struct {
				Status int
				Field  string
				Detail string
			}
			if err := json.Unmarshal(w.Body.Bytes(), &p); err != nil {
				t.Fatal(err)
			}
			got = strings.TrimSuffix(fmt.Sprintf("%d %s", p.Status, p.Field), " peer")
			if p.Status == 403 && !strings.Contains(p.Detail, "http.trusted_proxies") {
				t.Errorf("%s: %s does not name the setting", test.name, w.Body)
			}
		}
		if got != test.want {
			t.Errorf("%s: the client is %s, want %s", test.name, got, test.want)
		}
	}
}

// TestUntrustedProxy checks that an untrusted proxy is logged once, and that nginx does
// not take the response for a denial.
func TestUntrustedProxy(t *testing.T) {
	var log strings.Builder
	h := handler(t, forwardauth.Config{
		Limit: middleware(t, memory(t), perClient("1/h")).Wrap,
		Log:   slog.New(slog.NewTextHandler(&log, nil)),
	})
	for range 3 {
		r := proxyRequest("/v1/auth?denied=403")
		r.RemoteAddr = "198.51.100.1:1"
		if w := ask(h, r); w.Code != 400 || !strings.Contains(w.Body.String(), "http.trusted_proxies") {
			t.Errorf("untrusted proxy = %d %s, want 400", w.Code, w.Body)
		}
	}
	if n := strings.Count(log.String(), "level=WARN"); n != 1 || !strings.Contains(log.String(), "198.51.100.1") {
		t.Errorf("the log has %d warnings: %s", n, log.String())
	}
}

func TestInvalidRequests(t *testing.T) {
	h := handler(t, forwardauth.Config{Limit: middleware(t, memory(t), perClient("1000/h")).Wrap})
	for _, test := range []struct {
		fields                 []string
		field, value, expected string
	}{
		{[]string{"X-Forwarded-Uri", ""}, "X-Forwarded-Uri", "nothing", "X-Original-URL"},
		{[]string{"X-Forwarded-Method", ""}, "X-Forwarded-Method", "nothing", "X-Original-Method"},
		{[]string{"X-Forwarded-Uri", "a"}, "X-Forwarded-Uri", "a", "as a server would accept it"},
		{[]string{"X-Forwarded-Uri", "/%zz"}, "X-Forwarded-Uri", "/%zz", "as a server would accept it"},
		{[]string{"X-Forwarded-Uri", "/a b"}, "X-Forwarded-Uri", "/a b", "as a server would accept it"},
		{[]string{"X-Forwarded-Uri", "/a\rb"}, "X-Forwarded-Uri", `/a\rb`, "as a server would accept it"},
		{[]string{"X-Forwarded-Uri", "/a HTTP/1.1\r"}, "X-Forwarded-Uri", "/a HTTP/1.1", "as a server would accept it"},
		{[]string{"X-Forwarded-Uri", "/a\n/b"}, "X-Forwarded-Uri", "/a, /b", "once"},
		{[]string{"X-Forwarded-Uri", "/" + strings.Repeat("\x01", 1000)}, "X-Forwarded-Uri", `/\x01\x01`, "as a server"},
		{[]string{"X-Original-URI", "/b"}, "X-Original-Uri", "/b", "the same as in the other field"},
		{[]string{"X-Original-URI", "/a?x=1"}, "X-Original-Uri", "/a?x=1", "the same as in the other field"},
		{[]string{"X-Original-URL", "http://x/b"}, "X-Original-Url", "http://x/b", "the same as in the other field"},
		{[]string{"X-Original-URL", "http://evil/a", "X-Forwarded-Host", "x"}, "X-Forwarded-Host", "x", "the host of X-Original-Url"},
		{[]string{"X-Forwarded-Method", "GET\nPOST"}, "X-Forwarded-Method", "GET, POST", "once"},
		{[]string{"X-Forwarded-Method", "G T"}, "X-Forwarded-Method", "G T", "a method"},
		{[]string{"X-Forwarded-Method", "GET,POST"}, "X-Forwarded-Method", "GET,POST", "a method"},
		{[]string{"X-Forwarded-Method", "é"}, "X-Forwarded-Method", `\u00e9`, "a method"},
		{[]string{"X-Original-Method", "POST"}, "X-Original-Method", "POST", "the same as in X-Forwarded-Method"},
		{[]string{"X-Forwarded-Host", "a, b"}, "X-Forwarded-Host", "a, b", "one host"},
		{[]string{"X-Forwarded-Host", "a\nb"}, "X-Forwarded-Host", "a, b", "one host"},
		{[]string{"X-Forwarded-Host", "a/b"}, "X-Forwarded-Host", "a/b", "one host"},
		{[]string{"X-Forwarded-Host", "a\r"}, "X-Forwarded-Host", `a\r`, "one host"},
	} {
		w := ask(h, proxyRequest("/v1/auth", test.fields...))
		var p struct{ Field, Value, Expected, Detail string }
		if err := json.Unmarshal(w.Body.Bytes(), &p); err != nil {
			t.Fatalf("%s: %v", w.Body, err)
		}
		if w.Code != 400 || p.Field != test.field || !strings.Contains(p.Value, test.value) || !strings.Contains(p.Expected, test.expected) || p.Detail == "" || w.Body.Len() > 1500 {
			t.Errorf("%.60q = %d %s, want 400 with %q, %q, %q", test.fields, w.Code, w.Body, test.field, test.value, test.expected)
		}
	}
	if _, err := forwardauth.New(forwardauth.Config{}); err == nil || !strings.Contains(err.Error(), "limit") {
		t.Errorf("New without a limit = %v", err)
	}
}

// TestAgreement checks that equal fields are no contradiction.
func TestAgreement(t *testing.T) {
	h := handler(t, forwardauth.Config{Limit: middleware(t, memory(t), perClient("1000/h")).Wrap})
	for _, fields := range [][]string{
		{"X-Original-URI", "/a", "X-Original-Method", "GET", "X-Original-URL", "http://x:80/a", "X-Forwarded-Host", "X"},
		{"X-Forwarded-Uri", "", "X-Original-URI", "/b?c", "X-Forwarded-Method", "", "X-Original-Method", "PURGE"},
		{"X-Forwarded-Uri", "", "X-Original-URL", "https://x/b?c"},
		{"X-Forwarded-Uri", "/a\n/a", "X-Forwarded-Host", "x\nx"},
		{"X-Forwarded-Uri", "*", "X-Forwarded-Method", "OPTIONS"},
		{"X-Forwarded-Uri", "x:443", "X-Forwarded-Method", "CONNECT"},
	} {
		if w := ask(h, proxyRequest("/v1/auth", fields...)); w.Code != 200 {
			t.Errorf("%q = %d %s, want 200", fields, w.Code, w.Body)
		}
	}
}

// TestDisconnected checks that a client that disconnects while its request waits is not
// admitted.
func TestDisconnected(t *testing.T) {
	c := perClient("1/h leaky_bucket burst 5 queue")
	h := handler(t, forwardauth.Config{Limit: middleware(t, memory(t), c).Wrap})
	ask(h, proxyRequest("/v1/auth"))
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if w := ask(h, proxyRequest("/v1/auth").WithContext(ctx)); w.Code < 300 {
		t.Errorf("a client that left = %d, want no success", w.Code)
	}
	h = handler(t, forwardauth.Config{Limit: func(http.Handler) http.Handler {
		return http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}) // as one whose client has left
	}})
	if w := ask(h, proxyRequest("/v1/auth")); w.Code != 503 {
		t.Errorf("limits that say nothing = %d, want 503", w.Code)
	}
}

// storeFunc implements weir.Store by a function.
type storeFunc func(weir.Request) (weir.Decision, error)

func (f storeFunc) Do(_ context.Context, r weir.Request) (weir.Decision, error) { return f(r) }

func (f storeFunc) DoAll(_ context.Context, rs []weir.Request, _ []weir.Decision) (bool, error) {
	return false, errors.New("not asked")
}

// TestPoliciesWithoutLimits checks the decisions of policies that block a client, or do not limit
// it.
func TestPoliciesWithoutLimits(t *testing.T) {
	c := policy.Config{Name: "closed", Block: true, Key: []policy.KeyPart{{Source: policy.ClientIP}}, Overrides: []policy.Override{{Key: []string{"192.0.2.2"}, Unlimited: true}}}
	h := handler(t, forwardauth.Config{Limit: middleware(t, memory(t), c).Wrap})
	for client, want := range map[string]int{"192.0.2.1": 429, "192.0.2.2": 200} {
		w := ask(h, proxyRequest("/v1/auth", "X-Forwarded-For", client))
		if w.Code != want || w.Header().Get("RateLimit")+w.Header().Get("Retry-After") != "" || strings.Contains(w.Body.String(), `"violated-policies":["closed"]`) != (want == 429) {
			t.Errorf("client %s: %d %v %s, want %d without fields of a limit", client, w.Code, w.Header(), w.Body, want)
		}
	}
}
