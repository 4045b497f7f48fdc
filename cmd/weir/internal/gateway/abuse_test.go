package gateway_test

import (
	"bufio"
	"encoding/json"
	"io"
	"net/http"
	"strconv"
	"testing"

	"github.com/floodweir/weir/cmd/weir/internal/gateway"
)

// mirror starts an upstream that returns the header fields it received.
func mirror(t *testing.T) string {
	return upstream(t, func(w http.ResponseWriter, r *http.Request) {
		r.Header.Set("Host", r.Host)
		json.NewEncoder(w).Encode(r.Header)
	})
}

// raw sends a raw request and returns the status and the header fields that a mirror
// received.
func raw(t *testing.T, url, text string) (int, http.Header) {
	t.Helper()
	conn := dial(t, url)
	io.WriteString(conn, text)
	res, err := http.ReadResponse(bufio.NewReader(conn), nil)
	if err != nil {
		t.Fatalf("%q: %v", text, err)
	}
	var h http.Header
	if res.StatusCode == 200 {
		if err := json.NewDecoder(res.Body).Decode(&h); err != nil {
			t.Fatalf("%q: %v", text, err)
		}
	}
	return res.StatusCode, h
}

// TestNoTunnelForRequests checks that an Upgrade to a protocol that carries requests is
// not forwarded.
func TestNoTunnelForRequests(t *testing.T) {
	gw := start(t, gateway.Config{Routes: to(mirror(t))})
	for _, upgrade := range []string{"h2c", "H2C", "h2", "HTTP/2.0", "TLS/1.2, HTTP/1.1", "websocket, h2c", "websocket,\th2c"} {
		status, h := raw(t, gw, "GET / HTTP/1.1\r\nHost: x\r\nConnection: Upgrade, HTTP2-Settings\r\nUpgrade: "+upgrade+"\r\nHTTP2-Settings: AAMAAABkAAQAAP__\r\n\r\n")
		if status != 200 || h["Upgrade"] != nil || h["Http2-Settings"] != nil || h["Connection"] != nil {
			t.Errorf("Upgrade: %s = %d, and the upstream got %v, want 200 and no upgrade", upgrade, status, h)
		}
	}
	if _, h := raw(t, gw, "GET / HTTP/1.1\r\nHost: x\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n"); h.Get("Upgrade") != "websocket" {
		t.Errorf("Upgrade: websocket reached the upstream as %v", h)
	}
}

// TestConnectionNamesOurHeaders checks that a client cannot remove fields of the gateway
// by naming them in Connection.
func TestConnectionNamesOurHeaders(t *testing.T) {
	gw := start(t, gateway.Config{Routes: to(mirror(t)), RequestID: true})
	_, h := raw(t, gw, "GET / HTTP/1.1\r\nHost: shop.example\r\nX-Forwarded-For: 6.6.6.6\r\nX-Mine: 1\r\n"+
		"Connection: close, X-Forwarded-For, X-Forwarded-Host, X-Forwarded-Proto, X-Request-Id, X-Mine, Host\r\n\r\n")
	if h.Get("X-Forwarded-For") != "127.0.0.1" || h.Get("X-Forwarded-Host") != "shop.example" || h.Get("X-Forwarded-Proto") != "http" || h.Get("X-Request-Id") == "" {
		t.Errorf("the upstream got %v, want X-Forwarded-* and X-Request-Id", h)
	}
	if h["X-Mine"] != nil || h["Connection"] != nil {
		t.Errorf("the upstream got %v, want neither X-Mine nor Connection", h)
	}
}

// TestUnderscoreHeaders checks that forwarding fields with underscores are removed: CGI
// and WSGI servers read an underscore and a hyphen alike.
func TestUnderscoreHeaders(t *testing.T) {
	gw := start(t, gateway.Config{Routes: to(mirror(t)), RequestID: true})
	_, h := raw(t, gw, "GET / HTTP/1.1\r\nHost: x\r\nX_Forwarded_For: 6.6.6.6\r\nX-Forwarded_Proto: https\r\nx_real_ip: 6.6.6.6\r\n"+
		"X_request_Id: 6\r\nX_Forwarded_Anything: 6\r\nMy_Own: 1\r\n\r\n")
	for name := range h {
		switch name {
		case "Host", "X-Forwarded-For", "X-Forwarded-Host", "X-Forwarded-Proto", "X-Request-Id", "Accept-Encoding":
		case http.CanonicalHeaderKey("My_Own"):
		default:
			t.Errorf("the upstream got %s: %s", name, h.Get(name))
		}
	}
	if h.Get("My_Own") != "1" || h.Get("X-Forwarded-For") != "127.0.0.1" {
		t.Errorf("the upstream got %v, want My_Own and the true X-Forwarded-For", h)
	}
}

