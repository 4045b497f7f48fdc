package e2e_test

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/floodweir/weir/e2e/programtest"
	"github.com/floodweir/weir/e2e/redistest"
	"github.com/floodweir/weir/internal/porttest"
)

// metricOf returns the value of a series of a program.
func metricOf(t *testing.T, n *serving, series string) float64 {
	t.Helper()
	res := fetch(t, n.admin+"/metrics")
	body, err := io.ReadAll(res.Body)
	if err != nil {
		t.Fatal(err)
	}
	m := regexp.MustCompile(`(?m)^` + regexp.QuoteMeta(series) + ` (\S+)$`).FindSubmatch(body)
	if m == nil {
		t.Fatalf("%s/metrics has no %s", n.admin, series)
	}
	v, err := strconv.ParseFloat(string(m[1]), 64)
	if err != nil {
		t.Fatal(err)
	}
	return v
}

const decidedByShare = `weir_shares_decisions_total{by="share"}`

// An admissionLog has the admissions of all clients.
type admissionLog struct {
	start time.Time

	mu    sync.Mutex
	all   []admission
	local []admission // by on_store_error, which are not in all
}

// ask sends a request, and records its admission. It returns the status, or 0 without a response.
func (l *admissionLog) ask(client *http.Client, r *http.Request) int {
	begin := time.Since(l.start)
	res, err := client.Do(r)
	end := time.Since(l.start)
	if err != nil {
		return 0
	}
	_, _ = io.Copy(io.Discard, res.Body)
	res.Body.Close()
	if res.StatusCode == http.StatusOK || res.StatusCode == http.StatusNoContent {
		l.mu.Lock()
		defer l.mu.Unlock()
		if res.Header.Get("Weir-Degraded") != "" {
			l.local = append(l.local, admission{begin, end})
		} else {
			l.all = append(l.all, admission{begin, end})
		}
	}
	return res.StatusCode
}

// askAlways is a client that asks every 5 ms until ctx ends.
func (l *admissionLog) askAlways(ctx context.Context, t *testing.T, request func() (*http.Request, error), answered func(status int)) {
	client := &http.Client{Transport: &http.Transport{}, Timeout: 10 * time.Second}
	defer client.CloseIdleConnections()
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		r, err := request()
		if err != nil {
			t.Error(err)
			return
		}
		answered(l.ask(client, r))
	}
}

// authRequest returns the request of a proxy about one for /.
func authRequest(n *serving) (*http.Request, error) {
	r, err := http.NewRequest("GET", n.api+"/v1/auth", nil)
	if err == nil {
		r.Header = http.Header{"X-Forwarded-Method": {"GET"}, "X-Forwarded-Uri": {"/"}, "X-Forwarded-For": {"203.0.113.7"}}
	}
	return r, err
}

const sharesFile = `
gateway: { routes: [{ path: /, upstream: "UPSTREAM" }] }
http: { trusted_proxies: [127.0.0.1] }
policies:
  - name: hot
    key: const:all
    limits: 600/s burst 300
    shares: { lease: 3s }
    on_store_error: closed
`

// TestSharedServers runs three servers that divide one limit of a hot key. One is killed, and then
// the store is. All together never admit more than the limit. Without the store those that hold shares
// admit until their leases end, and then on_store_error refuses.
func TestSharedServers(t *testing.T) {
	redis := redistest.Start(t)
	testSharedServers(t, "redis://"+redis.Addr, redis.Stop, "closed")
}

// A sharedRun has three servers with one hot key, and clients that ask them always.
type sharedRun struct {
	nodes   []*serving
	log     *admissionLog
	refused atomic.Int64
	end     func() // of the clients
}

