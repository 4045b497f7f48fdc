package gateway_test

import (
	"bufio"
	"bytes"
	"context"
	"crypto/x509"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"net/url"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/floodweir/weir/cmd/weir/internal/gateway"
)

// patient is a time within which everything in a test happens, or has failed.
const patient = 10 * time.Second

// start serves a gateway with h2c and returns its URL.
func start(t *testing.T, c gateway.Config) string {
	t.Helper()
	g, err := gateway.New(c)
	if err != nil {
		t.Fatal(err)
	}
	s := httptest.NewUnstartedServer(g)
	s.Config.Protocols = new(http.Protocols)
	s.Config.Protocols.SetHTTP1(true)
	s.Config.Protocols.SetUnencryptedHTTP2(true)
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

func TestForwardedHeaders(t *testing.T) {
	var seen http.Header
	var host string
	up := upstream(t, func(w http.ResponseWriter, r *http.Request) { seen, host = r.Header, r.Host })
	forged := []string{
		"X-Forwarded-For", "6.6.6.6", "X-Forwarded-Proto", "https", "X-Forwarded-Host", "evil.example", "Forwarded", "for=6.6.6.6",
		"X-Real-Ip", "6.6.6.6", "Connection", "X-Forwarded-For, X-Secret", "X-Secret", "1", "Keep-Alive", "5", "Te", "gzip",
	}
	for _, test := range []struct {
		name    string
		trusted []netip.Prefix
		want    map[string]string
	}{
		{"stranger", nil, map[string]string{
			"X-Forwarded-For": "127.0.0.1", "X-Forwarded-Proto": "http", "X-Forwarded-Host": "GATEWAY",
			"Forwarded": "", "X-Real-Ip": "", "X-Secret": "", "Keep-Alive": "", "Te": "", "User-Agent": "",
		}},
		{"trusted", []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8")}, map[string]string{
			"X-Forwarded-For": "6.6.6.6, 127.0.0.1", "X-Forwarded-Proto": "https", "X-Forwarded-Host": "evil.example",
			"Forwarded": "", "X-Real-Ip": "6.6.6.6", "X-Secret": "",
		}},
		{"another is trusted", []netip.Prefix{netip.MustParsePrefix("10.0.0.0/8")}, map[string]string{"X-Forwarded-For": "127.0.0.1"}},
	} {
		t.Run(test.name, func(t *testing.T) {
			gw := start(t, gateway.Config{Routes: to(up), Trusted: test.trusted})
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

// The answer streams: the client has the first piece while the upstream still
// waits to write the second.
func TestStreamingDown(t *testing.T) {
	read := make(chan struct{})
	up := upstream(t, func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Length", "6") // not chunked: nothing says that it is a stream
		io.WriteString(w, "one")
		http.NewResponseController(w).Flush()
		select {
		case <-read:
			io.WriteString(w, "two")
		case <-r.Context().Done():
		}
	})
	gw := start(t, gateway.Config{Routes: []gateway.Route{{Upstream: up, Timeout: 200 * time.Millisecond}}})
	res, err := http.DefaultClient.Do(request(t, "POST", gw, strings.NewReader("body"))) // whose time is over with its end
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	piece := make([]byte, 3)
	if _, err := io.ReadFull(res.Body, piece); err != nil || string(piece) != "one" {
		t.Fatalf("first piece = %q, %v", piece, err)
	}
	timer := time.NewTimer(400 * time.Millisecond) // beyond the timeout: an answer that has begun may pause
	defer timer.Stop()
	<-timer.C
	close(read)
	rest, err := io.ReadAll(res.Body)
	if err != nil || string(rest) != "two" {
		t.Errorf("the rest = %q, %v", rest, err)
	}
}

// The request streams: the upstream has the first piece while the client still
// waits to send the second.
func TestStreamingUp(t *testing.T) {
	got := make(chan string, 1)
	up := upstream(t, func(w http.ResponseWriter, r *http.Request) {
		piece := make([]byte, 3)
		io.ReadFull(r.Body, piece)
		got <- string(piece)
		rest, _ := io.ReadAll(r.Body)
		w.Write(rest)
	})
	gw := start(t, gateway.Config{Routes: to(up)})
	pr, pw := io.Pipe()
	go func() {
		io.WriteString(pw, "one")
		if piece := <-got; piece != "one" {
			t.Errorf("first piece = %q", piece)
		}
		io.WriteString(pw, "two")
		pw.Close()
	}()
	if _, body := do(t, request(t, "POST", gw, pr)); body != "two" {
		t.Errorf("the rest = %q, want two", body)
	}
}

func TestTrailers(t *testing.T) {
	up := upstream(t, func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Trailer", "Grpc-Status")
		io.WriteString(w, "body")
		w.Header().Set("Grpc-Status", "0")
	})
	res, _ := get(t, start(t, gateway.Config{Routes: to(up)}), "Te", "trailers")
	if got := res.Trailer.Get("Grpc-Status"); got != "0" {
		t.Errorf("trailer = %q, want 0", got)
	}
}

// What the limits say survives an interim answer of the upstream.
func TestInterimAnswer(t *testing.T) {
	up := upstream(t, func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Link", "</style.css>")
		w.WriteHeader(http.StatusEarlyHints)
		w.Header().Set("X-Mine", "1")
		w.Header().Set("Ratelimit", `"another";r=0`) // one answer cannot say two things
		w.WriteHeader(200)
	})
	limit := func(next http.Handler) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("Ratelimit", `"p";r=3`)
			next.ServeHTTP(w, r)
		})
	}
	res, _ := get(t, start(t, gateway.Config{Routes: to(up), Limit: limit}))
	if res.StatusCode != 200 || strings.Join(res.Header["Ratelimit"], "|") != `"p";r=3` || res.Header.Get("X-Mine") != "1" {
		t.Errorf("got %d %v, want 200 with both headers", res.StatusCode, res.Header)
	}
}

