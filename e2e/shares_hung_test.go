//go:build unix

package e2e_test

import (
	"net/http"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/floodweir/weir/e2e/programtest"
	"github.com/floodweir/weir/e2e/redistest"
)

// TestSharesHungRedis stops Redis without closing its connections. A server that holds a share decides
// every request by it until the lease ends, also those that it denies, and only then on_store_error
// refuses. A hung Redis is no overload of the server.
func TestSharesHungRedis(t *testing.T) {
	redis := redistest.Start(t)
	file := strings.ReplaceAll(sharesFile, "gateway: { routes: [{ path: /, upstream: \"UPSTREAM\" }] }\n", "")
	n := serve(t, programtest.Weir(t), file, "--store", "redis://"+redis.Addr, "--listen-gateway", "off", "--deadline", "1s") // a busy machine stops a process for 100 ms
	ask := func() int {
		r, err := authRequest(n)
		if err != nil {
			t.Fatal(err)
		}
		res, err := poller.Do(r)
		if err != nil {
			t.Fatal(err)
		}
		res.Body.Close()
		return res.StatusCode
	}
	for began := time.Now(); metricOf(t, n, "weir_shares_held") == 0; {
		for range 100 {
			ask()
		}
		if time.Since(began) > 2*time.Minute {
			t.Fatal("no share in 2 minutes")
		}
	}
	if err := syscall.Kill(redis.PID(), syscall.SIGSTOP); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { syscall.Kill(redis.PID(), syscall.SIGCONT) })
	stopped, statuses, late := time.Now(), map[int]int{}, 0
	var asked time.Duration // when the last request was sent
	for statuses[http.StatusServiceUnavailable] == 0 && time.Since(stopped) < time.Minute {
		asked = time.Since(stopped)
		status := ask()
		if statuses[status]++; status == http.StatusOK && asked > 3*time.Second {
			late++
		}
	}
	t.Logf("%v in %v", statuses, time.Since(stopped))
	early := statuses[http.StatusOK] < 20 && asked < time.Second // the share lasts longer, but a slow client may ask less
	if late > 0 || early || statuses[http.StatusOK] == 0 || statuses[http.StatusServiceUnavailable] == 0 {
		t.Errorf("statuses %v, %d of them admitted after the lease, want decisions by the share until it ends", statuses, late)
	}
	if v := metricOf(t, n, `weir_overload_rejected_total{reason="queue_wait"}`); v != 0 {
		t.Errorf("%v requests rejected as overload", v)
	}
}
