package e2e_test

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/floodweir/weir/e2e/programtest"
	"github.com/floodweir/weir/internal/porttest"
)

// The limit, shared by all clients.
const (
	trafficRate  = 100
	trafficBurst = 50
)

// trafficTime returns the duration of the traffic: WEIR_TRAFFIC, or one second.
func trafficTime(t *testing.T) time.Duration {
	text := os.Getenv("WEIR_TRAFFIC")
	if text == "" {
		return time.Second
	}
	d, err := time.ParseDuration(text)
	if err != nil || d < time.Second || d%time.Second != 0 {
		t.Fatalf("WEIR_TRAFFIC=%q: want whole seconds such as 60s", text)
	}
	return d
}

// TestTrafficMemory sends traffic with wrk through one gateway to nginx.
func TestTrafficMemory(t *testing.T) {
	traffic(t, "memory", 1)
}

// traffic sends far more than the limit to gateways that share a store and counts the requests
// that reached nginx. The bounds hold on a busy machine too. At most burst + rate·t requests
// pass between the start and the reading of nginx's log. Between two denials of the witness,
// at least rate·t pass. From that, a fraction of a token is deducted, and the requests in
// flight when wrk stops: they may be charged without reaching nginx.
func traffic(t *testing.T, store string, gateways int) {
	duration := trafficTime(t)
	binary := programtest.Weir(t)
	upstream := startNginx(t, nginxConf, "/warm")
	var urls []string
	for range gateways {
		urls = append(urls, startGateway(t, binary, upstream.url, store, fmt.Sprintf("%d/s burst %d", trafficRate, trafficBurst)))
	}
	for _, url := range urls { // warm up connections, scripts and files
		for range 20 {
			mustGet(t, url+"/warm")
		}
	}
	results, inFlight := make([]wrkResult, gateways), int64(gateways*wrkConnections)
	var load, witnesses sync.WaitGroup
	var saw witness
	over := make(chan struct{})
	began := time.Now()
	for i, url := range urls {
		load.Go(func() { results[i] = wrk(t, url+"/", duration) })
	}
	witnesses.Go(func() { saw.watch(t, urls[0]+"/", over) })
	load.Wait()
	close(over)
	witnesses.Wait()
	if t.Failed() {
		return
	}
	offered, admitted := saw.admitted+saw.denied, saw.admitted
	for _, r := range results {
		offered += r.requests
		admitted += r.requests - r.others
	}
	seen := int64(len(upstream.logged(t, int(admitted))))
	most := trafficBurst + trafficRate*time.Since(began).Seconds()
	least := trafficBurst + trafficRate*(saw.last.Sub(saw.first)-saw.full).Seconds() - 1 - float64(inFlight)
	t.Logf("%s, %d gateway(s): %d offered, %d reached nginx; %d + %d·t is at most %.1f and at least %.1f",
		name(store), gateways, offered, seen, trafficBurst, trafficRate, most, least)
	if n := float64(seen); n > most || n < least {
		t.Errorf("%d requests reached nginx, want %.1f to %.1f", seen, least, most)
	}
	t.Logf("the witness was denied %d times within %v of %v", saw.denied, saw.last.Sub(saw.first), duration)
	if saw.denied < 2 { // least has no meaning
		t.Errorf("the witness was denied %d times, want 2 or more", saw.denied)
	}
	if seen < admitted || seen > admitted+inFlight {
		t.Errorf("the clients got %d responses with status 200 and nginx sent %d: want the same, except those in flight at the end", admitted, seen)
	}
}

// A witness sends requests beside the traffic. When it is denied, the bucket is empty.
type witness struct {
	admitted, denied int64

	first, last time.Time     // after the first denial, and before the last
	full        time.Duration // how long the bucket may have been full between them
}

// watch sends requests until the traffic ends.
func (w *witness) watch(t *testing.T, url string, over <-chan struct{}) {
	const filled = (trafficBurst - 1) * time.Second / trafficRate // the shortest time from empty to full
	for {
		select {
		case <-over:
			return
		default:
		}
		asked := time.Now()
		status, err := tryGet(t.Context(), url)
		replied := time.Now()
		switch {
		case err == nil && status == http.StatusOK:
			w.admitted++
		case err == nil && status == http.StatusTooManyRequests:
			if w.denied++; w.denied == 1 {
				w.first = replied
			} else {
				w.full += max(0, replied.Sub(w.last)-filled)
			}
			w.last = asked
		default:
			t.Errorf("GET %s = %d, %v, want 200 or 429", url, status, err)
			return
		}
	}
}

func name(store string) string {
	before, _, _ := strings.Cut(store, "://")
	return before
}

