package e2e_test

import (
	"bytes"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/floodweir/weir/e2e/programtest"
	"github.com/floodweir/weir/internal/porttest"
)

const operated = `
gateway:
  trusted_proxies: [127.0.0.1]
  routes: [{ path: /, upstream: "UPSTREAM" }]
policies:
  - { name: per-client, key: [client.ip], limits: ["2/h"] }
  - { name: trial, key: [client.ip], limits: ["1/h"], mode: shadow }
`

// output holds what a process has written so far.
type output struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (o *output) Write(p []byte) (int, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.text.Write(p)
}

func (o *output) String() string {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.text.String()
}

// An operation is a running weir with its log and its addresses.
type operation struct {
	gateway, api, admin string
	log                 *output
	stop                func()
}

// operate runs weir in front of an upstream, with more environment variables and flags.
func operate(t *testing.T, binary string, env []string, flags ...string) *operation {
	t.Helper()
	upstream := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Seen", r.Header.Get("Traceparent"))
	}))
	t.Cleanup(upstream.Close)
	file := filepath.Join(t.TempDir(), "weir.yaml")
	if err := os.WriteFile(file, []byte(strings.ReplaceAll(operated, "UPSTREAM", upstream.URL)), 0o600); err != nil {
		t.Fatal(err)
	}
	gateway, api, admin := porttest.Address(t), porttest.Address(t), porttest.Address(t)
	o := &operation{gateway: "http://" + gateway, api: "http://" + api, admin: "http://" + admin, log: new(output)}
	cmd := exec.Command(binary, append([]string{"serve", file, "--listen-gateway", gateway, "--listen-http", api, "--listen-admin", admin,
		"--listen-grpc", "off", "--listen-resp", "off"}, flags...)...)
	cmd.Env = append(os.Environ(), env...)
	cmd.Stdout, cmd.Stderr = o.log, o.log
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	o.stop = sync.OnceFunc(func() {
		cmd.Process.Signal(syscall.SIGTERM)
		cmd.Wait()
	})
	t.Cleanup(func() {
		o.stop()
		if t.Failed() {
			t.Logf("weir said:\n%s", o.log)
		}
	})
	awaitStatus(t, o.api+"/readyz", http.StatusOK)
	return o
}

// ask sends a client's request to the gateway.
func (o *operation) ask(t *testing.T, client string) *http.Response {
	t.Helper()
	return fetch(t, o.gateway+"/orders?token=secret-in-a-query", "X-Forwarded-For", client)
}

// fetch sends a GET with headers in pairs and reads the body.
func fetch(t *testing.T, url string, headers ...string) *http.Response {
	t.Helper()
	r, err := http.NewRequest(http.MethodGet, url, nil)
	if err != nil {
		t.Fatal(err)
	}
	for i := 0; i < len(headers); i += 2 {
		if headers[i] == "Host" {
			r.Host = headers[i+1]
		}
		r.Header.Set(headers[i], headers[i+1])
	}
	res, err := http.DefaultClient.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	body, err := io.ReadAll(res.Body)
	if err != nil {
		t.Fatal(err)
	}
	res.Body = io.NopCloser(bytes.NewReader(body))
	return res
}

// scrape returns the text of /metrics.
func (o *operation) scrape(t *testing.T, headers ...string) string {
	t.Helper()
	res := fetch(t, o.admin+"/metrics", headers...)
	body, _ := io.ReadAll(res.Body)
	if res.StatusCode != http.StatusOK {
		t.Fatalf("GET /metrics = %s %s", res.Status, body)
	}
	return string(body)
}

func series(text string) int { return len(regexp.MustCompile(`(?m)^weir_`).FindAllString(text, -1)) }

