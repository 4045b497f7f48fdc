package gateway_test

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/floodweir/weir/cmd/weir/internal/gateway"
)

// lines is a log that the test can read.
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

// TestUpstreamDown checks an upstream that is down: the response has no internal details,
// the log has them once per second, and each request is charged once.
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
			t.Errorf("the response contains %s: %s", address, body)
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
	if !strings.Contains(log.String(), "no response within the timeout") {
		t.Errorf("log = %s", log.String())
	}
}

// TestSlowBody checks that a client that pauses in its body gets an error of its own, and
// is disconnected.
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
		t.Error("the request to the upstream was not canceled")
	}
	if log.String() != "" {
		t.Errorf("log = %s, want nothing: no fault of the upstream", log.String())
	}
}
