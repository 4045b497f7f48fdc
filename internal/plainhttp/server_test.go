package plainhttp_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"regexp"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/floodweir/weir/internal/plainhttp"
)

const watchAfter = 20 * time.Millisecond

// patience bounds the time of everything in a test.
const patience = time.Minute

// start serves h and returns the address: with a Listener, or with an http.Server alone.
func start(t testing.TB, h http.HandlerFunc, alone bool, change func(*http.Server)) (addr string, l *plainhttp.Listener) {
	t.Helper()
	nl, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	protocols := new(http.Protocols)
	protocols.SetHTTP1(true)
	protocols.SetUnencryptedHTTP2(true)
	s := &http.Server{Handler: h, ReadHeaderTimeout: patience, IdleTimeout: patience, MaxHeaderBytes: 64 << 10, Protocols: protocols,
		DisableGeneralOptionsHandler: true, ErrorLog: log.New(io.Discard, "", 0)}
	if change != nil {
		change(s)
	}
	addr = nl.Addr().String()
	if !alone {
		l = plainhttp.Listen(s, nl, watchAfter)
		nl = l
	}
	go s.Serve(nl)
	t.Cleanup(func() {
		s.Close()
		if l != nil {
			ctx, cancel := context.WithCancel(context.Background())
			cancel()
			l.Shutdown(ctx)
		}
	})
	return addr, l
}

func dial(t testing.TB, addr string) *net.TCPConn {
	t.Helper()
	c, err := net.Dial("tcp", addr)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	c.SetDeadline(time.Now().Add(patience))
	return c.(*net.TCPConn)
}

var dates = regexp.MustCompile(`Date: \w{3}, [^\r]*\r\n`)

// converse sends pieces on a new connection, ends its side, and returns all that comes back.
func converse(t testing.TB, addr string, pieces ...string) string {
	t.Helper()
	c := dial(t, addr)
	for _, p := range pieces {
		if _, err := io.WriteString(c, p); err != nil {
			break // the server has closed the connection
		}
	}
	c.CloseWrite()
	all, err := io.ReadAll(c)
	if err != nil && !strings.Contains(err.Error(), "reset") {
		t.Errorf("%q: %v", pieces, err)
	}
	return string(dates.ReplaceAll(all, []byte("Date: …\r\n")))
}

// echo responds with all that it sees of a request, in the form that the path names.
func echo(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(r.Body)
	n, again := r.Body.Read(make([]byte, 1))
	text := fmt.Sprintf("%s %q %+v %s %q %d %q %v %d %v %v close=%v te=%v form=%v\n", r.Method, r.RequestURI, r.URL, r.Proto, r.Host, r.ContentLength, body, err, n, again, r.Header, r.Close, r.TransferEncoding, r.Trailer)
	h := w.Header()
	switch path := r.URL.Path; {
	case strings.HasPrefix(path, "/empty"):
	case strings.HasPrefix(path, "/status/"):
		status := 0
		fmt.Sscan(path[len("/status/"):], &status)
		h.Set("X-Zero", "1\r\n2")
		h.Set("Content-Type", "text/x")
		h.Set("Content-Length", "3")
		if status != 200 && status != 299 {
			h.Del("Content-Length")
		}
		w.WriteHeader(status)
		io.WriteString(w, "abc")
	case strings.HasPrefix(path, "/long"):
		for range 5 {
			io.WriteString(w, strings.Repeat("x", 1000))
		}
		io.WriteString(w, strings.Repeat("y", 5000))
	case strings.HasPrefix(path, "/flush"):
		io.WriteString(w, "one")
		http.NewResponseController(w).Flush()
		io.WriteString(w, "two")
	case strings.HasPrefix(path, "/header"):
		h["B"], h["A"], h["Bad Name"], h["Date"] = []string{"1", "2"}, []string{"  3\n4 "}, []string{"x"}, nil
		io.WriteString(w, text)
	case strings.HasPrefix(path, "/close"):
		h.Set("Connection", "close")
		io.WriteString(w, text)
	case strings.HasPrefix(path, "/short"):
		h.Set("Content-Length", "10")
		io.WriteString(w, "short")
	case strings.HasPrefix(path, "/toolong"):
		h.Set("Content-Length", "2")
		n, err := io.WriteString(w, "abc")
		m, err2 := io.WriteString(w, "")
		_, _, _, _ = n, err, m, err2
	case strings.HasPrefix(path, "/badlength"):
		h.Set("Content-Length", "x")
		io.WriteString(w, "abc")
	case strings.HasPrefix(path, "/identity"):
		h.Set("Transfer-Encoding", "identity")
		io.WriteString(w, "abc")
	case strings.HasPrefix(path, "/chunked"):
		h.Set("Transfer-Encoding", "chunked")
		h.Set("Content-Length", "3")
		io.WriteString(w, "abc")
	case strings.HasPrefix(path, "/early"):
		h.Set("Link", "x")
		w.WriteHeader(http.StatusEarlyHints)
		w.WriteHeader(http.StatusTeapot)
		w.WriteHeader(http.StatusOK)
		h.Set("Too-Late", "x")
		io.WriteString(w, "abc")
	case strings.HasPrefix(path, "/trailer"):
		h.Set("Trailer", "X-One, Content-Length, x-two")
		io.WriteString(w, "abc")
		h.Set("X-One", "1")
		h.Set(http.TrailerPrefix+"X-Three", "3")
	case strings.HasPrefix(path, "/encoded"):
		h.Set("Content-Encoding", "gzip")
		io.WriteString(w, "abc")
	case strings.HasPrefix(path, "/panic"):
		io.WriteString(w, "abc")
		panic(http.ErrAbortHandler)
	default:
		io.WriteString(w, text)
	}
}