// runShared starts servers with an on_store_error, and waits until each has decided by a share.
func runShared(t *testing.T, store, then string) *sharedRun {
	t.Helper()
	upstream := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}))
	t.Cleanup(upstream.Close)
	s := &sharedRun{}
	for range 3 {
		file := strings.NewReplacer("UPSTREAM", upstream.URL, "on_store_error: closed", "on_store_error: "+then).Replace(sharesFile)
		s.nodes = append(s.nodes, serve(t, programtest.Weir(t), file,
			"--store", store, "--deadline", "100ms", "--log-level", "error"))
	}
	s.log = &admissionLog{start: time.Now()}
	ctx, cancel := context.WithCancel(t.Context())
	var clients sync.WaitGroup
	s.end = func() {
		cancel()
		clients.Wait()
	}
	t.Cleanup(s.end)
	for _, n := range s.nodes {
		for i := range 4 {
			request := func() (*http.Request, error) { return authRequest(n) }
			if i%2 == 1 {
				request = func() (*http.Request, error) { return http.NewRequest("GET", n.gateway+"/", nil) }
			}
			clients.Go(func() {
				s.log.askAlways(ctx, t, request, func(status int) {
					if status == http.StatusServiceUnavailable {
						s.refused.Add(1)
					}
				})
			})
		}
	}
	for _, n := range s.nodes {
		awaitResponse(t, n.admin+"/metrics", "a decision by a share", func(_ int, body string) bool {
			m := regexp.MustCompile(`(?m)^` + regexp.QuoteMeta(decidedByShare) + ` (\d+)`).FindStringSubmatch(body)
			return m != nil && m[1] != "0"
		})
	}
	return s
}

// holders awaits holders of shares. A process returns its share when it has no request for a moment, which a
// busy machine can cause.
func (s *sharedRun) holders(t *testing.T, n int) {
	t.Helper()
	redistest.Await(t, "holders of shares", func() error {
		explained := fetchText(t, s.nodes[0].admin+"/v1/explain?url=/&client_ip=203.0.113.7")
		if strings.Count(explained, `"demand":`) < n {
			return fmt.Errorf("explain = %s, want %d holders", explained, n)
		}
		return nil
	})
}

// checkWithin checks that admissions are not more than the limit in any span.
func checkWithin(t *testing.T, by string, all []admission) {
	t.Helper()
	worst, from, to := excess(all, 600, 300)
	if worst > 0 {
		t.Errorf("%.1f more than 300 + 600·t were admitted by %s from %v to %v", worst, by, from, to)
	}
	t.Logf("%d admitted by %s; the fullest span has %+.1f against 300 + 600·t", len(all), by, worst)
}

func pause(d time.Duration) {
	timer := time.NewTimer(d)
	defer timer.Stop()
	<-timer.C
}

// testSharedServers is TestSharedServers with a store, how to stop it, and an on_store_error. After the leases, local
// admits no more than the limit either, without a number of nodes.
func testSharedServers(t *testing.T, store string, stop func(), then string) {
	s := runShared(t, store, then)
	pause(2 * time.Second)
	s.holders(t, 3)
	if err := s.nodes[2].process.Kill(); err != nil {
		t.Fatal(err)
	}
	killed := time.Since(s.log.start)
	pause(5 * time.Second) // its lease, and what others did not know of it
	s.holders(t, 2)
	before := s.refused.Load()
	stop()
	stopped := time.Since(s.log.start)
	pause(4 * time.Second)
	s.end()

	const lease = 3 * time.Second
	log, refused := s.log, s.refused.Load()-before
	checkWithin(t, "shares", log.all)
	checkWithin(t, "on_store_error", log.local)
	afterKill, without, late := 0, 0, 0
	for _, a := range log.all {
		switch {
		case a.asked > stopped+lease:
			late++
		case a.asked > stopped:
			without++
		case a.asked > killed+lease+lease/2:
			afterKill++
		}
	}
	if afterKill == 0 {
		t.Error("none admitted after a server was killed")
	}
	if without == 0 {
		t.Error("none admitted without the store, want those of the shares")
	}
	if late > 0 || then == "closed" && refused == 0 || (then == "local") != (len(log.local) > 0) {
		t.Errorf("%d admitted by shares, %d refused and %d admitted by on_store_error after the leases, want that to be %s", late, refused, len(log.local), then)
	}
}

