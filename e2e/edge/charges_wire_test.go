package edge_test

import (
	"bufio"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"net/url"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/floodweir/weir/e2e/nginxtest"
	"github.com/floodweir/weir/e2e/programtest"
	"github.com/floodweir/weir/e2e/redistest"
	"github.com/floodweir/weir/httplimit"
	"github.com/floodweir/weir/policy"
)

// wirePolicies have keys that contain what they read of a request.
const wirePolicies = `{"store": "redis://127.0.0.1:6379", "policies": [
  {"name": "all", "key": ["method", "client.ip"], "limits": ["1/s"], "cost": "size(request.path)"},
  {"name": "host", "key": ["method"], "limits": ["1/s"], "cost": "size(request.host)"},
  {"name": "values", "key": ["header:x-a", "query:q", "cookie:c", "header:authorization"], "limits": ["1/s"]},
  {"name": "others", "key": ["header:pragma", "header:cache-control", "header:transfer-encoding", "header:content-length", "header:cookie", "header:trailer"], "limits": ["1/s"]},
  {"name": "odd", "key": ["query:é", "query:a b", "cookie:C", "cookie:x.y", "header:x--b"], "limits": ["1/s"]},
  {"name": "paths", "match": {"paths": ["/api/users/{id}", "/{$}", "/É/*", "/a b", "/x/y"]}, "key": ["path"], "limits": ["1/s"]},
  {"name": "api", "match": "/api/*", "key": ["path"], "limits": ["1/s"]},
  {"name": "hosts", "match": {"hosts": ["example.com", "*.example.com", "::1", "b"]}, "key": ["host"], "limits": ["1/s"]},
  {"name": "there", "match": "\"x-a\" in request.headers", "key": ["const:all"], "limits": ["1/s"]},
  {"name": "asked", "match": "\"q\" in request.query || \"\" == request.cookies[\"c\"]", "key": ["const:all"], "limits": ["1/s"]},
  {"name": "reading", "match": "request.path.contains(\"..\") || request.path.endsWith(\"/b\")", "key": ["const:all"], "limits": ["1/s"], "cost": "size(request.path)"},
  {"name": "writes", "match": {"methods": ["POST", "PURGE", "get"]}, "key": ["method"], "limits": ["1/s"]}
]}`

// wireAttributes implements policy.Attributes as package httplimit does.
type wireAttributes struct{ r *http.Request }

func (a wireAttributes) Method() string              { return a.r.Method }
func (a wireAttributes) Host() string                { return a.r.Host }
func (a wireAttributes) Path() string                { return a.r.URL.EscapedPath() }
func (a wireAttributes) Header(name string) []string { return a.r.Header[name] }
func (a wireAttributes) Query(name string) []string {
	raw, _, _ := strings.Cut(a.r.URL.RawQuery, "#")
	values, _ := url.ParseQuery(raw)
	return values[name]
}
func (a wireAttributes) ClientIP() netip.Addr { return new(httplimit.ClientAddress).Addr(a.r) }
func (a wireAttributes) Cookie(name string) (values []string) {
	for _, c := range a.r.CookiesNamed(name) {
		values = append(values, c.Value)
	}
	return values
}

// keysOf returns the keys and costs of the charges of a request.
func keysOf(set *policy.Set, r *http.Request) []string {
	var q policy.Matches
	set.Match(&q, wireAttributes{r})
	keys := []string{}
	for _, a := range q.Charges {
		keys = append(keys, fmt.Sprint(a.Key, " ", a.Cost))
	}
	return keys
}

// wireServers starts nginx and net/http, which respond with the keys of their charges.
func wireServers(t *testing.T, plan, directives string) (nginx, goes string) {
	t.Helper()
	set := setOf(t, wirePolicies)
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		json.NewEncoder(w).Encode(keysIn64(keysOf(set, r)))
	}))
	t.Cleanup(s.Close)
	return startWire(t, plan, directives, "").Addr, s.Listener.Addr().String()
}

