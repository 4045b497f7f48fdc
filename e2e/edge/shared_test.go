package edge_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"math"
	"net"
	"net/http"
	"os/exec"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/floodweir/weir/e2e/nginxtest"
	"github.com/floodweir/weir/e2e/programtest"
	"github.com/floodweir/weir/e2e/redistest"
	"github.com/floodweir/weir/internal/porttest"
)

// interfaces are three ways to one bucket: nginx with Lua and several workers, the gateway of
// one weir process, and the HTTP listener of another.
type interfaces struct {
	nginx, gateway, api string
	server              *nginxtest.Server
}

// startInterfaces starts all of them with one policy file.
func startInterfaces(t *testing.T, weir, redis, policies string) *interfaces {
	t.Helper()
	upstream := upstreamOf(t, http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { io.WriteString(w, "through\n") }))
	return startInterfacesBefore(t, weir, redis, policies, upstream, asks)
}

func startInterfacesBefore(t *testing.T, weir, redis, policies, upstream, location string) *interfaces {
	t.Helper()
	file := writePolicies(t, redis, "gateway: { routes: [{ path: /, upstream: \""+upstream+"\" }] }\n"+policies)
	d := &interfaces{server: nginxtest.Start(t, nginxtest.Config{Workers: 4, HTTP: edgeConf(t, weir, file) + `
  server { listen ADDR reuseport; location / {` + location + `} }`})}
	d.nginx = "http://" + d.server.Addr
	d.gateway, _ = serveWeir(t, weir, file)
	_, d.api = serveWeir(t, weir, file)
	return d
}

func upstreamOf(t *testing.T, h http.Handler) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	s := &http.Server{Handler: h}
	go s.Serve(l)
	t.Cleanup(func() { s.Close() })
	return "http://" + l.Addr().String()
}

// serveWeir runs weir until the test ends and returns the URLs of its gateway and its HTTP
// listener.
func serveWeir(t *testing.T, weir, file string, args ...string) (gateway, api string) {
	t.Helper()
	gateway, api = porttest.Address(t), porttest.Address(t)
	cmd := exec.Command(weir, append([]string{"serve", file, "--listen-gateway", gateway, "--listen-http", api,
		"--listen-grpc", "off", "--listen-resp", "off", "--listen-admin", "off"}, args...)...)
	var log bytes.Buffer
	cmd.Stdout, cmd.Stderr = &log, &log
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		cmd.Process.Signal(syscall.SIGTERM)
		cmd.Wait()
		if t.Failed() {
			t.Logf("output of weir:\n%s", &log)
		}
	})
	c := callFrom(t, "127.0.0.1")
	redistest.Await(t, "weir serve", func() error {
		r := c.get("http://" + api + "/readyz")
		if r.err == nil && r.status != http.StatusOK {
			return fmt.Errorf("%d %s", r.status, r.body)
		}
		return r.err
	})
	return "http://" + gateway, "http://" + api
}

// An asker sends a request of one client to one interface.
type asker func(path string) reply

// askers returns n clients with one address for each interface.
func (d *interfaces) askers(t *testing.T, ip string, n int, fields ...string) map[string][]asker {
	t.Helper()
	out, local := callFrom(t, ip), callFrom(t, "127.0.0.1")
	all := map[string][]asker{}
	for range n {
		all["nginx"] = append(all["nginx"], func(path string) reply { return out.get(d.nginx+path, fields...) })
		all["gateway"] = append(all["gateway"], func(path string) reply { return out.get(d.gateway+path, fields...) })
		all["http"] = append(all["http"], func(path string) reply {
			return local.get(d.api+"/v1/auth", append([]string{"X-Forwarded-For", ip, "X-Forwarded-Method", "GET", "X-Forwarded-Uri", path, "X-Forwarded-Host", d.api[7:]}, fields...)...)
		})
	}
	return all
}

// A tally counts the outcomes of requests, by interface.
type tally struct {
	mu       sync.Mutex
	admitted map[string]int
	denied   int
	wrong    []string
}

func (c *tally) add(name string, r reply) {
	c.mu.Lock()
	defer c.mu.Unlock()
	switch {
	case r.err == nil && r.status == http.StatusOK && r.header.Get("Weir-Degraded") == "":
		c.admitted[name]++
	case r.err == nil && r.status == http.StatusTooManyRequests && r.header.Get("Retry-After") != "":
		c.denied++
	case len(c.wrong) < 10:
		c.wrong = append(c.wrong, fmt.Sprintf("%s: %d %v %q %v", name, r.status, r.header, r.body, r.err))
	}
}

func (c *tally) sum() (n int) {
	for _, m := range c.admitted {
		n += m
	}
	return n
}

// hammer sends requests from all askers concurrently, each so many times, to the paths in
// order.
func hammer(all map[string][]asker, each int, paths ...string) *tally {
	c := &tally{admitted: map[string]int{}}
	var wg sync.WaitGroup
	for name, as := range all {
		for _, a := range as {
			wg.Go(func() {
				for i := range each {
					c.add(name, a(paths[i%len(paths)]))
				}
			})
		}
	}
	wg.Wait()
	return c
}

