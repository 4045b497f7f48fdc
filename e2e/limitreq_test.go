package e2e_test

import (
	"flag"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/floodweir/weir/e2e/nginxtest"
	"github.com/floodweir/weir/e2e/programtest"
	"github.com/floodweir/weir/e2e/redistest"
	"github.com/floodweir/weir/internal/porttest"
)

var recordTraces = flag.String("limitreq.record", "", "write what nginx did to this directory, as algo/testdata/limit_req has it")

// A reqUse is one limit_req.
type reqUse struct {
	zone, key, rate string
	words           string // burst and the parameters after it
}

// A reqPlace is a location with its limits.
type reqPlace struct {
	uses   []reqUse
	dry    bool
	status int // 503 if zero
}

// A reqCall is one request of a schedule.
type reqCall struct {
	at    int // ms since the start of the scenario
	place string
	key   string // of the header X-Key
}

// A reqScenario is a schedule of requests for locations of its own.
type reqScenario struct {
	name   string
	places map[string]reqPlace
	calls  []reqCall
	loose  bool // tests boundaries, where one millisecond matters
}

// one returns a location with one limit in its own zone.
func one(name, rate, words string) map[string]reqPlace {
	return map[string]reqPlace{"a": {uses: []reqUse{{name, "$binary_remote_addr", rate, words}}}}
}

// at returns requests at instants.
func at(instants ...int) (calls []reqCall) {
	for _, ms := range instants {
		calls = append(calls, reqCall{at: ms, place: "a"})
	}
	return calls
}

// every returns n requests, from an instant on, apart ms from each other.
func every(n, from, apart int) []reqCall {
	var instants []int
	for i := range n {
		instants = append(instants, from+i*apart)
	}
	return at(instants...)
}

func together(parts ...[]reqCall) (calls []reqCall) {
	for _, p := range parts {
		calls = append(calls, p...)
	}
	return calls
}

// wild returns n requests at random distances of up to most ms.
func wild(seed uint64, n, most int) []reqCall {
	r := rand.New(rand.NewPCG(seed, 1))
	var instants []int
	for now := 0; len(instants) < n; now += r.IntN(most) {
		instants = append(instants, now)
	}
	return at(instants...)
}

func dealt(calls []reqCall, deal func(i int, c *reqCall)) []reqCall {
	for i := range calls {
		deal(i, &calls[i])
	}
	return calls
}

