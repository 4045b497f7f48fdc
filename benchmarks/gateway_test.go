package benchmarks

import (
	"flag"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/floodweir/weir/e2e/nginxtest"
	"github.com/floodweir/weir/e2e/programtest"
)

var gatewayRounds = flag.Int("gateway.rounds", 5, "rounds of BenchmarkGateway: every proxy once in each")

// A server that limits with limit_req, and no other nginx before the upstream.
const limitConf = proxyConf + `
  limit_req_zone $binary_remote_addr zone=wide:10m rate=100000000r/s;
  limit_req_zone $binary_remote_addr zone=narrow:10m rate=1r/m;
  server {
    listen ADDR;
    location /one { limit_req zone=wide burst=100000 nodelay; proxy_pass http://behind; }
    location /denied { limit_req zone=narrow; proxy_pass http://behind; }
  }
`

// BenchmarkGateway compares the CPU time of the gateway per request, its limits in memory, with
// that of nginx and limit_req, in interleaved rounds of -benchtime in whole seconds. It reports
// the median of the ratios of the rounds.
func BenchmarkGateway(b *testing.B) {
	p := &processes{}
	upstream := nginxtest.Start(b, nginxtest.Config{HTTP: upstreamConf, Main: "# no module"})
	p.pids[upstreamGroup] = []int{upstream.PID()}
	file := filepath.Join(b.TempDir(), "weir.yaml")
	if err := os.WriteFile(file, []byte(strings.ReplaceAll(policiesFile, "UPSTREAM", upstream.Addr)), 0o600); err != nil {
		b.Fatal(err)
	}
	weir := startWeir(b, p, programtest.Weir(b), file, "memory")
	nginx := nginxtest.Start(b, nginxtest.Config{HTTP: strings.ReplaceAll(limitConf, "UPSTREAM", upstream.Addr), Main: "# no module"})
	p.pids[nginxGroup] = []int{nginx.PID()}

	ways := []way{
		{"nginx", "http://" + nginx.Addr + "/one", false}, {"gateway", "http://" + weir.gateway + "/one", false},
		{"nginx", "http://" + nginx.Addr + "/denied", true}, {"gateway", "http://" + weir.gateway + "/denied", true},
	}
	for _, w := range ways {
		warm(b, w)
	}
	all := make([][]sample, len(ways))
	for range max(1, *gatewayRounds) {
		for i, w := range ways {
			s := p.measure(b, w.url, benchSeconds(b))
			if want := b2f(w.denied); math.Abs(s.bad-want) > 0.0001 {
				b.Fatalf("%s: %.4f of the answers of %s are refusals, want %v", w.name, s.bad, w.url, want)
			}
			all[i] = append(all[i], s)
		}
	}
	for i := 0; i < len(ways); i += 2 {
		var ratios []sample
		for round := range all[i] {
			ratios = append(ratios, sample{rate: all[i+1][round].cpu[weirGroup] / all[i][round].cpu[nginxGroup]})
		}
		name := "admitted"
		if ways[i].denied {
			name = "denied"
		}
		nginx, weir := median(all[i]), median(all[i+1])
		b.Run(name, func(b *testing.B) {
			b.ReportMetric(0, "ns/op")
			b.ReportMetric(weir.cpu[weirGroup], "gateway-cpu-µs/req")
			b.ReportMetric(nginx.cpu[nginxGroup], "nginx-cpu-µs/req")
			b.ReportMetric(median(ratios).rate, "cpu-ratio")
			b.ReportMetric(weir.rate/nginx.rate, "rate-ratio")
		})
	}
	fmt.Fprintf(os.Stdout, "%d rounds of %d s, wrk -t%d -c%d\n", len(all[0]), benchSeconds(b), wrkThreads, wrkConnections)
}
