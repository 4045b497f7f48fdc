package gateway_test

import (
	"bufio"
	"bytes"
	"io"
	"net"
	"net/http"
	"net/netip"
	"regexp"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/floodweir/weir"
	"github.com/floodweir/weir/cmd/weir/internal/gateway"
	"github.com/floodweir/weir/httplimit"
	"github.com/floodweir/weir/internal/fakestore"
	"github.com/floodweir/weir/policy"
)

// A rawUpstream records the bytes of the requests on each connection, and responds with bytes that
// the path names.
type rawUpstream struct {
	addr  string
	mu    sync.Mutex
	heads []string
}

// rawResponses are the responses of a rawUpstream by path. A response that ends in "…" ends the
// connection there.
var rawResponses = map[string]string{
	"/":          "HTTP/1.1 200 OK\r\nContent-Type: text/x\r\nContent-Length: 3\r\n\r\nabc",
	"/head":      "HTTP/1.1 200 OK\r\nContent-Type: text/x\r\nServer: up\r\nDate: now\r\nConnection: keep-alive\r\nKeep-Alive: timeout=5\r\nX-A: 1\r\nSet-Cookie: a\r\nset-cookie: b\r\nX-Ratelimit-Limit: 77\r\nRatelimit: x\r\nTe: x\r\nContent-Length: 3\r\n\r\nabc",
	"/empty":     "HTTP/1.1 404 Nope\r\nContent-Type: text/x\r\nContent-Length: 0\r\n\r\n",
	"/204":       "HTTP/1.1 204 No Content\r\nX: y\r\n\r\n",
	"/304":       "HTTP/1.1 304 Not Modified\r\nEtag: \"a\"\r\nContent-Length: 9\r\nContent-Type: text/x\r\n\r\n",
	"/599":       "HTTP/1.1 599 Own\r\nContent-Type: text/x\r\nContent-Length: 1\r\n\r\nx",
	"/close":     "HTTP/1.1 200 OK\r\nContent-Type: text/x\r\nContent-Length: 3\r\nConnection: close\r\n\r\nabc…",
	"/chunked":   "HTTP/1.1 200 OK\r\nContent-Type: text/x\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n4;x=y\r\ndefg\r\n0\r\n\r\n",
	"/trailer":   "HTTP/1.1 200 OK\r\nContent-Type: text/x\r\nTransfer-Encoding: chunked\r\nTrailer: X-T\r\n\r\n3\r\nabc\r\n0\r\nX-T: 1\r\n\r\n",
	"/untilend":  "HTTP/1.1 200 OK\r\nContent-Type: text/x\r\n\r\nabc…",
	"/http10":    "HTTP/1.0 200 OK\r\nContent-Type: text/x\r\nContent-Length: 3\r\n\r\nabc…",
	"/interim":   "HTTP/1.1 103 Early Hints\r\nLink: x\r\n\r\nHTTP/1.1 200 OK\r\nContent-Type: text/x\r\nContent-Length: 3\r\n\r\nabc",
	"/continue":  "HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 200 OK\r\nContent-Type: text/x\r\nContent-Length: 3\r\n\r\nabc",
	"/switch":    "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: x\r\n\r\n…",
	"/short":     "HTTP/1.1 200 OK\r\nContent-Type: text/x\r\nContent-Length: 9\r\n\r\nabc…",
	"/extra":     "HTTP/1.1 200 OK\r\nContent-Type: text/x\r\nContent-Length: 3\r\n\r\nabcHTTP/1.1 200 OK\r\nContent-Type: text/x\r\nContent-Length: 6\r\n\r\nstolen",
	"/twolength": "HTTP/1.1 200 OK\r\nContent-Type: text/x\r\nContent-Length: 3\r\nContent-Length: 4\r\n\r\nabcd…",
	"/both":      "HTTP/1.1 200 OK\r\nContent-Type: text/x\r\nContent-Length: 3\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n0\r\n\r\n",
	"/lf":        "HTTP/1.1 200 OK\nContent-Type: text/x\nContent-Length: 3\n\nabc",
	"/folded":    "HTTP/1.1 200 OK\r\nContent-Type: text/x\r\nX: a\r\n b\r\nContent-Length: 3\r\n\r\nabc",
	"/badline":   "HTTP/1.1 OK\r\nContent-Length: 3\r\n\r\nabc…",
	"/badname":   "HTTP/1.1 200 OK\r\nContent-Type: text/x\r\nX y: a\r\nContent-Length: 3\r\n\r\nabc…",
	"/utf8":      "HTTP/1.1 200 OK\r\nContent-Type: text/x\r\nX: ü\tz\r\nContent-Length: 3\r\n\r\nabc",
	"/pragma":    "HTTP/1.1 200 OK\r\nContent-Type: text/x\r\nPragma: no-cache\r\nContent-Length: 3\r\n\r\nabc",
	"/named":     "HTTP/1.1 200 OK\r\nContent-Type: text/x\r\nConnection: X-Secret\r\nX-Secret: 1\r\nContent-Length: 3\r\n\r\nabc",
	"/upgrade":   "HTTP/1.1 426 Upgrade Required\r\nContent-Type: text/x\r\nUpgrade: x\r\nContent-Length: 3\r\n\r\nabc",
	"/big":       "HTTP/1.1 200 OK\r\nContent-Type: text/x\r\nContent-Length: 100000\r\n\r\n" + strings.Repeat("0123456789", 10000),
	"/bighead":   "HTTP/1.1 200 OK\r\nContent-Type: text/x\r\nX: " + strings.Repeat("y", 9000) + "\r\nContent-Length: 3\r\n\r\nabc",
	"/longhead":  "HTTP/1.1 200 OK\r\n" + strings.Repeat("X: "+strings.Repeat("y", 10000)+"\r\n", 1100) + "Content-Type: text/x\r\nContent-Length: 3\r\n\r\nabc…",
	"/none":      "…",
}