// TestOperationsMetrics checks the metrics of all interfaces, and that the number of series
// does not depend on the number of clients.
func TestOperationsMetrics(t *testing.T) {
	o := operate(t, programtest.Weir(t), nil)
	for i, want := range []int{200, 200, 429, 429, 429} {
		if res := o.ask(t, "203.0.113.7"); res.StatusCode != want {
			t.Fatalf("request %d = %s", i+1, res.Status)
		}
	}
	text := o.scrape(t)
	for _, want := range []string{
		`weir_decisions_total{interface="gateway",outcome="admitted",policy="per-client"} 2`,
		`weir_decisions_total{interface="gateway",outcome="denied",policy="per-client"} 3`,
		`weir_shadow_decisions_total{interface="gateway",outcome="admitted",policy="trial"} 1`,
		`weir_decision_duration_seconds_count{interface="gateway"} `,
		`weir_store_duration_seconds_count{op="take"} `,
		`weir_policies_last_reload_successful 1`,
		`weir_store_breaker_open 0`,
		`weir_keys 2`,
	} {
		if !strings.Contains(text, want) {
			t.Errorf("/metrics has no %s", want)
		}
	}
	before := series(text)
	for i := range 500 { // each is another client
		o.ask(t, fmt.Sprintf("198.51.%d.%d", i/250, i%250+1))
		fetch(t, fmt.Sprintf("%s/%d?x=%d", o.gateway, i, i), "X-Forwarded-For", fmt.Sprintf("198.18.%d.%d", i/250, i%250+1), "User-Agent", fmt.Sprint("agent", i))
	}
	text = o.scrape(t)
	if after := series(text); after != before || strings.Contains(text, "198.51") || strings.Contains(text, "orders") {
		t.Errorf("%d series after 1000 clients, %d before", after, before)
	}
	t.Logf("%d series", before)
}

