package directive_test

import (
	"flag"
	"fmt"
	"go/ast"
	"go/build"
	"go/importer"
	"go/parser"
	"go/token"
	"go/types"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/tools/txtar"

	"github.com/floodweir/weir/cmd/weir/internal/directive"
)

var update = flag.Bool("update", false, "write what is found into testdata/*.txt")

// TestFind finds the directives of each package in testdata/*.txt: Go files, and after
// them want, which has a line for each site and each fault.
func TestFind(t *testing.T) {
	names, err := filepath.Glob("testdata/*.txt")
	if err != nil || len(names) < 3 {
		t.Fatal(names, err)
	}
	fset := token.NewFileSet()
	if build.Default.GOROOT == "" { // built with -trimpath
		goroot, err := exec.Command("go", "env", "GOROOT").Output()
		if err != nil {
			t.Fatal(err)
		}
		build.Default.GOROOT = strings.TrimSpace(string(goroot))
	}
	std := importer.ForCompiler(fset, "source", nil)
	for _, name := range names {
		t.Run(strings.TrimSuffix(filepath.Base(name), ".txt"), func(t *testing.T) {
			a, err := txtar.ParseFile(name)
			if err != nil {
				t.Fatal(err)
			}
			last := len(a.Files) - 1
			got := find(t, fset, std, a.Files[:last])
			if want := string(a.Files[last].Data); got != want && !*update {
				t.Errorf("found\n%s\nwant\n%s", got, want)
			}
			if *update {
				a.Files[last].Data = []byte(got)
				if err := os.WriteFile(name, txtar.Format(a), 0o644); err != nil {
					t.Fatal(err)
				}
			}
		})
	}
}

// find has a line for each site and each fault.
func find(t *testing.T, fset *token.FileSet, std types.Importer, sources []txtar.File) string {
	t.Helper()
	var files []*ast.File
	for _, s := range sources {
		f, err := parser.ParseFile(fset, s.Name, s.Data, parser.ParseComments)
		if err != nil {
			t.Fatal(err)
		}
		files = append(files, f)
	}
	info := &types.Info{Defs: map[*ast.Ident]types.Object{}}
	conf := types.Config{Importer: std, Error: func(error) {}} // as before anything is generated
	pkg, _ := conf.Check("example.com/"+files[0].Name.Name, fset, files, info)
	var b strings.Builder
	sites, faults := directive.Find(fset, files, pkg, info)
	for _, s := range sites {
		at := fset.Position(s.Pos)
		fmt.Fprintf(&b, "%s:%d:%d %s%s\n", at.Filename, at.Line, at.Column, s.Function(), details(s))
	}
	for _, f := range faults {
		at := fset.Position(f.Pos)
		fmt.Fprintf(&b, "%s:%d:%d: %s\n", at.Filename, at.Line, at.Column, f.Message)
	}
	return b.String()
}

// details formats a site on one line.
func details(s *directive.Site) string {
	var b strings.Builder
	say := func(ok bool, format string, args ...any) {
		if ok {
			fmt.Fprintf(&b, " "+format, args...)
		}
	}
	say(s.Name != "", "name=%s", s.Name)
	for _, l := range s.Limits {
		say(true, "limit=%q", l)
	}
	for _, k := range s.Key {
		say(k.Instance, "key=instance")
		say(!k.Instance, "key=%d%s", k.Param, strings.Join(append([]string{""}, k.Path...), "."))
		say(k.Stringer, "stringer")
		say(k.MayPanic, "maypanic")
	}
	say(s.Cost != 1, "cost=%d", s.Cost)
	say(s.CostOf >= 0, "costof=%d", s.CostOf)
	say(s.Context.Param >= 0, "context=%d", s.Context.Param)
	say(s.Context.Method, "method")
	say(s.Writer >= 0, "writer=%d", s.Writer)
	say(s.Text, "text")
	link := func(name string, l *directive.Link) {
		if l == nil {
			return
		}
		say(true, "%s=%s", name, l.Object.Name())
		for _, w := range []struct {
			ok   bool
			word string
		}{{l.Method, "method"}, {l.Value, "value"}, {l.Params, "params"}, {l.Err, "err"}, {l.Variadic, "variadic"}, {l.Generic, "generic"}} {
			if w.ok {
				b.WriteString(":" + w.word)
			}
		}
	}
	link("fallback", s.Fallback)
	link("degrade", s.Degrade)
	for _, l := range s.OnError {
		link("onerror", &l)
	}
	say(s.All, "all")
	return b.String()
}
