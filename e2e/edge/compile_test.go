package edge_test

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/floodweir/weir/e2e/nginxtest"
	"github.com/floodweir/weir/e2e/programtest"
	"github.com/floodweir/weir/e2e/redistest"
)

// compileHostile has special characters of nginx, Lua, JSON and YAML.
const compileHostile = "'\"\\ \\' \\\" }{ }}}} {{{{ ]] [[ -- --[[ ]=] $host ${x} ; # '..os.exit()..' \x1b \t é 漢 \U0001F600 \u2028 \\065 </script> %s DIR ADDR USER\r\n' }) } http {\n"

// compileServer runs nginx with the output of weir edge nginx, included from a file, and with
// a stub in place of the Lua of edge/nginx.
func compileServer(t testing.TB, weir, stub string, args ...string) *nginxtest.Server {
	t.Helper()
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "weir.lua"), []byte(stub), 0o600); err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(weir, append([]string{"edge", "nginx", "--lua", dir}, args...)...)
	cmd.Stderr = os.Stderr
	conf, err := cmd.Output()
	if err != nil {
		t.Fatalf("weir edge nginx: %v", err)
	}
	file := filepath.Join(dir, "weir.conf")
	if err := os.WriteFile(file, conf, 0o600); err != nil {
		t.Fatal(err)
	}
	return nginxtest.Start(t, nginxtest.Config{HTTP: `
  lua_package_path "/nowhere/?.lua;;"; # of another module
  include ` + file + `;
  server { listen ADDR; location / { content_by_lua_block { require("weir").content() } } }`})
}