// TestOperationsAdmin checks that the admin listener does not start off loopback without a
// token, and requires the token at every path.
func TestOperationsAdmin(t *testing.T) {
	binary := programtest.Weir(t)
	refused := exec.Command(binary, "serve", "--listen-admin", "0.0.0.0:0", "--listen-gateway", "127.0.0.1:0", "--listen-http", "127.0.0.1:0",
		"--listen-grpc", "off", "--listen-resp", "off")
	if out, err := refused.CombinedOutput(); err == nil || !strings.Contains(string(out), "--admin-token-file") {
		t.Errorf("an admin listener off loopback without a token: %v %s", err, out)
	}
	const token = "correct-horse-battery-staple"
	file := filepath.Join(t.TempDir(), "token")
	if err := os.WriteFile(file, []byte(token+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	o := operate(t, binary, nil, "--admin-token-file", file)
	paths := []string{"/", "/metrics", "/v1/policies", "/debug/pprof/heap", "/v1/explain?url=/", "/nothing", "/..%2f..%2fetc/passwd"}
	for _, path := range paths {
		for _, headers := range [][]string{nil, {"Authorization", "Bearer wrong-" + token}} {
			if res := fetch(t, o.admin+path, headers...); res.StatusCode != http.StatusUnauthorized {
				t.Errorf("GET %s with %v = %s", path, headers, res.Status)
			}
		}
	}
	right := []string{"Authorization", "Bearer " + token}
	if res := fetch(t, o.admin+"/metrics", "Authorization", "Bearer "+token, "Origin", "https://evil.example"); res.StatusCode != http.StatusForbidden {
		t.Errorf("a request from another site = %s", res.Status)
	}
	for _, path := range paths[:4] {
		if res := fetch(t, o.admin+path, right...); res.StatusCode != http.StatusOK {
			t.Errorf("GET %s with the token = %s", path, res.Status)
		}
	}
	if strings.Contains(o.log.String(), token) || !strings.Contains(o.log.String(), "wrong token") {
		t.Errorf("the log after wrong tokens:\n%s", o.log)
	}

	loopback := operate(t, binary, nil)
	if res := fetch(t, loopback.admin+"/metrics", "Host", "evil.example:9090"); res.StatusCode != http.StatusForbidden {
		t.Errorf("a request with another host name = %s", res.Status)
	}
}

// TestOperationsTelemetry checks that a collector receives traces and metrics without client
// data, and that requests succeed after the collector stops.
func TestOperationsTelemetry(t *testing.T) {
	var mu sync.Mutex
	got := map[string][]byte{}
	collector := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		mu.Lock()
		defer mu.Unlock()
		got[r.URL.Path+" "+r.Header.Get("Content-Type")] = append(got[r.URL.Path+" "+r.Header.Get("Content-Type")], body...)
	}))
	binary := programtest.Weir(t)
	o := operate(t, binary, []string{"OTEL_EXPORTER_OTLP_ENDPOINT=" + collector.URL, "OTEL_SERVICE_NAME=edge"})
	for range 3 {
		if res := o.ask(t, "203.0.113.7"); res.StatusCode == 200 && !strings.HasPrefix(res.Header.Get("Seen"), "00-") {
			t.Errorf("the upstream received %q", res.Header.Get("Seen"))
		}
	}
	o.stop()
	mu.Lock()
	traces, metrics := got["/v1/traces application/x-protobuf"], got["/v1/metrics application/x-protobuf"]
	mu.Unlock()
	for _, want := range []string{"weir.decision", "weir.denied_by", "per-client", "edge", "gateway"} {
		if !bytes.Contains(traces, []byte(want)) {
			t.Errorf("the traces have no %s", want)
		}
	}
	for _, never := range []string{"203.0.113.7", "secret-in-a-query"} {
		if bytes.Contains(traces, []byte(never)) {
			t.Errorf("the traces have %s", never)
		}
	}
	if !bytes.Contains(metrics, []byte("weir_decisions_total")) {
		t.Error("the metrics have no weir_decisions_total")
	}
	collector.Close()

	away := operate(t, binary, []string{"OTEL_EXPORTER_OTLP_ENDPOINT=" + collector.URL, "OTEL_BSP_SCHEDULE_DELAY=10"})
	begin := time.Now()
	for i := range 200 {
		if res := away.ask(t, fmt.Sprint("198.51.100.", i)); res.StatusCode != 200 {
			t.Fatalf("request %d without a collector = %s", i, res.Status)
		}
	}
	if took := time.Since(begin); took > time.Minute { // an export that blocks takes 10 s
		t.Errorf("200 requests took %v", took)
	}
	if n := strings.Count(away.log.String(), "telemetry not exported"); n > 2 {
		t.Errorf("%d log lines about the stopped collector", n)
	}
}

// TestOperationsLog checks that decisions are logged if configured, without the client.
func TestOperationsLog(t *testing.T) {
	binary := programtest.Weir(t)
	o := operate(t, binary, nil, "--log-denials", "1", "--log", "json")
	for range 3 {
		o.ask(t, "203.0.113.7")
	}
	o.stop()
	lines := regexp.MustCompile(`(?m)^.*"msg":"decision".*$`).FindAllString(o.log.String(), -1)
	if len(lines) != 2 { // one of each policy: the one in shadow denied before
		t.Fatalf("the log:\n%s", o.log)
	}
	if !strings.Contains(lines[0], `"policy":"trial"`) || !strings.Contains(lines[0], `"shadow":true`) ||
		!regexp.MustCompile(`"interface":"gateway","policy":"per-client","outcome":"denied","limit":"2/h burst 2","remaining":0,"retry_after":"[^"]+","at":"[^"]+Z","key":"[0-9a-f]{16}"`).MatchString(lines[1]) {
		t.Errorf("the log:\n%s", strings.Join(lines, "\n"))
	}
	if strings.Contains(o.log.String(), "203.0.113.7") || strings.Contains(o.log.String(), "secret-in-a-query") {
		t.Errorf("the log names the client:\n%s", o.log)
	}

	quiet := operate(t, binary, nil)
	for range 3 {
		quiet.ask(t, "203.0.113.7")
	}
	if strings.Contains(quiet.log.String(), "decision") {
		t.Errorf("got decisions without the setting:\n%s", quiet.log)
	}
}