// reqScenarios returns the schedules for nginx and the gateway. Except in tests of boundaries,
// the instants keep a distance from those where one millisecond matters.
func reqScenarios() []reqScenario {
	const ip, header = "$binary_remote_addr", "$http_x_key"
	set := func(p map[string]reqPlace, change func(*reqPlace)) map[string]reqPlace {
		one := p["a"]
		change(&one)
		return map[string]reqPlace{"a": one}
	}
	dry := func(p *reqPlace) { p.dry = true }
	ab := func(i int, c *reqCall) { c.place = string("ab"[i%2]) }
	keys := func(keys ...string) func(i int, c *reqCall) {
		return func(i int, c *reqCall) { c.key = keys[i%len(keys)] }
	}
	return []reqScenario{
		// The longest is first, because the scenarios begin one after the other.
		{name: "10r/m is 0.166 a second", places: one("cut", "10r/m", ""), calls: at(0, 6010, 6060)},
		{name: "steady, below the rate", places: one("steady", "10r/s", ""), calls: every(12, 0, 130)},
		{name: "steady, above the rate", places: one("above", "10r/s", ""), calls: every(16, 0, 70)},
		{name: "burst, delayed", places: one("queue", "10r/s", "burst=5"), calls: every(12, 0, 6)},
		{name: "burst, nodelay", places: one("nodelay", "10r/s", "burst=5 nodelay"), calls: every(12, 0, 6)},
		{name: "burst, delay=3", places: one("delay", "10r/s", "burst=8 delay=3"), calls: every(14, 0, 6)},
		{name: "delay=n above the burst", places: one("above-burst", "10r/s", "burst=3 delay=9"), calls: every(8, 0, 6)},
		{name: "nodelay without burst", places: one("no-burst", "10r/s", "nodelay"), calls: together(every(4, 0, 6), every(3, 150, 6))},
		{name: "idle, then burst", places: one("idle", "10r/s", "burst=4 nodelay"), calls: together(every(8, 0, 6), every(8, 830, 6))},
		{name: "burst, then steady", places: one("then", "10r/s", "burst=3 nodelay"), calls: together(every(7, 0, 6), every(8, 150, 150))},
		{name: "arrivals slow, fast, slow", places: one("changes", "20r/s", "burst=4 delay=2"), calls: together(every(5, 0, 90), every(14, 500, 17), every(5, 900, 90))},
		{name: "two zones of one location", places: map[string]reqPlace{"a": {uses: []reqUse{
			{"two-fast", ip, "20r/s", "burst=3 nodelay"}, {"two-slow", ip, "5r/s", "burst=6 nodelay"},
		}}}, calls: together(every(10, 0, 22), every(6, 650, 120))},
		{name: "the largest delay of two", places: map[string]reqPlace{"a": {uses: []reqUse{
			{"largest-fast", ip, "20r/s", "burst=6"}, {"largest-slow", ip, "8r/s", "burst=4"},
		}}}, calls: every(12, 0, 23)},
		{name: "one delays, one does not", places: map[string]reqPlace{"a": {uses: []reqUse{
			{"mixed-now", ip, "4r/s", "burst=5 nodelay"}, {"mixed-later", ip, "10r/s", "burst=5 delay=1"},
		}}}, calls: every(10, 0, 23)},
		{name: "30r/m, six at once", places: one("six", "30r/m", ""), calls: together(every(6, 0, 6), at(600, 1900, 2100))},
		{name: "600r/m with a burst", places: one("minute", "600r/m", "burst=2 nodelay"), calls: together(every(6, 0, 6), every(6, 250, 130))},
		{name: "7r/s, which divides nothing", places: one("seven", "7r/s", "burst=3"), calls: every(16, 0, 62)},
		{name: "dry run, nodelay", places: set(one("dry", "10r/s", "burst=2 nodelay"), dry), calls: together(every(8, 0, 6), every(3, 300, 130))},
		{name: "dry run, delayed", places: set(one("dry-queue", "10r/s", "burst=3"), dry), calls: every(8, 0, 6)},
		{name: "limit_req_status 429", places: set(one("status", "10r/s", "burst=1 nodelay"), func(p *reqPlace) { p.status = 429 }), calls: every(6, 0, 6)},
		{name: "two keys", places: map[string]reqPlace{"a": {uses: []reqUse{{"keys", header, "10r/s", "burst=2 nodelay"}}}},
			calls: dealt(every(16, 0, 15), keys("x", "y", "x"))},
		{name: "an empty key", places: map[string]reqPlace{"a": {uses: []reqUse{{"empty", header, "10r/s", ""}}}},
			calls: dealt(every(12, 0, 15), keys("", "x", ""))},
		{name: "an empty key of two", places: map[string]reqPlace{"a": {uses: []reqUse{
			{"empty-one", header, "10r/s", ""}, {"empty-two", ip, "10r/s", "burst=6 nodelay"},
		}}}, calls: dealt(every(12, 0, 15), keys("", "x"))},
		{name: "a zone of two locations", places: map[string]reqPlace{
			"a": {uses: []reqUse{{"shared", ip, "10r/s", "burst=2 nodelay"}}},
			"b": {uses: []reqUse{{"shared", ip, "10r/s", "burst=6 nodelay"}}},
		}, calls: dealt(together(every(14, 0, 15), every(8, 600, 66)), ab)},
		{name: "a zone, here delayed, there not", places: map[string]reqPlace{
			"a": {uses: []reqUse{{"shared-queue", ip, "20r/s", "burst=5"}}},
			"b": {uses: []reqUse{{"shared-queue", ip, "20r/s", "burst=9 delay=4"}}},
		}, calls: dealt(every(20, 0, 17), ab)},
		{name: "a zone, here enforced, there dry", places: map[string]reqPlace{
			"a": {uses: []reqUse{{"shared-dry", ip, "10r/s", "burst=3 nodelay"}}},
			"b": {uses: []reqUse{{"shared-dry", ip, "10r/s", "burst=5 nodelay"}}, dry: true},
		}, calls: dealt(every(14, 0, 26), ab)},
		{name: "bursts at the boundary", places: one("edge", "10r/s", "burst=1 nodelay"), calls: every(20, 0, 50), loose: true},
		{name: "exactly the rate", places: one("exact", "10r/s", ""), calls: every(20, 0, 100), loose: true},
		{name: "500r/s", places: one("fast", "500r/s", "burst=5 delay=2"), calls: every(50, 0, 1), loose: true},
		{name: "at random", places: one("random", "10r/s", "burst=4 delay=2"), calls: wild(1, 40, 100), loose: true},
		{name: "at random, two zones", places: map[string]reqPlace{"a": {uses: []reqUse{
			{"random-one", ip, "15r/s", "burst=5"}, {"random-two", header, "9r/s", "burst=3 delay=1"},
		}}}, calls: dealt(wild(2, 40, 80), keys("x", "y", "")), loose: true},
	}
}

