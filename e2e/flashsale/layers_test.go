package flashsale_test

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/floodweir/weir/contrib/rueidis"
	"github.com/floodweir/weir/e2e/redistest"
	"github.com/floodweir/weir/flashsale/layers"
	"github.com/floodweir/weir/flashsale/web"
	"github.com/floodweir/weir/redisstore"
)

// TestLayersUnderLoad opens many connections that send requests without a pause, over a Redis
// with a timeout of 200 ms. A bulkhead limits the calls in flight, so Redis replies in time and
// the limit holds. At full counts this also holds with fail-open policies.
func TestLayersUnderLoad(t *testing.T) {
	conns, lasting := 1000, 2*time.Second
	if long() {
		conns, lasting = 3000, 10*time.Second
	}
	redis := redistest.Start(t)
	conn, err := rueidis.Open("redis://" + redis.Addr)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = conn.Close() }()
	file := string(layers.Default())
	const bound = "bulkhead: { max: 1024, max_waiters: 4096, wait: 1s }\n      adaptive: { min: 32, max: 1024, initial: 512 }"
	if !strings.Contains(file, bound) {
		t.Fatal("the default file has another bulkhead")
	}
	open := strings.NewReplacer("on_store_error: local", "on_store_error: open", "20/s burst 40", "1/h burst 10").Replace(file)
	for _, c := range []struct {
		name, file string
		most       int // admitted; -1: not checked
		always     bool
	}{
		// The local fallback applies the limit once more if Redis was slow for a moment.
		{"local", file, 2 * (40 + 20*int(lasting/time.Second+2)), true},
		{"open", open, 600, false},
		{"open without a bulkhead", strings.Replace(open, bound, "bulkhead: { max: 100000, max_waiters: 1, wait: 1ms }", 1), -1, false},
	} {
		if !c.always && !long() {
			continue // on a busy machine Redis may be slow for a second
		}
		t.Run(c.name, func(t *testing.T) {
			store, err := redisstore.New(conn, redisstore.Config{Prefix: fmt.Sprint("flood", c.most)})
			if err != nil {
				t.Fatal(err)
			}
			l, err := layers.New(layers.Config{Store: store, Deadline: 200 * time.Millisecond, Policies: []byte(c.file)})
			if err != nil {
				t.Fatal(err)
			}
			saw := flood(t, l, conns, lasting)
			requests, admitted, refused := l.Totals()
			t.Logf("%d connections, %v: the clients received %v; %d requests = %d admitted + %d refused", conns, lasting, saw, requests, admitted, refused)
			if requests != admitted+refused {
				t.Errorf("%d requests, %d admitted, %d refused", requests, admitted, refused)
			}
			if c.most >= 0 && int(admitted) > c.most {
				t.Errorf("%d of %d requests admitted, want at most %d", admitted, requests, c.most)
			}
			if saw["429 L1"] == 0 {
				t.Error("L1 refused no request")
			}
		})
	}
}

// flood sends requests over many connections, and counts the responses by status and layer.
func flood(t *testing.T, l *layers.Layers, conns int, lasting time.Duration) map[string]int {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	server := web.Server(l.Wrap(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, "{}") })))
	go func() { _ = server.Serve(listener) }()
	defer func() { _ = server.Close() }()
	var ready, done sync.WaitGroup
	var mu sync.Mutex
	saw := map[string]int{}
	begin := make(chan struct{})
	ready.Add(conns)
	for range conns {
		done.Go(func() {
			c, err := net.Dial("tcp", listener.Addr().String())
			ready.Done()
			if err != nil {
				t.Error(err)
				return
			}
			defer func() { _ = c.Close() }()
			<-begin
			mine := map[string]int{}
			r := bufio.NewReader(c)
			for end := time.Now().Add(lasting); time.Now().Before(end); {
				if _, err := io.WriteString(c, "GET /api/time HTTP/1.1\r\nHost: shop\r\n\r\n"); err != nil {
					t.Error(err)
					return
				}
				resp, err := http.ReadResponse(r, nil)
				if err != nil {
					t.Error(err)
					return
				}
				_, _ = io.Copy(io.Discard, resp.Body)
				mine[strings.TrimSpace(fmt.Sprint(resp.StatusCode, " ", resp.Header.Get(layers.LayerHeader)))]++
			}
			mu.Lock()
			defer mu.Unlock()
			for k, n := range mine {
				saw[k] += n
			}
		})
	}
	ready.Wait()
	close(begin)
	done.Wait()
	return saw
}
