package e2e_test

import (
	"net/http"
	"os/exec"
	"strconv"
	"testing"

	"github.com/floodweir/weir/e2e/programtest"
	"github.com/floodweir/weir/internal/porttest"
)

// TestRedisRestarts starts weir before Redis with --start-degraded, then stops and starts
// Redis again. Weir keeps running, and without Redis every request is decided by its policy's on_store_error.
func TestRedisRestarts(t *testing.T) {
	t.Parallel()
	port := strconv.Itoa(porttest.Free(t))
	upstream := startNginx(t, nginxConf, "/warm")
	gateway, api := launchGateway(t, programtest.Weir(t), upstream.url, "redis://127.0.0.1:"+port, "1/h burst 1", "--start-degraded", "true")
	for range 2 {
		awaitStatus(t, api+"/readyz", http.StatusServiceUnavailable)
		awaitStatus(t, gateway+"/", http.StatusServiceUnavailable) // on_store_error: closed
		awaitStatus(t, api+"/healthz", http.StatusOK)
		redis := exec.Command("redis-server", "--bind", "127.0.0.1", "--port", port, "--save", "", "--appendonly", "no", "--dir", t.TempDir())
		if err := redis.Start(); err != nil {
			t.Fatal(err)
		}
		end := func() {
			if redis.ProcessState == nil {
				redis.Process.Kill()
				redis.Wait()
			}
		}
		t.Cleanup(end)
		awaitStatus(t, api+"/readyz", http.StatusOK)
		mustGet(t, gateway+"/")
		awaitStatus(t, gateway+"/", http.StatusTooManyRequests)
		end()
	}
	if n := len(upstream.logged(t, 2)); n != 2 {
		t.Errorf("%d requests reached nginx, want 1 for each life of Redis", n)
	}
}
