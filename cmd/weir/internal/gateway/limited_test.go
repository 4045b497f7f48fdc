package gateway_test

import (
	"bufio"
	"encoding/binary"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"sync/atomic"
	"testing"
	"time"

	"github.com/floodweir/weir"
	"github.com/floodweir/weir/cmd/weir/internal/gateway"
	"github.com/floodweir/weir/httplimit"
	"github.com/floodweir/weir/internal/fakestore"
	"github.com/floodweir/weir/memstore"
	"github.com/floodweir/weir/plainhttp"
	"github.com/floodweir/weir/policy"
)

// limited applies one limit to all clients, and records the requests in front of it.
type limited struct {
	store          *memstore.Store
	limit          weir.Limit
	wrap           func(http.Handler) http.Handler
	active, served atomic.Int64
}

func everybody(t *testing.T, limit string) *limited {
	t.Helper()
	store, err := memstore.New(memstore.Config{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { store.Close() })
	l := &limited{store: store, limit: fakestore.PolicyLimit(t, limit)}
	p, err := policy.New(policy.Config{Name: "p", Key: []policy.KeyPart{{Source: policy.Constant, Name: "all"}}, Limits: []weir.Limit{l.limit}})
	if err != nil {
		t.Fatal(err)
	}
	set, err := policy.NewSet(p)
	if err != nil {
		t.Fatal(err)
	}
	m, err := httplimit.New(store, set, httplimit.Config{})
	if err != nil {
		t.Fatal(err)
	}
	l.wrap = func(next http.Handler) http.Handler {
		inside := m.Wrap(next)
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			l.active.Add(1)
			l.served.Add(1)
			defer l.active.Add(-1)
			inside.ServeHTTP(w, r)
		})
	}
	return l
}

// taken returns the used part of the limit.
func (l *limited) taken(t *testing.T) int64 {
	t.Helper()
	d, err := l.store.Do(t.Context(), weir.Request{Verb: weir.Peek, Key: "p|3:all", Limit: l.limit})
	if err != nil {
		t.Fatal(err)
	}
	return l.limit.Capacity() - d.Remaining
}

// within waits until a condition holds.
func within(t *testing.T, what string, fact func() bool) {
	t.Helper()
	tick := time.NewTicker(time.Millisecond)
	defer tick.Stop()
	for end := time.After(patient); !fact(); {
		select {
		case <-tick.C:
		case <-end:
			t.Fatalf("not within %v: %s", patient, what)
		}
	}
}

// TestSlotOfATunnel checks that an upgraded connection holds its slot until either side
// ends it, and that a client cannot hold it longer.
func TestSlotOfATunnel(t *testing.T) {
	up := upstream(t, func(w http.ResponseWriter, r *http.Request) {
		conn, rw, err := http.NewResponseController(w).Hijack()
		if err != nil {
			t.Error(err)
			return
		}
		defer conn.Close()
		io.WriteString(conn, "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n")
		rw.ReadByte() // until a byte comes, or the client leaves
	})
	l := everybody(t, "1 concurrency")
	gw := start(t, gateway.Config{Routes: []gateway.Route{{Upstream: up, Timeout: 5 * time.Second}}, Limit: l.wrap})
	for step, end := range []string{"client leaves", "upstream ends"} {
		conn := dial(t, gw)
		status := func(conn io.ReadWriter) int {
			io.WriteString(conn, "GET /chat HTTP/1.1\r\nHost: x\r\nConnection: keep-alive, Upgrade\r\nUpgrade: websocket\r\n\r\n")
			res, err := http.ReadResponse(bufio.NewReader(conn), nil)
			if err != nil {
				t.Fatalf("step %d: %v", step, err)
			}
			return res.StatusCode
		}
		if got := status(conn); got != 101 {
			t.Fatalf("step %d: upgrade = %d, want 101", step, got)
		}
		if got := status(dial(t, gw)); got != 429 {
			t.Errorf("step %d: beside an open tunnel = %d, want 429", step, got)
		}
		if step == 0 {
			conn.Close()
		} else {
			io.WriteString(conn, "x")
		}
		within(t, end+" and the slot is free", func() bool { return l.active.Load() == 0 && l.taken(t) == 0 })
	}
}

