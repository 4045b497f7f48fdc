package edge_test

import (
	"fmt"
	"io"
	"net"
	"net/http"
	"os/exec"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/floodweir/weir/e2e/nginxtest"
	"github.com/floodweir/weir/e2e/programtest"
	"github.com/floodweir/weir/e2e/redistest"
)

// TestFaultReload reloads nginx again and again under load, with unchanged and with additional
// policies. Every request gets a response, and no limit is exceeded.
func TestFaultReload(t *testing.T) {
	t.Parallel()
	redis, weir := redistest.Start(t), programtest.Weir(t)
	conf := func(more string) nginxtest.Config {
		file := writePolicies(t, redis.Addr, faultPolicies+more)
		return nginxtest.Config{Workers: 2, HTTP: edgeConf(t, weir, file) + `
  server { listen ADDR; location / {` + asks + `} }`}
	}
	plain, other := conf(""), conf("  - { name: more, key: client.ip, limits: 1000000/s, on_store_error: closed }\n")
	s := nginxtest.Start(t, plain)
	l := startLoad(t, "http://"+s.Addr, 8, "/closed")
	for i := range 8 {
		l.goOn(t, "/closed yes", 150)
		if i%2 == 0 {
			s.Reload(t, other)
		} else {
			s.Reload(t, plain)
		}
	}
	l.goOn(t, "/closed yes", 150)
	l.end(t, 25)
	if n := l.seen["/closed away"]; n != 0 {
		t.Errorf("%d requests without a decision, want none", n)
	}
}

// TestFaultWorkerDies checks that slots are kept while a request runs, however long, and that
// those of a killed worker are free after their lease.
func TestFaultWorkerDies(t *testing.T) {
	t.Parallel()
	var running atomic.Int64
	release := make(chan struct{})
	upstream := upstreamOf(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		running.Add(1)
		defer running.Add(-1)
		select {
		case <-release:
		case <-r.Context().Done():
		}
		io.WriteString(w, "through\n")
	}))
	defer close(release)
	redis, weir := redistest.Start(t), programtest.Weir(t)
	file := writePolicies(t, redis.Addr, `
policies:
  - { name: slots, match: /slow, key: "header:X-Pool", limits: 3 concurrency lease 5s, on_store_error: closed }
`)
	s := nginxtest.Start(t, nginxtest.Config{HTTP: edgeConf(t, weir, file) + `
  server { listen ADDR; location = /worker { content_by_lua_block { ngx.print(ngx.worker.pid()) } } location / {
    access_by_lua_block { require("weir").access() }
    proxy_pass ` + upstream + `; } }`})
	_, api := serveWeir(t, weir, file)
	d := &interfaces{api: api}
	c, base := callFrom(t, "127.0.0.7"), "http://"+s.Addr
	slow := func() { c.get(base+"/slow", "X-Pool", "db") }
	for range 3 {
		go slow()
	}
	await(t, "three at the upstream", func() bool { return running.Load() == 3 })
	began := time.Now()
	await(t, "slots that are renewed", func() bool { // longer than their lease
		r := c.get(base+"/slow", "X-Pool", "db")
		if r.status != http.StatusTooManyRequests {
			t.Fatalf("a fourth: %+v", r)
		}
		return time.Since(began) > 6*time.Second
	})
	var pid int
	if _, err := fmt.Sscan(c.get(base+"/worker").body, &pid); err != nil {
		t.Fatal(err)
	}
	if err := syscall.Kill(pid, syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	killed := time.Now()
	await(t, "free slots", func() bool { return d.peek(t, "slots", "db") == 3 })
	t.Logf("slots of a worker that died are free after %v, of 5 s", time.Since(killed).Round(10*time.Millisecond))
	if since := time.Since(killed); since > 20*time.Second {
		t.Errorf("slots of a worker that died are free after %v, want about 5 s", since)
	}
}