// check reports unexpected responses and missing ones.
func (c *tally) check(t *testing.T, asked int) {
	t.Helper()
	for _, w := range c.wrong {
		t.Error(w)
	}
	if c.sum()+c.denied != asked && len(c.wrong) == 0 {
		t.Errorf("%d admitted, %d denied, want %d in all", c.sum(), c.denied, asked)
	}
}

// peek returns the remaining tokens of a policy for a key, from the HTTP API.
func (d *interfaces) peek(t *testing.T, policy string, key ...string) int64 {
	t.Helper()
	text, err := json.Marshal(map[string]any{"policy": policy, "key": key, "n": 0})
	if err != nil {
		t.Fatal(err)
	}
	res, err := http.Post(d.api+"/v1/peek", "application/json", bytes.NewReader(text))
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	var answer struct{ Remaining *int64 }
	if err := json.NewDecoder(res.Body).Decode(&answer); err != nil || answer.Remaining == nil {
		t.Fatalf("peek %s: %d, %v", text, res.StatusCode, err)
	}
	return *answer.Remaining
}

// TestSharedExactly checks for every algorithm that three interfaces under load together admit
// exactly the limit, and that the remaining tokens match.
func TestSharedExactly(t *testing.T) {
	t.Parallel()
	cases := []struct {
		name, limit string
		cost, want  int
	}{
		{"fixed_window", "1000/h fixed_window", 1, 1000},
		{"sliding_window", "1000/h sliding_window", 1, 1000},
		{"sliding_log", "1000/h sliding_log", 1, 1000},
		{"token_bucket", "1000/30d", 1, 1000},
		{"leaky_bucket", "1000/30d leaky_bucket burst 999", 1, 1000},
		{"cost_7", "1000/h fixed_window", 7, 142},
	}
	policies := "policies:\n"
	for _, c := range cases {
		policies += fmt.Sprintf("  - { name: %s, match: /%[1]s/*, key: [client.ip, \"header:X-User\"], limits: %s, cost: %d, on_store_error: closed }\n", c.name, c.limit, c.cost)
	}
	d := startInterfaces(t, programtest.Weir(t), redistest.Start(t).Addr, policies)
	const clients, each = 16, 60
	all := d.askers(t, "127.0.0.7", clients, "X-User", "ann:1|é")
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			got := hammer(all, each, "/"+c.name+"/orders", "/"+strings.ToUpper(c.name)+"//orders/7", "/"+c.name+"/x?y=z")
			got.check(t, 3*clients*each)
			if got.sum() != c.want {
				t.Errorf("%v: %d admitted, want %d", got.admitted, got.sum(), c.want)
			}
			for name := range all {
				if got.admitted[name] == 0 {
					t.Errorf("%s admitted none, want some", name)
				}
			}
			if left := d.peek(t, c.name, "127.0.0.7", "ann:1|é"); left != int64(1000-c.want*c.cost) {
				t.Errorf("%d remain, want %d", left, 1000-c.want*c.cost)
			}
			t.Logf("%d requests: %d admitted %v, %d denied", 3*clients*each, got.sum(), got.admitted, got.denied)
		})
	}
}

// TestSharedKeys checks that clients of several addresses each have one bucket, at all
// interfaces.
func TestSharedKeys(t *testing.T) {
	t.Parallel()
	d := startInterfaces(t, programtest.Weir(t), redistest.Start(t).Addr, `
policies:
  - { name: shared, key: client.ip, limits: 200/h fixed_window, on_store_error: closed }
`)
	var wg sync.WaitGroup
	for i := range 5 {
		wg.Go(func() {
			ip := fmt.Sprintf("127.0.3.%d", i+1)
			got := hammer(d.askers(t, ip, 4), 40, "/")
			got.check(t, 3*4*40)
			if got.sum() != 200 {
				t.Errorf("%s: %v admitted, want 200", ip, got.admitted)
			}
		})
	}
	wg.Wait()
}

// TestSharedFormula checks a bucket that refills meanwhile, by the clock of Redis. Every
// admission moves the time at which the bucket is full by its cost, and at most the burst plus
// the refilled tokens are admitted.
func TestSharedFormula(t *testing.T) {
	redis := redistest.Start(t)
	d := startInterfaces(t, programtest.Weir(t), redis.Addr, `
policies:
  - { name: shared, key: client.ip, limits: 10/s burst 400, on_store_error: closed }
`)
	const price, spent = 100_000, 300 // µs; spent first, so that the bucket does not become full during the test
	start := redisTime(t, redis)
	ask := d.askers(t, "127.0.0.7", 1)["nginx"][0]
	for i := range spent {
		if r := ask("/"); r.status != http.StatusOK {
			t.Fatalf("request %d: %+v; %s", i, r, d.server.Log())
		}
	}
	before := fullAt(t, redis)
	const clients, each = 16, 120
	got := hammer(d.askers(t, "127.0.0.7", clients), each, "/")
	after, now := fullAt(t, redis), redisTime(t, redis)
	got.check(t, 3*clients*each)
	if after-before != int64(got.sum())*price {
		t.Errorf("%d admitted, and the time of a full bucket moved by %d µs, want %d", got.sum(), after-before, got.sum()*price)
	}
	most := 400 + int((now-start)/price)
	if n := spent + got.sum(); n > most {
		t.Errorf("%d admitted in %d µs, want at most %d", n, now-start, most)
	}
	t.Logf("%d requests in %d µs: %d admitted %v, of at most %d", spent+3*clients*each, now-start, spent+got.sum(), got.admitted, most)
}

