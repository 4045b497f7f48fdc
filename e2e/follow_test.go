//go:build !onlyredis

package e2e_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestFollow follows pages with and without errors.
func TestFollow(t *testing.T) {
	for name, c := range map[string]struct{ page, want string }{
		"no error":                 {"Text\n```sh\ntrue\n# comment\nmkdir a && cd a\n```\n```console\n$ basename \"$PWD\"\na\n$ printf 'x 1 y\\nb\\nc\\n'\nx … y\n…\nc\n$ true\n```\n```text\nshown\n```\n", ""},
		"the directory before":     {"```sh\nmkdir a && cd a\ntouch \"$OLDPWD/b\"\n```\n```console\n$ ls ..\na\nb\n```\n", ""},
		"long command":             {"```console\n$ echo one \\\n  two\none two\n$ echo 'a\nb'\na\nb\n```\n", ""},
		"a command fails":          {"```sh\ntrue\nfalse\n```\n", "line 3: false: exit status 1"},
		"a command is not there":   {"```sh\nno-such-command\n```\n", "no-such-command: command not found"},
		"a pipe fails":             {"```sh\nset -o pipefail; false | true\n```\n", "exit status 1"},
		"other output":             {"```console\n$ echo a\nb\n```\n", "the page says that it prints\nb\nand it prints\na\n"},
		"more output":              {"```console\n$ echo a; echo b\na\n```\n", "the page says"},
		"less output":              {"```console\n$ echo a\na\nb\n```\n", "the page says"},
		"no output":                {"```console\n$ true\na\n```\n", "the page says"},
		"no output promised":       {"```console\n$ echo a\n```\n", "the page says"},
		"output first":             {"```console\na\n$ true\n```\n", "line 2: output before the first command"},
		"other kind":               {"```bash\nfalse\n```\n", "line 1: a block of \"bash\""},
		"no kind":                  {"```\nfalse\n```\n", "a block of \"\""},
		"block without end":        {"```sh\ntrue\n", "line 1: the block does not end"},
		"a server that ends":       {"```sh\nserver --fails\n```\n", "server --fails: ended before it was ready: exit status 3"},
		"a server already there":   {"```sh\ntouch ready\nserver\n```\n", "its port is already in use"},
		"a server, then a failure": {"```sh\nserver\ntest -e ready\nfalse\n```\n", "line 4: false"},
		"a replaced command fails": {"```sh\ndownload\n```\n", "line 2: download: exit status 4"},
	} {
		t.Run(name, func(t *testing.T) {
			term := &terminal{
				dir:     t.TempDir(),
				instead: map[string]string{"download": "exit 4"},
				servers: []server{{prefix: "server", ready: "test -e ready"}},
			}
			term.env = []string{"PATH=" + toolbox(t) + ":/usr/bin:/bin"}
			wrong := follow(term, c.page)
			running := term.running
			term.stop("")
			for _, p := range running {
				<-p.ended
			}
			switch {
			case c.want == "" && len(wrong) > 0:
				t.Errorf("follow = %v, want nothing wrong", wrong)
			case c.want != "" && (len(wrong) != 1 || !strings.Contains(wrong[0].Error(), c.want)):
				t.Errorf("follow = %v, want one error with %q", wrong, c.want)
			}
		})
	}
}

// toolbox returns a directory with a server program that is ready when a file exists.
func toolbox(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "server"), []byte("#!/bin/sh\n[ $# = 0 ] || exit 3\ntouch ready\nexec sleep 600\n"), 0o755); err != nil {
		t.Fatal(err)
	}
	return dir
}

// TestFollowTree follows pages about the program and the library.
func TestFollowTree(t *testing.T) {
	t.Parallel()
	if alone(t) {
		return
	}
	env := tools(t)
	dir := clone(t, env, t.TempDir())
	for name, c := range map[string]struct{ page, want string }{
		"a program":         {"```go\npackage main\nimport \"fmt\"\nfunc main() { fmt.Println() }\n```\n", ""},
		"a fragment":        {"```go\nd, err := lim.Take(ctx, \"k\", 1)\nfmt.Println(d, err)\n```\n", ""},
		"not Go":            {"```go\nlim.Take(\n```\n", "the block is not Go"},
		"no such method":    {"```go\nlim.Grab(ctx)\n```\n", "lim.Grab undefined"},
		"a program panics":  {"```go\npackage main\nfunc main() { panic(\"why\") }\n```\n", "panic: why"},
		"a file":            {"```yaml\n# limits.yaml\npolicies:\n  - {name: a, key: [client.ip], limits: [10/s]}\n```\n", ""},
		"an unknown field":  {"```yaml\n# limits.yaml\npolicies:\n  - {name: a, keys: [client.ip], limits: [10/s]}\n```\n", "keys"},
		"a mistaken option": {"```sh\nweir serve --no-such-flag\n```\n", "ended before it was ready"},
	} {
		t.Run(name, func(t *testing.T) {
			term := &terminal{dir: dir, env: env, instead: instead, servers: servers}
			defer term.stop("")
			wrong := follow(term, c.page)
			switch {
			case c.want == "" && len(wrong) > 0:
				t.Errorf("follow = %v, want nothing wrong", wrong)
			case c.want != "" && (len(wrong) != 1 || !strings.Contains(wrong[0].Error(), c.want)):
				t.Errorf("follow = %v, want one error with %q", wrong, c.want)
			}
		})
	}
}
