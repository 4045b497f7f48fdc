package gateway_test

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/floodweir/weir/cmd/weir/internal/gateway"
)

// TestBothWays checks that an upstream that responds before the end of the body receives
// the whole body, over HTTP/1.1 too.
func TestBothWays(t *testing.T) {
	up := upstream(t, func(w http.ResponseWriter, r *http.Request) {
		http.NewResponseController(w).EnableFullDuplex()
		w.WriteHeader(200)
		for piece := make([]byte, 5); ; {
			http.NewResponseController(w).Flush()
			if _, err := io.ReadFull(r.Body, piece); err != nil {
				return
			}
			w.Write(piece)
		}
	})
	gw := start(t, gateway.Config{Routes: to(up)})
	conn := dial(t, gw)
	io.WriteString(conn, "POST / HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n")
	res, err := http.ReadResponse(bufio.NewReader(conn), nil)
	if err != nil {
		t.Fatal(err)
	}
	for _, word := range []string{"hello", "again"} {
		fmt.Fprintf(conn, "5\r\n%s\r\n", word)
		back := make([]byte, 5)
		if _, err := io.ReadFull(res.Body, back); err != nil || string(back) != word {
			t.Fatalf("echo = %q, %v, want %q", back, err, word)
		}
	}
	io.WriteString(conn, "0\r\n\r\n")
	if rest, err := io.ReadAll(res.Body); err != nil || len(rest) > 0 {
		t.Errorf("the end = %q, %v", rest, err)
	}
}

// TestRestOfABodyIsNoRequest checks that the connection ends after a response before the
// end of the body, so the rest is not parsed as a request.
func TestRestOfABodyIsNoRequest(t *testing.T) {
	t.Parallel()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	paths := make(chan string, 10)
	go func() { // an upstream that answers, and reads no body
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			t.Cleanup(func() { conn.Close() })
			if r, err := http.ReadRequest(bufio.NewReader(conn)); err == nil {
				paths <- r.URL.Path
			}
			io.WriteString(conn, "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok")
		}
	}()
	gw := start(t, gateway.Config{Routes: []gateway.Route{{Upstream: "http://" + l.Addr().String(), Timeout: 500 * time.Millisecond}}})
	const inside = "GET /smuggled HTTP/1.1\r\nHost: x\r\n\r\n"
	for _, head := range []string{
		fmt.Sprintf("Content-Length: %d\r\n\r\nabc", 3+len(inside)),
		"Transfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n",
	} {
		conn := dial(t, gw)
		io.WriteString(conn, "POST /first HTTP/1.1\r\nHost: x\r\n"+head)
		br := bufio.NewReader(conn)
		res, err := http.ReadResponse(br, nil)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := io.ReadAll(res.Body); err != nil || res.StatusCode != 200 || !res.Close {
			t.Errorf("the early answer = %d, close %t, %v; want 200 and that the connection closes", res.StatusCode, res.Close, err)
		}
		io.WriteString(conn, inside) // the pause is over
		if rest, _ := io.ReadAll(br); strings.Contains(string(rest), "HTTP/1.1") {
			t.Errorf("after the answer comes %q, want the end of the connection", rest)
		}
		if path := <-paths; path != "/first" || len(paths) > 0 {
			t.Errorf("the upstream saw %q and %d more, want /first alone", path, len(paths))
		}
	}
}
