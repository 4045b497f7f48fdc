package weave

import (
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"golang.org/x/tools/go/packages"
)

func TestRewrite(t *testing.T) {
	const src = "\xef\xbb\xbf//go:build !none\n\npackage p\n\n// F does.\n//weir:limit limit=1\nfunc F(x int) {}\n\nfunc (t *T[K]) F() {}\n\n//weir:limit\nfunc (t *T[K]) G() {}\n"
	out, at, err := rewrite("/dir/p.go", []byte(src), map[function]string{{"", "F"}: "wovenF", {"T", "G"}: "wovenG"}, nil)
	if err != nil {
		t.Fatal(err)
	}
	const want = "//line /dir/p.go:1:1\n//go:build !none\n\npackage p\n\n// F does.\n//weir:woven limit=1\nfunc wovenF/*line :7:7*/(x int) {}\n\nfunc (t *T[K]) F() {}\n\n//weir:woven\nfunc (t *T[K]) wovenG/*line :12:17*/() {}\n"
	if string(out) != want {
		t.Errorf("rewrite =\n%s\nwant\n%s", out, want)
	}
	if got := at[function{"T", "G"}].String(); got != "/dir/p.go:12:16" {
		t.Errorf("G stands at %s", got)
	}
	// What stands in the copy has the positions of the original.
	fset := token.NewFileSet()
	f, err := parser.ParseFile(fset, "copy.go", out, 0)
	if err != nil {
		t.Fatal(err)
	}
	for _, d := range f.Decls {
		if p := fset.Position(d.End()); p.Filename != "/dir/p.go" || strings.Split(strings.TrimPrefix(src, "\xef\xbb\xbf"), "\n")[p.Line-1][:p.Column-1] == "" {
			t.Errorf("a declaration ends at %s", p)
		}
	}
	if _, _, err := rewrite("p.go", []byte(src), map[function]string{{"", "H"}: "wovenH"}, nil); err == nil || !strings.Contains(err.Error(), "want a declaration of H") {
		t.Errorf("rewrite of what is not there: %v", err)
	}
	if _, _, err := rewrite("p.go", []byte("package"), nil, nil); err == nil {
		t.Error("rewrite of what is not Go: no error")
	}
}

func TestCache(t *testing.T) {
	c, err := openCache(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	path, err := c.keep([]byte("a"), ".go")
	if err != nil {
		t.Fatal(err)
	}
	if again, err := c.keep([]byte("a"), ".go"); again != path || err != nil {
		t.Errorf("the same is kept at %s and %s, %v", path, again, err)
	}
	w := woven{Replace: map[string]string{"x.go": path}}
	if err := c.remember("key", w); err != nil {
		t.Fatal(err)
	}
	if got, ok := c.recall("key"); !ok || got.Replace["x.go"] != path {
		t.Errorf("recall = %v, %v", got, ok)
	}
	if err := os.WriteFile(path, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if _, ok := c.recall("key"); ok {
		t.Error("a file that was cut off is recalled")
	}
	if again, err := c.keep([]byte("a"), ".go"); err != nil || again != path {
		t.Fatalf("keep = %q, %v", again, err)
	}
	if _, ok := c.recall("other"); ok {
		t.Error("what was not remembered is recalled")
	}
	// What points out of the cache was not written by it.
	if err := c.remember("bad", woven{Replace: map[string]string{"x.go": "/etc/passwd"}}); err != nil {
		t.Fatal(err)
	}
	if _, ok := c.recall("bad"); ok {
		t.Error("a file out of the cache is recalled")
	}
	// What is old goes, on the next day; what is used stays.
	old := time.Now().Add(-2 * keepFor)
	for _, f := range []string{path, filepath.Join(c.dir, "key.woven"), filepath.Join(c.dir, "bad.woven"), filepath.Join(c.dir, "trimmed")} {
		if err := os.Chtimes(f, old, old); err != nil {
			t.Fatal(err)
		}
	}
	if _, ok := c.recall("key"); !ok {
		t.Fatal("old is not recalled")
	}
	c.trim(time.Now())
	if _, err := os.Stat(filepath.Join(c.dir, "bad.woven")); !os.IsNotExist(err) {
		t.Errorf("what is old stays: %v", err)
	}
	if _, ok := c.recall("key"); !ok {
		t.Error("what was used is gone")
	}
	os.Remove(path)
	if _, ok := c.recall("key"); ok {
		t.Error("recalled without its file")
	}
	// Without a place there is a temporary one.
	c, err = openCache(filepath.Join(c.dir, "key.woven", "x"))
	if err != nil || !c.temp {
		t.Fatalf("openCache where there is no place = %+v, %v", c, err)
	}
	c.close()
	if _, err := os.Stat(c.dir); !os.IsNotExist(err) {
		t.Errorf("a temporary cache stays: %v", err)
	}
}

func TestTool(t *testing.T) {
	dir := t.TempDir()
	file := func(name, text string) string {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	wovenAdded := file("added", "package p // added")
	list := file("list", "vars.go\n"+dir+"/a.out\n"+dir+"/w.out\n"+dir+"/b.out\n")
	o := overlay{Replace: map[string]string{"/p/a.go": "/cache/a", "/p/w.go": wovenAdded}, Added: []string{"/p/w.go"}}
	of := file("o.json", string(o.json()))
	got, err := tool([]string{of, "mine", "-x", "/go/cover", "-pkgcfg", "c", "-outfilelist", list, "/p/a.go", "/p/w.go", "/p/b.go"})
	if err != nil {
		t.Fatal(err)
	}
	if want := "mine -x /go/cover -pkgcfg c -outfilelist " + list + " /cache/a /p/b.go"; strings.Join(got, " ") != want {
		t.Errorf("tool = %q, want %q", got, want)
	}
	if text, _ := os.ReadFile(list); string(text) != "vars.go\n"+dir+"/a.out\n"+dir+"/b.out\n" {
		t.Errorf("list = %q", text)
	}
	if text, _ := os.ReadFile(filepath.Join(dir, "w.out")); string(text) != "package p // added" {
		t.Errorf("what is not measured is %q", text)
	}
	if got, err := tool([]string{"none", "/go/compile", "-p", "x"}); err != nil || strings.Join(got, " ") != "/go/compile -p x" {
		t.Errorf("tool of another tool = %q, %v", got, err)
	}
	for _, bad := range [][]string{nil, {"x"}, {"none", "cover", "-pkgcfg", "c", "-outfilelist", list}, {of, "cover", "-pkgcfg", "c", "-outfilelist", list, "one"}} {
		if _, err := tool(bad); err == nil {
			t.Errorf("tool(%q): no error", bad)
		}
	}
	if got := toolexec("/it's/weir", "/o.json", ""); got != `"/it's/weir" go toolexec /o.json` {
		t.Errorf("toolexec = %q", got)
	}
	if got := toolexec("/my bin/weir", "/o.json", "x y"); got != "'/my bin/weir' go toolexec /o.json x y" {
		t.Errorf("toolexec = %q", got)
	}
}

// TestShown tests the name of a user's file in woven code: with -trimpath it is that of a build of
// go with the flag, and without it the path.
func TestShown(t *testing.T) {
	p := &packages.Package{PkgPath: "example.com/shop"}
	for trimmed, want := range map[bool]string{false: "/home/user/main.go", true: "example.com/shop/main.go"} {
		w := &weaver{loader: &loader{trimmed: trimmed}}
		if got := w.shown(p, "/home/user/main.go"); got != want {
			t.Errorf("with -trimpath %t: %s, want %s", trimmed, got, want)
		}
	}
}