// TestCompileReachesNginx checks that texts in a policy file reach the Lua in nginx unchanged,
// also from a large file.
func TestCompileReachesNginx(t *testing.T) {
	t.Parallel()
	weir := programtest.Weir(t)
	const stub = `
local M, settings, plan, started = {}, nil, nil, false
function M.init(s, p) settings, plan = s, p end
function M.start() started = true end
function M.header_filter() end
function M.log() end
function M.content() ngx.print(started and package.loaded.mine == "both" and plan or "not started") end
return M
`
	own := t.TempDir()
	for name, text := range map[string]string{"init.lua": `package.loaded.mine = "one"`, "init worker.lua": `if package.loaded.mine == "one" then package.loaded.mine = "both" end`} {
		if err := os.WriteFile(filepath.Join(own, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	for _, overrides := range []int{0, 30_000} {
		type m map[string]any
		p := m{"name": "p", "key": []string{"header:X", "const:c"}, "limits": []string{"1/s"}, "on_denied": m{"body": compileHostile}}
		var list []m
		for i := range overrides {
			list = append(list, m{"key": []string{fmt.Sprintf("tenant-%d'\"\\}{", i), "c"}, "limits": []string{"5/s"}})
		}
		if list != nil {
			p["overrides"] = list
		}
		text, err := json.Marshal(m{"policies": []m{p}}) // JSON is YAML too
		if err != nil {
			t.Fatal(err)
		}
		file := filepath.Join(t.TempDir(), "we'ir \"}.yaml")
		if err := os.WriteFile(file, text, 0o600); err != nil {
			t.Fatal(err)
		}
		s := compileServer(t, weir, stub, file, "--store", "redis://:p%27%22%5C%0A%7D@127.0.0.1:1",
			"--init", filepath.Join(own, "init.lua"), "--init-worker", filepath.Join(own, "init worker.lua"))
		res, err := http.Get("http://" + s.Addr + "/")
		if err != nil {
			t.Fatal(err)
		}
		body, err := io.ReadAll(res.Body)
		res.Body.Close()
		if err != nil {
			t.Fatal(err)
		}
		var plan struct {
			Policies []struct {
				OnDenied struct{ Body string } `json:"on_denied"`
				Exact    map[string][]int
			}
		}
		if err := json.Unmarshal(body, &plan); err != nil {
			t.Fatalf("the plan in nginx is %.200q: %v", body, err)
		}
		if got := plan.Policies[0]; got.OnDenied.Body != compileHostile || len(got.Exact) != overrides {
			t.Errorf("nginx has the body %q and %d overrides, want %q and %d", got.OnDenied.Body, len(got.Exact), compileHostile, overrides)
		}
	}
}

// TestCompileLua checks that weir edge lua writes readable files, replaces only its own, and
// that nginx runs them.
func TestCompileLua(t *testing.T) {
	t.Parallel()
	weir := programtest.Weir(t)
	dir := filepath.Join(t.TempDir(), "deep", "lua")
	run := func() {
		t.Helper()
		cmd := exec.Command("sh", "-c", `umask 077; exec "$0" edge lua "$1"`, weir, dir)
		if out, err := cmd.CombinedOutput(); err != nil || !strings.HasPrefix(string(out), "wrote ") {
			t.Fatalf("weir edge lua: %v\n%s", err, out)
		}
	}
	run()
	own := filepath.Join(dir, "mine.lua")
	stale := filepath.Join(dir, "weir", "key.lua")
	for _, name := range []string{own, stale} {
		if err := os.WriteFile(name, []byte("mine"), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	run()
	if text, err := os.ReadFile(own); err != nil || string(text) != "mine" {
		t.Errorf("mine.lua is %q, %v, want it untouched", text, err)
	}
	err := filepath.WalkDir(dir, func(name string, d os.DirEntry, err error) error {
		if err != nil || name == own {
			return err
		}
		info, err := d.Info()
		if err != nil {
			return err
		}
		want := os.FileMode(0o644)
		if d.IsDir() {
			want = 0o755
		}
		if info.Mode().Perm() != want {
			t.Errorf("%s has the mode %v, want %v", name, info.Mode().Perm(), want)
		}
		if rel, _ := filepath.Rel(dir, name); !d.IsDir() {
			a, _ := os.ReadFile(name)
			b, err := os.ReadFile(filepath.Join(nginxtest.Edge(t), rel))
			if err != nil || string(a) != string(b) {
				t.Errorf("%s is not that of edge/nginx (%v)", rel, err)
			}
		}
		return nil
	})
	if err != nil {
		t.Error(err)
	}
}

// TestCompilePublished checks that weir apply and weir rollback store the plan of a version
// beside it, under its number, or the reason why there is none. They publish in both cases.
func TestCompilePublished(t *testing.T) {
	t.Parallel()
	weir, redis := programtest.Weir(t), redistest.Start(t)
	run := func(want int, said, text string, args ...string) {
		t.Helper()
		cmd := exec.Command(weir, append(args, "--store", "redis://"+redis.Addr)...)
		cmd.Stdin = strings.NewReader(text)
		var problems strings.Builder
		cmd.Stderr = &problems
		out, err := cmd.Output()
		if cmd.ProcessState.ExitCode() != want || !strings.Contains(problems.String(), said) || said == "" && problems.Len() > 0 {
			t.Fatalf("weir %q: %v\n%s%s", args, err, out, &problems)
		}
	}
	has := func(version int, has, not string) {
		t.Helper()
		text, _ := redis.Do(t, "HGET", "weir:1:policies", "edge").(string)
		var plan struct {
			Version, Format int
			Error           string
		}
		if err := json.Unmarshal([]byte(text), &plan); err != nil || plan.Version != version || (plan.Error == "") != (plan.Format == 1) {
			t.Errorf("the field edge is %.200q (%v), want that of version %d", text, err, version)
		}
		if !strings.Contains(text, has) || not != "" && strings.Contains(text, not) {
			t.Errorf("the field edge is %.200q…, want %q and no %q", text, has, not)
		}
	}
	const (
		good   = "policies: [{ name: p, key: client.ip, limits: 1/s }]\n"
		local  = "policies: [{ name: p, key: client.ip, limits: 2/s, on_store_error: local }]\n"
		beyond = "policies: [{ name: p, key: client.ip, limits: 3/s }, { name: q, key: client.ip, limits: 1/s, cost: { json: n } }]\n"
	)
	run(0, "", good, "apply", "-")
	has(1, `"limit":"1/s burst 1"`, "")
	run(0, `weir: warning: nginx keeps its current policies: edge: policy "q": cost`, beyond, "apply", "-")
	has(2, `"error":"edge: policy \"q\": cost`, "")
	run(0, "", local, "apply", "-")
	has(3, `"on_store_error":"closed"`, "")
	run(2, `--local "maybe": want open or closed`, local, "apply", "-", "--local", "maybe")
	run(2, `--edge-only "unknown": want the name of a policy in the file`, good, "apply", "-", "--edge-only", "unknown")
	run(0, "nginx keeps its current policies", beyond, "apply", "-", "--dry-run")
	has(3, `"on_store_error":"closed"`, "")
	run(0, "", beyond, "apply", "-", "--edge-only", "p")
	has(4, `"limit":"3/s burst 3"`, `"name":"q"`)
	run(0, "", "", "rollback", "1")
	has(5, `"limit":"1/s burst 1"`, "")
	run(0, "nginx keeps its current policies", "", "rollback", "2")
	has(6, `"error":`, "")
	run(0, "", "", "rollback", "3", "--local", "open")
	has(7, `"on_store_error":"open"`, "")
	redis.Do(t, "HSET", "weir:1:policies", "v:7", `{"text":"policies: nonsense"}`)
	run(0, "nginx keeps its current policies: version 7:1:", "", "rollback", "7")
	has(8, `"error":"version 7:1:`, "")
}
