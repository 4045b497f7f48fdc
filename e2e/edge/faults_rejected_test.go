package edge_test

import (
	"fmt"
	"os/exec"
	"strings"
	"testing"

	"github.com/floodweir/weir/e2e/nginxtest"
	"github.com/floodweir/weir/e2e/programtest"
	"github.com/floodweir/weir/e2e/redistest"
)

// TestFaultApplyRejected checks that policies that nginx does not support are not applied, and
// that the metrics and the error log report it.
func TestFaultApplyRejected(t *testing.T) {
	t.Parallel()
	redis := redistest.Start(t)
	weir := programtest.Weir(t)
	const closed = "on_store_error: closed"
	const policies = "policies:\n  - { name: api, key: client.ip, limits: 100/h, %s }\n"
	apply := func(field string) {
		t.Helper()
		file := writePolicies(t, redis.Addr, fmt.Sprintf(policies, field))
		if out, err := exec.Command(weir, "apply", file, "--store", "redis://"+redis.Addr).CombinedOutput(); err != nil {
			t.Fatalf("weir apply: %v\n%s", err, out)
		}
	}
	conf := edgeConf(t, weir, writePolicies(t, redis.Addr, fmt.Sprintf(policies, closed)), "--policies", "store")
	s := nginxtest.Start(t, nginxtest.Config{HTTP: conf + `
  server { listen ADDR; location / { content_by_lua_block { require("weir").metrics() } } }`})
	c := callFrom(t, "127.0.0.7")
	until := func(lines ...string) {
		t.Helper()
		await(t, strings.Join(lines, ", "), func() bool {
			text := "\n" + c.get("http://"+s.Addr).body
			for _, line := range lines {
				if !strings.Contains(text, "\n"+line+"\n") {
					return false
				}
			}
			return true
		})
	}
	apply(closed)
	until(`weir_policies_version{version="1"} 1`, `weir_policies_reload_total{result="failure"} 0`, "weir_policies_last_reload_successful 1")
	apply("cost: { json: n }")
	until(`weir_policies_version{version="1"} 1`, `weir_policies_reload_total{result="failure"} 1`, "weir_policies_last_reload_successful 0")
	for line := range strings.Lines(s.Log()) {
		if strings.Contains(line, "cost") && strings.Contains(line, "[error]") {
			apply("on_store_error: open")
			until(`weir_policies_version{version="3"} 1`, "weir_policies_last_reload_successful 1")
			return
		}
	}
	t.Errorf("the log does not name the rejected policy:\n%s", s.Log())
}