func newRawUpstream(t *testing.T) *rawUpstream {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	u := &rawUpstream{addr: l.Addr().String()}
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			go u.serve(c)
		}
	}()
	return u
}

func (u *rawUpstream) serve(c net.Conn) {
	defer c.Close()
	br := bufio.NewReader(c)
	for {
		var text bytes.Buffer
		r, err := http.ReadRequest(bufio.NewReaderSize(io.TeeReader(oneByte{br}, &text), 16))
		if err != nil {
			return
		}
		io.Copy(io.Discard, r.Body)
		u.mu.Lock()
		u.heads = append(u.heads, text.String())
		u.mu.Unlock()
		response, end := strings.CutSuffix(rawResponses[r.URL.Path], "…")
		if response == "" && !end {
			response = rawResponses["/"]
		}
		if r.Method == http.MethodHead {
			response, _, _ = strings.Cut(response, "\r\n\r\n")
			response += "\r\n\r\n"
		}
		if _, err := io.WriteString(c, response); err != nil || end {
			return
		}
	}
}

// A oneByte reads a byte at a time, so that nothing behind a request is read with it.
type oneByte struct{ r io.Reader }

func (o oneByte) Read(p []byte) (int, error) { return o.r.Read(p[:1]) }

func (u *rawUpstream) received() string {
	u.mu.Lock()
	defer u.mu.Unlock()
	defer func() { u.heads = nil }()
	return strings.Join(u.heads, "|")
}

// A plainTransport is a wrapper, so that ReverseProxy sends all requests.
type plainTransport struct{ http.RoundTripper }

// middleware returns one that applies a limit to all requests together.
func middleware(t *testing.T, limit string, client httplimit.ClientAddress) *httplimit.Middleware {
	t.Helper()
	p, err := policy.New(policy.Config{Name: "p", Key: []policy.KeyPart{{Source: policy.Constant, Name: "all"}}, Limits: []weir.Limit{weir.MustLimit(limit)}})
	if err != nil {
		t.Fatal(err)
	}
	set, err := policy.NewSet(p)
	if err != nil {
		t.Fatal(err)
	}
	m, err := httplimit.New(fakestore.Memory(t), set, httplimit.Config{Client: client})
	if err != nil {
		t.Fatal(err)
	}
	return m
}

// startRaw serves a gateway in front of an upstream: with all that makes plain requests fast, or
// without.
func startRaw(t *testing.T, upstream string, fast bool, client httplimit.ClientAddress, passHost bool) string {
	t.Helper()
	wide, narrow := middleware(t, "1000000/h", client), middleware(t, "1/24h", client)
	limit := func(h http.Handler) http.Handler {
		wide, narrow := wide.Wrap(h), narrow.Wrap(h)
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if r.URL.Path == "/denied" {
				narrow.ServeHTTP(w, r)
			} else {
				wide.ServeHTTP(w, r)
			}
		})
	}
	c := gateway.Config{
		Routes: []gateway.Route{{Upstream: "http://" + upstream, PassHost: passHost}, {Path: "/prefix", Upstream: "http://" + upstream + "/a%2Fb/"}},
		Limit:  limit, Client: client,
	}
	if !fast {
		c.Transport = func(rt http.RoundTripper) http.RoundTripper { return plainTransport{rt} }
	}
	return strings.TrimPrefix(serve(t, c, fast), "http://")
}

// volatile matches what differs between runs: dates, and remaining quotas.
var volatile = regexp.MustCompile(`Date: \w{3}, [^\r]*\r\n|;r=\d+;t=\d+|X-Ratelimit-(Remaining|Reset): \d+|Retry-After: \d+`)