// TestSharesThenLocal kills the store of three servers whose number is not configured. After their leases they
// decide by the parts that they held, and together never admit more than the limit.
func TestSharesThenLocal(t *testing.T) {
	redis := redistest.Start(t)
	s := runShared(t, "redis://"+redis.Addr, "local")
	pause(2 * time.Second)
	s.holders(t, 3)
	redis.Stop()
	stopped := time.Since(s.log.start)
	pause(9 * time.Second)
	s.end()
	checkWithin(t, "shares", s.log.all)
	checkWithin(t, "on_store_error: local", s.log.local)
	late := 0
	for _, a := range s.log.local {
		if a.asked > stopped+4*time.Second {
			late++
		}
	}
	if late == 0 {
		t.Error("none admitted after the leases, want on_store_error: local")
	}
}

func fetchText(t *testing.T, url string) string {
	t.Helper()
	body, err := io.ReadAll(fetch(t, url).Body)
	if err != nil {
		t.Fatal(err)
	}
	return string(body)
}

// TestSharesAtInterfaces checks that every interface decides a hot key by a share, also by the
// default of the file, and that a stop returns the shares.
func TestSharesAtInterfaces(t *testing.T) {
	t.Parallel()
	redis := redistest.Start(t, documentedACL(t, "weir:1:*"))
	upstream := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}))
	t.Cleanup(upstream.Close)
	limits := filepath.Join(t.TempDir(), "limits.yaml")
	if err := os.WriteFile(limits, []byte("domain: shop\ndescriptors: [{ key: path, rate_limit: { unit: second, requests_per_unit: 5000 } }]\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	resp, grpc := porttest.Address(t), porttest.Address(t)
	file := strings.ReplaceAll(`
shares: auto
gateway: { routes: [{ path: /, upstream: "UPSTREAM" }] }
http: { trusted_proxies: [127.0.0.1] }
policies:
  - { name: gateway, match: /gateway, key: const:all, limits: 5000/s }
  - { name: auth, match: /auth, key: const:all, limits: [5000/s, 100000/m sliding_window] }
  - { name: api, match: /none, key: const:all, limits: 5000/s }
`, "UPSTREAM", upstream.URL)
	n := serve(t, programtest.Weir(t), file, "--store", "redis://weir:secret@"+redis.Addr, "--listen-resp", resp, "--listen-grpc", grpc, "--grpc-config", limits)
	throttle, err := redistest.Dial(resp)
	if err != nil {
		t.Fatal(err)
	}
	defer throttle.Close()
	send := func(method, url, body string, headers ...string) error {
		r, err := http.NewRequest(method, url, strings.NewReader(body))
		if err != nil {
			return err
		}
		for i := 0; i < len(headers); i += 2 {
			r.Header.Set(headers[i], headers[i+1])
		}
		res, err := poller.Do(r)
		if err != nil {
			return err
		}
		defer res.Body.Close()
		if text, _ := io.ReadAll(res.Body); res.StatusCode >= 300 {
			return fmt.Errorf("%s: %s", res.Status, text)
		}
		return nil
	}
	for _, test := range []struct {
		name string
		ask  func() error
	}{
		{"gateway", func() error { return send("GET", n.gateway+"/gateway", "") }},
		{"auth", func() error {
			return send("GET", n.api+"/v1/auth", "", "X-Forwarded-Method", "GET", "X-Forwarded-Uri", "/auth", "X-Forwarded-For", "203.0.113.7")
		}},
		{"api by policy", func() error {
			return send("POST", n.api+"/v1/take", `{"policy":"api","key":["all"]}`, "Content-Type", "application/json")
		}},
		{"api by limit", func() error {
			return send("POST", n.api+"/v1/take", `{"key":"user:42","limit":"5000/s"}`, "Content-Type", "application/json")
		}},
		{"envoy", func() error {
			return send("POST", n.api+"/json", `{"domain":"shop","descriptors":[{"entries":[{"key":"path","value":"/"}]}]}`, "Content-Type", "application/json")
		}},
		{"resp", func() error {
			_, err := throttle.Do("CL.THROTTLE", "user:43", 4999, 5000, 1)
			return err
		}},
	} {
		before, began := metricOf(t, n, decidedByShare), time.Now()
		for i := 1; ; i++ {
			if err := test.ask(); err != nil {
				t.Fatalf("%s: %v", test.name, err)
			}
			if i%100 != 0 {
				continue
			}
			if metricOf(t, n, decidedByShare) >= before+100 {
				break
			}
			if time.Since(began) > 30*time.Second {
				t.Fatalf("%s: no decisions by a share after %d requests in 30 s", test.name, i)
			}
		}
	}
	if v := metricOf(t, n, "weir_shares_held"); v < 1 {
		t.Errorf("weir_shares_held = %v, want the last one", v)
	}
	if err := n.process.Signal(os.Interrupt); err != nil {
		t.Fatal(err)
	}
	redistest.Await(t, "the server has stopped", func() error {
		if res, err := poller.Get(n.api + "/healthz"); err == nil {
			res.Body.Close()
			return fmt.Errorf("it responds")
		}
		return nil
	})
	redistest.Await(t, "the shares are returned", func() error {
		for _, key := range redis.Do(t, "KEYS", "weir:1:share:*").([]any) {
			// A row with holders is kept for an hour more than their leases.
			if ttl := redis.Do(t, "PTTL", key).(int64); ttl > time.Hour.Milliseconds() {
				return fmt.Errorf("%s has a holder: it is kept for %d ms", key, ttl)
			}
		}
		return nil
	})
}

// TestSharesReload lowers a limit, and then turns shares off, while a server holds a share. After a
// lease it admits by the new limit only.
func TestSharesReload(t *testing.T) {
	redis := redistest.Start(t)
	const file = `
http: { trusted_proxies: [127.0.0.1] }
policies: [{ name: hot, key: const:all, limits: LIMIT, shares: SHARES, on_store_error: closed }]`
	text := func(limit, shares string) string {
		return strings.NewReplacer("LIMIT", limit, "SHARES", shares).Replace(file)
	}
	n := serve(t, programtest.Weir(t), text("2000/s burst 1000", "{ lease: 1s }"), "--store", "redis://"+redis.Addr, "--listen-gateway", "off")
	log := &admissionLog{start: time.Now()}
	ask := func() {
		r, err := authRequest(n)
		if err != nil {
			t.Fatal(err)
		}
		if log.ask(poller, r) == 0 {
			t.Fatal("no response")
		}
	}
	until := func(what string, done func() bool) {
		t.Helper()
		for began := time.Now(); !done(); {
			for range 50 {
				ask()
			}
			if time.Since(began) > 30*time.Second {
				t.Fatalf("not %s in 30 s", what)
			}
		}
	}
	explains := func(text string) func() bool {
		return func() bool { return strings.Contains(fetchText(t, n.admin+"/v1/explain?url=/"), text) }
	}
	elapsed := func(d time.Duration) func() bool {
		from := time.Now()
		return func() bool { return time.Since(from) >= d }
	}
	until("a share", func() bool { return metricOf(t, n, "weir_shares_held") > 0 })
	n.write(t, text("200/s burst 150", "{ lease: 1s }"))
	until("the new limit", explains(`"limit":"200/s burst 150"`))
	until("the end of the lease", elapsed(1500*time.Millisecond))
	log.all = nil
	until("two seconds", elapsed(2*time.Second))
	if worst, from, to := excess(log.all, 200, 150); worst > 0 || len(log.all) == 0 {
		t.Errorf("%d admitted, and %.1f more than the new limit from %v to %v", len(log.all), worst, from, to)
	}
	n.write(t, text("200/s burst 150", "off"))
	strict := metricOf(t, n, `weir_shares_decisions_total{by="strict"}`)
	until("decided by the store", func() bool { return metricOf(t, n, `weir_shares_decisions_total{by="strict"}`) > strict })
	until("without a share", func() bool { return metricOf(t, n, "weir_shares_held") == 0 })
}