// fullAt returns the first number of the only state of the policy in Redis.
func fullAt(t *testing.T, redis *redistest.Server) int64 {
	t.Helper()
	keys := redis.Do(t, "KEYS", "weir:1:{shared*").([]any)
	if len(keys) != 1 {
		t.Fatalf("keys = %v, want 1", keys)
	}
	var state []any
	if err := json.Unmarshal([]byte(redis.Do(t, "GET", keys[0]).(string)), &state); err != nil || len(state) == 0 {
		t.Fatalf("state %v: %v", state, err)
	}
	full, ok := state[0].(float64)
	if !ok || full != math.Trunc(full) {
		t.Fatalf("state %v", state)
	}
	return int64(full)
}

func redisTime(t *testing.T, redis *redistest.Server) int64 {
	t.Helper()
	var s, us int64
	parts := redis.Do(t, "TIME").([]any)
	if _, err := fmt.Sscan(parts[0].(string)+" "+parts[1].(string), &s, &us); err != nil {
		t.Fatal(err)
	}
	return s*1_000_000 + us
}

// TestSharedTogether checks that two policies are charged together or not at all, at every
// interface. Each has lost exactly the admitted tokens.
func TestSharedTogether(t *testing.T) {
	t.Parallel()
	d := startInterfaces(t, programtest.Weir(t), redistest.Start(t).Addr, `
policies:
  - { name: each, key: client.ip, limits: 400/h fixed_window, on_store_error: closed }
  - { name: all-clients, match: /api/*, key: "const:all", limits: [1000/h sliding_log, 900/h], on_store_error: closed }
`)
	const clients, each = 5, 60
	began := time.Now()
	var wg sync.WaitGroup
	var sum atomic.Int64
	for i := range 3 {
		wg.Go(func() {
			ip := fmt.Sprintf("127.0.3.%d", i+1)
			got := hammer(d.askers(t, ip, clients), each, "/api/orders")
			got.check(t, 3*clients*each)
			sum.Add(int64(got.sum()))
			if left := d.peek(t, "each", ip); left != int64(400-got.sum()) || left < 0 {
				t.Errorf("%s: %d admitted, and %d of 400 remain", ip, got.sum(), left)
			}
		})
	}
	wg.Wait()
	most := 900 + int64(time.Since(began)/(4*time.Second)) // one token refills every 4 s
	if n := sum.Load(); n < 900 || n > most {
		t.Errorf("%d admitted, want 900 to %d", n, most)
	}
}

// TestSharedSlots checks that nginx and the gateway share the slots of a concurrency limit,
// which are free after the responses have ended.
func TestSharedSlots(t *testing.T) {
	var running, most atomic.Int64
	var mu sync.Mutex
	release := make(chan struct{})
	upstream := upstreamOf(t, http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		if n := running.Add(1); n > most.Load() {
			most.Store(n)
		}
		mu.Lock()
		until := release
		mu.Unlock()
		<-until
		running.Add(-1)
		io.WriteString(w, "through\n")
	}))
	d := startInterfacesBefore(t, programtest.Weir(t), redistest.Start(t).Addr, `
policies:
  - { name: shared, key: "header:X-Pool", limits: 20 concurrency lease 10s, on_store_error: closed }
`, upstream, `
    access_by_lua_block { require("weir").access() }
    proxy_pass `+upstream+`;`)
	for round := range 3 {
		all := d.askers(t, "127.0.0.7", 24, "X-Pool", "db")
		delete(all, "http") // its slots end with its responses
		done := make(chan *tally, 1)
		go func() { done <- hammer(all, 1, "/") }()
		await(t, "20 requests at the upstream", func() bool { return running.Load() == 20 })
		mu.Lock()
		close(release)
		release = make(chan struct{})
		mu.Unlock()
		// Late requests may have taken a slot that was free again: release them too.
		var got *tally
		for got == nil {
			select {
			case got = <-done:
			case <-time.After(20 * time.Millisecond):
				mu.Lock()
				close(release)
				release = make(chan struct{})
				mu.Unlock()
			}
		}
		got.check(t, 48)
		if got.sum() < 20 || most.Load() > 20 {
			t.Errorf("round %d: %v admitted, at most %d at once, want 20 or more, and at most 20", round, got.admitted, most.Load())
		}
		await(t, "free slots", func() bool { return d.peek(t, "shared", "db") == 20 })
	}
}

// await polls until something holds, for up to two minutes.
func await(t *testing.T, what string, ok func() bool) {
	t.Helper()
	deadline := time.After(2 * time.Minute)
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	for !ok() {
		select {
		case <-tick.C:
		case <-deadline:
			t.Fatalf("%s: not after 2 minutes", what)
		}
	}
}
