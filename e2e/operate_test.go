package e2e_test

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/floodweir/weir/e2e/programtest"
	"github.com/floodweir/weir/e2e/redistest"
)

const operateFile = "gateway: { routes: [{ path: /, upstream: 'http://127.0.0.1:1' }] }\n" +
	"policies: [{ name: login, key: client.ip, limits: 2/h }]\n"

// postKey posts JSON, and returns the response with the status want.
func postKey(t *testing.T, url, body string, want int) string {
	t.Helper()
	res, err := http.Post(url, "application/json", strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	data, err := io.ReadAll(res.Body)
	if err != nil || want != 0 && res.StatusCode != want {
		t.Fatalf("POST %s %s = %d, %v: %s, want %d", url, body, res.StatusCode, err, data, want)
	}
	return string(data)
}

// on returns the body of an action on a key.
func on(key, fields string) string {
	return fmt.Sprintf(`{"policy":"login","key":[%q],"reason":"ticket 812"%s}`, key, fields)
}

// takeToken asks a node for a token of a key.
func takeToken(t *testing.T, n *serving, key string) string {
	t.Helper()
	return postKey(t, n.api+"/v1/take", fmt.Sprintf(`{"policy":"login","key":%q}`, key), 0)
}

// awaitTake asks until the response has a text.
func awaitTake(t *testing.T, n *serving, key, text string) {
	t.Helper()
	redistest.Await(t, text, func() error {
		if got := takeToken(t, n, key); !strings.Contains(got, text) {
			return fmt.Errorf("take of %s: %s", key, got)
		}
		return nil
	})
}

// TestOperate checks that actions on a key at one node reach the other, also after Redis lost its
// data, and that they have audit entries.
func TestOperate(t *testing.T) {
	t.Parallel()
	redis := redistest.Start(t)
	binary := programtest.Weir(t)
	node := func() *serving { return serve(t, binary, operateFile, "--store", "redis://"+redis.Addr) }
	one, two := node(), node()

	postKey(t, one.admin+"/v1/key/freeze", on("192.0.2.1", ""), 200)
	if got := takeToken(t, one, "192.0.2.1"); !strings.Contains(got, `"ok":false`) {
		t.Errorf("at the node of the freeze: %s, want denied at once", got)
	}
	awaitTake(t, two, "192.0.2.1", `"never":true`)
	awaitText(t, two.admin+"/v1/adjustments", `"kind":"freeze","until":null,"reason":"ticket 812"`)

	postKey(t, two.admin+"/v1/key/raise", on("192.0.2.2", `,"limits":["7/24h"],"for":"2s"`), 200)
	awaitTake(t, one, "192.0.2.2", `"limit":"7/24h burst 7"`)
	awaitTake(t, one, "192.0.2.2", `"limit":"2/h burst 2"`) // after its end

	// An action takes less than a second, which WEIR_LONG measures. On a busy machine it may take longer.
	delays := make([]time.Duration, 2)
	if os.Getenv("WEIR_LONG") != "" {
		delays = make([]time.Duration, 100)
	}
	for i := range delays {
		begin, key := time.Now(), fmt.Sprint("198.51.100.", i)
		postKey(t, one.admin+"/v1/key/freeze", on(key, ""), 200)
		awaitTake(t, two, key, `"never":true`)
		delays[i] = time.Since(begin).Round(time.Millisecond)
		postKey(t, one.admin+"/v1/key/lift", on(key, ""), 200)
		awaitTake(t, two, key, `"retry_after":`) // else it restores the freeze into the empty Redis below
	}
	slices.Sort(delays)
	t.Logf("%d freezes reached the other node: p50 %v, p99 %v, longest %v", len(delays), delays[len(delays)/2], delays[len(delays)*99/100], delays[len(delays)-1])

	// A reload keeps the adjustments.
	two.write(t, strings.Replace(operateFile, "2/h", "3/h", 1))
	awaitText(t, two.admin+"/v1/policies", `3/h`)
	awaitTake(t, two, "192.0.2.1", `"never":true`)

	// Without Redis the freeze stays. The Redis that comes back is empty.
	redis.Stop()
	awaitText(t, one.admin+"/v1/adjustments", `"kind":"freeze"`)
	if got := postKey(t, one.admin+"/v1/key/freeze", on("192.0.2.3", ""), 503); !strings.Contains(got, "not done, or not known") {
		t.Errorf("a freeze without Redis: %s, want an error", got)
	}
	redis.Restart(t)
	awaitText(t, one.admin+"/v1/audit", `"action":"restore"`)
	late := node()
	awaitTake(t, late, "192.0.2.1", `"never":true`)
	postKey(t, late.admin+"/v1/key/lift", on("192.0.2.1", ""), 200)
	for _, n := range []*serving{one, two, late} {
		awaitTake(t, n, "192.0.2.1", `"retry_after":`)
		awaitText(t, n.admin+"/v1/adjustments", `{"adjustments":[]}`)
	}
	awaitText(t, one.admin+"/v1/audit?action=lift", `"from":"frozen by`)
}

// TestOperateState checks credit and reset, and their entries in the audit log.
func TestOperateState(t *testing.T) {
	t.Parallel()
	redis := redistest.Start(t)
	binary := programtest.Weir(t)
	n := serve(t, binary, operateFile, "--store", "redis://"+redis.Addr, "--deadline", "10s")
	for _, want := range []string{`"remaining":1`, `"remaining":0`, `"ok":false`} {
		if got := takeToken(t, n, "192.0.2.1"); !strings.Contains(got, want) {
			t.Errorf("take = %s, want %s", got, want)
		}
	}
	postKey(t, n.admin+"/v1/key/credit", on("192.0.2.1", `,"tokens":1`), 200)
	if got := postKey(t, n.admin+"/v1/key", `{"policy":"login","key":["192.0.2.1"]}`, 200); !strings.Contains(got, `"denied":false`) || !strings.Contains(got, `"remaining":1`) {
		t.Errorf("after the credit: %s, want 1 token", got)
	}
	postKey(t, n.admin+"/v1/key/reset", on("192.0.2.1", ""), 200)
	if got := takeToken(t, n, "192.0.2.1"); !strings.Contains(got, `"remaining":1`) {
		t.Errorf("after the reset: %s, want the first of two tokens", got)
	}

	// States of another type fail, which the audit log records.
	redis.Do(t, "LPUSH", "weir:1:{login%7C9:192.0.2.9}:=/h", "x")
	postKey(t, n.admin+"/v1/key/credit", on("192.0.2.9", `,"tokens":1`), 503)
	awaitText(t, n.admin+"/v1/audit?limit=1", `"ok":false,"error":`)
}

// TestOperateKilled kills a process with SIGKILL between the intent of an action and its result. The
// audit log keeps the intent without a result, and the action is done or not as a whole.
func TestOperateKilled(t *testing.T) {
	t.Parallel()
	redis := redistest.Start(t)
	binary := programtest.Weir(t)
	for i, action := range []string{"credit", "reset", "freeze"} {
		key := fmt.Sprint("192.0.2.", i+1)
		proxy := redistest.StartProxy(t, redis.Addr)
		n := serve(t, binary, operateFile, "--store", "redis://"+proxy.Addr)
		for range 3 {
			takeToken(t, n, key)
		}
		// The command with the entry passes. For credit and reset it is the intent.
		proxy.DropAfter(`"action":"` + action + `"`)
		sent := make(chan struct{})
		go func() {
			defer close(sent)
			fields := ""
			if action == "credit" {
				fields = `,"tokens":1`
			}
			if res, err := http.Post(n.admin+"/v1/key/"+action, "application/json", strings.NewReader(on(key, fields))); err == nil {
				res.Body.Close() // the response of a freeze may be faster than the kill
			}
		}()
		redistest.Await(t, action, func() error {
			if got := fmt.Sprintf("%s", redis.Do(t, "HGETALL", "weir:1:audit{operations}")); !strings.Contains(got, `"action":"`+action+`"`) {
				return fmt.Errorf("audit log %s, want %s", got, action)
			}
			return nil
		})
		if err := n.process.Kill(); err != nil {
			t.Fatal(err)
		}
		<-sent
		after := serve(t, binary, operateFile, "--store", "redis://"+redis.Addr)
		want, state := `"ok":null`, `"remaining":0`
		if action == "freeze" { // one step with its entry
			want, state = `"ok":true`, `"kind":"freeze"`
		}
		awaitText(t, after.admin+"/v1/audit?limit=1&action="+action, want)
		if got := postKey(t, after.admin+"/v1/key", `{"policy":"login","key":["`+key+`"]}`, 200); !strings.Contains(got, state) || !strings.Contains(got, `"denied":true`) {
			t.Errorf("%s: after the kill the key is %s, want %s", action, got, state)
		}
		log, err := exec.Command(binary, "audit", "--admin", after.admin, "--action", action).CombinedOutput()
		t.Logf("%s: weir audit, %v:\n%s", action, err, log)
		if result := map[string]string{`"ok":null`: "  -  ", `"ok":true`: "  ok "}[want]; err != nil || !strings.Contains(string(log), result) {
			t.Errorf("%s: weir audit: %v: %s, want the result %s", action, err, log, result)
		}
	}
}

// TestOperateMany checks that a node follows 10,000 adjustments, and that there are no more.
func TestOperateMany(t *testing.T) {
	t.Parallel()
	redis := redistest.Start(t)
	binary := programtest.Weir(t)
	one := serve(t, binary, operateFile, "--store", "redis://"+redis.Addr)
	postKey(t, one.admin+"/v1/key/freeze", on("192.0.2.1", ""), 200)
	args := []any{"EVAL", `
for i = 1, #ARGV, 2 do
  redis.call('HSET', KEYS[1], 'a:' .. ARGV[i], ARGV[i + 1])
  redis.call('ZADD', KEYS[2], 1e15, ARGV[i])
end
redis.call('HSET', KEYS[1], 'version', 2, 'id', 'many')
return 1`, 2, "weir:1:adjustments{operations}", "weir:1:until{operations}"}
	for i := 1; i < 10_000; i++ {
		ip := fmt.Sprintf("10.0.%d.%d", i/256, i%256)
		key := fmt.Sprintf("login|%d:%s", len(ip), ip)
		text, err := json.Marshal(map[string]any{"until": 0, "at": 1764000000123, "policy": "login", "key": [][]byte{[]byte(ip)}, "state": []byte(key), "kind": "freeze", "reason": "x", "by": "mei"})
		if err != nil {
			t.Fatal(err)
		}
		args = append(args, key, string(text))
	}
	redis.Do(t, args...)
	awaitTake(t, one, "10.0.39.15", `"never":true`)
	got := postKey(t, one.admin+"/v1/key/freeze", on("192.0.2.2", ""), 409)
	if !strings.Contains(got, "at most 10000 adjusted keys") {
		t.Errorf("one more: %s, want a conflict", got)
	}
	two := serve(t, binary, operateFile, "--store", "redis://"+redis.Addr)
	if got := takeToken(t, two, "10.0.0.7"); !strings.Contains(got, `"never":true`) {
		t.Errorf("at a new node: %s, want denied from the start", got)
	}
	var all struct{ Adjustments []json.RawMessage }
	res, err := http.Get(two.admin + "/v1/adjustments")
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	if err := json.NewDecoder(res.Body).Decode(&all); err != nil || len(all.Adjustments) != 10_000 {
		t.Errorf("%d adjustments, %v, want 10000", len(all.Adjustments), err)
	}
}
