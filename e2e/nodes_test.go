package e2e_test

import (
	"encoding/json"
	"net/http"
	"os"
	"os/exec"
	"strings"
	"testing"

	"github.com/floodweir/weir/e2e/programtest"
	"github.com/floodweir/weir/e2e/redistest"
)

// TestNodes checks that a node shows the traffic of another, notices when it dies, shows itself
// while Redis is unavailable, and shows both again afterwards. The Redis user has only the
// documented permissions.
func TestNodes(t *testing.T) {
	t.Parallel()
	redis := redistest.Start(t, documentedACL(t, "weir:1:*"))
	proxy := redistest.StartProxy(t, redis.Addr)
	binary := programtest.Weir(t)
	file := "gateway: { routes: [{ path: /, upstream: 'http://127.0.0.1:1' }] }\n" +
		"policies: [{ name: login, key: client.ip, limits: 3/h }]\n"
	one := serve(t, binary, file, "--store", "redis://weir:secret@"+proxy.Addr)
	two := serve(t, binary, file, "--store", "redis://weir:secret@"+redis.Addr)
	type overview struct {
		Problem  string
		Live     int `json:"nodes_live"`
		Policies []struct{ Trend []*float64 }
		Nodes    []struct {
			PID         int
			Self, Stale bool
			Store       struct{ State string }
			Mode        string
		}
	}
	await := func(n *serving, want string, accepted func(o overview) bool) {
		t.Helper()
		awaitResponse(t, n.admin+"/v1/overview", want, func(_ int, body string) bool {
			var o overview
			return json.Unmarshal([]byte(body), &o) == nil && accepted(o)
		})
	}
	await(one, "both nodes", func(o overview) bool {
		return o.Live == 2 && o.Problem == "" && o.Nodes[0].PID+o.Nodes[1].PID == one.process.Pid+two.process.Pid && o.Nodes[1].Store.State == "up"
	})
	for i := range 10 {
		res, err := http.Get(two.gateway + "/")
		if err != nil {
			t.Fatal(err)
		}
		res.Body.Close()
		if denied := res.StatusCode == http.StatusTooManyRequests; denied != (i >= 3) {
			t.Fatalf("request %d = %s, want 3 admitted", i, res.Status)
		}
	}
	await(one, "7 denials at the other node", func(o overview) bool {
		sum := 0.0
		for _, v := range o.Policies[0].Trend {
			if v != nil {
				sum += *v
			}
		}
		return sum == 7
	})

	awaitResponse(t, one.admin+"/v1/policies/login/keys", "the denied key of the other node", func(_ int, body string) bool {
		if res, err := http.Get(two.gateway + "/"); err == nil {
			res.Body.Close() // keys are recorded once the policy is viewed
		}
		var k struct {
			Nodes  int `json:"nodes_live"`
			Denied []struct{ Key []string }
		}
		return json.Unmarshal([]byte(body), &k) == nil && k.Nodes == 2 && len(k.Denied) == 1 && k.Denied[0].Key[0] == "127.0.0.1"
	})
	res, err := http.Post(two.api+"/v1/take", "application/json", strings.NewReader(`{"key":"user:42","limit":"10/s"}`))
	if err != nil || res.StatusCode != http.StatusOK {
		t.Fatalf("POST /v1/take = %v, %v", res, err)
	}
	res.Body.Close()
	awaitText(t, one.admin+"/v1/overview", `"name":"interface:http"`)

	weirTop := func(args ...string) string {
		t.Helper()
		cmd := exec.Command(binary, append([]string{"top", one.admin}, args...)...)
		out, err := cmd.Output()
		if err != nil {
			t.Fatalf("weir top %v = %v", args, err)
		}
		return string(out)
	}
	for _, out := range []string{weirTop("--once"), weirTop()} { // standard output is no terminal
		if !strings.Contains(out, "2 of 2 nodes") || !strings.Contains(out, "login") || !strings.Contains(out, "3/h burst 3") {
			t.Errorf("weir top = %s, want both nodes and the policy", out)
		}
	}
	var line overview
	lines := strings.Split(weirTop("--json", "--count", "2"), "\n")
	if err := json.Unmarshal([]byte(lines[0]), &line); err != nil || len(lines) != 3 || line.Live != 2 {
		t.Errorf("weir top --json = %v, %v, want two lines of JSON", lines, err)
	}

	two.process.Kill()
	await(one, "a stale node", func(o overview) bool {
		return o.Live == 1 && len(o.Nodes) == 2 && o.Nodes[0].Stale && o.Nodes[1].Self && o.Problem == ""
	})
	two = serve(t, binary, file, "--store", "redis://weir:secret@"+redis.Addr)
	await(one, "the new node and the stale one", func(o overview) bool { return o.Live == 2 && len(o.Nodes) == 3 })

	proxy.Set(redistest.DropAll)
	await(one, "this node only", func(o overview) bool {
		return len(o.Nodes) == 1 && o.Nodes[0].Self && strings.Contains(o.Problem, "this node only")
	})
	await(two, "the first node as stale", func(o overview) bool { return o.Live == 1 && len(o.Nodes) == 3 })
	proxy.Set(redistest.NoFault)
	await(one, "both nodes again", func(o overview) bool { return o.Live == 2 && o.Problem == "" })

	two.process.Signal(os.Interrupt)
	await(one, "one node less, and the stale one", func(o overview) bool { return o.Live == 1 && len(o.Nodes) == 2 })

	publish := func(text string) {
		t.Helper()
		cmd := exec.Command(binary, "apply", "-")
		cmd.Env, cmd.Stdin = append(os.Environ(), "WEIR_STORE=redis://"+redis.Addr), strings.NewReader(text)
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Fatalf("apply = %v: %s", err, out)
		}
	}
	follower := serve(t, binary, file, "--store", "redis://"+redis.Addr, "--policies", "store")
	publish("policies: [{ name: login, key: client.ip, limits: 5/h }]\n")
	awaitText(t, one.admin+"/v1/overview", `"version":1,"store"`)
	redis.Do(t, "HSET", "weir:1:policies", "version", "2", "id", "x", "v:2", `{"text":"policies: nonsense"}`)
	awaitText(t, one.admin+"/v1/overview", `"problem":"policies of version 1, want 2; last reload failed`)
	awaitText(t, follower.api+"/readyz", "last reload failed")
	for _, key := range redis.Do(t, "KEYS", "weir:1:{nodes}*").([]any) {
		if ttl := redis.Do(t, "PTTL", key); ttl.(int64) < 0 {
			t.Errorf("%s has no TTL", key)
		}
	}
}
