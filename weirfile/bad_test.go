package weirfile_test

import (
	"errors"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/floodweir/weir"
	"github.com/floodweir/weir/weirfile"
)

var update = flag.Bool("update", false, "rewrite the golden files")

// TestBadFiles compares the errors of the files in testdata/bad with the .golden file
// of each.
func TestBadFiles(t *testing.T) {
	files, err := filepath.Glob("testdata/bad/*.yaml")
	if err != nil || len(files) < 20 {
		t.Fatalf("%d files, %v, want at least 20", len(files), err)
	}
	for _, name := range files {
		data, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		_, err = weirfile.Parse(filepath.Base(name), data)
		if err == nil {
			t.Errorf("%s: no error, want one", name)
			continue
		}
		checkErrors(t, filepath.Base(name), data, err)
		if strings.Contains(err.Error(), "hunter2") {
			t.Errorf("%s: an error contains a password:\n%v", name, err)
		}
		golden(t, strings.TrimSuffix(name, ".yaml")+".golden", err.Error()+"\n")
	}
}

// TestPlacesInExpressions checks the position of a fault in an expression for every way
// of quoting.
func TestPlacesInExpressions(t *testing.T) {
	data, err := os.ReadFile("testdata/bad/expressions.yaml")
	if err != nil {
		t.Fatal(err)
	}
	_, err = weirfile.Parse("f.yaml", data)
	var errs weirfile.Errors
	if !errors.As(err, &errs) {
		t.Fatal(err)
	}
	lines, exact, around := strings.Split(string(data), "\n"), 0, 0
	for _, e := range errs {
		_, name, ok := strings.Cut(e.Want, "undeclared reference to '")
		if name, _, _ = strings.Cut(name, "'"); !ok {
			continue
		}
		switch rest := string([]rune(lines[e.Line-1])[e.Column-1:]); {
		case strings.HasPrefix(rest, name):
			exact++
		case strings.Contains("&gone > |2 \\", rest[:1]): // where the text begins, or a line is escaped
			around++
		default:
			t.Errorf("%v: the file has %s there", e, rest)
		}
	}
	if exact != 14 || around != 3 {
		t.Errorf("%d exact places and %d close ones, want 14 and 3", exact, around)
	}
}