// startWire starts an nginx that responds with the keys of its charges.
func startWire(t *testing.T, plan, directives, listen string) *nginxtest.Server {
	t.Helper()
	return nginxtest.Start(t, nginxtest.Config{HTTP: nginxtest.Path(t) + directives + `
  init_by_lua_block { wire = assert(require("weir.plan").read(` + luaText(plan) + `)) }
  server { listen ADDR ` + listen + `; listen unix:DIR/socket; location / { content_by_lua_block {
    local asks = require("weir.charges").of(wire, require("weir.attributes").new())
    local keys = {}
    for i, ask in ipairs(asks) do keys[i] = ngx.encode_base64(ask.key .. " " .. ask.cost) end
    ngx.say(require("cjson").encode(keys))
  } } }`})
}

// luaText returns a text as Lua in the configuration of nginx, where a token has at most 4096
// bytes.
func luaText(s string) string {
	var b strings.Builder
	b.WriteString("table.concat{")
	for i := 0; i < len(s); i += 500 {
		b.WriteString("'")
		for _, c := range []byte(s[i:min(len(s), i+500)]) {
			fmt.Fprintf(&b, `\%03d`, c)
		}
		b.WriteString("',\n")
	}
	return b.String() + "}"
}

func keysIn64(keys []string) []string {
	out := []string{}
	for _, k := range keys {
		out = append(out, b64(k))
	}
	return out
}

// plain64 decodes the output of keysIn64.
func plain64(keys []string) []string {
	out := []string{}
	for _, k := range keys {
		b, err := base64.StdEncoding.DecodeString(k)
		if err != nil {
			b = []byte(err.Error())
		}
		out = append(out, string(b))
	}
	return out
}

// sendRaw sends bytes to a server and returns the status of its response and, if that is 200,
// the keys.
func sendRaw(t *testing.T, addr, raw string) (status int, keys []string) {
	t.Helper()
	c, err := net.DialTimeout("tcp", addr, 5*time.Second)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	c.SetDeadline(time.Now().Add(10 * time.Second))
	if _, err := io.WriteString(c, raw); err != nil {
		return 0, nil
	}
	method, _, _ := strings.Cut(raw, " ")
	res, err := http.ReadResponse(bufio.NewReader(c), &http.Request{Method: method})
	if err != nil {
		return 0, nil
	}
	defer res.Body.Close()
	body, _ := io.ReadAll(res.Body)
	if res.StatusCode != http.StatusOK || len(body) == 0 {
		return res.StatusCode, nil
	}
	if err := json.Unmarshal(body, &keys); err != nil {
		t.Fatalf("%v in %q, the response to %q", err, body, raw)
	}
	return res.StatusCode, keys
}

var validEscapes = strings.NewReplacer("%00", "%01", "%zz", "%7a", "%4/", "%44/", "%/", "%24/", "\x00", "")