// TestSameAsReverseProxy compares all that clients and upstreams get from plain requests, which the
// gateway forwards itself, and from an http.Server with ReverseProxy.
func TestSameAsReverseProxy(t *testing.T) {
	forwarded := httplimit.ClientAddress{Trusted: []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8")}, Header: "Forwarded"}
	for name, test := range map[string]struct {
		client   httplimit.ClientAddress
		passHost bool
	}{"untrusted": {}, "trusted": {trust("127.0.0.0/8"), true}, "forwarded": {forwarded, false}} {
		t.Run(name, func(t *testing.T) {
			ups, gateways := [2]*rawUpstream{}, [2]string{}
			for i := range ups {
				ups[i] = newRawUpstream(t)
				gateways[i] = startRaw(t, ups[i].addr, i == 1, test.client, test.passHost)
			}
			for _, text := range gatewayCorpus() {
				var got, seen [2]string
				for i := range ups {
					got[i] = volatile.ReplaceAllString(converse(t, gateways[i], text), "")
					seen[i] = strings.ReplaceAll(ups[i].received(), ups[i].addr, "UPSTREAM")
				}
				if got[0] != got[1] {
					t.Errorf("%.300q\nReverseProxy: %.900q\nplain:        %.900q", text, got[0], got[1])
				}
				if seen[0] != seen[1] {
					t.Errorf("%.300q, at the upstream:\nReverseProxy: %.900q\nplain:        %.900q", text, seen[0], seen[1])
				}
			}
		})
	}
}

// gatewayCorpus returns requests of all kinds, valid or not, and to every response.
func gatewayCorpus() (all []string) {
	const last = "GET /last HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n"
	for path := range rawResponses {
		for _, method := range []string{"GET", "HEAD", "OPTIONS", "DELETE"} {
			if path == "/longhead" && method != "GET" || method == "HEAD" && (path == "/continue" || path == "/interim") {
				continue // the first is long; of the others the upstream does not know the end
			}
			all = append(all, method+" "+path+" HTTP/1.1\r\nHost: x\r\n\r\n"+last)
		}
	}
	for _, target := range []string{"/?", "/?a=b&c", "/?a;b", "/?%zz", "/?%41", "/?a=%", "/%2f", "/a%20b", "//a", "/a//b", "/a/../b", "/prefix", "/prefix/x?y", "/prefix/%2Fx", "/;a", "/a:b", "/[x]", "/\"", "/denied", "/?" + strings.Repeat("a&", 1500)} {
		all = append(all, "GET "+target+" HTTP/1.1\r\nHost: x\r\n\r\n"+last)
	}
	for _, field := range []string{
		"User-Agent: a", "User-Agent:", "User-Agent: a\r\nUser-Agent: b", "X-Forwarded-For: 6.6.6.6", "X-Forwarded-For: 6.6.6.6\r\nX-Forwarded-For: 7.7.7.7", "X-Forwarded-Proto: https\r\nX-Forwarded-Host: y", "Forwarded: for=6.6.6.6", "X-Real-Ip: 6.6.6.6",
		"X_Forwarded_For: 6.6.6.6", "X_Real-Ip: a", "Connection: keep-alive", "Connection: close", "Connection: X-A\r\nX-A: 1", "Connection: User-Agent\r\nUser-Agent: a", "Keep-Alive: 5", "Proxy-Connection: close", "Proxy-Authorization: x", "Proxy-Authenticate: x", "Te: trailers", "Te: gzip",
		"Trailer: x", "Upgrade: x", "Upgrade: h2c\r\nConnection: Upgrade", "Upgrade: x\r\nConnection: Upgrade", "Expect: 100-continue", "Content-Length: 0", "Cookie: a\r\nCookie: b", "Z: 1\r\nA: 2\r\nz: 3", "X-Request-Id: 1", "Accept-Encoding: gzip", "Range: bytes=0-1", "X: ü", "X: a\tb", "Authorization: Basic x", "Pragma: no-cache",
	} {
		all = append(all, "GET /head HTTP/1.1\r\nHost: x\r\n"+field+"\r\n\r\n"+last)
	}
	for _, host := range []string{"X.Example:80", "[::1]:80", "[::1%25en0]", "x@y", "x,y", "ü", ""} {
		all = append(all, "GET / HTTP/1.1\r\nHost: "+host+"\r\n\r\n"+last)
	}
	return append(all,
		"GET http://y/x HTTP/1.1\r\nHost: x\r\n\r\n"+last, "GET http://a:b@y/x HTTP/1.1\r\nHost: x\r\n\r\n"+last, "GET / HTTP/1.0\r\nHost: x\r\n\r\n", "GET / HTTP/1.0\r\n\r\n",
		"POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 3\r\n\r\nabc"+last, "POST / HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n0\r\n\r\n"+last, "POST / HTTP/1.1\r\nHost: x\r\n\r\n"+last,
		"GET / HTTP/1.1\r\nHost: x\r\nContent-Length: 3\r\n\r\nabc"+last, "POST /denied HTTP/1.1\r\nHost: x\r\nContent-Length: 3\r\n\r\nabc"+last, "TRACE / HTTP/1.1\r\nHost: x\r\n\r\n"+last, last+last,
	)
}

// converse sends text on a new connection, ends its side, and returns all that comes back.
func converse(t *testing.T, addr, text string) string {
	t.Helper()
	c, err := net.Dial("tcp", addr)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	c.SetDeadline(time.Now().Add(patient))
	io.WriteString(c, text)
	all, err := io.ReadAll(c) // the last request ends the connection
	if err != nil && !strings.Contains(err.Error(), "reset") {
		t.Errorf("%.300q: %v", text, err)
	}
	return string(all)
}