func golden(t *testing.T, name, got string) {
	t.Helper()
	if *update {
		if err := os.WriteFile(name, []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	if got != string(want) {
		t.Errorf("%s differs; run with -update and look at the difference. Got:\n%s", name, got)
	}
}

// checkErrors checks the properties of the errors of every file.
func checkErrors(t *testing.T, name string, data []byte, err error) {
	t.Helper()
	var errs weirfile.Errors
	if !errors.As(err, &errs) || len(errs) == 0 || !errors.Is(err, weir.ErrInvalid) {
		t.Fatalf("%s: error %T, want Errors that wrap weir.ErrInvalid", name, err)
	}
	lines := 1 + strings.Count(string(data), "\n") + strings.Count(string(data), "\r") + strings.Count(string(data), "\u0085") +
		strings.Count(string(data), "\u2028") + strings.Count(string(data), "\u2029")
	seen, last := map[string]bool{}, 0
	for _, e := range errs {
		switch text := e.Error(); {
		case e.File != name, e.Line < 1, e.Line > lines, e.Column < 1, e.Want == "":
			t.Errorf("%s: error %+v, want a place in the file and what was expected", name, e)
		case e.Line < last:
			t.Errorf("%s: error %v stands after one of line %d", name, e, last)
		case strings.ContainsAny(text, "\n\r\x00"):
			t.Errorf("%s: error %q has more than one line", name, text)
		case len(text) > 1000:
			t.Errorf("%s: error of %d bytes: %.100s…", name, len(text), text)
		case seen[text]:
			t.Errorf("%s: error %s is reported twice", name, text)
		default:
			seen[text], last = true, e.Line
		}
	}
}

func TestHugeFile(t *testing.T) {
	data := []byte("store: memory # " + strings.Repeat("x", weirfile.MaxSize))
	_, err := weirfile.Parse("huge.yaml", data)
	if err == nil || !strings.Contains(err.Error(), "huge.yaml:1:1: ") || !strings.Contains(err.Error(), "at most") {
		t.Errorf("Parse of %d bytes = %v, want an error that says how many are accepted", len(data), err)
	}
	name := filepath.Join(t.TempDir(), "huge.yaml")
	if err := os.WriteFile(name, data, 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := weirfile.Load(name); err == nil || !strings.Contains(err.Error(), "at most") {
		t.Errorf("Load of %d bytes = %v, want an error that says how many are accepted", len(data), err)
	}
}

func TestManyFaultsAreCounted(t *testing.T) {
	for _, n := range []int{300, 100_000} {
		_, err := weirfile.Parse("f.yaml", []byte("policies: ["+strings.Repeat("x,", n)+"]"))
		var errs weirfile.Errors
		if !errors.As(err, &errs) || len(errs) != 201 || !strings.Contains(errs[200].Error(), "more faults") {
			t.Errorf("%d faults: %d errors, want 200 and how many more", n, len(errs))
		}
	}
}

// TestBombs checks that small files with many aliases are refused quickly.
func TestBombs(t *testing.T) {
	aliases := func(depth, width int) string {
		var b strings.Builder
		b.WriteString("policies:\n  - &a0 [x]\n")
		for i := range depth {
			fmt.Fprintf(&b, "  - &a%d [%s]\n", i+1, strings.TrimSuffix(strings.Repeat(fmt.Sprintf("*a%d,", i), width), ","))
		}
		return b.String()
	}
	many := func(n int) string {
		return "policies:\n" +
			"- name: a\n  key: [client.ip]\n  limits: [1/s]\n  overrides: &o [" + strings.Repeat("{key: [1.2.3.4], limits: [1/s]},", n) + "]\n" +
			strings.Repeat("- {name: a, key: [client.ip], limits: [1/s], overrides: *o}\n", n)
	}
	for name, text := range map[string]string{
		"aliases of aliases": aliases(20, 20),
		"list of itself":     "policies: &p [*p, *p]",
		"map of itself":      "gateway: &g { routes: *g }",
		"policy of itself":   "policies: [&p { name: a, key: [client.ip], limits: [*p], match: *p, overrides: [*p], on_denied: *p }]",
		"aliased overrides":  many(2000),
		"flow depth":         strings.Repeat("[", 100_000),
		"block depth":        strings.Repeat("- ", 100_000),
		"map depth":          strings.Repeat("{a: ", 9_000) + strings.Repeat("}", 9_000),
		"many anchors":       "policies: [" + strings.Repeat("&a x, ", 100_000) + "]",
	} {
		_, err := weirfile.Parse("bomb.yaml", []byte(text))
		if err == nil {
			t.Errorf("%s: no error, want one", name)
			continue
		}
		checkErrors(t, "bomb.yaml", []byte(text), err)
	}
	_, err := weirfile.Parse("bomb.yaml", []byte("policies:\n"+
		"- &p {name: a, key: &k [client.ip], limits: [1/s], match: {headers: {X-A: &v ["+strings.Repeat("a,", 1000)+"]}}}\n"+
		"- {name: b, key: *k, limits: [1/s], match: {headers: {"+headers(1000)+"}}}\n"))
	if err == nil || !strings.Contains(err.Error(), "fewer aliases") {
		t.Errorf("a million aliased values = %.300v, want an error about aliases", err)
	}
}

// TestManyExpressions checks that a repeated expression is compiled once, and that the
// total size of expressions is bounded.
func TestManyExpressions(t *testing.T) {
	var b strings.Builder
	b.WriteString("policies:\n  - { name: p, key: client.ip, limits: 1/s, match: &m 'request.path == \"/a\"" + strings.Repeat(" || request.path == \"/b\"", 100) + "' }\n")
	for i := range 20_000 {
		fmt.Fprintf(&b, "  - { name: p%d, key: client.ip, limits: 1/s, mode: shadow, match: *m }\n", i)
	}
	parse(t, b.String())
	for i := range 400 {
		fmt.Fprintf(&b, "  - { name: q%d, key: client.ip, limits: 1/s, mode: shadow, match: 'request.path == \"/%d\" //%s' }\n", i, i, strings.Repeat(" ", 1000))
	}
	_, err := weirfile.Parse("f.yaml", []byte(b.String()))
	if err == nil || !strings.Contains(err.Error(), "want fewer expressions") {
		t.Errorf("400 kB of expressions: %.300v, want an error that says so", err)
	}
}

func headers(n int) string {
	var b strings.Builder
	for i := range n {
		fmt.Fprintf(&b, "X-%d: *v,", i)
	}
	return b.String()
}

func TestLoadErrors(t *testing.T) {
	_, err := weirfile.Load(filepath.Join(t.TempDir(), "absent.yaml"))
	if !errors.Is(err, os.ErrNotExist) || !strings.HasPrefix(err.Error(), "weirfile: ") {
		t.Errorf("Load of an absent file = %v, want one that wraps os.ErrNotExist", err)
	}
	var path *os.PathError
	if _, err := weirfile.Load(t.TempDir()); !errors.As(err, &path) {
		t.Errorf("Load of a folder = %v, want a PathError", err)
	}
}

// FuzzParse checks that no input makes Parse panic or hang, and that every error has a
// position and a reason.
func FuzzParse(f *testing.F) {
	files, _ := filepath.Glob("testdata/bad/*.yaml")
	for _, name := range append(files, "../weir.example.yaml") {
		data, err := os.ReadFile(name)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(data)
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		file, err := weirfile.Parse("fuzz.yaml", data)
		if err != nil {
			checkErrors(t, "fuzz.yaml", data, err)
			return
		}
		for _, p := range file.Policies.Policies() {
			if c := p.Config(); p.Name() == "" || len(c.Limits) == 0 && !c.Block && !c.Unlimited {
				t.Errorf("a policy without name or limits was accepted: %+v", p.Config())
			}
		}
	})
}