func TestUpgrade(t *testing.T) {
	up := upstream(t, func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("Upgrade") != "websocket" || r.Header.Get("Sec-WebSocket-Key") == "" {
			t.Errorf("upstream got %v", r.Header)
		}
		conn, rw, err := http.NewResponseController(w).Hijack()
		if err != nil {
			t.Error(err)
			return
		}
		defer conn.Close()
		io.WriteString(conn, "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n")
		io.Copy(conn, rw) // an echo
	})
	gw := start(t, gateway.Config{Routes: []gateway.Route{{Upstream: up, Timeout: 100 * time.Millisecond}}, AccessLog: 1, Log: slog.New(slog.NewTextHandler(io.Discard, &slog.HandlerOptions{Level: slog.LevelDebug}))})
	conn := dial(t, gw)
	io.WriteString(conn, "GET /chat HTTP/1.1\r\nHost: x\r\nConnection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n")
	br := bufio.NewReader(conn)
	res, err := http.ReadResponse(br, nil)
	if err != nil || res.StatusCode != 101 || res.Header.Get("Upgrade") != "websocket" {
		t.Fatalf("upgrade = %v, %v, want 101", res, err)
	}
	timer := time.NewTimer(250 * time.Millisecond) // an upgraded connection may be silent
	defer timer.Stop()
	<-timer.C
	for _, word := range []string{"hello", "again"} {
		io.WriteString(conn, word)
		back := make([]byte, len(word))
		if _, err := io.ReadFull(br, back); err != nil || string(back) != word {
			t.Fatalf("echo = %q, %v, want %q", back, err, word)
		}
	}
}

