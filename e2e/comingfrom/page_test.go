package comingfrom_test

import (
	"bytes"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/floodweir/weir/weirfile"
)

// pages returns the pages of docs/coming-from, in both languages.
func pages() ([]string, error) {
	found, err := filepath.Glob(at("../../docs/coming-from/*.md"))
	if err == nil && len(found) < 20 {
		err = fmt.Errorf("pages = %v, want one for each limiter and language", found)
	}
	return found, err
}

var fileName = regexp.MustCompile(`\A# ([a-z][a-z0-9.-]*\.yaml)\n`)

// A block is a fenced block of a page.
type block struct {
	kind, text string
	line       int
}

// blocks returns the fenced blocks of a page.
func blocks(name string) ([]block, error) {
	text, err := os.ReadFile(name)
	if err != nil {
		return nil, err
	}
	var all []block
	var open *block
	n := 0
	for line := range strings.Lines(string(text)) {
		n++
		fence, found := strings.CutPrefix(strings.TrimSpace(line), "```")
		switch {
		case !found && open != nil:
			open.text += line
		case !found:
		case open == nil:
			open = &block{kind: fence, line: n}
		default:
			all = append(all, *open)
			open = nil
		}
	}
	if open != nil {
		return nil, fmt.Errorf("%s:%d: the block does not end", name, open.line)
	}
	return all, nil
}

// at returns a path of the tree that does not depend on the working directory.
func at(name string) string {
	return filepath.Join(dir, name)
}

// dir is the directory of this package, which TestMain leaves.
var dir, _ = os.Getwd()

// bodies returns the bodies of the examples by name, without indentation.
func bodies(t *testing.T) map[string]string {
	t.Helper()
	files, err := filepath.Glob(at("*_test.go"))
	if err != nil {
		t.Fatal(err)
	}
	all := map[string]string{}
	for _, name := range files {
		source, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		set := token.NewFileSet()
		f, err := parser.ParseFile(set, name, source, parser.ParseComments)
		if err != nil {
			t.Fatal(err)
		}
		for _, d := range f.Decls {
			if fn, ok := d.(*ast.FuncDecl); ok && strings.HasPrefix(fn.Name.Name, "Example") {
				body := source[set.Position(fn.Body.Lbrace).Offset+1 : set.Position(fn.Body.Rbrace).Offset]
				all[fn.Name.Name] = string(bytes.ReplaceAll(body, []byte("\n\t"), []byte("\n")))
			}
		}
	}
	return all
}

// missing returns the lines of the Go blocks that occur in no example.
func missing(bs []block, examples map[string]string) (lines []int) {
	for _, b := range bs {
		if b.kind != "go" {
			continue
		}
		found := false
		for _, body := range examples {
			found = found || strings.Contains(body, "\n"+b.text)
		}
		if !found {
			lines = append(lines, b.line)
		}
	}
	return lines
}

// TestGoBlocks checks that every page has a Go block, and that each occurs in an example.
func TestGoBlocks(t *testing.T) {
	examples := bodies(t)
	for name, bs := range allBlocks(t) {
		for _, line := range missing(bs, examples) {
			t.Errorf("%s:%d: no example has this Go block", name, line)
		}
		if count(bs, "go") == 0 {
			t.Errorf("%s has no Go block", name)
		}
	}
}

// allBlocks returns the fenced blocks of each page.
func allBlocks(t *testing.T) map[string][]block {
	t.Helper()
	names, err := pages()
	if err != nil {
		t.Fatal(err)
	}
	all := map[string][]block{}
	for _, name := range names {
		if all[name], err = blocks(name); err != nil {
			t.Fatal(err)
		}
	}
	return all
}

// TestMissing checks that missing reports a block that is in no example.
func TestMissing(t *testing.T) {
	bs := []block{{"go", "a()\nb()\n", 3}, {"go", "a()\nc()\n", 7}, {"text", "z()\n", 9}}
	if got := missing(bs, map[string]string{"Example": "\nx()\na()\nb()\n"}); !slices.Equal(got, []int{7}) {
		t.Errorf("missing = %v, want [7]", got)
	}
}

func count(bs []block, kind string) (n int) {
	for _, b := range bs {
		if b.kind == kind {
			n++
		}
	}
	return n
}

// TestPolicyFiles parses every YAML block as a policy file.
func TestPolicyFiles(t *testing.T) {
	n := 0
	for name, bs := range allBlocks(t) {
		for _, b := range bs {
			if b.kind != "yaml" {
				continue
			}
			n++
			f, err := weirfile.Parse("weir.yaml", []byte(b.text))
			if err != nil {
				t.Errorf("%s:%d: %v", name, b.line, err)
			} else if f.Functions == nil && f.Policies == nil {
				t.Errorf("%s:%d: the file has neither functions nor policies", name, b.line)
			}
		}
	}
	if n < 6 {
		t.Errorf("%d policy files, want those of Sentinel, Hystrix and resilience4j in both languages", n)
	}
}