// startProcess runs a program until the end of the test and prints its output if the test
// fails. Listeners of weir that no flag enables are off, because their ports may be in use.
func startProcess(t *testing.T, path string, args ...string) {
	t.Helper()
	var log bytes.Buffer
	cmd := exec.Command(path, args...)
	cmd.Env = append(os.Environ(), "TZ=UTC", "WEIR_LISTEN_GRPC=off", "WEIR_LISTEN_RESP=off", "WEIR_LISTEN_ADMIN=off")
	cmd.Stdout, cmd.Stderr = &log, &log
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		cmd.Process.Signal(syscall.SIGTERM)
		done := make(chan error, 1)
		go func() { done <- cmd.Wait() }()
		select {
		case <-done:
		case <-time.After(time.Minute):
			cmd.Process.Kill()
			<-done
			t.Errorf("%s did not stop after SIGTERM", path)
		}
		if t.Failed() {
			t.Logf("output of %s:\n%s", filepath.Base(path), log.String())
		}
	})
}

// poller sends each request on a new connection, and waits for a response for a limited time:
// one attempt that hangs must not use all of the time of awaitResponse.
var poller = &http.Client{Timeout: 3 * time.Second, Transport: &http.Transport{DisableKeepAlives: true}}

// awaitStatus polls a URL until it responds with a status.
func awaitStatus(t testing.TB, url string, want int) {
	t.Helper()
	awaitResponse(t, url, fmt.Sprint("status ", want), func(status int, _ string) bool { return status == want })
}

// awaitText polls a URL until its body contains a text.
func awaitText(t *testing.T, url, text string) {
	t.Helper()
	awaitResponse(t, url, text, func(_ int, body string) bool { return strings.Contains(body, text) })
}

// awaitResponse polls a URL until a response is accepted.
func awaitResponse(t testing.TB, url, want string, accepted func(status int, body string) bool) {
	t.Helper()
	began := time.Now()
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	for n := 1; ; n++ {
		asked := time.Now()
		status, body, err := get(t.Context(), poller, url)
		if err == nil && accepted(status, body) {
			return
		}
		if took := time.Since(asked); took > time.Second {
			t.Logf("attempt %d for %s took %v: %d, %v", n, url, took, status, err)
		}
		if time.Since(began) > 2*time.Minute {
			t.Fatalf("%s: no %s in 2m and %d attempts; the last = %d, %.500q, %v", url, want, n, status, body, err)
		}
		<-tick.C
	}
}

// TestAwaitStatus checks that awaitStatus finds a server whose port had another listener
// before, which accepted a request and never responds.
func TestAwaitStatus(t *testing.T) {
	t.Parallel()
	l, err := porttest.Listen(porttest.Address(t))
	if err != nil {
		t.Fatal(err)
	}
	responds := make(chan struct{})
	go func() {
		defer close(responds)
		c, err := l.Accept()
		if err != nil {
			t.Error(err)
			return
		}
		t.Cleanup(func() { c.Close() })
		l.Close()
		if l, err = porttest.Listen(l.Addr().String()); err != nil {
			t.Error(err)
			return
		}
		s := &http.Server{Handler: http.NotFoundHandler()}
		t.Cleanup(func() { s.Close() })
		go s.Serve(l)
	}()
	awaitStatus(t, "http://"+l.Addr().String(), http.StatusNotFound)
	<-responds
}

func get(ctx context.Context, c *http.Client, url string) (status int, body string, err error) {
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return 0, "", err
	}
	res, err := c.Do(r)
	if err != nil {
		return 0, "", err
	}
	defer res.Body.Close()
	text, err := io.ReadAll(res.Body)
	return res.StatusCode, string(text), err
}

func tryGet(ctx context.Context, url string) (int, error) {
	status, _, err := get(ctx, http.DefaultClient, url)
	return status, err
}

func mustGet(t *testing.T, url string) {
	t.Helper()
	if status, err := tryGet(t.Context(), url); err != nil || status != http.StatusOK {
		t.Fatalf("GET %s = %d, %v, want 200", url, status, err)
	}
}

// An nginx is a real upstream that logs the time of every request except warm-ups.
type nginx struct {
	url, log string
}

const nginxConf = `
daemon off;
worker_processes 1;
pid DIR/pid;
error_log DIR/error.log;
events { worker_connections 512; }
http {
  log_format instant '$msec';
  access_log off;
  client_body_temp_path DIR/body; proxy_temp_path DIR/proxy; fastcgi_temp_path DIR/fastcgi;
  uwsgi_temp_path DIR/uwsgi; scgi_temp_path DIR/scgi;
  keepalive_requests 1000000;
  server {
    listen 127.0.0.1:PORT;
    location = /warm { return 200 "warm\n"; }
    location / { access_log DIR/access.log instant; return 200 "ok\n"; }
  }
}
`

