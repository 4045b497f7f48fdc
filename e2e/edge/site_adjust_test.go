package edge_test

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strings"
	"syscall"
	"testing"

	goredis "github.com/floodweir/weir/contrib/goredis"
	"github.com/floodweir/weir/e2e/redistest"
	"github.com/floodweir/weir/guard/instances"
	"github.com/floodweir/weir/internal/porttest"
)

const siteAdjusted = `policies:
  - { name: login, match: /login, key: client.ip, limits: 2/h, on_store_error: open }
  - { name: both, match: /login, key: [client.ip, "header:x-user"], limits: [50/h, 4 concurrency], on_store_error: open }
  - { name: try, match: /try, key: client.ip, limits: 9/d, mode: shadow }
`

// testSiteAdjusted checks that nginx with the policies of a file reports itself. What an
// operator does with a key at weir serve acts in every worker, also while Redis is down and in new
// workers.
func testSiteAdjusted(t *testing.T, weir string) {
	d := startSite(t, weir, siteAdjusted, "")
	admin := porttest.Address(t)
	gateway, _ := serveWeir(t, weir, writePolicies(t, d.redis.Addr, "gateway: { routes: [{ path: /, upstream: \"http://"+d.upstream.addr+"\" }] }\n"+siteAdjusted), "--listen-admin", admin)
	act := func(action, policy, more string) string {
		t.Helper()
		key := `"127.0.0.1"`
		if policy == "both" {
			key += `,"7"`
		}
		body := fmt.Sprintf(`{"policy":%q,"key":[%s],"reason":"ticket 812"%s}`, policy, key, more)
		res, err := http.Post("http://"+admin+"/v1/key/"+action, "application/json", strings.NewReader(body))
		if err != nil {
			t.Fatal(err)
		}
		defer res.Body.Close()
		text, err := io.ReadAll(res.Body)
		if err != nil || res.StatusCode != http.StatusOK {
			t.Fatalf("%s %s = %d %s, %v", action, body, res.StatusCode, text, err)
		}
		return string(text)
	}
	admitted := 0
	every := func(what, path string, ok func(siteResponse) bool) {
		t.Helper()
		redistest.Await(t, what+" at every worker", func() error {
			for range 12 {
				r := d.ask(t, http.MethodGet, path, "Connection: close", "X-User: 7")
				if path == "/login" && r.status == http.StatusOK {
					admitted++
				}
				if !ok(r) {
					return fmt.Errorf("%d %v %s", r.status, r.header, r.body)
				}
			}
			return nil
		})
	}
	limit := func(want string) func(siteResponse) bool {
		return func(r siteResponse) bool { return r.header.Get("X-Ratelimit-Limit") == want }
	}
	frozen := func(r siteResponse) bool { return r.status == 429 && r.header.Get("Retry-After") == "" }

	every("the limit of the file", "/login", limit("2"))
	act("raise", "login", `,"limits":["5/h"],"for":"1h"`)
	every("the raised limit", "/login", limit("5"))
	if admitted != 5 {
		t.Errorf("%d requests were admitted, want 2, and 3 more after the raise", admitted)
	}
	act("credit", "login", `,"tokens":2`)
	every("the credit", "/login", limit("5"))
	if admitted != 7 {
		t.Errorf("%d requests were admitted, want 2 more after the credit", admitted)
	}
	act("freeze", "both", "")
	every("a freeze", "/login", frozen)
	if got, want := d.ask(t, http.MethodGet, "/login", "X-User: 7"), `"violated-policies":["both"]`; !strings.Contains(got.body, want) {
		t.Errorf("frozen: %s, want %s", got.body, want)
	} else if of, err := d.client.Do(siteRequest(t, gateway+"/login")); err != nil {
		t.Fatal(err)
	} else if r := readSiteResponse(t, of); r.status != got.status || r.body != got.body || r.header.Get("Retry-After") != got.header.Get("Retry-After") {
		t.Errorf("the gateway responds to a frozen key %d %v %s, nginx %d %v %s", r.status, r.header, r.body, got.status, got.header, got.body)
	}
	d.metric(t, `weir_shadow_decisions_total{interface="nginx",policy="try",outcome="denied"}`, 0)
	act("freeze", "try", "")
	redistest.Await(t, "a denial in shadow", func() error {
		if got := d.get(t, "/try"); got != http.StatusOK {
			t.Fatalf("a policy in shadow mode: %d, want 200", got)
		}
		for line := range strings.Lines(d.ask(t, "GET", "/weir/metrics").body) {
			if strings.HasPrefix(line, `weir_shadow_decisions_total{interface="nginx",policy="try",outcome="denied"}`) {
				return nil
			}
		}
		return fmt.Errorf("none counted")
	})

	// Without Redis, which policies of this file admit, the key stays frozen; also in new workers.
	d.redis.Stop()
	every("a freeze without Redis", "/login", frozen)
	for _, pid := range workersOf(t, d.PID()) {
		syscall.Kill(pid, syscall.SIGKILL)
	}
	redistest.Await(t, "a worker", func() error {
		res, err := d.client.Do(siteRequest(t, "http://"+d.Addr+"/login"))
		if err != nil {
			return err
		}
		if r := readSiteResponse(t, res); !frozen(r) {
			t.Errorf("the first request of a new worker: %d %s, want frozen", r.status, r.body)
		}
		return nil
	})
	d.redis.Restart(t)

	conn, err := goredis.Open("redis://" + d.redis.Addr)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	report := func(what string, ok func(p instances.Process) bool) {
		t.Helper()
		redistest.Await(t, what, func() error {
			all, err := instances.Read(t.Context(), conn)
			if err != nil || len(all) != 1 || !ok(all[0]) {
				return fmt.Errorf("%+v, %v", all, err)
			}
			return nil
		})
	}
	report("the report of nginx", func(p instances.Process) bool {
		return p.Service == instances.Nginx && p.Version == 0 && p.PID > 0 && p.Adjusts && p.Problem == "" && len(p.Policies) == 3
	})
	redistest.Await(t, "nodes that restored the adjustments", func() error {
		if n := d.keys(t, "weir:1:adjustments{operations}"); n != 1 {
			return fmt.Errorf("%d keys", n)
		}
		return nil
	})
	act("lift", "both", "")
	every("no freeze", "/login", func(r siteResponse) bool { return !strings.Contains(r.body, "both") })
	act("block", "both", `,"for":"1s"`)
	every("a block", "/login", frozen)
	every("the end of the block", "/login", func(r siteResponse) bool { return !frozen(r) })

	redistest.Await(t, "nginx in the console", func() error {
		res, err := http.Get("http://" + admin + "/v1/overview")
		if err != nil {
			return err
		}
		if r := readSiteResponse(t, res); !strings.Contains(r.body, `"service":"nginx"`) {
			return fmt.Errorf("%s", r.body)
		}
		return nil
	})

	// What the Lua does not support is said to the operator, and in the report.
	var out struct {
		NotAppliedBy []string `json:"not_applied_by"`
	}
	if text := act("raise", "login", `,"limits":["9/day calendar UTC"],"for":"1h"`); json.Unmarshal([]byte(text), &out) != nil || len(out.NotAppliedBy) != 1 || !strings.HasPrefix(out.NotAppliedBy[0], "nginx (") {
		t.Errorf("a raise to a calendar window: not applied by %q, want nginx", out.NotAppliedBy)
	}
	every("the limit of the file", "/login", limit("2"))
	report("the problem in the report", func(p instances.Process) bool {
		return p.Adjusts && strings.Contains(p.Problem, "1 adjustments of keys are not applied") && strings.Contains(p.Problem, "time zones")
	})
}

func siteRequest(t *testing.T, url string) *http.Request {
	t.Helper()
	r, err := http.NewRequest(http.MethodGet, url, nil)
	if err != nil {
		t.Fatal(err)
	}
	r.Header.Set("X-User", "7")
	r.Close = true
	return r
}
