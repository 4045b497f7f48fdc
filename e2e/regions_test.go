//go:build unix && !onlyredis

package e2e_test

import (
	"context"
	"fmt"
	"net/http"
	"net/url"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/floodweir/weir/e2e/pgtest"
	"github.com/floodweir/weir/e2e/programtest"
	"github.com/floodweir/weir/e2e/redistest"
)

const (
	regionsFile = `
regions:
  global: "GLOBAL"
  lease: 2s
  members:
    - { name: eu, part: 40, store: "EU" }
    - { name: us, part: 40, store: "US" }
gateway: { listen: "off" }
http: { trusted_proxies: [127.0.0.1] }
policies:
  - { name: hot, key: const:all, limits: 600/s burst 1000, shares: { lease: 2s }, on_store_error: closed }
`
	byRest = `weir_regions_decisions_total{by="rest"}`
)

// TestRegions runs two regions with two servers each, every region with a Redis of its own, and a
// global Redis. One region is cut off from that for longer than a lease, and a server is killed. The
// disconnected region admits no more than its part, and all together never more than the limit.
func TestRegions(t *testing.T) {
	var urls [3]string
	for i := range urls {
		urls[i] = "redis://" + redistest.Start(t).Addr
	}
	testRegions(t, urls[0], urls[1], urls[2])
}

// TestPostgresRegions runs TestRegions with a PostgreSQL database for each region and a global one.
func TestPostgresRegions(t *testing.T) {
	server := pgtest.Start(t)
	testRegions(t, postgresProgram(t, server), postgresProgram(t, server), postgresProgram(t, server))
}

// testRegions is TestRegions with the URLs of stores.
func testRegions(t *testing.T, eu, us, global string) {
	u, err := url.Parse(global)
	if err != nil {
		t.Fatal(err)
	}
	proxy := redistest.StartProxy(t, u.Host)
	run := func(region string) *serving {
		to := global
		if region == "eu" {
			to = strings.Replace(global, u.Host, proxy.Addr, 1)
		}
		text := strings.NewReplacer("GLOBAL", to, "EU", eu, "US", us).Replace(regionsFile)
		return serve(t, programtest.Weir(t), text, "--region", region, "--deadline", "500ms", "--log-level", "error")
	}
	names := []string{"eu", "eu", "us", "us"}
	start := time.Now()
	logs := map[string]*admissionLog{"eu": {start: start}, "us": {start: start}}
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	var nodes []*serving
	var clients sync.WaitGroup
	for _, region := range names {
		n := run(region)
		nodes = append(nodes, n)
		for range 3 {
			clients.Go(func() {
				logs[region].askAlways(ctx, t, func() (*http.Request, error) { return authRequest(n) }, func(int) {})
			})
		}
	}
	pause := func(d time.Duration) {
		timer := time.NewTimer(d)
		defer timer.Stop()
		<-timer.C
	}
	series := regexp.MustCompile(`(?m)^` + regexp.QuoteMeta(byRest) + ` (\d+)`)
	awaitRest := func(n *serving) {
		t.Helper()
		before := metricOf(t, n, byRest)
		awaitResponse(t, n.admin+"/metrics", "a decision by the rest", func(_ int, body string) bool {
			m := series.FindStringSubmatch(body)
			return m != nil && m[1] != fmt.Sprint(int64(before))
		})
	}
	for _, n := range nodes {
		awaitRest(n)
	}
	pause(time.Second)
	explained := fetchText(t, nodes[0].admin+"/v1/explain?url=/&client_ip=203.0.113.7")
	for _, want := range []string{`"region":{"name":"eu","part":40`, `"bound":60,"rest":20`, `"lag":0.`, `"stranded":`} {
		if !strings.Contains(explained, want) {
			t.Errorf("explain = %s, want %s", explained, want)
		}
	}
	if err := nodes[1].process.Kill(); err != nil {
		t.Fatal(err)
	}
	proxy.Set(redistest.DropAll)
	pause(3 * time.Second) // longer than a lease
	alone := time.Since(start)
	awaitResponse(t, nodes[0].admin+"/metrics", "the bound of a disconnected region", func(_ int, body string) bool {
		return strings.Contains(body, "\nweir_regions_global_up 0\n") && strings.Contains(body, "\nweir_regions_bound_ratio 0.4\n")
	})
	pause(4 * time.Second)
	healed := time.Since(start)
	proxy.Set(redistest.NoFault)
	awaitRest(nodes[0])
	cancel()
	clients.Wait()

	var own []admission
	for _, a := range logs["eu"].all {
		if a.asked > alone && a.answered < healed {
			own = append(own, a)
		}
	}
	worst, from, to := excess(own, 240, 400)
	if worst > 0 {
		t.Errorf("the disconnected region admits %.1f more than its part, from %v to %v", worst, from, to)
	}
	if least := int((healed - alone).Seconds() * 240 / 2); len(own) < least {
		t.Errorf("the disconnected region admits %d, want at least %d: its part", len(own), least)
	}
	all := slices.Concat(logs["eu"].all, logs["us"].all)
	total, from, to := excess(all, 600, 1000)
	if total > 0 {
		t.Errorf("both regions admit %.1f more than the limit, from %v to %v", total, from, to)
	}
	t.Logf("%d admitted in %v; by the disconnected region %d in %v; fullest spans %+.1f and %+.1f", len(all), time.Since(start), len(own), healed-alone, total, worst)
}
