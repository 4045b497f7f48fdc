package edge_test

import (
	"context"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/floodweir/weir/contrib/goredis"
	"github.com/floodweir/weir/e2e/nginxtest"
	"github.com/floodweir/weir/e2e/redistest"
	"github.com/floodweir/weir/guard/instances"
	"github.com/floodweir/weir/internal/porttest"
)

func itoa(n int) string { return strconv.Itoa(n) }

// atoi returns -1 for text that is not a number.
func atoi(s string) int {
	n, err := strconv.Atoi(s)
	if err != nil {
		return -1
	}
	return n
}

const siteBoth = `policies:
  - { name: open, match: /open, key: client.ip, limits: 5/d, on_store_error: open }
  - { name: closed, match: /closed, key: client.ip, limits: 5/d, on_store_error: closed }
`

// failed checks the responses of policies without a store.
func (d *site) failed(t *testing.T) {
	t.Helper()
	for range 12 {
		a := d.ask(t, http.MethodGet, "/open")
		if a.status != 200 || a.header.Get("Weir-Degraded") != "open" || a.header.Get("Ratelimit") != "" {
			t.Fatalf("open: status %d, %v, want 200 and Weir-Degraded: open", a.status, a.header)
		}
		a = d.ask(t, http.MethodGet, "/closed")
		if a.status != 503 || a.header.Get("Weir-Degraded") != "closed" || a.header.Get("Retry-After") != "1" ||
			a.header.Get("Cache-Control") != "no-store" || !strings.Contains(a.body, "temporary-reduced-capacity") {
			t.Fatalf("closed: status %d, %v, %q, want 503, Weir-Degraded: closed and Retry-After: 1", a.status, a.header, a.body)
		}
		d.want(t, "/none", 200)
	}
}

// testSiteDown checks that without Redis, at the start or later, on_store_error decides.
func testSiteDown(t *testing.T, weir string) {
	d := startSite(t, weir, siteBoth, "")
	d.want(t, "/open", 200)
	d.want(t, "/closed", 200)
	if got := d.ask(t, http.MethodGet, "/open").left(); got != "3" {
		t.Errorf("%s are left, want 3", got)
	}
	d.redis.Stop()
	d.failed(t)
	d.metric(t, `weir_decisions_total{interface="nginx",policy="open",outcome="failed_open"}`, 12)
	d.metric(t, `weir_degraded_decisions_total{policy="closed",mode="closed"}`, 12)

	gone := startSiteAt(t, weir, d.redis, porttest.Address(t), siteBoth, "")
	gone.failed(t)
	for line := range strings.Lines(logErrors(gone.Log())) {
		if !strings.Contains(line, "weir: no decision: redis: ") && !strings.Contains(line, "weir: circuit breaker open for 1s") {
			t.Errorf("the log of nginx: %s", line)
		}
	}
	if !strings.Contains(gone.Log(), "connection refused") {
		t.Error("the log of nginx does not say why")
	}
}

// testSiteFault checks that an error in the Lua itself follows on_store_error and is no status
// 500.
func testSiteFault(t *testing.T, weir string) {
	broken := `
    location /broken { access_by_lua_block { require("weir.charges").of = function() error("broken") end require("weir").access() } proxy_pass http://UPSTREAM; }
    location / { proxy_pass http://UPSTREAM; }`
	for policies, want := range map[string]int{
		`policies: [{ name: a, match: /x, key: client.ip, limits: 5/d, on_store_error: open }]`:   200,
		`policies: [{ name: a, match: /x, key: client.ip, limits: 5/d }]`:                         503, // local
		`policies: [{ name: a, match: /x, key: client.ip, limits: 5/d, on_store_error: closed }]`: 503,
	} {
		d := startSite(t, weir, policies, broken)
		for range 20 {
			a := d.ask(t, http.MethodGet, "/broken")
			if degraded := map[int]string{200: "open", 503: "closed"}[want]; a.status != want || a.header.Get("Weir-Degraded") != degraded {
				t.Fatalf("status %d, %v, want %d and Weir-Degraded: %s", a.status, a.header, want, degraded)
			}
		}
		if n := strings.Count(d.Log(), "weir: "); n < 1 || n > 6 {
			t.Errorf("%d lines in the log, want about one in a second:\n%s", n, d.Log())
		}
		d.metric(t, "weir_edge_faults_total", 20)
	}
}

