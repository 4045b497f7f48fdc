package redistest_test

import (
	"net"
	"testing"

	"github.com/floodweir/weir/e2e/redistest"
)

// TestProxyEnds ends proxies while they accept a connection whose client never closes it.
func TestProxyEnds(t *testing.T) {
	server, err := net.Listen("tcp", "127.0.0.1:0") // accepts by its backlog
	if err != nil {
		t.Fatal(err)
	}
	defer server.Close()
	for range 100 {
		t.Run("", func(t *testing.T) {
			proxy := redistest.StartProxy(t, server.Addr().String())
			c, err := net.Dial("tcp", proxy.Addr)
			if err != nil {
				t.Fatal(err)
			}
			c.Write([]byte("PING\r\n"))
		})
	}
}
