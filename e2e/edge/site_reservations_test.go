package edge_test

import (
	"context"
	"fmt"
	"net/http"
	"os"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/floodweir/weir/e2e/redistest"
)

// begin sends a request in a goroutine; done returns its status.
func (d *site) begin(t *testing.T, ctx context.Context, path string) (done func() int) {
	t.Helper()
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+d.Addr+path, nil)
	if err != nil {
		t.Fatal(err)
	}
	status := make(chan int, 1)
	go func() {
		res, err := d.client.Do(r)
		if err != nil {
			status <- 0
			return
		}
		res.Body.Close()
		status <- res.StatusCode
	}()
	return func() int { return <-status }
}

// becomes sends requests until the status is as wanted.
func (d *site) becomes(t *testing.T, path string, want int) {
	t.Helper()
	redistest.Await(t, "GET "+path, func() error {
		if got := d.get(t, path); got != want {
			return fmt.Errorf("status %d, want %d", got, want)
		}
		return nil
	})
}

// stays sends requests for a while and fails the test if a status differs.
func (d *site) stays(t *testing.T, path string, want int, while time.Duration) {
	t.Helper()
	tick := time.NewTicker(50 * time.Millisecond)
	defer tick.Stop()
	for end := time.Now().Add(while); time.Now().Before(end); <-tick.C {
		if got := d.get(t, path); got != want {
			t.Fatalf("GET %s: status %d, want %d", path, got, want)
		}
	}
}

// testSiteSlots checks that a slot is held while a request runs, for longer than its lease,
// and is free after the request has ended, for whatever reason.
func testSiteSlots(t *testing.T, weir string) {
	d := startSite(t, weir, `policies: [{ name: slots, key: client.ip, limits: 1 concurrency lease 3s }]`, "")

	done := d.begin(t, t.Context(), "/?hold=a")
	d.upstream.arrived(t, "a", 1)
	d.stays(t, "/", 429, 4*time.Second)
	d.upstream.let("a")
	if got := done(); got != 200 {
		t.Errorf("the request that holds the slot: status %d, want 200", got)
	}
	d.becomes(t, "/", 200)

	t.Run("a reload of nginx", func(t *testing.T) {
		d.becomes(t, "/", 200)
		redistest.Await(t, "a slot", func() error {
			if d.keys(t, "*slots*") > 0 {
				return fmt.Errorf("the slot is not free yet")
			}
			return nil
		})
		done := d.begin(t, t.Context(), "/?hold=r")
		d.upstream.arrived(t, "r", 1)
		d.Reload(t, d.config)
		d.becomes(t, "/", 429)
		d.stays(t, "/", 429, 4*time.Second)
		d.upstream.let("r")
		if got := done(); got != 200 {
			t.Errorf("the request that holds the slot: status %d, want 200", got)
		}
		d.becomes(t, "/", 200)
	})

	t.Run("a client that disconnects", func(t *testing.T) {
		d.becomes(t, "/", 200)
		ctx, leave := context.WithCancel(t.Context())
		redistest.Await(t, "a slot", func() error {
			if d.keys(t, "*slots*") > 0 {
				return fmt.Errorf("the slot is not free yet")
			}
			return nil
		})
		done := d.begin(t, ctx, "/?hold=b")
		d.upstream.arrived(t, "b", 1)
		leave()
		done()
		d.becomes(t, "/", 200)
	})

	t.Run("a worker that dies", func(t *testing.T) {
		redistest.Await(t, "a slot", func() error {
			if d.keys(t, "*slots*") > 0 {
				return fmt.Errorf("the slot is not free yet")
			}
			return nil
		})
		done := d.begin(t, t.Context(), "/?hold=c")
		d.upstream.arrived(t, "c", 1)
		for _, pid := range workersOf(t, d.PID()) {
			syscall.Kill(pid, syscall.SIGKILL)
		}
		done()
		redistest.Await(t, "a worker", func() error {
			res, err := d.client.Get("http://" + d.Addr + "/")
			if err != nil {
				return err
			}
			res.Body.Close()
			if res.StatusCode != 200 {
				return fmt.Errorf("status %d, want 200", res.StatusCode)
			}
			return nil
		})
	})
}

// workersOf returns the processes that an nginx master has started.
func workersOf(t *testing.T, master int) (pids []int) {
	t.Helper()
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/task/%d/children", master, master))
	if err != nil {
		t.Fatal(err)
	}
	for _, field := range strings.Fields(string(text)) {
		pid, _ := strconv.Atoi(field)
		pids = append(pids, pid)
	}
	if len(pids) == 0 {
		t.Fatal("nginx has no workers")
	}
	return pids
}

// left returns the remaining tokens from the header.
func (a siteResponse) left() string { return a.header.Get("X-Ratelimit-Remaining") }

// settled sends requests until so many tokens remain.
func (d *site) settled(t *testing.T, path string, want int) {
	t.Helper()
	redistest.Await(t, "what is left", func() error {
		if got := d.ask(t, http.MethodGet, path).left(); got != strconv.Itoa(want) {
			return fmt.Errorf("%s are left, want %d", got, want)
		}
		return nil
	})
}