// testSiteReload checks that a reload keeps counters and the state of limits, also of one whose
// rate changed.
func testSiteReload(t *testing.T, weir string) {
	of := func(limit string) string {
		return `policies: [{ name: api, key: client.ip, limits: ` + limit + ` }, { name: same, key: client.ip, limits: 100/d, on_denied: { body: x } }]`
	}
	d := startSite(t, weir, of("10/d"), "")
	d.want(t, "/", 200, 200, 200, 200, 200)
	d.metric(t, `weir_decisions_total{interface="nginx",policy="api",outcome="admitted"}`, 5)
	d.Reload(t, d.configOf(t, weir, d.redis.Addr, of("20/d"), ""))
	redistest.Await(t, "the new limit", func() error {
		if got := d.ask(t, http.MethodGet, "/").header.Get("X-Ratelimit-Limit"); got != "20" {
			return fmt.Errorf("%s, want 20", got)
		}
		return nil
	})
	a := d.ask(t, http.MethodGet, "/")
	if left := atoi(a.left()); left > 13 || left < 1 {
		t.Errorf("%d of 20 are left, want at most 13: 5 were used before the reload", left)
	}
	if r := a.header.Get("Ratelimit"); !strings.Contains(r, `"same";r=9`) || strings.Contains(r, `"same";r=99`) {
		t.Errorf("Ratelimit: %s, want 93 left of same at most", r)
	}
	d.metric(t, `weir_decisions_total{interface="nginx",policy="api",outcome="denied"}`, 0)
	if a := d.ask(t, http.MethodGet, "/weir/metrics"); !strings.Contains(a.body, `policy="api",outcome="admitted"} `) ||
		strings.Contains(a.body, `policy="api",outcome="admitted"} 1`+"\n") {
		t.Errorf("counts start again at a reload:\n%s", a.body)
	}
	d.clean(t)
}

// testSitePublished checks that published policies replace those of the configuration. New
// workers use them from their first request.
func testSitePublished(t *testing.T, weir string) {
	of := func(limit string) string { return `policies: [{ name: api, key: client.ip, limits: ` + limit + ` }]` }
	redis := redistest.Start(t)
	file := filepath.Join(t.TempDir(), "weir.yaml")
	apply := func(text string) {
		t.Helper()
		if err := os.WriteFile(file, []byte("store: redis://"+redis.Addr+"\n"+text), 0o600); err != nil {
			t.Fatal(err)
		}
		if out, err := exec.Command(weir, "apply", file).CombinedOutput(); err != nil {
			t.Fatalf("weir apply: %v\n%s", err, out)
		}
	}
	d := startSiteWith(t, weir, redis, redis.Addr, of("10/d"), "", "--policies", "store")
	d.want(t, "/", 200, 200, 200, 200, 200)
	apply(of("400/d"))
	limit := func(want string) {
		t.Helper()
		redistest.Await(t, "the limit of every worker", func() error {
			for range 10 {
				if got := d.ask(t, http.MethodGet, "/", "Connection: close").header.Get("X-Ratelimit-Limit"); got != want {
					return fmt.Errorf("%s, want %s", got, want)
				}
			}
			return nil
		})
	}
	limit("400")
	d.metric(t, `weir_policies_version{version="1"}`, 1)
	conn, err := goredis.Open("redis://" + redis.Addr)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	redistest.Await(t, "the report of nginx", func() error {
		d.ask(t, http.MethodGet, "/")
		all, err := instances.Read(t.Context(), conn)
		if err != nil || len(all) != 1 {
			return fmt.Errorf("%+v, %v", all, err)
		}
		p := all[0]
		if p.Service != "nginx" || p.Version != 1 || p.PID == 0 || p.Problem != "" || !p.Adjusts || len(p.Policies) != 1 || p.Policies[0].Name != "api" || p.Policies[0].Admitted+p.Policies[0].Denied < 0.1 {
			return fmt.Errorf("%+v", p)
		}
		return nil
	})
	for _, pid := range workersOf(t, d.PID()) {
		syscall.Kill(pid, syscall.SIGKILL)
	}
	redistest.Await(t, "a worker", func() error {
		res, err := d.client.Get("http://" + d.Addr + "/")
		if err != nil {
			return err
		}
		if got := readSiteResponse(t, res).header.Get("X-Ratelimit-Limit"); got != "400" {
			t.Errorf("the first request of a new worker: %s, want 400", got)
		}
		return nil
	})
	apply(of("2/d"))
	limit("2")
}