func TestHTTP2(t *testing.T) {
	proto := func(w http.ResponseWriter, r *http.Request) { io.WriteString(w, r.Proto) }
	plain := upstream(t, proto)
	secure := httptest.NewUnstartedServer(http.HandlerFunc(proto))
	secure.EnableHTTP2 = true
	secure.StartTLS()
	defer secure.Close()
	clear := httptest.NewUnstartedServer(http.HandlerFunc(proto))
	clear.Config.Protocols = new(http.Protocols)
	clear.Config.Protocols.SetUnencryptedHTTP2(true)
	clear.Start()
	defer clear.Close()
	roots := x509.NewCertPool()
	roots.AddCert(secure.Certificate())
	gw := start(t, gateway.Config{Routes: []gateway.Route{
		{Path: "/plain", Upstream: plain},
		{Path: "/tls", Upstream: secure.URL, RootCAs: roots},
		{Path: "/h2c", Upstream: "h2c" + strings.TrimPrefix(clear.URL, "http")},
		{Path: "/distrusted", Upstream: secure.URL},
	}})
	h2 := new(http.Protocols)
	h2.SetUnencryptedHTTP2(true)
	client := &http.Client{Transport: &http.Transport{Protocols: h2}, Timeout: patient}
	defer client.CloseIdleConnections()
	for path, want := range map[string]string{"/plain": "HTTP/1.1", "/tls": "HTTP/2.0", "/h2c": "HTTP/2.0"} {
		res, err := client.Do(request(t, "POST", gw+path, strings.NewReader("body")))
		if err != nil {
			t.Fatal(err)
		}
		body, err := io.ReadAll(res.Body)
		res.Body.Close()
		if err != nil || res.Proto != "HTTP/2.0" || string(body) != want {
			t.Errorf("%s: client spoke %s, upstream %q, %v; want HTTP/2.0 and %s", path, res.Proto, body, err, want)
		}
	}
	if res, _ := get(t, gw+"/distrusted"); res.StatusCode != 502 {
		t.Errorf("an upstream with an unknown certificate = %d, want 502", res.StatusCode)
	}
}

// lines is a log to look at.
type lines struct {
	mu  sync.Mutex
	buf bytes.Buffer
}

func (l *lines) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.buf.Write(p)
}

func (l *lines) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.buf.String()
}

type problem struct {
	Title, Detail string
	Status        int
}

func wantProblem(t *testing.T, res *http.Response, body string, status int) {
	t.Helper()
	var p problem
	err := json.Unmarshal([]byte(body), &p)
	if res.StatusCode != status || p.Status != status || p.Title == "" || err != nil || res.Header.Get("Content-Type") != "application/problem+json" {
		t.Errorf("answer = %d %s %q, want a problem of status %d", res.StatusCode, res.Header.Get("Content-Type"), body, status)
	}
}

// An upstream that is down: the client learns nothing of the inside, the log
// everything, once a second; and the limit was asked once for each request.
func TestUpstreamDown(t *testing.T) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	address := listener.Addr().String()
	listener.Close()
	var log lines
	var asked atomic.Int64
	limit := func(next http.Handler) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { asked.Add(1); next.ServeHTTP(w, r) })
	}
	gw := start(t, gateway.Config{Routes: to("http://" + address), Limit: limit, Log: slog.New(slog.NewTextHandler(&log, nil))})
	for range 5 {
		res, body := get(t, gw)
		wantProblem(t, res, body, 502)
		if strings.Contains(body, address) {
			t.Errorf("the client is told of %s: %s", address, body)
		}
	}
	if n := asked.Load(); n != 5 {
		t.Errorf("5 requests asked the limit %d times", n)
	}
	if text := log.String(); !strings.Contains(text, "upstream=http://"+address) || !strings.Contains(text, "refused") || strings.Count(text, "\n") > 2 {
		t.Errorf("log = %s, want 1 line that names the upstream and the cause", text)
	}
}

func TestSilentUpstream(t *testing.T) {
	up := upstream(t, func(w http.ResponseWriter, r *http.Request) {
		io.Copy(io.Discard, r.Body)
		<-r.Context().Done() // and the gateway ends what it gave up
	})
	var log lines
	gw := start(t, gateway.Config{Routes: []gateway.Route{{Upstream: up, Timeout: 50 * time.Millisecond}}, Log: slog.New(slog.NewTextHandler(&log, nil))})
	for _, r := range []*http.Request{request(t, "GET", gw, nil), request(t, "POST", gw, strings.NewReader("body"))} {
		res, body := do(t, r)
		wantProblem(t, res, body, 504)
	}
	if !strings.Contains(log.String(), "no answer within the timeout") {
		t.Errorf("log = %s", log.String())
	}
}