const last = "GET /last HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n"

// corpus returns requests of all kinds, valid or not.
func corpus() (all []string) {
	all = append(all, plainhttp.Requests...)
	for _, method := range []string{"GET", "HEAD", "POST"} {
		for _, path := range []string{"/", "/empty", "/status/200", "/status/204", "/status/304", "/status/299", "/status/600", "/status/404", "/long", "/flush", "/header", "/close",
			"/short", "/toolong", "/badlength", "/identity", "/chunked", "/early", "/trailer", "/encoded", "/panic"} {
			all = append(all, method+" "+path+" HTTP/1.1\r\nHost: x\r\n\r\n")
		}
	}
	get, post := "GET /x HTTP/1.1\r\nHost: x\r\n", "POST /x HTTP/1.1\r\nHost: x\r\n"
	for _, field := range []string{
		"Connection: close", "connection: CLOSE", "Connection: keep-alive, close", "Connection: upgrade", "Connection: x", "Connection:", "Connection: keep-alive\r\nConnection: close",
		"Upgrade: h2c", "Upgrade: websocket\r\nConnection: Upgrade", "Expect: 100-continue", "Expect: x", "TE: trailers", "Te: gzip", "Trailer: x", "Keep-Alive: 5", "Proxy-Connection: keep-alive",
		"X: \tv\t", "X: a\tb", "X: \xff", "X: ü", "X:", "X: ", ":", ": x", "X", "X y: z", "X\x00: y", "X: \x00", "X: a\rb", "X: a\rbY: c", "X: a\nY: b", "X: a\r\n b", "\tX: a", " X: a", "X:a\r", "Host: y", "host: y",
		"Content-Length: 0", "Content-Length: 00", "Content-Length: -1", "Content-Length: +0", "Content-Length:", "Content-Length: 1 ", "Content-Length: 1, 1", "Content-Length: 0x1", "Content-Length: 99999999999999999999",
		"Content-Length: 0\r\nContent-Length: 0", "Content-Length: 0\r\nContent-Length: 1", "Transfer-Encoding: chunked", "Transfer-Encoding: CHUNKED", "Transfer-Encoding: identity", "Transfer-Encoding:  chunked ",
		"Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked", "Transfer-Encoding: gzip, chunked", "Transfer-Encoding : chunked", "Transfer_Encoding: chunked", "Content_Length: 3",
		"Pragma: no-cache", "Pragma: no-cache\r\nCache-Control: x", "pragma: No-Cache", "X-A: 1\r\nx-a: 2\r\nX-a: 3", "Cookie: a=b\r\nCookie: c=d", "HTTP2-Settings: AAA\r\nConnection: Upgrade, HTTP2-Settings\r\nUpgrade: h2c",
		"X: " + strings.Repeat("y", 600), "X: " + strings.Repeat("y", 5000), "X: " + strings.Repeat("y", 17000), "X: " + strings.Repeat("y", 80000), strings.Repeat("X-Many: y\r\n", 300) + "Z: z",
	} {
		all = append(all, get+field+"\r\n\r\n", post+field+"\r\n\r\n", post+field+"\r\nContent-Length: 3\r\n\r\nabc", post+field+"\r\n\r\n0\r\n\r\n")
	}
	for _, line := range []string{
		"GET / HTTP/1.0", "GET / HTTP/1.2", "GET / HTTP/2.0", "GET / HTTP/0.9", "GET /", "GET", "", "GET  / HTTP/1.1", "GET /  HTTP/1.1", " GET / HTTP/1.1", "GET / HTTP/1.1 ", "GET /\tx HTTP/1.1", "GET / x HTTP/1.1", "get / HTTP/1.1", "G(T / HTTP/1.1", "GET / http/1.1",
		"GET * HTTP/1.1", "OPTIONS * HTTP/1.1", "GET x HTTP/1.1", "GET http://y/z HTTP/1.1", "GET http:///z HTTP/1.1", "CONNECT x:80 HTTP/1.1", "CONNECT /x HTTP/1.1", "GET //x HTTP/1.1", "GET ///x HTTP/1.1", "GET /%zz HTTP/1.1", "GET /%2f HTTP/1.1", "GET /%2F%41 HTTP/1.1", "GET /a%20b?c%20d HTTP/1.1",
		"GET /? HTTP/1.1", "GET /?? HTTP/1.1", "GET /x?y? HTTP/1.1", "GET /x#y HTTP/1.1", "GET /x?y#z HTTP/1.1", "GET /x;y HTTP/1.1", "GET /[x] HTTP/1.1", "GET /x\x7f HTTP/1.1", "GET /\x80 HTTP/1.1", "GET /ü HTTP/1.1", "GET /x?ü HTTP/1.1", "GET /x?\x01 HTTP/1.1", "GET /a:b@c HTTP/1.1", "GET /./../x HTTP/1.1", "GET /\" HTTP/1.1", "GET /{} HTTP/1.1", "GET /a!*'() HTTP/1.1",
		"PRI * HTTP/2.0", "DELETE /x HTTP/1.1", "X-!#$%&'*+.^_`|~ / HTTP/1.1",
	} {
		all = append(all, line+"\r\nHost: x\r\n\r\n", line+"\r\n\r\n", line+"\nHost: x\n\n")
	}
	for _, host := range []string{"", " ", "x y", "x/y", "x@y", "x:y", "[::1%25en0]", "X.Example:80", "ü", "x_y", "a,b", "x\ty", "<x>"} {
		all = append(all, "GET / HTTP/1.1\r\nHost: "+host+"\r\n\r\n")
	}
	return append(all,
		get+"\r\n"+get+"\r\n", post+"Content-Length: 3\r\n\r\nabc\r\n"+get+"\r\n", post+"Content-Length: 3\r\n\r\nabc\r\n\r\n\r\n"+get+"\r\n", get+"\r\n\r\n"+get+"\r\n", post+"Content-Length: 3\r\n\r\nab",
		post+"Content-Length: 20000\r\n\r\n"+strings.Repeat("x", 20000), post+"Content-Length: 4000\r\n\r\n"+strings.Repeat("x", 4000)+get+"\r\n",
		post+"Content-Length: 3\r\n\r\nabc"+post+"Transfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n0\r\n\r\n"+get+"\r\n", get+"\r\nPRI", "P", "GET /x HTTP/1.1\r\nHost", "GE", "GET", "GET ", "GET /x HTTP/1.1\r\nBad field\r\n",
	)
}

