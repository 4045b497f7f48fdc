package generate_test

import (
	"context"
	"flag"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/tools/txtar"

	"github.com/floodweir/weir/cmd/weir/internal/generate"
)

var update = flag.Bool("update", false, "write what is generated into testdata/*.txtar")

const requires = `module example.com/m

go 1.26.0

require github.com/floodweir/weir v0.0.0

replace github.com/floodweir/weir => `

// env returns the environment of the go command. It keeps the build flags of this test, so that
// both use one build of the standard library.
func env() []string {
	return append(os.Environ(), "GOWORK=off", "GOPROXY=off", "GOFLAGS="+os.Getenv("GOFLAGS")+" -mod=mod")
}

// module writes the files of an archive, and a go.mod if there is none.
func module(t *testing.T, a *txtar.Archive) string {
	t.Helper()
	dir := t.TempDir()
	root, err := filepath.Abs("../../../..")
	if err != nil {
		t.Fatal(err)
	}
	write(t, filepath.Join(dir, "go.mod"), requires+root+"\n")
	for _, f := range a.Files {
		write(t, filepath.Join(dir, f.Name), string(f.Data))
	}
	return dir
}

func write(t *testing.T, name, text string) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(name), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(name, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
}

func load(t *testing.T, name string) *txtar.Archive {
	t.Helper()
	a, err := txtar.ParseFile(filepath.Join("testdata", name))
	if err != nil {
		t.Fatal(err)
	}
	return a
}

// golden compares a file of the archive with what it should be.
func golden(t *testing.T, archive string, a *txtar.Archive, name, got string) {
	t.Helper()
	for i := range a.Files {
		if a.Files[i].Name != name {
			continue
		}
		if want := string(a.Files[i].Data); got != want && !*update {
			t.Errorf("%s is\n%s\nwant\n%s", name, got, want)
		}
		a.Files[i].Data = []byte(got)
		name = ""
	}
	if name != "" {
		a.Files = append(a.Files, txtar.File{Name: name, Data: []byte(got)})
	}
	if *update {
		if err := os.WriteFile(filepath.Join("testdata", archive), txtar.Format(a), 0o644); err != nil {
			t.Fatal(err)
		}
	}
}

// TestGenerate compares what is generated with what the archive has, twice: once as if
// for the first time, and once after that, and runs the program.
func TestGenerate(t *testing.T) {
	a := load(t, "good.txtar")
	sources := &txtar.Archive{}
	for _, f := range a.Files {
		if !strings.HasSuffix(f.Name, "_weir.go") && f.Name != "output" {
			sources.Files = append(sources.Files, f)
		}
	}
	dir := module(t, sources)
	c := generate.Config{Dir: dir, Patterns: []string{"./..."}, Env: env()}
	r, err := generate.Generate(context.Background(), c)
	if err != nil || len(r.Faults) > 0 {
		t.Fatal(err, strings.Join(r.Faults, "\n"))
	}
	var names []string
	for _, f := range r.Changes() {
		names = append(names, f.Path)
		golden(t, "good.txtar", a, f.Path, f.Text)
	}
	if got := strings.Join(names, " "); got != "shop/shop_weir.go store/store_weir.go" {
		t.Errorf("changes %s", got)
	}
	if err := r.Write(); err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command("go", "run", ".")
	cmd.Dir, cmd.Env = dir, env()
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	golden(t, "good.txtar", a, "output", string(out))

	// An edit above a function changes nothing; one of a limit does; without directives
	// the file goes.
	shop, err := os.ReadFile(filepath.Join(dir, "shop/shop.go"))
	if err != nil {
		t.Fatal(err)
	}
	write(t, filepath.Join(dir, "shop/shop.go"), strings.Replace(string(shop), "//go:generate", "// More.\n\n//go:generate", 1))
	write(t, filepath.Join(dir, "store/store.go"), "package store\n")
	write(t, filepath.Join(dir, "quiet/quiet.go"), "package quiet\n\n//weir:limit\nfunc F() error { return nil }\n")
	r, err = generate.Generate(context.Background(), c)
	if err != nil || len(r.Faults) > 0 {
		t.Fatal(err, strings.Join(r.Faults, "\n"))
	}
	names = nil
	for _, f := range r.Changes() {
		names = append(names, f.Path, strings.SplitN(f.Text, "\n", 2)[0])
	}
	if got, want := strings.Join(names, " "), "quiet/quiet_weir.go "+generate.Header+" store/store_weir.go "; got != want {
		t.Errorf("changes %q, want %q", got, want)
	}
	if err := r.Write(); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(filepath.Join(dir, "store/store_weir.go")); !os.IsNotExist(err) {
		t.Errorf("the file of a package without directives is still there: %v", err)
	}
}

// TestFaults compares all that is wrong with the packages of an archive with what it has.
func TestFaults(t *testing.T) {
	a := load(t, "faults.txtar")
	dir := module(t, a)
	r, err := generate.Generate(context.Background(), generate.Config{Dir: dir, Patterns: []string{"./..."}, Env: env()})
	if err != nil {
		t.Fatal(err)
	}
	golden(t, "faults.txtar", a, "faults", strings.Join(r.Faults, "\n")+"\n")
	if len(r.Files) > 0 {
		t.Errorf("there are %d files to write, want none", len(r.Files))
	}
}

func TestUnreadable(t *testing.T) {
	const limited = "package p\n\n//weir:limit\nfunc F() error { return nil }\n"
	for _, tc := range []struct {
		name, mod, source, pattern, want string
	}{
		{"no module", "", limited, ".", "generate: load .: go: go.mod file not found in current directory or any parent directory; see 'go help modules'"},
		{"no package", "module example.com/m\n\ngo 1.26.0\n", limited, "./none", "generate: load ./none: stat DIR/none: directory not found"},
		{"weir not required", "module example.com/m\n\ngo 1.26.0\n", limited, ".",
			"p.go:3:1: the generated code imports github.com/floodweir/weir/guard, which this module does not have: run go get github.com/floodweir/weir (go list: "},
	} {
		t.Run(tc.name, func(t *testing.T) {
			dir := t.TempDir()
			write(t, filepath.Join(dir, "p.go"), tc.source)
			if tc.mod != "" {
				write(t, filepath.Join(dir, "go.mod"), tc.mod)
			}
			r, err := generate.Generate(context.Background(), generate.Config{Dir: dir, Patterns: []string{tc.pattern}, Env: env()})
			got := ""
			switch {
			case err != nil:
				got = err.Error()
			case len(r.Faults) > 0:
				got = r.Faults[0]
			}
			if got = strings.ReplaceAll(got, dir, "DIR"); !strings.HasPrefix(got, tc.want) {
				t.Errorf("Generate = %s, want %s", got, tc.want)
			}
		})
	}
}
