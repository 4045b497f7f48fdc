package e2e_test

import (
	"net/http"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/floodweir/weir/e2e/programtest"
	"github.com/floodweir/weir/e2e/redistest"
)

// TestTrafficRedis checks that two gateways on one Redis together admit what one does.
func TestTrafficRedis(t *testing.T) {
	traffic(t, "redis://"+redistest.Start(t).Addr, 2)
}

// TestTrafficCluster checks the same on a Redis Cluster.
func TestTrafficCluster(t *testing.T) {
	traffic(t, "redis+cluster://"+redistest.StartCluster(t).Addrs(), 2)
}

// TestTwoGatewaysShareALimit checks that two gateways share a limit exactly: of concurrent
// requests to both, exactly the burst is admitted.
func TestTwoGatewaysShareALimit(t *testing.T) {
	const requests, clients = 400, 8
	binary, upstream, store := programtest.Weir(t), startNginx(t, nginxConf, "/warm"), "redis://"+redistest.Start(t).Addr
	limit := "1/h burst 100"
	var urls []string
	for range 2 {
		urls = append(urls, startGateway(t, binary, upstream.url, store, limit))
	}
	var admitted, denied atomic.Int64
	var wg sync.WaitGroup
	for i := range clients {
		wg.Go(func() {
			for range requests / clients {
				switch status, err := tryGet(t.Context(), urls[i%2]+"/"); {
				case err != nil:
					t.Error(err)
				case status == http.StatusOK:
					admitted.Add(1)
				case status == http.StatusTooManyRequests:
					denied.Add(1)
				default:
					t.Errorf("status %d", status)
				}
			}
		})
	}
	wg.Wait()
	if a, d := admitted.Load(), denied.Load(); a != 100 || d != requests-100 {
		t.Errorf("%d admitted, %d denied, want 100 and %d", a, d, requests-100)
	}
	if n := len(upstream.logged(t, 100)); n != 100 {
		t.Errorf("%d requests reached nginx, want 100", n)
	}
}