// TestSame compares all that clients get from an http.Server with a Listener and from one alone.
func TestSame(t *testing.T) {
	alone, _ := start(t, echo, true, nil)
	both, _ := start(t, echo, false, nil)
	for _, text := range corpus() {
		if strings.HasPrefix(text, "PRI ") {
			continue // see TestHTTP2
		}
		for _, pieces := range [][]string{{text, last}, {text + last}, {text}, {last[:9], last[9:len(last)-len("Connection: close\r\n\r\n")] + "\r\n", text}} {
			if want, got := converse(t, alone, pieces...), converse(t, both, pieces...); got != want {
				t.Errorf("%.300q\nhttp.Server: %.900q\nListener:    %.900q", pieces, want, got)
			}
		}
	}
	t.Logf("%d requests", len(corpus()))
}

// TestSplit sends a request in two pieces, at every byte.
func TestSplit(t *testing.T) {
	both, _ := start(t, echo, false, nil)
	text := "POST /a?b HTTP/1.1\r\nHost: x\r\nContent-Length: 3\r\n\r\nabc"
	want := converse(t, both, text+last)
	if strings.Count(want, "200 OK") != 2 {
		t.Fatalf("got %q, want two responses", want)
	}
	for at := 1; at < len(text); at++ {
		c := dial(t, both)
		c.SetNoDelay(true)
		io.WriteString(c, text[:at])
		io.WriteString(c, text[at:]+last)
		c.CloseWrite()
		got, err := io.ReadAll(c)
		if got = dates.ReplaceAll(got, []byte("Date: …\r\n")); err != nil || string(got) != want {
			t.Errorf("split at %d: %q, %v, want %q", at, got, err, want)
		}
	}
}

