package gateway_test

import (
	"bufio"
	"context"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"net/url"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/floodweir/weir/cmd/weir/internal/gateway"
	"github.com/floodweir/weir/httplimit"
	"github.com/floodweir/weir/plainhttp"
)

// patient bounds the time of everything in a test.
const patient = time.Minute

// aloneVariable makes start serve with an http.Server alone, as with TLS.
const aloneVariable = "WEIR_TEST_HTTP_SERVER_ALONE"

// TestHTTPServerAlone runs all tests of this package with an http.Server alone.
func TestHTTPServerAlone(t *testing.T) {
	if os.Getenv(aloneVariable) != "" {
		return // this is the inner run
	}
	t.Parallel()
	cmd := exec.CommandContext(t.Context(), os.Args[0], "-test.short="+strconv.FormatBool(testing.Short()))
	cmd.Env = append(os.Environ(), aloneVariable+"=1")
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Errorf("%v\n%s", err, out)
	}
}

// start serves a gateway with h2c and returns its URL.
func start(t *testing.T, c gateway.Config) string {
	t.Helper()
	return serve(t, c, os.Getenv(aloneVariable) == "")
}

// serve does that with a Listener for plain requests, or with an http.Server alone.
func serve(t *testing.T, c gateway.Config, plain bool) string {
	t.Helper()
	g, err := gateway.New(c)
	if err != nil {
		t.Fatal(err)
	}
	s := httptest.NewUnstartedServer(g)
	s.Config.DisableGeneralOptionsHandler = true
	s.Config.Protocols = new(http.Protocols)
	s.Config.Protocols.SetHTTP1(true)
	s.Config.Protocols.SetUnencryptedHTTP2(true)
	if plain {
		l := plainhttp.Listen(s.Config, s.Listener, plainhttp.Config{})
		s.Listener = l
		t.Cleanup(func() {
			ctx, cancel := context.WithCancel(context.Background())
			cancel()
			l.Shutdown(ctx)
		})
	}
	s.Start()
	t.Cleanup(func() { s.Close(); g.Close() })
	return s.URL
}

func upstream(t *testing.T, h http.HandlerFunc) string {
	t.Helper()
	s := httptest.NewServer(h)
	t.Cleanup(s.Close)
	return s.URL
}

func to(urls ...string) (routes []gateway.Route) {
	for _, u := range urls {
		routes = append(routes, gateway.Route{Upstream: u})
	}
	return routes
}

func do(t *testing.T, r *http.Request) (*http.Response, string) {
	t.Helper()
	c := &http.Client{Timeout: patient, CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
	defer c.CloseIdleConnections()
	res, err := c.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	body, err := io.ReadAll(res.Body)
	if err != nil {
		t.Fatal(err)
	}
	return res, string(body)
}

func request(t *testing.T, method, url string, body io.Reader, header ...string) *http.Request {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patient)
	t.Cleanup(cancel)
	r, err := http.NewRequestWithContext(ctx, method, url, body)
	if err != nil {
		t.Fatal(err)
	}
	for i := 0; i < len(header); i += 2 {
		r.Header.Add(header[i], header[i+1])
	}
	return r
}

func get(t *testing.T, url string, header ...string) (*http.Response, string) {
	t.Helper()
	return do(t, request(t, "GET", url, nil, header...))
}

func trust(prefix string) httplimit.ClientAddress {
	return httplimit.ClientAddress{Trusted: []netip.Prefix{netip.MustParsePrefix(prefix)}}
}