// A client that stops in the middle of its body is blamed itself, and let go.
func TestSlowBody(t *testing.T) {
	up := upstream(t, func(w http.ResponseWriter, r *http.Request) { io.Copy(io.Discard, r.Body) })
	gw := start(t, gateway.Config{Routes: []gateway.Route{{Upstream: up, Timeout: 50 * time.Millisecond}}})
	for _, head := range []string{"Content-Length: 10\r\n\r\nabc", "Transfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n"} {
		conn := dial(t, gw)
		io.WriteString(conn, "POST / HTTP/1.1\r\nHost: x\r\n"+head)
		br := bufio.NewReader(conn)
		res, err := http.ReadResponse(br, nil)
		if err != nil {
			t.Fatal(err)
		}
		body, _ := io.ReadAll(res.Body)
		wantProblem(t, res, string(body), 408)
		if _, err := br.ReadByte(); err != io.EOF {
			t.Errorf("after 408 the connection gives %v, want its end", err)
		}
	}
}

func TestMaxBody(t *testing.T) {
	up := upstream(t, func(w http.ResponseWriter, r *http.Request) {
		n, _ := io.Copy(io.Discard, r.Body)
		fmt.Fprint(w, n)
	})
	gw := start(t, gateway.Config{Routes: []gateway.Route{{Upstream: up, MaxBody: 8}}})
	res, body := do(t, request(t, "POST", gw, strings.NewReader("12345678")))
	if res.StatusCode != 200 || body != "8" {
		t.Errorf("8 bytes = %d %q, want 200 8", res.StatusCode, body)
	}
	res, body = do(t, request(t, "POST", gw, strings.NewReader("123456789")))
	wantProblem(t, res, body, 413)
	res, body = do(t, request(t, "POST", gw, io.MultiReader(strings.NewReader("12345678"), strings.NewReader("9")))) // chunked
	wantProblem(t, res, body, 413)
}

func TestClientLeaves(t *testing.T) {
	arrived, left := make(chan struct{}), make(chan struct{})
	up := upstream(t, func(w http.ResponseWriter, r *http.Request) {
		close(arrived)
		<-r.Context().Done()
		close(left)
	})
	var log lines
	gw := start(t, gateway.Config{Routes: to(up), Log: slog.New(slog.NewTextHandler(&log, nil))})
	ctx, cancel := context.WithCancel(t.Context())
	go func() { <-arrived; cancel() }()
	_, err := http.DefaultClient.Do(request(t, "GET", gw, nil).WithContext(ctx))
	if !errors.Is(err, context.Canceled) {
		t.Fatalf("Do = %v", err)
	}
	select {
	case <-left:
	case <-time.After(patient):
		t.Error("the upstream was not told that the client left")
	}
	if log.String() != "" {
		t.Errorf("log = %s, want nothing: no fault of the upstream", log.String())
	}
}

func TestRequestID(t *testing.T) {
	up := upstream(t, func(w http.ResponseWriter, r *http.Request) { io.WriteString(w, r.Header.Get("X-Request-Id")) })
	stranger := start(t, gateway.Config{Routes: to(up), RequestID: true})
	res, body := get(t, stranger, "X-Request-Id", "mine")
	if id := res.Header.Get("X-Request-Id"); id == "" || id == "mine" || id != body {
		t.Errorf("ids = %q, %q, want one new id", id, body)
	}
	trusted := start(t, gateway.Config{Routes: to(up), RequestID: true, Trusted: []netip.Prefix{netip.MustParsePrefix("127.0.0.1/32")}})
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
		"alone":                       {Routes: to("http://u:p@x")},
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

// The gateway asks for no encoding that the client did not ask for, and unpacks
// nothing.
func TestEncodingIsTheClients(t *testing.T) {
	up := upstream(t, func(w http.ResponseWriter, r *http.Request) {
		if got, ok := r.Header["Accept-Encoding"]; ok {
			t.Errorf("Accept-Encoding = %q, want none", got)
		}
	})
	conn := dial(t, start(t, gateway.Config{Routes: to(up)}))
	io.WriteString(conn, "GET / HTTP/1.1\r\nHost: x\r\n\r\n")
	if res, err := http.ReadResponse(bufio.NewReader(conn), nil); err != nil || res.StatusCode != 200 {
		t.Errorf("got %v, %v", res, err)
	}
}