// A pipes is a listener of connections without buffers: what one Write sends, one Read gets.
type pipes struct {
	net.Listener
	conns chan net.Conn
}

func (p pipes) Accept() (net.Conn, error) {
	if c := <-p.conns; c != nil {
		return c, nil
	}
	return nil, net.ErrClosed
}

func (p pipes) Close() error { return nil }

// TestPieces sends a request in single bytes, which the http.Server serves.
func TestPieces(t *testing.T) {
	p := pipes{conns: make(chan net.Conn, 1)}
	s := &http.Server{Handler: http.HandlerFunc(echo)}
	l := plainhttp.Listen(s, p, watchAfter)
	served := make(chan net.Conn, 1)
	go func() {
		c, err := l.Accept()
		if err != nil {
			t.Error(err)
		}
		served <- c
	}()
	client, server := net.Pipe()
	client.SetDeadline(time.Now().Add(patience))
	p.conns <- server
	text := "GET / HTTP/1.1\r\nHost: x\r\n\r\n"
	for i := range 8 {
		if _, err := io.WriteString(client, text[i:i+1]); err != nil {
			t.Fatal(err)
		}
	}
	buf := make([]byte, 100)
	if n, err := (<-served).Read(buf); err != nil || !strings.HasPrefix(text, string(buf[:n])) || n != 8 {
		t.Errorf("the http.Server reads %q, %v, want the first 8 bytes of %q", buf[:n], err, text)
	}
	client.Close()
	close(p.conns)
	l.Close()
}

// TestDisconnect checks that the context of a request ends when its client disconnects, and not
// before.
func TestDisconnect(t *testing.T) {
	arrived, ended := make(chan bool), make(chan error)
	release := make(chan bool)
	h := func(w http.ResponseWriter, r *http.Request) {
		arrived <- true
		select {
		case <-r.Context().Done():
			ended <- context.Cause(r.Context())
		case <-release:
			io.WriteString(w, r.Method+" "+r.URL.Path)
		}
	}
	addr, _ := start(t, h, false, nil)
	c := dial(t, addr)
	io.WriteString(c, "GET /one HTTP/1.1\r\nHost: x\r\n\r\n")
	<-arrived
	io.WriteString(c, "GET /two HTTP/1.1\r\nHost: x\r\n\r\n") // its first byte is read by the watch
	for _, path := range []string{"/one", "/two"} {
		timer := time.NewTimer(3 * watchAfter)
		select {
		case err := <-ended:
			t.Fatalf("%s: the context ended: %v", path, err)
		case <-timer.C:
		}
		release <- true
		buf := make([]byte, 1000)
		n, err := c.Read(buf)
		if err != nil || !bytes.HasSuffix(buf[:n], []byte("\r\n\r\nGET "+path)) {
			t.Fatalf("%q, %v, want GET %s", buf[:n], err, path)
		}
		if path == "/one" {
			<-arrived
		}
	}
	io.WriteString(c, "GET /three HTTP/1.1\r\nHost: x\r\n\r\n")
	<-arrived
	c.Close()
	select {
	case err := <-ended:
		if !errors.Is(err, context.Canceled) {
			t.Errorf("the context ended with %v, want %v", err, context.Canceled)
		}
	case <-time.After(patience):
		t.Error("the context did not end with its client")
		release <- true
	}
}