func TestForwardedHeaders(t *testing.T) {
	forwarded := trust("127.0.0.0/8")
	forwarded.Header = "Forwarded"
	var seen http.Header
	var host string
	up := upstream(t, func(w http.ResponseWriter, r *http.Request) { seen, host = r.Header, r.Host })
	forged := []string{
		"X-Forwarded-For", "6.6.6.6", "X-Forwarded-Proto", "https", "X-Forwarded-Host", "evil.example", "Forwarded", "for=7.7.7.7",
		"X-Real-Ip", "6.6.6.6", "Connection", "X-Forwarded-For, X-Secret", "X-Secret", "1", "Keep-Alive", "5", "Te", "gzip",
	}
	for _, test := range []struct {
		name   string
		client httplimit.ClientAddress
		want   map[string]string
	}{
		{"untrusted", httplimit.ClientAddress{}, map[string]string{
			"X-Forwarded-For": "127.0.0.1", "X-Forwarded-Proto": "http", "X-Forwarded-Host": "GATEWAY",
			"Forwarded": "", "X-Real-Ip": "", "X-Secret": "", "Keep-Alive": "", "Te": "", "User-Agent": "",
		}},
		{"trusted", trust("127.0.0.0/8"), map[string]string{
			"X-Forwarded-For": "6.6.6.6, 127.0.0.1", "X-Forwarded-Proto": "https", "X-Forwarded-Host": "evil.example",
			"Forwarded": "", "X-Real-Ip": "6.6.6.6", "X-Secret": "",
		}},
		{"trusted in Forwarded", forwarded, map[string]string{
			"X-Forwarded-For": "7.7.7.7, 127.0.0.1", "X-Forwarded-Proto": "http", "X-Forwarded-Host": "GATEWAY",
			"Forwarded": "for=7.7.7.7 | for=127.0.0.1", "X-Real-Ip": "",
		}},
		{"another is trusted", trust("10.0.0.0/8"), map[string]string{"X-Forwarded-For": "127.0.0.1", "Forwarded": ""}},
	} {
		t.Run(test.name, func(t *testing.T) {
			gw := start(t, gateway.Config{Routes: to(up), Client: test.client})
			get(t, gw, append(forged, "User-Agent", "")...)
			for name, want := range test.want {
				want = strings.ReplaceAll(want, "GATEWAY", strings.TrimPrefix(gw, "http://"))
				if got := strings.Join(seen[name], " | "); got != want {
					t.Errorf("%s = %q, want %q", name, got, want)
				}
			}
			if want := strings.TrimPrefix(up, "http://"); host != want {
				t.Errorf("Host = %q, want the upstream's %q", host, want)
			}
		})
	}
}

func TestPassHost(t *testing.T) {
	up := upstream(t, func(w http.ResponseWriter, r *http.Request) { io.WriteString(w, r.Host) })
	gw := start(t, gateway.Config{Routes: []gateway.Route{{Upstream: up, PassHost: true}}})
	r := request(t, "GET", gw, nil)
	r.Host = "shop.example"
	if _, body := do(t, r); body != "shop.example" {
		t.Errorf("Host = %q, want the client's", body)
	}
}

func TestRouting(t *testing.T) {
	name := func(name string) string {
		return upstream(t, func(w http.ResponseWriter, r *http.Request) { io.WriteString(w, name+" "+r.RequestURI) })
	}
	a, b, c, d := name("a"), name("b"), name("c"), name("d")
	gw := start(t, gateway.Config{Routes: []gateway.Route{
		{Path: "/api", Upstream: a}, {Path: "/api/v2", Upstream: b + "/base"}, {Host: "shop.example", Upstream: c}, {Host: "shop.example", Path: "/api", Upstream: d},
	}})
	for _, test := range []struct {
		host, path string
		status     int
		body       string
	}{
		{"", "/api", 200, "a /api"},
		{"", "/api/x?q=1;2&ok=3", 200, "a /api/x?ok=3"}, // a query that parsers read differently does not pass
		{"", "/api/v2/x", 200, "b /base/api/v2/x"},
		{"", "/api/v22", 200, "a /api/v22"},
		{"", "//api//v2", 200, "b /base//api//v2"},
		{"", "/api%2fv2/%41", 200, "b /base/api%2fv2/%41"},
		{"", "/apix", 404, ""},
		{"", "/", 404, ""},
		{"SHOP.example.:8000", "/apix", 200, "c /apix"},
		{"shop.example", "/api/x", 200, "d /api/x"},
		{"", "/api/%2e%2e/secret", 400, ""},
		{"", "/api/..%2f..%2fsecret", 400, ""},
		{"", "/api/...", 200, "a /api/..."},
		{"", "/api/.hidden", 200, "a /api/.hidden"},
	} {
		r := request(t, "GET", gw, nil)
		r.URL.Opaque = test.path
		if path, query, ok := strings.Cut(test.path, "?"); ok {
			r.URL.Opaque, r.URL.RawQuery = path, query
		}
		if strings.HasPrefix(r.URL.Opaque, "//") { // or the client would take it for a host
			r.URL = &url.URL{Scheme: "http", Host: r.URL.Host, Path: test.path}
		}
		if test.host != "" {
			r.Host = test.host
		}
		res, body := do(t, r)
		if res.StatusCode != test.status || test.status == 200 && body != test.body {
			t.Errorf("%s%s = %d %q, want %d %q", test.host, test.path, res.StatusCode, body, test.status, test.body)
		}
	}
}