// startNginx starts an nginx with a configuration in which it replaces DIR and PORT, and waits
// until the path ready responds.
func startNginx(t *testing.T, conf, ready string) *nginx {
	t.Helper()
	path, err := exec.LookPath("nginx")
	if err != nil {
		t.Fatalf("this test needs a real nginx: install it (Debian: apt-get install nginx-light): %v", err)
	}
	dir, port := t.TempDir(), strconv.Itoa(porttest.Free(t))
	file := filepath.Join(dir, "nginx.conf")
	if err := os.WriteFile(file, []byte(strings.NewReplacer("DIR", dir, "PORT", port).Replace(conf)), 0o600); err != nil {
		t.Fatal(err)
	}
	startProcess(t, path, "-p", dir, "-e", filepath.Join(dir, "error.log"), "-c", file)
	n := &nginx{"http://127.0.0.1:" + port, filepath.Join(dir, "access.log")}
	awaitStatus(t, n.url+ready, http.StatusOK)
	return n
}

// times returns the times of the requests in seconds, sorted.
func (n *nginx) times(t *testing.T) (times []float64) {
	t.Helper()
	f, err := os.Open(n.log)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	for lines := bufio.NewScanner(f); lines.Scan(); {
		at, err := strconv.ParseFloat(lines.Text(), 64)
		if err != nil {
			t.Fatal(err)
		}
		times = append(times, at)
	}
	return times
}

// logged returns the times of at least so many requests. nginx logs a request after its
// response.
func (n *nginx) logged(t *testing.T, least int) []float64 {
	t.Helper()
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	for end := time.Now().Add(time.Minute); ; <-tick.C {
		if times := n.times(t); len(times) >= least || time.Now().After(end) {
			return times
		}
	}
}

const trafficFile = `
gateway:
  routes:
    - { path: /, upstream: "UPSTREAM" }
policies:
  - name: all-clients
    match: { paths: ["/"] }
    key: ["const:all-clients"]
    limits: ["LIMIT"]
    on_store_error: closed
`

// startGateway runs weir with one limit for all clients in front of an upstream and returns
// the URL of its gateway.
func startGateway(t *testing.T, binary, upstream, store, limit string) string {
	t.Helper()
	gateway, api := launchGateway(t, binary, upstream, store, limit)
	awaitStatus(t, api+"/readyz", http.StatusOK)
	return gateway
}

// launchGateway is startGateway without waiting for readiness. It returns the URL of the API
// too.
func launchGateway(t *testing.T, binary, upstream, store, limit string, args ...string) (gatewayURL, apiURL string) {
	t.Helper()
	file := filepath.Join(t.TempDir(), "weir.yaml")
	text := strings.NewReplacer("UPSTREAM", upstream, "LIMIT", limit).Replace(trafficFile)
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	gateway, api := porttest.Address(t), porttest.Address(t)
	args = append([]string{"serve", file, "--store", store, "--listen-gateway", gateway, "--listen-http", api, "--deadline", "5s"}, args...)
	startProcess(t, binary, args...)
	return "http://" + gateway, "http://" + api
}

const wrkConnections = 4

// A wrkResult holds the counts of wrk. others are responses other than 2xx and 3xx.
type wrkResult struct{ requests, others int64 }

var (
	wrkRequests = regexp.MustCompile(`(\d+) requests in `)
	wrkOthers   = regexp.MustCompile(`Non-2xx or 3xx responses: (\d+)`)
)

// wrk sends as many requests as a few connections can.
func wrk(t *testing.T, url string, d time.Duration) (r wrkResult) {
	out, err := exec.Command("wrk", "-t1", "-c"+strconv.Itoa(wrkConnections), fmt.Sprintf("-d%ds", int(d.Seconds())), "--timeout", "15s", url).CombinedOutput()
	if errors.Is(err, exec.ErrNotFound) {
		t.Errorf("this test needs wrk: install it (Debian: apt-get install wrk)")
		return r
	}
	requests := wrkRequests.FindSubmatch(out)
	if err != nil || requests == nil {
		t.Errorf("wrk = %v\n%s", err, out)
		return r
	}
	r.requests, _ = strconv.ParseInt(string(requests[1]), 10, 64)
	if others := wrkOthers.FindSubmatch(out); others != nil {
		r.others, _ = strconv.ParseInt(string(others[1]), 10, 64)
	}
	if bytes.Contains(out, []byte("Socket errors")) {
		t.Errorf("errors of wrk:\n%s", out)
	}
	return r
}