// TestShutdown checks that idle connections end at once, and requests in flight are completed.
func TestShutdown(t *testing.T) {
	arrived, release := make(chan bool), make(chan bool)
	var server *http.Server
	addr, l := start(t, func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/wait" {
			arrived <- true
			<-release
		}
	}, false, func(s *http.Server) { server = s })
	quiet, busy := dial(t, addr), dial(t, addr)
	buf := make([]byte, 1000)
	io.WriteString(quiet, "GET / HTTP/1.1\r\nHost: x\r\n\r\n")
	if n, err := quiet.Read(buf); err != nil || !bytes.HasPrefix(buf[:n], []byte("HTTP/1.1 200")) {
		t.Fatalf("%q, %v", buf[:n], err)
	}
	io.WriteString(busy, "GET /wait HTTP/1.1\r\nHost: x\r\n\r\n")
	<-arrived
	down := make(chan error)
	go func() {
		if err := server.Shutdown(t.Context()); err != nil {
			t.Error(err)
		}
		down <- l.Shutdown(t.Context())
	}()
	if n, err := quiet.Read(buf); err != io.EOF {
		t.Errorf("idle connection: %q, %v, want EOF", buf[:n], err)
	}
	if _, err := net.Dial("tcp", addr); err == nil {
		t.Error("a connection was accepted after Shutdown")
	}
	release <- true
	if err := <-down; err != nil {
		t.Error(err)
	}
	if got, err := io.ReadAll(busy); err != nil || !bytes.Contains(got, []byte("\r\nConnection: close\r\n")) {
		t.Errorf("%q, %v, want a response with Connection: close", got, err)
	}
}

// TestTimeouts checks that a client that sends nothing, or no whole header, is disconnected.
func TestTimeouts(t *testing.T) {
	const header, idle = 10 * time.Second, time.Minute
	for text, want := range map[string]time.Duration{
		"": header, "GET / HTTP/1.1\r\nHost": header, "GET / HTTP/1.1\r\nHost: x\r\n\r\n": idle, "GET / HTTP/1.1\r\nHost: x\r\n\r\nGET /": header,
	} {
		synctest.Test(t, func(t *testing.T) {
			p := pipes{conns: make(chan net.Conn, 1)}
			s := &http.Server{Handler: http.HandlerFunc(echo), ReadHeaderTimeout: header, IdleTimeout: idle}
			l := plainhttp.Listen(s, p, watchAfter)
			served := make(chan error, 1)
			go func() { served <- s.Serve(l) }()
			client, server := net.Pipe()
			p.conns <- server
			began := time.Now()
			go io.WriteString(client, text)
			got, err := io.ReadAll(client)
			if took := time.Since(began); err != nil || strings.Count(string(got), "200 OK") != strings.Count(text, "\r\n\r\n") || took < want || took > want+want/8 {
				t.Errorf("%q: %q, %v after %v, want the end after %v", text, got, err, took, want)
			}
			close(p.conns)
			s.Close()
			<-served
		})
	}
}

// TestSlowReader checks that a client that reads nothing is disconnected by the write deadline of the
// handler, or of the http.Server.
func TestSlowReader(t *testing.T) {
	const deadline = 50 * time.Millisecond
	for _, whole := range []time.Duration{0, deadline} {
		failed := make(chan error, 1)
		addr, _ := start(t, func(w http.ResponseWriter, r *http.Request) {
			piece, conn := make([]byte, 64<<10), http.NewResponseController(w)
			for {
				if whole == 0 {
					conn.SetWriteDeadline(time.Now().Add(deadline))
				}
				if _, err := w.Write(piece); err != nil {
					failed <- err
					return
				}
			}
		}, false, func(s *http.Server) { s.WriteTimeout = whole })
		c := dial(t, addr)
		io.WriteString(c, "GET / HTTP/1.1\r\nHost: x\r\n\r\n")
		var timeout net.Error
		select {
		case err := <-failed:
			if !errors.As(err, &timeout) || !timeout.Timeout() {
				t.Errorf("WriteTimeout %v: %v, want a timeout", whole, err)
			}
		case <-time.After(patience):
			t.Errorf("WriteTimeout %v: no error, want a timeout", whole)
		}
	}
}

