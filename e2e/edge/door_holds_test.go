package edge_test

import (
	"context"
	"fmt"
	"net"
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

// begin makes a request in a goroutine of its own; done gives its status.
func (d *door) begin(t *testing.T, ctx context.Context, path string) (done func() int) {
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

// becomes asks until the status is as wanted.
func (d *door) becomes(t *testing.T, path string, want int) {
	t.Helper()
	redistest.Await(t, "GET "+path, func() error {
		if got := d.get(t, path); got != want {
			return fmt.Errorf("status %d, want %d", got, want)
		}
		return nil
	})
}

// stays asks for a while, and fails the test if the status is another.
func (d *door) stays(t *testing.T, path string, want int, while time.Duration) {
	t.Helper()
	tick := time.NewTicker(50 * time.Millisecond)
	defer tick.Stop()
	for end := time.Now().Add(while); time.Now().Before(end); <-tick.C {
		if got := d.get(t, path); got != want {
			t.Fatalf("GET %s: status %d, want %d", path, got, want)
		}
	}
}

// testDoorSlots: a slot is held while a request runs, for longer than its lease, and is
// free again when the request ended, however it did.
func testDoorSlots(t *testing.T, weir string) {
	d := startDoor(t, weir, `policies: [{ name: slots, key: client.ip, limits: 1 concurrency lease 1s }]`, "")

	done := d.begin(t, t.Context(), "/?hold=a")
	d.upstream.arrived(t, "a", 1)
	d.stays(t, "/", 429, 2500*time.Millisecond)
	d.upstream.let("a")
	if got := done(); got != 200 {
		t.Errorf("the request that holds the slot: status %d, want 200", got)
	}
	d.becomes(t, "/", 200)

	t.Run("a reload of nginx", func(t *testing.T) {
		d.becomes(t, "/", 200)
		redistest.Await(t, "a slot", func() error {
			if d.keys(t, "*slots*") > 0 {
				return fmt.Errorf("it is not free yet")
			}
			return nil
		})
		done := d.begin(t, t.Context(), "/?hold=r")
		d.upstream.arrived(t, "r", 1)
		d.Reload(t, d.config)
		d.becomes(t, "/", 429)
		d.stays(t, "/", 429, 2500*time.Millisecond)
		d.upstream.let("r")
		if got := done(); got != 200 {
			t.Errorf("the request that holds the slot: status %d, want 200", got)
		}
		d.becomes(t, "/", 200)
	})

	t.Run("a client that goes away", func(t *testing.T) {
		d.becomes(t, "/", 200)
		ctx, leave := context.WithCancel(t.Context())
		redistest.Await(t, "a slot", func() error {
			if d.keys(t, "*slots*") > 0 {
				return fmt.Errorf("it is not free yet")
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
				return fmt.Errorf("it is not free yet")
			}
			return nil
		})
		done := d.begin(t, t.Context(), "/?hold=c")
		d.upstream.arrived(t, "c", 1)
		for _, pid := range doorWorkers(t, d.PID()) {
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

// doorWorkers are the processes that a master of nginx has started.
func doorWorkers(t *testing.T, master int) (pids []int) {
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

// left is what remains of a limit as the fields tell it.
func (a doorAnswer) left() string { return a.header.Get("X-Ratelimit-Remaining") }

// settled asks until so much is left before the request.
func (d *door) settled(t *testing.T, path string, want int) {
	t.Helper()
	redistest.Await(t, "what is left", func() error {
		if got := d.ask(t, http.MethodGet, path).left(); got != strconv.Itoa(want) {
			return fmt.Errorf("%s are left, want %d", got, want)
		}
		return nil
	})
}

// testDoorSettle: what is counted by the response, and what it costs.
func testDoorSettle(t *testing.T, weir string) {
	d := startDoor(t, weir, `policies:
  - { name: login, match: /login, key: client.ip, limits: 10/d, count: failures, failures: [401, 5xx] }
  - { name: sale, match: /sale, key: client.ip, limits: 10/d, count: successes }
  - { name: rows, match: /rows, key: client.ip, limits: 100/d, cost: { estimate: 10, header: X-Rows } }
  - { name: hidden, match: /hidden, key: client.ip, limits: 100/d, cost: { estimate: 10, header: X-Rows } }
  - { name: gone, match: /gone, key: client.ip, limits: 10/d, count: successes }
`, `location / { proxy_pass http://UPSTREAM; } location /hidden { proxy_hide_header X-Rows; proxy_pass http://UPSTREAM; }`)

	// Every request has one token of its own reserved while it runs.
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

	for i, c := range []struct{ set, path string }{{"3", "/rows"}, {"%20%202%20", "/rows"}, {"5", "/hidden"}} {
		d.get(t, c.path+"?set=X-Rows:"+c.set)
		// The next costs nothing, and is asked until the one before is settled.
		d.settled(t, c.path+"?set=X-Rows:0", []int{87, 85, 85}[i])
	}
	for _, bad := range []string{"-1", "1.5", "x", "", "1e3", "0x10", "1099511627777", "99999999999999999999999"} {
		d.redis.Do(t, "FLUSHALL")
		d.get(t, "/rows?set=X-Rows:"+bad)
		d.settled(t, "/rows?set=X-Rows:0", 80)
	}
	d.redis.Do(t, "FLUSHALL")
	d.get(t, "/rows?set=X-Rows:7&set=X-Rows:150") // the last counts, into debt
	redistest.Await(t, "debt", func() error {
		if got := d.get(t, "/rows?set=X-Rows:0"); got != 429 {
			return fmt.Errorf("status %d, want 429", got)
		}
		return nil
	})

	// What Redis has lost by the end of the request is charged then.
	d.redis.Do(t, "FLUSHALL")
	late := d.begin(t, t.Context(), "/rows?hold=l&set=X-Rows:30")
	d.upstream.arrived(t, "l", 1)
	d.redis.Do(t, "FLUSHALL")
	d.upstream.let("l")
	late()
	d.settled(t, "/rows?set=X-Rows:0", 60)

	// Who hangs up cannot choose that it does not count.
	ctx, leave := context.WithCancel(t.Context())
	done := d.begin(t, ctx, "/gone?hold=g")
	d.upstream.arrived(t, "g", 1)
	leave()
	done()
	d.settled(t, "/gone?status=404", 8)
	d.clean(t)

	done = d.begin(t, t.Context(), "/rows?hold=u")
	d.upstream.arrived(t, "u", 1)
	d.redis.Stop()
	d.upstream.let("u")
	if got := done(); got != 200 {
		t.Errorf("what Redis did not hear of: status %d, want 200", got)
	}
	d.metric(t, `weir_unsettled_total{policy="rows"}`, 1)
}

// testDoorDoubts: what Redis has granted though nobody heard of it is given back.
func testDoorDoubts(t *testing.T, weir string) {
	redis := redistest.Start(t)
	proxy := redistest.StartProxy(t, redis.Addr)
	d := startDoorAt(t, weir, redis, proxy.Addr, `policies: [{ name: slots, key: const:all, limits: 1 concurrency lease 5m, on_store_error: closed }]`, "")
	d.want(t, "/", 200)
	redistest.Await(t, "a question whose answer is lost", func() error {
		redistest.Await(t, "the slot", func() error {
			if d.keys(t, "*slots*") > 0 {
				return fmt.Errorf("it is not free yet")
			}
			return nil
		})
		proxy.Set(redistest.CutReply) // which may be the reply to who gave the slot back
		if got := d.get(t, "/"); got != 503 {
			return fmt.Errorf("status %d, want 503", got)
		}
		return nil
	})
	d.becomes(t, "/", 200)
}

// testDoorFree: a limit is exact however many ask at once, and nothing stays held.
func testDoorFree(t *testing.T, weir string) {
	d := startDoor(t, weir, `policies: [{ name: slots, key: client.ip, limits: 5 concurrency lease 5m }]`, "")
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

// asked is how often Redis was asked by its script.
func (d *door) asked(t *testing.T) string {
	t.Helper()
	text, _ := d.redis.Do(t, "INFO", "commandstats").(string)
	for line := range strings.Lines(text) {
		if calls, ok := strings.CutPrefix(line, "cmdstat_evalsha:calls="); ok {
			calls, _, _ = strings.Cut(calls, ",")
			return calls
		}
	}
	return ""
}

// testDoorGone: a client that leaves while it waits takes its place in the queue with it.
func testDoorGone(t *testing.T, weir string) {
	d := startDoor(t, weir, `policies: [{ name: api, key: const:all, limits: 1/2s burst 1, on_denied: { wait: 5s } }]`,
		`lua_check_client_abort on; location / { proxy_pass http://UPSTREAM; }`)
	config := d.config
	config.Workers = 1 // each worker has queues of its own
	d.Reload(t, config)
	d.want(t, "/", 200)
	asked := d.asked(t)
	conn, err := net.Dial("tcp", d.Addr)
	if err != nil {
		t.Fatal(err)
	}
	fmt.Fprintf(conn, "GET / HTTP/1.1\r\nHost: a\r\n\r\n")
	redistest.Await(t, "a denial", func() error {
		if d.asked(t) == asked {
			return fmt.Errorf("nothing was asked")
		}
		return nil
	})
	began := time.Now()
	conn.Close()
	d.want(t, "/", 200)
	if took := time.Since(began); took > 4500*time.Millisecond {
		t.Errorf("the one behind waited %v, want 2s, or 4s if the one before was heard first", took)
	}
	d.clean(t)
}

// testDoorShadow: what is tried out is settled by its own response, though that is over
// before it is known what would have become of the request.
func testDoorShadow(t *testing.T, weir string) {
	d := startDoor(t, weir, `policies:
  - { name: rows, mode: shadow, key: client.ip, limits: 100/d, cost: { estimate: 1, header: X-Rows } }
  - { name: login, mode: shadow, key: client.ip, limits: 3/d, count: failures }
  - { name: slots, mode: shadow, key: client.ip, limits: 1 concurrency lease 5m }
`, `location / { content_by_lua_block { ngx.header["X-Rows"] = ngx.var.arg_rows ngx.status = tonumber(ngx.var.arg_status) or 200 ngx.print("x") } }`)
	config := d.config
	config.Workers = 1 // which asks later in the order in which it was asked
	d.Reload(t, config)
	for i := range 4 {
		d.get(t, "/?rows=40&status=404")
		d.metric(t, `weir_shadow_decisions_total{interface="nginx",policy="rows",outcome="admitted"}`, float64(min(i+1, 3)))
	}
	d.metric(t, `weir_shadow_decisions_total{interface="nginx",policy="rows",outcome="denied"}`, 1)
	d.metric(t, `weir_shadow_decisions_total{interface="nginx",policy="login",outcome="denied"}`, 1)
	redistest.Await(t, "the slots", func() error {
		if n := d.keys(t, "*slots*"); n > 0 {
			return fmt.Errorf("%d keys, want 0", n)
		}
		return nil
	})
	d.clean(t)
}
