package cli_test

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/floodweir/weir/cmd/weir/internal/cli"
)

// TestEdgeExitCodes checks exit codes, and that nothing is printed after an error.
func TestEdgeExitCodes(t *testing.T) {
	dir := t.TempDir()
	write := func(name, text string) string {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	good := write("good.yaml", "store: redis://127.0.0.1:1\npolicies:\n  - { name: p, key: client.ip, limits: 1/s }\n")
	local := write("local.yaml", "store: redis://127.0.0.1:1\npolicies:\n  - { name: p, key: client.ip, limits: 1/s, on_store_error: local }\n")
	bad := write("bad.yaml", "policies:\n  - { name: p, key: [client.ip], limits: [0/s] }\n")
	nowhere := filepath.Join(dir, "nowhere.yaml")
	for _, test := range []struct {
		args []string
		want int
	}{
		{[]string{"edge"}, 0},
		{[]string{"edge", "nginx", good}, 0},
		{[]string{"edge", "nginx", good, "--store", "memory"}, 1},
		{[]string{"edge", "nginx", good, "--store", "memory", "--policies", "store"}, 2},
		{[]string{"edge", "nginx", good, "--only", "q"}, 1},
		{[]string{"edge", "nginx", good, "--lua", "here"}, 1},
		{[]string{"edge", "nginx", local}, 0},
		{[]string{"edge", "nginx", local, "--local", "closed"}, 0},
		{[]string{"edge", "nginx", local, "--local", "local"}, 2},
		{[]string{"edge", "nginx", bad}, 1},
		{[]string{"edge", "nginx", nowhere}, 2},
		{[]string{"edge", "nginx", dir}, 2},
		{[]string{"edge", "nginx"}, 2},
		{[]string{"edge", "nginx", good, good}, 2},
		{[]string{"edge", "nginx", good, "--nonsense"}, 2},
		{[]string{"edge", "nginx", good, "-o", ""}, 2},
		{[]string{"edge", "nginx", good, "-o", filepath.Join(dir, "nowhere", "weir.conf")}, 1},
		{[]string{"edge", "nginx", good, "--store", "nonsense"}, 2},
		{[]string{"edge", "lua", filepath.Join(dir, "lua")}, 0},
		{[]string{"edge", "lua", good}, 1},
		{[]string{"edge", "lua", ""}, 1},
		{[]string{"edge", "lua"}, 2},
		{[]string{"edge", "haproxy"}, 2},
		{[]string{"apply", good, "--local", "local"}, 2},
		{[]string{"apply", good, "--edge-only", "q"}, 2},
		{[]string{"rollback", "1", "--local", "local"}, 2},
	} {
		var out, errs bytes.Buffer
		got := cli.Run(t.Context(), test.args, strings.NewReader(""), &out, &errs, func(string) string { return "" })
		if got != test.want || (got != 0) != (errs.Len() > 0) || (got != 0) != (out.Len() == 0) {
			t.Errorf("weir %s = %d, want %d\n%.300s%s", strings.Join(test.args, " "), got, test.want, out.String(), errs.String())
		}
	}
}

// TestEdgeLuaIsWhole checks that a file that cannot be replaced is an error, and leaves
// nothing half written.
func TestEdgeLuaIsWhole(t *testing.T) {
	dir := t.TempDir()
	if err := os.MkdirAll(filepath.Join(dir, "weir.lua", "in the way"), 0o700); err != nil {
		t.Fatal(err)
	}
	var out, errs bytes.Buffer
	if got := cli.Run(t.Context(), []string{"edge", "lua", dir}, strings.NewReader(""), &out, &errs, os.Getenv); got != 1 || !strings.Contains(errs.String(), "weir.lua") {
		t.Errorf("weir edge lua over a directory = %d: %s", got, &errs)
	}
	left, err := filepath.Glob(filepath.Join(dir, ".weir-*"))
	if err != nil || len(left) > 0 {
		t.Errorf("%q are left over (%v)", left, err)
	}
}

// TestEdgeConfIsWhole checks that the configuration in a file is replaced if all is well,
// and else stays what it was; it is for its owner alone.
func TestEdgeConfIsWhole(t *testing.T) {
	dir := t.TempDir()
	file, to := filepath.Join(dir, "weir.yaml"), filepath.Join(dir, "weir.conf")
	run := func(policies string) int {
		t.Helper()
		if err := os.WriteFile(file, []byte("store: redis://127.0.0.1:1\npolicies:\n  - "+policies+"\n"), 0o600); err != nil {
			t.Fatal(err)
		}
		var out, errs bytes.Buffer
		got := cli.Run(t.Context(), []string{"edge", "nginx", file, "-o", to}, strings.NewReader(""), &out, &errs, func(string) string { return "" })
		if out.Len() > 0 || (got == 0) != (errs.Len() == 0) {
			t.Errorf("%d; standard output has %.100q, standard error %.300q", got, out.String(), errs.String())
		}
		return got
	}
	if err := os.WriteFile(to, []byte("# as it was\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	if got := run("{ name: p, key: client.ip, limits: 1/s, count: all }"); got != 1 {
		t.Errorf("what nginx cannot do = %d, want 1", got)
	}
	if text, err := os.ReadFile(to); string(text) != "# as it was\n" {
		t.Errorf("after an error the file has %.100q (%v)", text, err)
	}
	if got := run("{ name: p, key: client.ip, limits: 1/s }"); got != 0 {
		t.Errorf("good policies = %d, want 0", got)
	}
	text, err := os.ReadFile(to)
	if !strings.Contains(string(text), "init_by_lua_block {") {
		t.Errorf("the file has %.100q (%v)", text, err)
	}
	if info, err := os.Stat(to); err != nil || info.Mode() != 0o600 {
		t.Errorf("the file: %v (%v), want 0600", info, err)
	}
}
