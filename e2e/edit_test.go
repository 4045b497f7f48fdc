package e2e_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/floodweir/weir/e2e/programtest"
	"github.com/floodweir/weir/e2e/redistest"
)

// TestEditReachesAllNodes publishes policies through the admin interface of one node: the
// other one has them within a second. Stale and invalid changes publish nothing.
func TestEditReachesAllNodes(t *testing.T) {
	t.Parallel()
	redis := redistest.Start(t)
	store := "redis://" + redis.Addr
	binary := programtest.Weir(t)
	text := func(limit string) string {
		return "policies: [{ name: p, key: client.ip, limits: " + limit + " }] # " + limit + "\n"
	}
	one := serve(t, binary, text("1/h"), "--store", store, "--policies", "store")
	two := serve(t, binary, text("1/h"), "--store", store, "--policies", "store")
	send := func(n *serving, path string, body map[string]any) (int, map[string]any) {
		t.Helper()
		data, err := json.Marshal(body)
		if err != nil {
			t.Fatal(err)
		}
		res, err := http.Post(n.admin+path, "application/json", bytes.NewReader(data))
		if err != nil {
			t.Fatal(err)
		}
		defer res.Body.Close()
		var v map[string]any
		if err := json.NewDecoder(res.Body).Decode(&v); err != nil {
			t.Fatal(err)
		}
		return res.StatusCode, v
	}
	reaches := func(n *serving, limit string, since time.Time) {
		t.Helper()
		awaitText(t, n.admin+"/v1/policies", `"`+limit+`"`)
		t.Logf("%s reached after %v", limit, time.Since(since).Round(10*time.Millisecond))
	}

	begin := time.Now()
	if code, v := send(one, "/v1/apply", map[string]any{"text": text("2/h burst 2"), "base": 0, "reason": "first"}); code != 200 || v["version"] != 1.0 || v["scope"] != "store" {
		t.Fatalf("apply = %d %v", code, v)
	}
	reaches(two, "2/h burst 2", begin)
	reaches(one, "2/h burst 2", begin)

	begin = time.Now()
	if code, v := send(two, "/v1/apply", map[string]any{"text": text("3/h burst 3"), "base": 1, "reason": "second"}); code != 200 || v["version"] != 2.0 {
		t.Fatalf("apply = %d %v", code, v)
	}
	reaches(one, "3/h burst 3", begin)
	if code, v := send(one, "/v1/apply", map[string]any{"text": text("9/h"), "base": 1, "reason": "stale"}); code != 409 || v["current"] != 2.0 || v["text"] != text("3/h burst 3") {
		t.Errorf("stale apply = %d %v", code, v)
	}
	if code, v := send(one, "/v1/apply", map[string]any{"text": text("0/h"), "base": 2, "reason": "invalid"}); code != 422 || len(v["faults"].([]any)) != 1 {
		t.Errorf("invalid apply = %d %v", code, v)
	}
	begin = time.Now()
	if code, v := send(one, "/v1/rollback", map[string]any{"version": 1, "base": 2, "reason": "too much"}); code != 200 || v["version"] != 3.0 {
		t.Fatalf("rollback = %d %v", code, v)
	}
	reaches(two, "2/h burst 2", begin)

	var printed struct {
		Version  int64
		Versions []struct{ Version int64 }
	}
	for _, args := range [][]string{{"rollback", "2"}, {"versions"}} {
		out, err := exec.Command(binary, append(args, "--store", store, "--json")...).Output()
		if err != nil || json.Unmarshal(out, &printed) != nil {
			t.Fatalf("%s --json = %v: %s", args, err, out)
		}
	}
	if printed.Version != 4 || len(printed.Versions) != 4 || printed.Versions[0].Version != 4 {
		t.Errorf("rollback and versions --json = %+v", printed)
	}
	if code, v := send(one, "/v1/rollback", map[string]any{"version": 1, "base": 4, "reason": "again"}); code != 200 {
		t.Fatalf("rollback = %d %v", code, v)
	}
	if _, audited, err := get(t.Context(), http.DefaultClient, one.admin+"/v1/audit?action=rollback"); err != nil || !strings.Contains(audited, `"via":"cli"`) || !strings.Contains(audited, `"reason":"too much"`) {
		t.Errorf("audit: %v %s, want the rollbacks of both interfaces", err, audited)
	}
	out, err := exec.Command(binary, "versions", "--store", store).CombinedOutput()
	for i, want := range []string{"VERSION", "back to version 1: again", "back to version 2", "back to version 1: too much", "second", "first"} {
		if line := strings.Split(string(out), "\n")[i]; err != nil || !strings.Contains(line, want) || i > 0 && !strings.HasPrefix(line, fmt.Sprint(6-i)) {
			t.Errorf("versions = %v: line %d %s, want %s", err, i, line, want)
		}
	}
}

// TestEditOfCompleteText applies a file with overrides in a table, and options for nginx. The console
// has the overrides in its text, and its versions keep the options.
func TestEditOfCompleteText(t *testing.T) {
	t.Parallel()
	redis := redistest.Start(t)
	binary := programtest.Weir(t)
	table := filepath.Join(t.TempDir(), "partners.csv")
	if err := os.WriteFile(table, []byte("key,limits\n192.0.2.7,7/h\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	n := serve(t, binary, "policies:\n  - { name: other, key: client.ip, limits: 5/h }\n  - name: p\n    key: client.ip\n    limits: 1/h\n    overrides: { file: "+table+" }\n",
		"--store", "redis://"+redis.Addr, "--policies", "store")
	plan := func(step, limit string) {
		t.Helper()
		edge := fmt.Sprintf("%s", redis.Do(t, "HGET", "weir:1:policies", "edge"))
		if !strings.Contains(edge, `"p"`) || strings.Contains(edge, `"other"`) || !strings.Contains(edge, "192.0.2.7") {
			t.Errorf("%s: the plan for nginx is %s, want policy p alone, with its override", step, edge)
		}
		awaitText(t, n.admin+"/v1/policies", `"`+limit+`"`)
	}
	if out, err := exec.Command(binary, "apply", n.file, "--store", "redis://"+redis.Addr, "--edge-only", "p", "--local", "open").CombinedOutput(); err != nil {
		t.Fatalf("apply = %v: %s", err, out)
	}
	plan("weir apply", "1/h burst 1")
	var current struct {
		Version int64
		Text    string
	}
	if err := json.Unmarshal([]byte(body(t, n.admin+"/v1/text")), &current); err != nil || !strings.Contains(current.Text, "192.0.2.7") || strings.Contains(current.Text, "partners.csv") {
		t.Fatalf("text = %+v, %v, want the override in it", current, err)
	}
	apply, err := json.Marshal(map[string]any{"text": strings.Replace(current.Text, "limits: 1/h", "limits: 2/h", 1), "base": current.Version, "reason": "sale"})
	if err != nil {
		t.Fatal(err)
	}
	postKey(t, n.admin+"/v1/apply", string(apply), 200)
	plan("console", "2/h burst 2")
	postKey(t, n.admin+"/v1/rollback", `{"version":1,"base":2,"reason":"back"}`, 200)
	plan("rollback", "1/h burst 1")
	if out, err := exec.Command(binary, "rollback", "2", "--store", "redis://"+redis.Addr).CombinedOutput(); err != nil {
		t.Fatalf("rollback = %v: %s", err, out)
	}
	plan("weir rollback", "2/h burst 2")
}

// body returns the body of a response.
func body(t *testing.T, url string) string {
	t.Helper()
	_, text, err := get(t.Context(), http.DefaultClient, url)
	if err != nil {
		t.Fatal(err)
	}
	return text
}