// reqConf returns an nginx.conf with the locations of all scenarios before an upstream.
func reqConf(all []reqScenario, upstream string) string {
	var zones, locations strings.Builder
	known := map[string]bool{}
	for i, s := range all {
		for place, p := range s.places {
			fmt.Fprintf(&locations, "  location /%d/%s/ {\n", i, place)
			for _, u := range p.uses {
				if !known[u.zone] {
					known[u.zone] = true
					fmt.Fprintf(&zones, "limit_req_zone %s zone=%s:128k rate=%s;\n", u.key, u.zone, u.rate)
				}
				fmt.Fprintf(&locations, "    limit_req zone=%s %s;\n", u.zone, u.words)
			}
			if p.dry {
				locations.WriteString("    limit_req_dry_run on;\n")
			}
			if p.status != 0 {
				fmt.Fprintf(&locations, "    limit_req_status %d;\n", p.status)
			}
			fmt.Fprintf(&locations, "    proxy_pass %s;\n  }\n", upstream)
		}
	}
	return zones.String() + `
log_format limited '$uri $msec $request_time $status $limit_req_status';
server {
  listen ADDR;
  access_log DIR/limited.log limited;
  location /warm/ { proxy_pass ` + upstream + `; access_log off; }
` + locations.String() + `}
`
}

// reqServers are nginx, and the gateway with its state in memory and in Redis.
var reqServers = [...]string{"nginx", "memory", "redis"}

// TestLimitReqAgreesWithNginx sends the same requests at the same instants to a real nginx
// with limit_req and to gateways with the file imported from its configuration. Each decides
// as the model does at the instants at which the requests arrived. So where outcomes differ,
// the requests arrived at different instants.
func TestLimitReqAgreesWithNginx(t *testing.T) {
	all := reqScenarios()
	if len(all) < 20 {
		t.Fatalf("%d scenarios, want at least 20", len(all))
	}
	up := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { io.WriteString(w, "ok\n") }))
	t.Cleanup(up.Close)
	nginx := nginxtest.Start(t, nginxtest.Config{Main: "\n", HTTP: reqConf(all, up.URL)})
	file := reqFile(t, filepath.Join(nginx.Dir, "nginx.conf"), up.URL)
	memory, memoryLog := file.serve(t, "memory")
	redis, redisLog := file.serve(t, "redis://"+redistest.Start(t).Addr)
	got := map[string][]reqResponse{}
	servers := map[string]string{"nginx": "http://" + nginx.Addr, "memory": memory, "redis": redis}
	var mu sync.Mutex
	var wg sync.WaitGroup
	client := &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: 100}}
	for _, url := range servers {
		for range 30 {
			wg.Go(func() { send(t, client, url+"/warm/", "") })
		}
	}
	wg.Wait()
	start := time.Now().Add(200 * time.Millisecond)
	for i, s := range all {
		// They begin one after the other, so that no log suppresses lines: it permits 100 per
		// second, and a stall of half a second does not exceed this.
		begin := start.Add(time.Duration(i) * 250 * time.Millisecond)
		for server, url := range servers {
			of := make([]reqResponse, len(s.calls))
			mu.Lock()
			got[server+s.name] = of
			mu.Unlock()
			for j, c := range s.calls {
				wg.Go(func() {
					awaitInstant(begin.Add(time.Duration(c.at) * time.Millisecond))
					of[j] = send(t, client, fmt.Sprintf("%s/%d/%s/%d", url, i, c.place, j), c.key)
				})
			}
		}
	}
	wg.Wait()
	if t.Failed() {
		return
	}
	seen := map[string]map[string]reqSeen{"nginx": nginxSeen(t, nginx, all), "memory": weirSeen(t, memoryLog, all), "redis": weirSeen(t, redisLog, all)}
	var table strings.Builder
	fmt.Fprintf(&table, "%-34s %8s %20s %20s %11s %18s\n", "scenario", "requests", "memory: equal/other", "redis: equal/other", "unexplained", "off by, in ms")
	requests, others, unexplained := 0, 0, 0
	for i, s := range all {
		r := compareReq(t, i, s, seen, got)
		n := len(s.calls)
		requests, unexplained = requests+n, unexplained+r.unexplained
		others += 2*n - r.equal["memory"] - r.equal["redis"]
		fmt.Fprintf(&table, "%-34s %8d %17d/%2d %17d/%2d %11d %18s\n", s.name, n, r.equal["memory"], n-r.equal["memory"], r.equal["redis"], n-r.equal["redis"],
			r.unexplained, fmt.Sprintf("%d, %d, %d", r.slack["nginx"], r.slack["memory"], r.slack["redis"]))
	}
	t.Logf("%d requests to each server; %d outcomes of two gateways differ from nginx, and the arrival times do not explain %d decisions of the three servers; "+
		"off by: how far the instants of the model are from those in the log of nginx, memory, redis\n%s", requests, others, unexplained, &table)
	if unexplained > 0 {
		t.Errorf("the model does not explain %d decisions", unexplained)
	}
	// How many outcomes are equal depends on how late a busy machine sends the requests.
	for _, server := range reqServers {
		kinds := map[string]int{}
		for _, one := range seen[server] {
			kinds[one.status]++
		}
		for _, kind := range []string{"PASSED", "DELAYED", "REJECTED"} {
			if kinds[kind] == 0 {
				t.Errorf("%s has no outcome %s: %v", server, kind, kinds)
			}
		}
	}
}