// TestSlotOfABrokenAnswer checks that the slot is released when ReverseProxy panics
// because its upstream died during the response.
func TestSlotOfABrokenAnswer(t *testing.T) {
	up := upstream(t, func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Length", "1000")
		io.WriteString(w, "half of it")
		w.(http.Flusher).Flush()
		panic(http.ErrAbortHandler)
	})
	l := everybody(t, "1 concurrency")
	gw := start(t, gateway.Config{Routes: to(up), Limit: l.wrap})
	for step := range 3 {
		res, err := http.Get(gw)
		if err != nil {
			t.Fatal(err)
		}
		_, err = io.ReadAll(res.Body)
		res.Body.Close()
		if res.StatusCode != 200 || err == nil {
			t.Errorf("step %d: %d, %v, want 200 and an answer that is cut off", step, res.StatusCode, err)
		}
		within(t, "the slot is free", func() bool { return l.active.Load() == 0 && l.taken(t) == 0 })
	}
}

// TestSlotOfAClientThatDoesNotRead checks that a response is aborted if the client does
// not read it, over HTTP/1.1 and HTTP/2. A response that pauses by itself is not.
func TestSlotOfAClientThatDoesNotRead(t *testing.T) {
	t.Parallel()
	const patience = 500 * time.Millisecond
	up := upstream(t, func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/pause" {
			w.WriteHeader(200)
			http.NewResponseController(w).Flush()
			timer := time.NewTimer(patience + 100*time.Millisecond)
			defer timer.Stop()
			<-timer.C
			io.WriteString(w, "after a pause")
			return
		}
		for piece := make([]byte, 64<<10); ; {
			if _, err := w.Write(piece); err != nil {
				return
			}
		}
	})
	l := everybody(t, "1 concurrency")
	gw := start(t, gateway.Config{Routes: to(up), Limit: l.wrap, SendTimeout: patience})
	for _, h2 := range []bool{false, true} {
		tr := &http.Transport{Protocols: new(http.Protocols)}
		tr.Protocols.SetHTTP1(!h2)
		tr.Protocols.SetUnencryptedHTTP2(h2)
		defer tr.CloseIdleConnections()
		client := &http.Client{Transport: tr, Timeout: patient}
		res, err := client.Get(gw + "/pause")
		if err != nil {
			t.Fatal(err)
		}
		if body, err := io.ReadAll(res.Body); err != nil || string(body) != "after a pause" {
			t.Errorf("%s: %q, %v, want what comes after a pause", res.Proto, body, err)
		}
		res.Body.Close()
		within(t, "the slot is free", func() bool { return l.taken(t) == 0 })
		if res, err = client.Get(gw + "/endless"); err != nil {
			t.Fatal(err)
		}
		within(t, "the unread response is aborted", func() bool { return l.active.Load() == 0 && l.taken(t) == 0 })
		res.Body.Close()
	}
}

// TestClientsThatLeaveTheQueue checks that a client that disconnects from the queue
// leaves nothing behind, and stays charged.
func TestClientsThatLeaveTheQueue(t *testing.T) {
	var reached atomic.Int64
	up := upstream(t, func(http.ResponseWriter, *http.Request) { reached.Add(1) })
	const clients = 50
	l := everybody(t, fmt.Sprintf("1/h leaky_bucket burst %d queue", clients+1))
	gw := start(t, gateway.Config{Routes: to(up), Limit: l.wrap})
	get(t, gw)
	var conns []io.Closer
	for range clients {
		conn := dial(t, gw)
		io.WriteString(conn, "GET / HTTP/1.1\r\nHost: x\r\n\r\n")
		conns = append(conns, conn)
	}
	within(t, "all wait", func() bool { return l.active.Load() == clients })
	for _, c := range conns {
		c.Close()
	}
	within(t, "no request waits", func() bool { return l.active.Load() == 0 })
	if reached.Load() != 1 || l.taken(t) < clients {
		t.Errorf("the upstream saw %d requests and %d were charged, want 1 and %d", reached.Load(), l.taken(t), clients)
	}
}

