package run

import (
	"fmt"
	"io"
	"math"
	"net"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/floodweir/weir/cmd/weir/internal/config"
)

// TestConnectionsAreBounded connects many clients to each listener. Those above the maximum are
// disconnected, and a client can connect when another one has left.
func TestConnectionsAreBounded(t *testing.T) {
	const most, clients = 3, 50
	c := settings(t, "http://127.0.0.1:1", perClient("1/s"))
	c.MaxConnections = most
	c.GRPC = config.GRPC{Listen: "127.0.0.1:0", Config: limitsFile(t)}
	c.RESP.Listen, c.Admin.Listen = "127.0.0.1:0", "127.0.0.1:0"
	p := with(t, c, gone{}, discard())
	metrics := func() string {
		w := httptest.NewRecorder()
		p.observers.metrics.Handler().ServeHTTP(w, httptest.NewRequest("GET", "/metrics", nil))
		return w.Body.String()
	}
	for _, l := range []*listener{p.gateway, p.api, p.grpc, p.resp, p.admin} {
		t.Run(l.name, func(t *testing.T) {
			counted := func(open, refused int) {
				t.Helper()
				want := []string{fmt.Sprintf("weir_connections{interface=%q} %d\n", l.name, open), fmt.Sprintf("weir_connections_refused_total{interface=%q} %d\n", l.name, refused)}
				text := ""
				for end := time.Now().Add(patient); time.Now().Before(end); {
					if text = metrics(); strings.Contains(text, want[0]) && strings.Contains(text, want[1]) {
						return
					}
				}
				t.Fatalf("metrics\n%s\nwant %q", text, want)
			}
			var conns []net.Conn
			for range clients {
				conn, err := net.Dial("tcp", l.bound.String())
				if err != nil {
					t.Fatal(err)
				}
				defer conn.Close()
				conn.SetDeadline(time.Now().Add(patient))
				conns = append(conns, conn)
			}
			counted(most, clients-most)
			for _, conn := range conns[most:] {
				text, err := io.ReadAll(conn)
				if err, ok := err.(net.Error); ok && err.Timeout() || l.name == "resp" && string(text) != "-ERR max number of clients reached\r\n" {
					t.Fatalf("a connection above the maximum = %q, %v", text, err)
				}
			}
			conns[0].Close()
			counted(most-1, clients-most)
			conn, err := net.Dial("tcp", l.bound.String())
			if err != nil {
				t.Fatal(err)
			}
			defer conn.Close()
			counted(most, clients-most)
		})
	}
}

func TestDefaultConnections(t *testing.T) {
	for files, want := range map[uint64]int{0: 42, 256: 42, 1024: 128, 4096: 640, 1 << 20: 10_000, math.MaxUint64: 10_000} {
		if got := defaultConnections(files); got != want {
			t.Errorf("defaultConnections(%d) = %d, want %d", files, got, want)
		}
	}
}