func TestConnectIsRefused(t *testing.T) {
	gw := start(t, gateway.Config{Routes: to("http://127.0.0.1:1")})
	conn := dial(t, gw)
	io.WriteString(conn, "CONNECT 127.0.0.1:1 HTTP/1.1\r\nHost: 127.0.0.1:1\r\n\r\n")
	res, err := http.ReadResponse(bufio.NewReader(conn), nil)
	if err != nil || res.StatusCode != 405 {
		t.Errorf("CONNECT = %v, %v, want 405", res, err)
	}
}

func dial(t *testing.T, url string) net.Conn {
	t.Helper()
	conn, err := net.DialTimeout("tcp", strings.TrimPrefix(url, "http://"), patient)
	if err != nil {
		t.Fatal(err)
	}
	conn.SetDeadline(time.Now().Add(patient))
	t.Cleanup(func() { conn.Close() })
	return conn
}

func TestRequestID(t *testing.T) {
	up := upstream(t, func(w http.ResponseWriter, r *http.Request) { io.WriteString(w, r.Header.Get("X-Request-Id")) })
	stranger := start(t, gateway.Config{Routes: to(up), RequestID: true})
	res, body := get(t, stranger, "X-Request-Id", "mine")
	if id := res.Header.Get("X-Request-Id"); id == "" || id == "mine" || id != body {
		t.Errorf("ids = %q, %q, want one new id", id, body)
	}
	trusted := start(t, gateway.Config{Routes: to(up), RequestID: true, Client: trust("127.0.0.1/32")})
	res, body = get(t, trusted, "X-Request-Id", "mine")
	if id := res.Header.Get("X-Request-Id"); id != "mine" || body != "mine" {
		t.Errorf("ids = %q, %q, want mine", id, body)
	}
}

func TestAccessLog(t *testing.T) {
	up := upstream(t, func(w http.ResponseWriter, r *http.Request) { w.WriteHeader(418); io.WriteString(w, "tea") })
	var log lines
	debug := slog.New(slog.NewTextHandler(&log, &slog.HandlerOptions{Level: slog.LevelDebug}))
	g, err := gateway.New(gateway.Config{Routes: to(up), AccessLog: 3, Log: debug})
	if err != nil {
		t.Fatal(err)
	}
	for range 7 {
		g.ServeHTTP(httptest.NewRecorder(), httptest.NewRequest("GET", "/pot", nil))
	}
	text := log.String()
	if n := strings.Count(text, "msg=request"); n != 2 || !strings.Contains(text, "path=/pot") || !strings.Contains(text, "status=418 bytes=3") {
		t.Errorf("7 requests, one of 3 logged: %s", text)
	}
}

func TestBadConfig(t *testing.T) {
	ok := gateway.Route{Upstream: "http://127.0.0.1:1"}
	for want, c := range map[string]gateway.Config{
		"want at least one":           {},
		`"ftp://x": want http://`:     {Routes: to("ftp://x")},
		`"http://": want a host`:      {Routes: to("http://")},
		`"": want http://`:            {Routes: to("")},
		"only a scheme":               {Routes: to("http://u:p@x")},
		"two for \"/\"":               {Routes: []gateway.Route{ok, ok}},
		"begins with a slash":         {Routes: []gateway.Route{{Path: "api", Upstream: ok.Upstream}}},
		"does not end in one":         {Routes: []gateway.Route{{Path: "/api/", Upstream: ok.Upstream}}},
		"without empty, . and ..":     {Routes: []gateway.Route{{Path: "/a/../b", Upstream: ok.Upstream}}},
		"lower case without port":     {Routes: []gateway.Route{{Host: "Shop:80", Upstream: ok.Upstream}}},
		"want a timeout":              {Routes: []gateway.Route{{Timeout: -1, Upstream: ok.Upstream}}},
		"0 or more requests per line": {Routes: []gateway.Route{ok}, AccessLog: -1},
	} {
		_, err := gateway.New(c)
		if err == nil || !strings.Contains(err.Error(), want) || strings.Contains(err.Error(), "u:p") {
			t.Errorf("New = %v, want an error with %q", err, want)
		}
	}
}