// TestFaultGone checks that clients that disconnect while the upstream works leave no slot in
// use.
func TestFaultGone(t *testing.T) {
	var running atomic.Int64
	upstream := upstreamOf(t, http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		running.Add(1)
		<-r.Context().Done()
		running.Add(-1)
	}))
	redis, weir := redistest.Start(t), programtest.Weir(t)
	file := writePolicies(t, redis.Addr, `
policies:
  - { name: slots, match: /slow, key: "header:X-Pool", limits: 5 concurrency lease 1m, on_store_error: closed }
`)
	s := nginxtest.Start(t, nginxtest.Config{Workers: 2, HTTP: edgeConf(t, weir, file) + `
  server { listen ADDR; location / {
    access_by_lua_block { require("weir").access() }
    proxy_pass ` + upstream + `; } }`})
	_, api := serveWeir(t, weir, file)
	d := &interfaces{api: api}
	for round := range 3 {
		var all []net.Conn
		for range 12 {
			conn, err := net.Dial("tcp", s.Addr)
			if err != nil {
				t.Fatal(err)
			}
			fmt.Fprintf(conn, "GET /slow HTTP/1.1\r\nHost: x\r\nX-Pool: db\r\n\r\n")
			all = append(all, conn)
		}
		await(t, "five at the upstream", func() bool { return running.Load() == 5 })
		if left := d.peek(t, "slots", "db"); left != 0 {
			t.Errorf("round %d: %d slots are free, want none", round, left)
		}
		for _, conn := range all {
			conn.Close()
		}
		await(t, "free slots", func() bool { return d.peek(t, "slots", "db") == 5 && running.Load() == 0 })
	}
	if log := s.Log(); strings.Contains(log, "[error]") || strings.Contains(log, "[alert]") {
		t.Errorf("the log of nginx:\n%s", log)
	}
}

// TestFaultApplyUnderLoad checks that while workers adopt a published limit one by one, the
// old and the new limit together admit exactly what the larger one admits.
func TestFaultApplyUnderLoad(t *testing.T) {
	redis, weir := redistest.Start(t), programtest.Weir(t)
	write := func(limit int) string {
		return writePolicies(t, redis.Addr, fmt.Sprintf("policies:\n  - { name: api, key: client.ip, limits: %d/h fixed_window, on_store_error: closed }\n", limit))
	}
	apply := func(file string) {
		t.Helper()
		if out, err := exec.Command(weir, "apply", file, "--store", "redis://"+redis.Addr).CombinedOutput(); err != nil {
			t.Fatalf("weir apply: %v\n%s", err, out)
		}
	}
	file := write(600)
	apply(file)
	s := startEdge(t, weir, file, 4, "--policies", "store")
	_, api := serveWeir(t, weir, file, "--policies", "store")
	d := &interfaces{nginx: "http://" + s.Addr, api: api}
	c := callFrom(t, "127.0.0.7")
	counted := &tally{admitted: map[string]int{}}
	stop := make(chan struct{})
	var done []chan struct{}
	for range 8 {
		ended := make(chan struct{})
		done = append(done, ended)
		go func() {
			defer close(ended)
			for {
				select {
				case <-stop:
					return
				default:
					counted.add("nginx", c.get(d.nginx))
				}
			}
		}()
	}
	sum := func() int { counted.mu.Lock(); defer counted.mu.Unlock(); return counted.sum() }
	denied := func() int { counted.mu.Lock(); defer counted.mu.Unlock(); return counted.denied }
	await(t, "600", func() bool { return sum() == 600 && denied() > 100 })
	apply(write(900))
	await(t, "the new limit", func() bool { return sum() >= 900 })
	settled := func() bool {
		n := denied()
		before := sum()
		await(t, "denials", func() bool { return denied() > n+2000 })
		return sum() == before
	}
	await(t, "nothing more", settled)
	close(stop)
	for _, ended := range done {
		<-ended
	}
	for _, w := range counted.wrong {
		t.Error(w)
	}
	if n := sum(); n != 900 {
		t.Errorf("%d admitted by 600 and then 900, want 900", n)
	}
	if left := d.peek(t, "api", "127.0.0.7"); left != 0 {
		t.Errorf("%d remain, want 0", left)
	}
	t.Logf("%d admitted by 600 and then 900; %d denied", sum(), denied())
}
