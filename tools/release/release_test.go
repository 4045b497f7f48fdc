package main

import (
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"golang.org/x/mod/module"
)

// TestPublishedModules checks that the tags of all modules resolve without the tree: the go command
// reads their requirements from a proxy.
func TestPublishedModules(t *testing.T) {
	r, err := prepare(t.Context(), "../..", filepath.Join(t.TempDir(), "clone"), "v0.1.0")
	if err != nil {
		t.Fatal(err)
	}
	files, err := git(t.Context(), r.dir, "ls-files", "*go.mod")
	if err != nil {
		t.Fatal(err)
	}
	for file := range strings.Lines(files) {
		dir := path.Dir(strings.TrimSpace(file))
		if slices.Contains(r.modules, dir) == slices.Contains(unpublished, dir) {
			t.Errorf("module %s: got modules %v, want it there or in unpublished", dir, r.modules)
		}
	}
	if len(r.modules) < 16 || r.modules[0] != "." {
		t.Errorf("got modules %v, want at least 16, the root first", r.modules)
	}
	if err := r.workspace(t.Context()); err != nil {
		t.Errorf("a checkout of the tag does not build: %v", err)
	}
	u, err := r.newUser(t.Context(), true)
	if err != nil {
		t.Fatal(err)
	}
	defer u.close()
	commands := [][]string{}
	inside := slices.DeleteFunc(slices.Clone(r.modules), func(m string) bool { return slices.Contains(outside, m) })
	for _, m := range inside { // the requirements of the others are not in every module cache
		commands = append(commands, []string{"mod", "edit", "-require=" + modulePath(m) + "@" + r.version})
	}
	graph, err := u.in(t.Context(), []string{"GOFLAGS=-mod=mod -modcacherw"}, append(commands, []string{"list", "-m", "all"})...)
	if err != nil {
		t.Fatal(err)
	}
	resolved := 0
	for line := range strings.Lines(graph) {
		path, version, _ := strings.Cut(strings.TrimSpace(line), " ")
		if _, ours := moduleDir(path); !ours {
			continue
		}
		if resolved++; version != r.version {
			t.Errorf("resolved %s, want %s", line, r.version)
		}
	}
	if resolved != len(inside) {
		t.Errorf("resolved %d modules, want %d:\n%s", resolved, len(inside), graph)
	}
}

// TestSetVersion checks the go.mod and go.sum files of released modules.
func TestSetVersion(t *testing.T) {
	root := t.TempDir()
	write := func(name, text string) {
		if err := os.WriteFile(filepath.Join(root, name), []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	sums := map[string][]sumLine{".": {{module.Version{Path: home, Version: "v0.2.0"}, "h1:zip="}, {module.Version{Path: home, Version: "v0.2.0/go.mod"}, "h1:mod="}}}
	if err := os.Mkdir(filepath.Join(root, "weirfile"), 0o755); err != nil {
		t.Fatal(err)
	}
	const other = "require go.yaml.in/yaml/v4 v4.0.0\n"
	write("weirfile/go.mod", "module "+home+"/weirfile\n\ngo 1.26.0\n\nrequire "+home+" v0.0.0\n\n"+other+"\nreplace "+home+" => ../\n")
	write("weirfile/go.sum", "go.yaml.in/yaml/v4 v4.0.0 h1:y=\n")
	if err := setVersion(root, "weirfile", "v0.2.0", sums); err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string]string{
		"weirfile/go.mod": "module " + home + "/weirfile\n\ngo 1.26.0\n\nrequire " + home + " v0.2.0\n\n" + other,
		"weirfile/go.sum": home + " v0.2.0 h1:zip=\n" + home + " v0.2.0/go.mod h1:mod=\ngo.yaml.in/yaml/v4 v4.0.0 h1:y=\n",
	} {
		got, err := os.ReadFile(filepath.Join(root, name))
		if err != nil {
			t.Fatal(err)
		}
		if string(got) != want {
			t.Errorf("%s:\n%s\nwant\n%s", name, got, want)
		}
	}

	write("weirfile/go.mod", "module "+home+"/weirfile\n\nreplace example.com/a => ../a\n")
	if err := setVersion(root, "weirfile", "v0.2.0", sums); err == nil || !strings.Contains(err.Error(), "example.com/a") {
		t.Errorf("with a replaced module of others: %v, want an error with its path", err)
	}
}

// TestReady checks what refuses a release before anything is cloned.
func TestReady(t *testing.T) {
	root := t.TempDir()
	run := func(args ...string) {
		t.Helper()
		if _, err := git(t.Context(), root, append([]string{"-c", "user.name=t", "-c", "user.email=t@example.com"}, args...)...); err != nil {
			t.Fatal(err)
		}
	}
	write := func(text string) {
		if err := os.WriteFile(filepath.Join(root, "CHANGELOG.md"), []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	run("init", "-q")
	write("# Changelog\n\n## [0.2.0]\n")
	run("add", ".")
	run("commit", "-q", "-m", "first")
	run("tag", "v0.1.0")
	for _, tt := range []struct{ version, want string }{
		{"v0.2.0", ""},
		{"v0.1.0", "after v0.1.0"},
		{"v0.0.9", "after v0.1.0"},
		{"v0.3.0", "[0.3.0]"},
	} {
		if err := ready(t.Context(), root, tt.version); (err == nil) != (tt.want == "") || err != nil && !strings.Contains(err.Error(), tt.want) {
			t.Errorf("ready(%s) = %v, want %q", tt.version, err, tt.want)
		}
	}
	write("# Changelog\n")
	if err := ready(t.Context(), root, "v0.2.0"); err == nil || !strings.Contains(err.Error(), "uncommitted") {
		t.Errorf("with a changed file: %v, want an error", err)
	}
}

func TestAnnouncesBreak(t *testing.T) {
	for _, tt := range []struct {
		previous, version string
		want              bool
	}{
		{"v0.1.0", "v0.1.1", false},
		{"v0.1.0", "v0.2.0", true},
		{"v0.9.0", "v1.0.0", true},
		{"v1.1.0", "v1.2.0", false},
		{"v1.1.0", "v2.0.0", true},
	} {
		if got := announcesBreak(tt.previous, tt.version); got != tt.want {
			t.Errorf("announcesBreak(%s, %s) = %t", tt.previous, tt.version, got)
		}
	}
}