// TestResetStreamsCount resets 500 streams on one connection as soon as they are open.
// Every stream that reaches the limit is charged, and the upstream sees at most the
// limit.
func TestResetStreamsCount(t *testing.T) {
	var reached atomic.Int64
	up := upstream(t, func(http.ResponseWriter, *http.Request) { reached.Add(1) })
	l := everybody(t, "1000/24h")
	gw := start(t, gateway.Config{Routes: to(up), Limit: l.wrap})
	conn := dial(t, gw)
	io.WriteString(conn, "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n")
	frame := func(kind, flags byte, stream uint32, payload []byte) []byte {
		b := []byte{0, 0, byte(len(payload)), kind, flags}
		return append(binary.BigEndian.AppendUint32(b, stream), payload...)
	}
	const (
		headers, reset, settings = 1, 3, 4
		endStream, endHeaders    = 1, 4
	)
	// HPACK: GET, http, / and the authority x.
	block := []byte{0x82, 0x86, 0x84, 0x01, 1, 'x'}
	storm := frame(settings, 0, 0, nil)
	for i := range uint32(500) {
		storm = append(storm, frame(headers, endStream|endHeaders, 2*i+1, block)...)
		storm = append(storm, frame(reset, 0, 2*i+1, []byte{0, 0, 0, 8})...)
	}
	if _, err := conn.Write(storm); err != nil {
		t.Fatal(err)
	}
	go io.Copy(io.Discard, conn)
	within(t, "a stream is served", func() bool { return l.served.Load() > 0 })
	conn.Close()
	within(t, "all streams end", func() bool { return l.active.Load() == 0 })
	served, taken := l.served.Load(), l.taken(t)
	if taken != served || reached.Load() > taken {
		t.Errorf("%d requests reached the limit, %d were charged, %d reached the upstream: want as many charged as came, and no more beyond", served, taken, reached.Load())
	}
	if res, _ := get(t, gw); res.StatusCode != 200 {
		t.Errorf("after the storm = %d, want 200", res.StatusCode)
	}
}

// A spiedListener calls wrote before each write to a client.
type spiedListener struct {
	net.Listener
	wrote func()
}

func (l spiedListener) Accept() (net.Conn, error) {
	nc, err := l.Listener.Accept()
	return spiedConn{nc, l.wrote}, err
}

type spiedConn struct {
	net.Conn
	wrote func()
}

func (c spiedConn) Write(p []byte) (int, error) {
	c.wrote()
	return c.Conn.Write(p)
}

// TestSlotIsFreeBeforeTheResponse checks that a small response is sent after the end of its request, so
// that a client that has it can use the slot again.
func TestSlotIsFreeBeforeTheResponse(t *testing.T) {
	up := upstream(t, func(w http.ResponseWriter, _ *http.Request) { io.WriteString(w, "ok") })
	var open atomic.Int64
	g, err := gateway.New(gateway.Config{Routes: to(up), Limit: func(next http.Handler) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			open.Add(1)
			defer open.Add(-1)
			next.ServeHTTP(w, r)
		})
	}})
	if err != nil {
		t.Fatal(err)
	}
	defer g.Close()
	s := httptest.NewUnstartedServer(g)
	writes := 0
	l := plainhttp.Listen(s.Config, spiedListener{s.Listener, func() {
		if writes++; open.Load() > 0 {
			t.Error("the response was sent before the end of the request")
		}
	}}, plainhttp.Config{})
	s.Listener = l
	s.Start()
	defer s.Close()
	if res, body := do(t, request(t, "GET", s.URL, nil)); res.StatusCode != http.StatusOK || body != "ok" || writes != 1 {
		t.Errorf("%s, %q in %d writes, want ok in 1", res.Status, body, writes)
	}
}
