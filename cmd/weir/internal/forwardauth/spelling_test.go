package forwardauth_test

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"slices"
	"strings"
	"testing"

	"github.com/floodweir/weir"
	"github.com/floodweir/weir/cmd/weir/internal/forwardauth"
	"github.com/floodweir/weir/httplimit"
	"github.com/floodweir/weir/policy"
)

// A keys value is a store that admits everything and records the keys.
type keys struct{ seen []string }

func (s *keys) Do(_ context.Context, r weir.Request) (weir.Decision, error) {
	s.seen = append(s.seen, r.Key)
	return weir.Decision{OK: true, Limit: r.Limit}, nil
}

func (s *keys) DoAll(ctx context.Context, rs []weir.Request, ds []weir.Decision) (bool, error) {
	for i, r := range rs {
		ds[i], _ = s.Do(ctx, r)
	}
	return true, nil
}

// TestSpelling sends requests to a server behind the limits, and the same requests as a
// proxy describes them. Both use the same buckets, or both are refused.
func TestSpelling(t *testing.T) {
	part := func(s policy.Source, name string) policy.KeyPart { return policy.KeyPart{Source: s, Name: name} }
	limit := []weir.Limit{weir.MustLimit("1/s")}
	policies := []policy.Config{
		{Name: "all", Limits: limit, Key: []policy.KeyPart{part(policy.ClientIP, ""), part(policy.Method, ""), part(policy.Query, "q"), part(policy.Header, "X-User"), part(policy.Cookie, "c")}},
		{Name: "login", Limits: limit, Match: policy.Match{Paths: []string{"/login"}, Methods: []string{"GET"}}, Key: []policy.KeyPart{part(policy.Path, "")}},
		{Name: "files", Limits: limit, Match: policy.Match{Paths: []string{"/files/{name}", "/files/*"}}, Key: []policy.KeyPart{part(policy.Path, "")}},
		{Name: "host", Limits: limit, Match: policy.Match{Hosts: []string{"*.example", "evil"}}, Key: []policy.KeyPart{part(policy.Host, "")}},
	}
	direct, asked := &keys{}, &keys{}
	var served bool
	front := httptest.NewUnstartedServer(middleware(t, direct, policies...).Wrap(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { served = true })))
	front.Config.DisableGeneralOptionsHandler = true // as the gateway has it
	front.Start()
	defer front.Close()
	h := handler(t, forwardauth.Config{Limit: middleware(t, asked, policies...).Wrap})
	for _, line := range []string{
		"GET /login", "GET /login/", "GET //login", "GET /./login", "GET /x/../login", "GET /%6cogin", "GET /login%2f", "GET /%2flogin", "GET /x%2f..%2flogin",
		"GET /login;x=1", "GET /login?x=/other", "GET /login#x", "GET /login%3f", "GET /login%00", "GET /login%20", `GET /login\`, `GET /\login`, "GET /LOGIN", "GET ///login///",
		"GET http://a.example/login", "GET http://other/login", "GET HTTP://x/login", "GET http:///login", "GET http://a.example:80", "GET /..//login", "GET /%c0%afogin", "GET /ｌogin",
		"GET *", "OPTIONS *", "GET //evil/login", "GET ///evil", "GET //evil:80/login?q=1", "GET /?q=1", "GET /?q=1&q=1", "GET /?q=1&q=2", "GET /?q=%31", "GET /?q=1;q=2", "GET /?q", "GET ?q=1", "GET /??q=1",
		"HEAD /login", "get /login", "POST /login", "PURGE /login", "M-SEARCH /login", "G@T /login", "CONNECT a.example:443", "CONNECT /login",
		"GET login", "GET /%zz", "GET /%", "GET /files/a%2fb", "GET /files/a/b", "GET /files/%2e%2e/login", "GET /files/..%2flogin", "GET http://a.example@evil/login", "GET http://a.example%2f/login", "GET http://[::1/login", "GET http://[::1]/login",
		"GET /a%0d%0aHost:%20evil", "GET /\x7f", "GET /\xff", "GET mailto:login", "GET x://a.example/login",
	} {
		for _, host := range []string{"b.example", "B.Example.:8443", "other"} {
			method, uri, _ := strings.Cut(line, " ")
			fields := "X-User: ann\r\nCookie: c=1; d=2\r\n"
			direct.seen, asked.seen, served = nil, nil, false
			status := send(t, front.Listener.Addr().String(), line+" HTTP/1.1\r\nHost: "+host+"\r\n"+fields+"Connection: close\r\n\r\n")
			r := proxyRequest("/v1/auth", "X-Forwarded-Method", method, "X-Forwarded-Uri", uri, "X-Forwarded-Host", host,
				"X-Forwarded-For", "6.6.6.6, 127.0.0.1", "X-User", "ann", "Cookie", "c=1; d=2")
			if strings.Contains(uri, "://") && !strings.Contains(uri, ":///") || method == "CONNECT" && uri[0] != '/' {
				delete(r.Header, "X-Forwarded-Host") // of which a server reads nothing then
			}
			w := ask(h, r)
			if (w.Code == 200) != served {
				t.Errorf("%s of %s: the server answered %d, and the proxy got %d %s", line, host, status, w.Code, w.Body)
			}
			if !slices.Equal(direct.seen, asked.seen) {
				t.Errorf("%s of %s: the server asked about %q, the proxy about %q", line, host, direct.seen, asked.seen)
			}
		}
	}
}

// send sends a raw request and returns the status of the response.
func send(t *testing.T, addr, text string) int {
	t.Helper()
	conn, err := net.Dial("tcp", addr)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	if _, err := io.WriteString(conn, text); err != nil {
		t.Fatal(err)
	}
	res, err := http.ReadResponse(bufio.NewReader(conn), nil)
	if err != nil {
		t.Fatalf("%q: %v", text, err)
	}
	res.Body.Close()
	return res.StatusCode
}

// FuzzOriginal checks that any header fields are either refused with a problem document,
// or decided for one client by the policy of all requests.
func FuzzOriginal(f *testing.F) {
	f.Add("GET", "/a?b", "", "", "example.com", "192.0.2.1", "")
	f.Add("POST", "", "/a", "http://x/a", "x", "6.6.6.6, [2001:db8::1]:80", "denied=403")
	f.Add("CONNECT", "x:443", "", "", "", "unknown", "denied=401")
	f.Add("GET", "//evil/%2f\r\nHost: x", "", "", "a,b", ",", "x")
	store := &keys{}
	h := handler(f, forwardauth.Config{
		Limit:  middleware(f, store, perClient("1/s")).Wrap,
		Client: httplimit.ClientAddress{Trusted: []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8")}},
	})
	f.Fuzz(func(t *testing.T, method, uri, original, url, host, client, query string) {
		store.seen = nil
		r := proxyRequest("/v1/auth")
		r.URL.RawQuery = query
		for name, value := range map[string]string{
			"X-Forwarded-Method": method, "X-Forwarded-Uri": uri, "X-Original-Uri": original, "X-Original-Url": url,
			"X-Forwarded-Host": host, "X-Forwarded-For": client,
		} {
			r.Header[name] = []string{value}
		}
		w := ask(h, r)
		switch {
		case w.Code == 200 && len(store.seen) == 1 && strings.HasPrefix(store.seen[0], "per-client|") && store.seen[0] != "per-client|-":
		case w.Code == 400 && len(store.seen) == 0 && w.Body.Len() < 2000:
		default:
			t.Errorf("%s = %d %s about %q", fmt.Sprint(r.Header), w.Code, w.Body, store.seen)
		}
	})
}