// wire returns a random request as bytes.
func (d dice) wire() string {
	var b strings.Builder
	target := d.path()
	for strings.ContainsAny(target, " ") && !d.in(20) {
		target = strings.ReplaceAll(target, " ", "%20")
	}
	if !strings.Contains(target, "?") && d.in(2) {
		target += "?" + d.join(4, d.one("&", "&", ";", "&&"), "q=a", "q=b", "q", "q=", "=v", "q=a+b", "q=%20a%20", "q=%zz", "q=%4", "q=a=b", "%71=hidden", "q=%C3%A9", "é=ü", "%C3%A9=1", "a+b=1", "a%20b=2", "q=a?b", "q=#f", "q[]=1", "q=%00", "q=%ff", "x=1;q=2", "q=%2541")
	}
	if d.in(60) {
		target = "/?" + strings.Repeat("&", 9997+d.IntN(4)) + "q=a"
	}
	if d.in(8) {
		target = d.one("http://", "HTTP://", "https://", "x-y://", "http:/", "http:") + d.one("abs.example.com", "abs.Example.com:81", "[::1]:80", "[::1]", "u:p@b", "", "b.", "é", "b%41", "[fe80::1%25x]") + d.one(target, "", "?q=1")
	}
	if !d.in(5) { // no server accepts these
		target = validEscapes.Replace(target)
	}
	b.WriteString(d.one("GET", "GET", "GET", "POST", "PURGE", "PROPFIND", "OPTIONS", d.one("get", "X-Y", "DELETE"), "HEADS") + " " + target + " " + d.one("HTTP/1.1", "HTTP/1.1", "HTTP/1.1", "HTTP/1.0") + "\r\n")
	if !d.in(20) {
		b.WriteString(d.one("Host: ", "Host: ", "host:", "HOST:  ") + d.one("example.com", "x.example.com", "[::1]:8080", "B:80", "b.", "é", "A.EXAMPLE.COM.:1", "eyJzdWIiOjd9", "Example.COM:8080", "a.example.com.", "[::1]:80", "::1", "b:", "b:1:2", "b", "", "..", ".", "é.com", "a_b", "b\t", "a b", "[x]", "b..", "127.0.0.1", "b:x", "b,c", "b%41", "*", "b/c", "b@c", "[0:0::1]") + "\r\n")
	}
	for range d.IntN(5) {
		b.WriteString(d.one("X-A", "x-a", "X-a", "X--B", "Authorization", "Cookie", "cookie", "Pragma", "Cache-Control", "X_A", "X.A", d.one("X-A ", "", "X-A", "X-B", "x-a"), "Te", "Trailer", "Keep-Alive") +
			d.one(": ", ":", ":  ", ":\t") + d.wireValue() + d.one("", "", " ", "\t") + "\r\n")
	}
	body := ""
	switch d.IntN(12) {
	case 0:
		b.WriteString("Transfer-Encoding: chunked\r\n")
		body = "0\r\n\r\n"
	case 1:
		b.WriteString("Content-Length: 3\r\n")
		body = "abc"
	case 2:
		b.WriteString("Cookie: " + strings.Repeat("c=1; ", 2998+d.IntN(4)) + "c=1\r\n")
	}
	b.WriteString("Connection: close\r\n\r\n" + body)
	return b.String()
}

func (d dice) wireValue() string {
	switch d.IntN(4) {
	case 0:
		return d.join(4, d.one("; ", ";", ";;", " ; "), "c=1", "c=1", "c=2", "C=1", "c", "c=", "=c", `c="q"`, `c="`, `c=""`, `c="a`, "c=a b", "c=a\"b", `c=a\b`, "c=é", " c = 1 ", "c =2", "x.y=1", "x y=1", "c=a,b", "c=%41", "c=a=b", "c=\x7f", "$c=1")
	case 1:
		return d.one("Bearer ", "bearer  ", "") + strings.NewReplacer("\x00", "", "\r", "", "\n", "").Replace(d.one(diceValues...))
	case 2:
		return d.one("no-cache", "No-Cache", "no-cache ", "max-age=0", "trailers", "")
	}
	return strings.NewReplacer("\x00", "", "\r", "", "\n", "").Replace(d.one(diceValues...))
}

// TestChargesWire compares what nginx and net/http read from a connection.
func TestChargesWire(t *testing.T) {
	t.Parallel()
	plan := planOf(t, programtest.Weir(t), wirePolicies)
	t.Run("HTTP/1", func(t *testing.T) { testWireHTTP1(t, plan) })
	t.Run("HTTP/2", func(t *testing.T) { testWireHTTP2(t, plan) })
	t.Run("dropped", func(t *testing.T) { testWireDropped(t, plan) })
}

// testWireHTTP1 checks that nginx makes the same keys from the same bytes as net/http with
// package httplimit.
func testWireHTTP1(t *testing.T, plan string) {
	nginx, goes := wireServers(t, plan, "large_client_header_buffers 4 32k; client_header_buffer_size 32k; underscores_in_headers on; ignore_invalid_headers off;")
	d := dice{rand.New(rand.NewPCG(*chargesSeed, 1))}
	var same, neither, onlyGo, onlyNginx int
	for i := range *chargesWires {
		raw := d.wire()
		gs, want := sendRaw(t, goes, raw)
		ns, got := sendRaw(t, nginx, raw)
		switch {
		case gs != 200 && ns != 200:
			neither++
		case gs != 200:
			onlyNginx++
		case ns != 200:
			onlyGo++
		case !reflect.DeepEqual(got, want):
			t.Errorf("request %d %q:\nnginx charges %q\n  weir charges %q", i, raw, plain64(got), plain64(want))
		default:
			same++
		}
	}
	t.Logf("%d requests: %d the same; rejected by both %d, by nginx alone %d, by net/http alone %d", *chargesWires, same, neither, onlyGo, onlyNginx)
	if same < *chargesWires/4 {
		t.Errorf("%d of %d requests were compared, want a quarter", same, *chargesWires)
	}
}