// awaitInstant waits until an instant.
func awaitInstant(instant time.Time) {
	timer := time.NewTimer(time.Until(instant))
	defer timer.Stop()
	<-timer.C
}

// A reqResponse is a response as its client received it.
type reqResponse struct {
	status int
	took   time.Duration
}

func send(t *testing.T, client *http.Client, url, key string) reqResponse {
	r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, url, nil)
	if err != nil {
		t.Error(err)
		return reqResponse{}
	}
	if key != "" {
		r.Header.Set("X-Key", key)
	}
	began := time.Now()
	res, err := client.Do(r)
	if err != nil {
		t.Error(err)
		return reqResponse{}
	}
	defer res.Body.Close()
	_, _ = io.Copy(io.Discard, res.Body)
	return reqResponse{res.StatusCode, time.Since(began)}
}

// A reqGateway is a program and a policy file.
type reqGateway struct{ binary, file string }

// reqFile imports the policy file from an nginx.conf.
func reqFile(t *testing.T, conf, upstream string) reqGateway {
	t.Helper()
	binary, dir := programtest.Weir(t), t.TempDir()
	made, file := filepath.Join(dir, "made.yaml"), filepath.Join(dir, "weir.yaml")
	if out, err := exec.Command(binary, "import", "nginx", conf, "-o", made).CombinedOutput(); err != nil {
		t.Fatalf("weir import nginx: %v\n%s", err, out)
	}
	text, err := os.ReadFile(made)
	if err != nil {
		t.Fatal(err)
	}
	routes := fmt.Sprintf("gateway:\n  routes:\n    - { path: /, upstream: %q }\n", upstream)
	if err := os.WriteFile(file, append([]byte(routes), text...), 0o600); err != nil {
		t.Fatal(err)
	}
	return reqGateway{binary, file}
}

// serve runs the gateway and returns its URL and the file of its log.
func (g reqGateway) serve(t *testing.T, store string) (url, log string) {
	t.Helper()
	gateway, api := porttest.Address(t), porttest.Address(t)
	log = filepath.Join(t.TempDir(), "log")
	startProcess(t, "/bin/sh", "-c", `exec "$0" "$@" 2>`+log, g.binary, "serve", g.file, "--store", store, "--deadline", "5s",
		"--listen-gateway", gateway, "--listen-http", api, "--log", "json", "--log-decisions", "1", "--log-denials", "1")
	awaitStatus(t, "http://"+api+"/readyz", http.StatusOK)
	return "http://" + gateway, log
}