// TestHTTP2 checks that HTTP/2 with prior knowledge reaches the http.Server.
func TestHTTP2(t *testing.T) {
	addr, _ := start(t, echo, false, nil)
	protocols := new(http.Protocols)
	protocols.SetUnencryptedHTTP2(true)
	tr := &http.Transport{Protocols: protocols}
	defer tr.CloseIdleConnections()
	res, err := (&http.Client{Transport: tr, Timeout: patience}).Get("http://" + addr)
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	if res.ProtoMajor != 2 || res.StatusCode != http.StatusOK {
		t.Errorf("%s %s, want HTTP/2", res.Proto, res.Status)
	}
	const get = "GET / HTTP/1.1\r\nHost: x\r\n\r\n"
	if got := converse(t, addr, get, "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"); got != converse(t, addr, get) {
		t.Errorf("a preface behind a request: %q, want only the response to that", got)
	}
}

// TestContext checks the context of a request, of which contexts are derived before and after its end.
func TestContext(t *testing.T) {
	type key struct{}
	base, stop := context.WithCancelCause(context.WithValue(context.Background(), key{}, "base"))
	ended := make(chan error, 4)
	var kept context.Context
	h := func(_ http.ResponseWriter, r *http.Request) {
		kept = r.Context()
		if kept.Err() != nil || kept.Value(key{}) != "base" || kept.Value(http.LocalAddrContextKey) == nil || kept.Value(http.ServerContextKey) == nil {
			t.Errorf("%v: error %v, or a missing value", kept, kept.Err())
		}
		if r.URL.Path == "/derive" {
			child, cancel := context.WithCancel(context.WithValue(kept, key{}, "child"))
			context.AfterFunc(child, func() { ended <- child.Err(); cancel() })
		}
		if r.URL.Path == "/stop" {
			stop(errors.New("down"))
			<-kept.Done()
			ended <- context.Cause(kept)
		}
	}
	addr, _ := start(t, h, false, func(s *http.Server) { s.BaseContext = func(net.Listener) context.Context { return base } })
	const get = " HTTP/1.1\r\nHost: x\r\n\r\n"
	converse(t, addr, "GET /"+get)
	select {
	case <-kept.Done():
	default:
		t.Error("Done of a request that has ended is open")
	}
	if !errors.Is(kept.Err(), context.Canceled) || kept.Value(key{}) != "base" {
		t.Errorf("after the end: %v", kept.Err())
	}
	converse(t, addr, "GET /derive"+get)
	if err := <-ended; !errors.Is(err, context.Canceled) {
		t.Errorf("a derived context ended with %v", err)
	}
	converse(t, addr, "GET /stop"+get)
	if err := <-ended; err == nil || err.Error() != "down" {
		t.Errorf("the cause is %v, want that of the server's context", err)
	}
}

// TestBegin checks that fields replace those of the header, that a client receives them, and that
// Header has them, with every server.
func TestBegin(t *testing.T) {
	var seen, got [2]string
	for i, alone := range []bool{false, true} {
		addr, _ := start(t, func(w http.ResponseWriter, r *http.Request) {
			h := w.Header()
			h.Set("Kept", "1")
			h.Set("Content-Type", "text/replaced")
			h["Twice"] = []string{"old", "older"}
			plainhttp.Begin(w, http.StatusTooManyRequests, []plainhttp.Pair{{"Twice", "a"}, {"Content-Type", "text/x"}, {"Content-Length", "3"}, {"Twice", "b"}})
			io.WriteString(w, "abc")
			seen[i] = fmt.Sprint(w.Header())
		}, alone, nil)
		got[i] = converse(t, addr, "GET / HTTP/1.1\r\nHost: x\r\n\r\n")
	}
	if seen[0] != seen[1] || got[0] != got[1] {
		t.Errorf("plain:       %q, header %s\nhttp.Server: %q, header %s", got[0], seen[0], got[1], seen[1])
	}
	if want := "Content-Length: 3\r\nContent-Type: text/x\r\nKept: 1\r\nTwice: a\r\nTwice: b\r\n"; !strings.Contains(got[0], want) {
		t.Errorf("%q, want %q", got[0], want)
	}
}