// testSiteInit checks that a wrong configuration keeps nginx from starting.
func testSiteInit(t *testing.T, weir string) {
	file := filepath.Join(t.TempDir(), "weir.yaml")
	if err := os.WriteFile(file, []byte("store: redis://127.0.0.1:1\npolicies: [{ name: a, key: client.ip, limits: 5/d }]\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	good := edgeConf(t, weir, file)
	lines := nginxtest.Path(t) + "\nlua_shared_dict weir 2m;\n"
	initOf := func(args string) string { return lines + `init_by_lua_block { require("weir").init(` + args + `) }` }
	for name, c := range map[string]struct{ conf, want string }{
		"no dictionary":        {regexp.MustCompile("lua_shared_dict weir [^;]*;").ReplaceAllString(good, ""), "lua_shared_dict weir"},
		"nothing":              {initOf(""), "settings"},
		"no JSON":              {initOf(`"{", "{}"`), "settings"},
		"a number":             {initOf(`"1", "{}"`), "settings"},
		"another format":       {initOf(`'{"format":2}', "{}"`), "format 2"},
		"no Redis":             {initOf(`'{"format":1}', "{}"`), "redis"},
		"unknown fields":       {initOf(`'{"format":1,"redis":{"hosts":["127.0.0.1:1"]},"fields":["draft-07"]}', "{}"`), "draft-07: want off, legacy or draft-08"},
		"fields no list":       {initOf(`'{"format":1,"redis":{"hosts":["127.0.0.1:1"]},"fields":"legacy"}', "{}"`), "fields"},
		"a plan of nothing":    {initOf(`'{"format":1,"redis":{"hosts":["127.0.0.1:1"]},"fields":[]}', "{}"`), "plan: format nil: want 1"},
		"no plan":              {initOf(`'{"format":1,"redis":{"hosts":["127.0.0.1:1"]},"fields":[]}'`), "plan: want a JSON object"},
		"no policies":          {initOf(`'{"format":1,"redis":{"hosts":["127.0.0.1:1"]},"fields":[]}', '{"format":1,"script":"x","prefix":"x","rules":[]}'`), "plan: not made by this version"},
		"an unknown rule":      {initOf(`'{"format":1,"redis":{"hosts":["127.0.0.1:1"]},"fields":[]}', '{"format":1,"script":"x","prefix":"x","rules":[],"policies":[{"limits":[1]}]}'`), "an unknown rule"},
		"an unknown source":    {initOf(`'{"format":1,"redis":{"hosts":["127.0.0.1:1"]},"fields":[]}', ` + luaText(strings.Replace(planIn(t, good), `"source":"client.ip"`, `"source":"moon"`, 1))), "unknown source"},
		"an unknown operation": {initOf(`'{"format":1,"redis":{"hosts":["127.0.0.1:1"]},"fields":[]}', ` + luaText(strings.Replace(planIn(t, good), `"match":{}`, `"match":{"where":["moon"]}`, 1))), "unknown operation moon"},
		"hosts that are not":   {initOf(`'{"format":1,"redis":{"hosts":[]},"fields":[]}', '{"format":1,"script":"x","prefix":"x","rules":[],"policies":[]}'`), "hosts: want at least one"},
	} {
		out, err := checkConf(t, c.conf)
		if err == nil || !strings.Contains(out, "weir: ") && !strings.Contains(out, "redis") || !strings.Contains(out, c.want) {
			t.Errorf("%s: %v, want an error with %q\n%s", name, err, c.want, out)
		}
	}
}

// checkConf returns the error of nginx for a configuration with which it does not start.
func checkConf(t *testing.T, http string) (string, error) {
	t.Helper()
	dir := t.TempDir()
	conf := filepath.Join(dir, "nginx.conf")
	text := nginxtest.Main + "daemon off;\npid " + dir + "/pid;\nevents {}\nhttp {\n" + http + "\n}\n"
	if err := os.WriteFile(conf, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	cmd := exec.CommandContext(ctx, "nginx", "-p", dir, "-e", filepath.Join(dir, "log"), "-c", conf)
	cmd.Cancel = func() error { return cmd.Process.Signal(syscall.SIGTERM) }
	out, err := cmd.CombinedOutput()
	if ctx.Err() != nil {
		return string(out), nil // it starts
	}
	return string(out), err
}
