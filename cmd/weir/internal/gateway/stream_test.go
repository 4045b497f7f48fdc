package gateway_test

import (
	"bufio"
	"crypto/x509"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/floodweir/weir/cmd/weir/internal/gateway"
)

// TestStreamingDown checks that a response is streamed: the client has the first piece
// before the upstream writes the second.
func TestStreamingDown(t *testing.T) {
	t.Parallel()
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
	gw := start(t, gateway.Config{Routes: []gateway.Route{{Upstream: up, Timeout: time.Second}}})
	res, err := http.DefaultClient.Do(request(t, "POST", gw, strings.NewReader("body"))) // whose time is over with its end
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	piece := make([]byte, 3)
	if _, err := io.ReadFull(res.Body, piece); err != nil || string(piece) != "one" {
		t.Fatalf("first piece = %q, %v", piece, err)
	}
	timer := time.NewTimer(1200 * time.Millisecond) // beyond the timeout: an answer that has begun may pause
	defer timer.Stop()
	<-timer.C
	close(read)
	rest, err := io.ReadAll(res.Body)
	if err != nil || string(rest) != "two" {
		t.Errorf("the rest = %q, %v", rest, err)
	}
}

// TestStreamingUp checks that a request is streamed: the upstream has the first piece
// before the client sends the second.
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

// TestInterimAnswer checks that the fields of the limits survive an interim response of
// the upstream.
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
	t.Parallel()
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
	gw := start(t, gateway.Config{Routes: []gateway.Route{{Upstream: up, Timeout: time.Second}}, AccessLog: 1, Log: slog.New(slog.NewTextHandler(io.Discard, &slog.HandlerOptions{Level: slog.LevelDebug}))})
	conn := dial(t, gw)
	io.WriteString(conn, "GET /chat HTTP/1.1\r\nHost: x\r\nConnection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n")
	br := bufio.NewReader(conn)
	res, err := http.ReadResponse(br, nil)
	if err != nil || res.StatusCode != 101 || res.Header.Get("Upgrade") != "websocket" {
		t.Fatalf("upgrade = %v, %v, want 101", res, err)
	}
	timer := time.NewTimer(1200 * time.Millisecond) // an upgraded connection may be silent
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

// TestEncodingIsTheClients checks that the gateway neither requests an encoding nor
// decompresses a response.
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
