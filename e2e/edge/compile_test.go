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
)

// compileHostile is text that means something to nginx, to Lua, to JSON or to YAML.
const compileHostile = "'\"\\ \\' \\\" }{ }}}} {{{{ ]] [[ -- --[[ ]=] $host ${x} ; # '..os.exit()..' \x1b \t é 漢 \U0001F600 \u2028 \\065 </script> %s DIR ADDR USER\r\n' }) } http {\n"

// compileServer runs nginx with a configuration that weir edge nginx printed, which it
// includes from a file, with Lua in place of that of edge/nginx.
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
	return nginxtest.Start(t, nginxtest.Config{HTTP: "include " + file + `;
  server { listen ADDR; location / { content_by_lua_block { require("weir").content() } } }`})
}

// TestCompileReachesNginx: what stands in a policy file reaches the Lua in nginx byte
// by byte, of a large file too.
func TestCompileReachesNginx(t *testing.T) {
	weir := buildWeir(t)
	const stub = `
local M, settings, plan, started = {}, nil, nil, false
function M.init(s, p) settings, plan = s, p end
function M.start() started = true end
function M.content() ngx.print(started and plan or "not started") end
return M
`
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
		text, err := json.Marshal(m{"policies": []m{p}}) // which is YAML, too
		if err != nil {
			t.Fatal(err)
		}
		file := filepath.Join(t.TempDir(), "we'ir \"}.yaml")
		if err := os.WriteFile(file, text, 0o600); err != nil {
			t.Fatal(err)
		}
		s := compileServer(t, weir, stub, file, "--store", "redis://:p%27%22%5C%0A%7D@127.0.0.1:1")
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

// TestCompileLua: weir edge lua writes files that all may read, replaces its own alone,
// and what it writes is what nginx runs.
func TestCompileLua(t *testing.T) {
	weir := buildWeir(t)
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