// testSiteSettle checks policies that count by the status of the response.
func testSiteSettle(t *testing.T, weir string) {
	d := startSite(t, weir, `policies:
  - { name: login, match: /login, key: client.ip, limits: 10/d, count: failures, failures: [401, 5xx] }
  - { name: sale, match: /sale, key: client.ip, limits: 10/d, count: successes }
  - { name: gone, match: /gone, key: client.ip, limits: 10/d, count: successes }
  - { name: dear, match: /dear, key: client.ip, limits: 100/d, count: failures, cost: 30 }
`, "")

	// Every request reserves one token while it runs.
	d.get(t, "/login?status=200")
	d.settled(t, "/login?status=200", 9)
	d.get(t, "/login?status=401")
	d.settled(t, "/login?status=200", 8)
	d.get(t, "/login?status=503")
	d.settled(t, "/login?status=404", 7)

	d.get(t, "/sale?status=404")
	d.settled(t, "/sale?status=404", 9)
	d.get(t, "/sale?status=200")
	d.settled(t, "/sale?status=404", 8)

	// A reservation that Redis has lost is charged at the end of the request.
	late := d.begin(t, t.Context(), "/dear?hold=l&status=500")
	d.upstream.arrived(t, "l", 1)
	d.redis.Do(t, "FLUSHALL")
	d.upstream.let("l")
	late()
	d.settled(t, "/dear?status=200", 40)

	// Disconnecting early does not avoid the charge.
	ctx, leave := context.WithCancel(t.Context())
	done := d.begin(t, ctx, "/gone?hold=g")
	d.upstream.arrived(t, "g", 1)
	leave()
	done()
	d.settled(t, "/gone?status=404", 8)
	d.clean(t)

	done = d.begin(t, t.Context(), "/dear?hold=u")
	d.upstream.arrived(t, "u", 1)
	d.redis.Stop()
	d.upstream.let("u")
	if got := done(); got != 200 {
		t.Errorf("a request that Redis could not settle: status %d, want 200", got)
	}
	d.metric(t, `weir_unsettled_total{policy="dear"}`, 1)
}

// testSiteDoubts checks that reservations whose reply was lost are canceled.
func testSiteDoubts(t *testing.T, weir string) {
	redis := redistest.Start(t)
	proxy := redistest.StartProxy(t, redis.Addr)
	d := startSiteAt(t, weir, redis, proxy.Addr, `policies: [{ name: slots, key: const:all, limits: 1 concurrency lease 5m, on_store_error: closed }]`, "")
	d.want(t, "/", 200)
	redistest.Await(t, "a question whose answer is lost", func() error {
		redistest.Await(t, "the slot", func() error {
			if d.keys(t, "*slots*") > 0 {
				return fmt.Errorf("the slot is not free yet")
			}
			return nil
		})
		proxy.Set(redistest.CutReply) // which may be the reply to the return of the slot
		if got := d.get(t, "/"); got != 503 {
			return fmt.Errorf("status %d, want 503", got)
		}
		return nil
	})
	d.becomes(t, "/", 200)
}

// testSiteFree checks that a limit is exact for concurrent requests, and that no reservation
// remains.
func testSiteFree(t *testing.T, weir string) {
	d := startSite(t, weir, `policies: [{ name: slots, key: client.ip, limits: 5 concurrency lease 5m }]`, "")
	var all sync.WaitGroup
	var mu sync.Mutex
	count := map[int]int{}
	for range 40 {
		all.Go(func() {
			status := d.begin(t, t.Context(), "/?hold=x")()
			mu.Lock()
			count[status]++
			mu.Unlock()
		})
	}
	d.upstream.arrived(t, "x", 5)
	redistest.Await(t, "denials", func() error {
		mu.Lock()
		defer mu.Unlock()
		if count[429] != 35 {
			return fmt.Errorf("%v, want 35 with status 429", count)
		}
		return nil
	})
	d.upstream.let("x")
	all.Wait()
	if count[200] != 5 {
		t.Errorf("%v, want 5 with status 200", count)
	}
	redistest.Await(t, "slots", func() error {
		if n := d.keys(t, "*slots*"); n > 0 {
			return fmt.Errorf("%d keys, want 0", n)
		}
		return nil
	})
	d.clean(t)
}

// testSiteShadow checks that a reservation in shadow mode is settled by its own response, even
// if the response was sent before the store decided.
func testSiteShadow(t *testing.T, weir string) {
	d := startSite(t, weir, `policies:
  - { name: login, mode: shadow, key: client.ip, limits: 3/d, count: failures }
  - { name: slots, mode: shadow, key: client.ip, limits: 1 concurrency lease 5m }
`, `location / { content_by_lua_block { ngx.status = tonumber(ngx.var.arg_status) or 200 ngx.print("x") } }`)
	config := d.config
	config.Workers = 1 // to keep the order of the calls
	d.Reload(t, config)
	for i := range 4 {
		d.get(t, "/?status=404")
		d.metric(t, `weir_shadow_decisions_total{interface="nginx",policy="login",outcome="admitted"}`, float64(min(i+1, 3)))
	}
	d.metric(t, `weir_shadow_decisions_total{interface="nginx",policy="login",outcome="denied"}`, 1)
	redistest.Await(t, "the slots", func() error {
		if n := d.keys(t, "*slots*"); n > 0 {
			return fmt.Errorf("%d keys, want 0", n)
		}
		return nil
	})
	d.clean(t)
}