// testWireHTTP2 checks that nginx makes the same keys from an HTTP/2 request as net/http.
func testWireHTTP2(t *testing.T, plan string) {
	set := setOf(t, wirePolicies)
	goes := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		json.NewEncoder(w).Encode(keysIn64(keysOf(set, r)))
	}))
	goes.Config.Protocols = new(http.Protocols)
	goes.Config.Protocols.SetUnencryptedHTTP2(true)
	goes.Start()
	t.Cleanup(goes.Close)
	nginx := startWire(t, plan, "", "http2")
	transport := &http.Transport{Protocols: goes.Config.Protocols}
	t.Cleanup(transport.CloseIdleConnections)
	for _, tc := range []struct {
		host, target string
		header       http.Header
	}{
		{"example.com", "/", nil},
		{"Example.COM:81", "/api//users/%2e%2e/7?q=a+b&q=%20a%20b", http.Header{"X-A": {"a", " a "}, "Cookie": {"c=1", "c=1; C=2"}}},
		{"[::1]:80", "/É/%C3%89;x/..;/\\?q=1;c=2", http.Header{"X-A": {"a", "b"}, "Pragma": {"no-cache"}, "Trailer": {"X"}}},
		{"b.", "/api%2fusers%2F7", http.Header{"Authorization": {"bearer  h.eyJzdWIiOjF9.s"}}},
		{"é.example.com", "/x", nil},
	} {
		ask := func(addr string) string {
			r, err := http.NewRequest("GET", "http://"+addr+"/", nil)
			if err != nil {
				t.Fatal(err)
			}
			r.URL.Opaque, r.Host = tc.target, tc.host
			path, query, _ := strings.Cut(tc.target, "?")
			r.URL.Opaque, r.URL.RawQuery = path, query
			for name, values := range tc.header {
				r.Header[name] = values
			}
			res, err := transport.RoundTrip(r)
			if err != nil {
				return err.Error()
			}
			defer res.Body.Close()
			body, err := io.ReadAll(res.Body)
			if err != nil {
				return err.Error()
			}
			var keys []string
			if json.Unmarshal(body, &keys) != nil {
				return res.Status
			}
			return res.Proto + fmt.Sprintf(" %q", plain64(keys))
		}
		got, want := ask(nginx.Addr), ask(goes.Listener.Addr().String())
		if !strings.HasPrefix(want, "HTTP/2.0 ") {
			t.Errorf("net/http responds %s", want)
		}
		if got != want {
			t.Errorf("%s%s %v:\nnginx charges %s\n  weir charges %s", tc.host, tc.target, tc.header, got, want)
		}
	}
}

// testWireDropped checks that a header that nginx drops is absent for the policies and the
// upstream, and that a peer on a Unix socket has no address.
func testWireDropped(t *testing.T, plan string) {
	const raw = "GET /a HTTP/1.1\r\nHost: b\r\nX-A: a\r\nX_A: b\r\nX.A: c\r\nConnection: close\r\n\r\n"
	values := func(s *nginxtest.Server) string {
		_, keys := sendRaw(t, s.Addr, raw)
		return strings.Join(plain64(keys), " ")
	}
	if got, want := values(startWire(t, plan, "", "")), "values|1:a|-|-|- "; !strings.Contains(got, want) {
		t.Errorf("nginx charges %s, want %s", got, want)
	}
	s := startWire(t, plan, "", "")
	var c net.Conn
	redistest.Await(t, "the socket", func() (err error) { // nginx may create it last
		c, err = net.Dial("unix", filepath.Join(s.Dir, "socket"))
		return err
	})
	defer c.Close()
	io.WriteString(c, raw)
	body, _ := io.ReadAll(c)
	if want := b64("all|3:GET|- 2"); !strings.Contains(string(body), want) {
		t.Errorf("nginx responds %s, want %s in it", body, want)
	}
}
