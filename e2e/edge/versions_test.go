package edge_test

import (
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/floodweir/weir/e2e/nginxtest"
	"github.com/floodweir/weir/e2e/programtest"
	"github.com/floodweir/weir/e2e/redistest"
)

// TestVersionsTogether has nginx with one version of the policies, and weir serve with the next
// one, decide in turn on one Redis. Together they admit what the larger limit admits. Then nginx
// gets the next version too.
func TestVersionsTogether(t *testing.T) {
	t.Parallel()
	const policies = `
policies:
  - { name: bucket, match: /bucket, key: client.ip, limits: [N/24h, 1000/s], on_store_error: closed }
  - { name: window, match: /window, key: client.ip, limits: N/24h fixed_window, on_store_error: closed }
  - { name: sliding, match: /sliding, key: client.ip, limits: N/24h sliding_window, on_store_error: closed }
  - { name: log, match: /log, key: client.ip, limits: N/24h sliding_log, on_store_error: closed }
  - { name: queue, match: /queue, key: client.ip, limits: N/240h leaky_bucket burst N, on_store_error: closed }
`
	weir, redis := programtest.Weir(t), redistest.Start(t).Addr
	upstream := upstreamOf(t, http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { io.WriteString(w, "through\n") }))
	file := func(n string) string {
		return writePolicies(t, redis, "gateway: { routes: [{ path: /, upstream: \""+upstream+"\" }] }\n"+strings.NewReplacer("N/", n+"/", "burst N", "burst "+n).Replace(policies))
	}
	text := func(n string) nginxtest.Config {
		return nginxtest.Config{Workers: 2, HTTP: edgeConf(t, weir, file(n)) + `
  server { listen ADDR reuseport; location / {` + asks + `} }`}
	}
	server := nginxtest.Start(t, text("20"))
	gateway, _ := serveWeir(t, weir, file("22"))
	client := callFrom(t, "127.0.0.7")
	ask := func(base, path string) int {
		r := client.get(base + path)
		if r.err != nil || r.status != http.StatusOK && r.status != http.StatusTooManyRequests || r.header.Get("Weir-Degraded") != "" {
			t.Fatalf("%s%s: %d %v %v", base, path, r.status, r.header, r.err)
		}
		return r.status
	}
	for path, most := range map[string]int{"/bucket": 22, "/window": 22, "/sliding": 22, "/log": 22, "/queue": 23} {
		admitted := 0
		for range 40 {
			for _, base := range []string{"http://" + server.Addr, gateway} {
				if ask(base, path) == http.StatusOK {
					admitted++
				}
			}
		}
		if admitted != most {
			t.Errorf("%s: %d admitted, want %d", path, admitted, most)
		}
	}
	server.Reload(t, text("22"))
	for _, path := range []string{"/bucket", "/window", "/sliding", "/log", "/queue"} {
		if status := ask("http://"+server.Addr, path); status != http.StatusTooManyRequests {
			t.Errorf("%s: %d after the reload, want 429", path, status)
		}
	}
}
