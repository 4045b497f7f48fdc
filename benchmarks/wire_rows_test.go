package benchmarks

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/floodweir/weir/benchmarks/compare"
)

var wireAll = []compare.Column{
	{Name: "wall", Head: "wall µs", Ratio: true},
	{Name: "server", Head: "server CPU µs", Ratio: true},
	{Name: "p99", Head: "p99 µs"},
}

// takeScript makes wrk send takes of 1,000 keys.
const takeScript = `
local n = 0
local requests = {}
request = function()
  n = n % 1000 + 1
  local r = requests[n]
  if not r then
    r = wrk.format("POST", "/v1/take", {["Content-Type"] = "application/json"}, string.format('{"key": "user:%04d", "limit": "1000000/s"}', n))
    requests[n] = r
  end
  return r
end
`

// wireRows compare the listeners for RESP and HTTP with servers that answer without a decision.
func wireRows() []compare.Row {
	resp := compare.Row{
		Name: "wire/resp-16", Title: "CL.THROTTLE over RESP, 50 connections, pipelines of 16", Base: "weir", Columns: wireAll[:2], Shortest: time.Second,
		Goals: []compare.Goal{{Contender: "redcon, constant", Column: "wall", Least: 0.85}},
		Contenders: []compare.Contender{
			{Name: "weir", Open: func(t testing.TB) compare.Measure { return throttle(t, serveWeir(t, "resp", "store: memory\n")) }},
			{Name: "redcon, constant", Open: func(t testing.TB) compare.Measure { return throttle(t, startSmall(t, "redcon", "")) }},
		},
	}
	take := compare.Row{
		Name: "wire/http", Title: "POST /v1/take, 64 connections", Base: "weir", Columns: wireAll, Shortest: time.Second,
		Goals: []compare.Goal{{Contender: "net/http, constant", Column: "wall", Least: 0.85}},
		Contenders: []compare.Contender{
			{Name: "weir", Open: func(t testing.TB) compare.Measure { return takeOverHTTP(t, serveWeir(t, "http", "store: memory\n")) }},
			{Name: "net/http, constant", Open: func(t testing.TB) compare.Measure { return takeOverHTTP(t, startSmall(t, "net/http", "")) }},
			{Name: "fasthttp, constant", Open: func(t testing.TB) compare.Measure { return takeOverHTTP(t, startSmall(t, "fasthttp", "")) }},
		},
	}
	return []compare.Row{resp, take}
}

// throttle measures with redis-benchmark, whose number of requests follows from the round
// before.
func throttle(t testing.TB, s server) compare.Measure {
	host, port, _ := strings.Cut(s.addr, ":")
	requests := 50_000
	run := func(t testing.TB, d time.Duration) compare.Sample {
		cpu, began := used(t, s.pid), time.Now()
		out, err := exec.Command("redis-benchmark", "-h", host, "-p", port, "-c", "50", "-P", "16", "-r", "1000", "-n", fmt.Sprint(requests), "-q",
			"CL.THROTTLE", "user:__rand_int__", "1000000", "1000000", "1", "1").CombinedOutput()
		if err != nil || !strings.Contains(string(out), "requests per second") || strings.Contains(string(out), "rror") {
			t.Fatalf("redis-benchmark: %v: %.200s", err, out)
		}
		took, n := time.Since(began), float64(requests)
		requests = max(10_000, int(n*float64(d)/float64(took)))
		return compare.Sample{"wall": float64(took) / n / 1e3, "server": (used(t, s.pid) - cpu) / n / 1e3}
	}
	run(t, 500*time.Millisecond)
	return run
}

func takeOverHTTP(t testing.TB, s server) compare.Measure {
	file := filepath.Join(t.TempDir(), "take.lua")
	if err := os.WriteFile(file, []byte(takeScript), 0o600); err != nil {
		t.Fatal(err)
	}
	return wrk(t, []int{s.pid}, nil, 64, false, "-s", file, "http://"+s.addr+"/v1/take")
}

// wrk measures HTTP requests over connections. All responses are 2xx, or all are not.
func wrk(t testing.TB, servers, redis []int, connections int, denied bool, args ...string) compare.Measure {
	run := func(t testing.TB, d time.Duration) compare.Sample {
		before, beforeRedis := used(t, servers...), used(t, redis...)
		all := append([]string{"--latency", "-t2", fmt.Sprintf("-c%d", connections), fmt.Sprintf("-d%ds", max(1, int(d.Seconds())))}, args...)
		began := time.Now()
		out, err := exec.Command("wrk", all...).CombinedOutput()
		took := time.Since(began)
		if err != nil || strings.Contains(string(out), "Socket errors") {
			t.Fatalf("wrk: %v: %.300s", err, out)
		}
		n, bad := number(t, out, wrkRequests), 0.0
		if wrkOthers.Match(out) {
			bad = number(t, out, wrkOthers)
		}
		if want := b2f(denied); n == 0 || bad/n < want-0.001 || bad/n > want+0.001 {
			t.Fatalf("%.0f of %.0f responses are no 2xx, want a share of %v", bad, n, want)
		}
		sample := compare.Sample{"wall": float64(took) / n / 1e3, "server": (used(t, servers...) - before) / n / 1e3, "p99": float64(span(t, out, wrkMost)) / 1e3}
		if redis != nil {
			sample["redis"] = (used(t, redis...) - beforeRedis) / n / 1e3
			sample["both"] = sample["server"] + sample["redis"]
		}
		return sample
	}
	return run
}