// TestOddHosts checks that routing and the upstream see the same host, and that an
// invalid host is refused.
func TestOddHosts(t *testing.T) {
	named := upstream(t, func(w http.ResponseWriter, r *http.Request) { io.WriteString(w, `{"Route": ["named"]}`) })
	other := upstream(t, func(w http.ResponseWriter, r *http.Request) { io.WriteString(w, `{"Route": ["other"]}`) })
	gw := start(t, gateway.Config{Routes: []gateway.Route{{Host: "shop.example", Upstream: named}, {Upstream: other}}})
	for _, test := range []struct{ head, want string }{
		{"GET / HTTP/1.1\r\nHost: shop.example", "named"},
		{"GET / HTTP/1.1\r\nHost: SHOP.Example.:443", "named"},
		{"GET / HTTP/1.1\r\nHost: shop.example..", "other"},
		{"GET / HTTP/1.1\r\nHost: shop.example:", "named"},
		{"GET / HTTP/1.1\r\nHost: user@shop.example", "400"},
		{"GET http://shop.example/ HTTP/1.1\r\nHost: other.example", "named"}, // RFC 9112, section 3.2.2
		{"GET http://other.example/ HTTP/1.1\r\nHost: shop.example", "other"},
		{"GET http://user:pw@shop.example/ HTTP/1.1\r\nHost: other.example", "named"},
		{"GET / HTTP/1.1\r\nHost:", "other"},
		{"GET / HTTP/1.0", "other"},
		{"GET / HTTP/1.0\r\nHost: shop.example", "named"},
		{"GET / HTTP/1.1", "400"},
		{"GET / HTTP/1.1\r\nHost: shop.example\r\nHost: shop.example", "400"},
		{"GET / HTTP/1.1\r\nHost: shop.example/x", "400"},
		{"GET / HTTP/1.1\r\nHost: shop example", "400"},
		{"GET / HTTP/1.1\r\nHost: x\r\nHost : shop.example", "400"},
		{"GET //shop.example/ HTTP/1.1\r\nHost: other.example", "other"},
		{"GET shop.example HTTP/1.1\r\nHost: shop.example", "400"},
		{"GET http:shop HTTP/1.1\r\nHost: shop.example", "404"},
	} {
		status, h := raw(t, gw, test.head+"\r\n\r\n")
		got := h.Get("Route")
		if status != 200 {
			got = strconv.Itoa(status)
		}
		if got != test.want {
			t.Errorf("%q = %d %q, want %s", test.head, status, got, test.want)
		}
	}
}

// TestDotSegments checks that segments that a server may treat as .. are refused.
func TestDotSegments(t *testing.T) {
	gw := start(t, gateway.Config{Routes: []gateway.Route{{Path: "/api", Upstream: mirror(t)}}})
	for path, want := range map[string]int{
		"/api/../secret": 400, "/api/%2e%2e/secret": 400, "/api/..;/secret": 400, "/api/..;x=1/secret": 400, "/api/.;/x": 400,
		`/api/..\secret`: 400, `/api/x\..\..\secret`: 400, "/api/..%5csecret": 400, "/api%2f..%2fsecret": 400, "/api/%2e%2e%3bx/s": 400,
		"/api/...": 200, "/api/..a": 200, "/api/a..": 200, "/api/.well-known": 200, "/api/;/x": 200, "/api/a;..": 200, `/api/a\b`: 200,
	} {
		if status, _ := raw(t, gw, "GET "+path+" HTTP/1.1\r\nHost: x\r\n\r\n"); status != want {
			t.Errorf("%s = %d, want %d", path, status, want)
		}
	}
}
