//go:build !race

package weir_test

import (
	"cmp"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"maps"
	"os"
	"path"
	"slices"
	"strings"
	"testing"
	"testing/fstest"
)

// Sizes above which a package, a type or a file needs a reason. They count exported
// functions, types, constants and variables (methods are not counted), and lines of all
// files that are not tests.
const (
	maxNames     = 40 // exported names of a library package
	maxRootNames = 45 // exported names of package weir
	maxMethods   = 30 // methods of a type
	maxPackage   = 2000
	maxFile      = 400
)

// largeFor lists the exceptions, each with its reason. A row that is not needed fails.
var largeFor = map[string]string{
	"cmd/weir/internal/cli lines":          "one file for each of twenty commands, which share flags and exit codes",
	"cmd/weir/internal/importer lines":     "converters of three formats, which share one report",
	"cmd/weir/internal/run lines":          "the one package that knows every part: it joins them, so each interface adds to it",
	"internal/algo lines":                  "seven algorithms with their formulas and sources: a third of the lines are comments",
	"memstore lines":                       "one lock protocol that its parts share: a quarter of the lines are comments",
	"redisstore lines":                     "one queue of round trips for two forms of calls: their requests, replies and repetitions share it",
	"share lines":                          "one protocol: stores, and holders outside of the process, change the same rows by one arithmetic",
	"storetest lines":                      "the rules of a store, the random requests and the comparison share one harness",
	"storetest/internal/model lines":       "a second implementation of all algorithms, from their documentation",
	"weir names":                           "the vocabulary of the library: five verbs, six algorithms, and eight errors on which callers branch",
	"weir lines":                           "the descriptions of seven algorithms, and the grammar that reads them, are one vocabulary",
	"policy lines":                         "match, key, overrides and history of a policy compile together",
	"policy names":                         "the words of a policy file are constants: twelve sources of keys, four counts, three modes",
	"weirfile.decoder methods":             "one method for each section and kind of value of the policy file",
	"weirfile lines":                       "one reader of all sections of the policy file, with the position of every error",
	"flashsale/verify/inventorytest lines": "thirteen rules and every method of an inventory share one tester, whose helpers a split would export",
	"flashsale/meminventory lines":         "the queue, the units, the tokens and the stream of a sale are state of one goroutine",
	"flashsale/ledger lines":               "orders, payments and their events change together in one transaction; a split would export its rows",
	"flashsale/verify/ledgertest lines":    "the rules and the methods of a ledger, which share one tester",
	"flashsale/shop lines":                 "the services and the workers of a sale share one snapshot of it; a split would export that",
}

// TestSizes holds packages, types and files to the sizes above. With -v it prints the largest
// packages and types.
func TestSizes(t *testing.T) {
	packages, large, err := sizes(os.DirFS("."))
	if err != nil {
		t.Fatal(err)
	}
	names, methods := map[string]int{}, map[string]int{}
	for dir, c := range packages {
		names[dir] = c.names
		for typ, n := range c.methods {
			methods[dir+"."+typ] = n
		}
	}
	t.Logf("exported names:%s", largest(names))
	t.Logf("methods of a type:%s", largest(methods))
	for _, what := range slices.Sorted(maps.Keys(large)) {
		if largeFor[what] == "" {
			t.Errorf("%s: %s: make it smaller, or give a reason in largeFor", what, large[what])
		}
	}
	for what := range largeFor {
		if large[what] == "" {
			t.Errorf("largeFor has %q, which is not too large: remove the row", what)
		}
	}
}

// largest returns the 25 largest counts, one in a line.
func largest(counts map[string]int) string {
	names := slices.SortedFunc(maps.Keys(counts), func(a, b string) int {
		return cmp.Or(counts[b]-counts[a], strings.Compare(a, b))
	})
	var b strings.Builder
	for _, name := range names[:min(25, len(names))] {
		fmt.Fprintf(&b, "\n%6d %s", counts[name], name)
	}
	return b.String()
}

// counts has the sizes of one package.
type counts struct {
	names, lines int
	methods      map[string]int // by type
}

// sizes returns the sizes of packages, and what exceeds a size, with the figure.
func sizes(tree fs.FS) (packages map[string]*counts, large map[string]string, err error) {
	packages, large = map[string]*counts{}, map[string]string{}
	fset := token.NewFileSet()
	err = fs.WalkDir(tree, ".", func(name string, d fs.DirEntry, err error) error {
		base := path.Base(name)
		switch {
		case err != nil:
			return err
		case d.IsDir() && name != "." && (base == "testdata" || base == "node_modules" || base[0] == '.' || base[0] == '_'):
			return fs.SkipDir
		case d.IsDir() || path.Ext(name) != ".go" || strings.HasSuffix(name, "_test.go"):
			return nil
		}
		src, err := fs.ReadFile(tree, name)
		if err != nil {
			return err
		}
		f, err := parser.ParseFile(fset, name, src, parser.SkipObjectResolution)
		if err != nil {
			return err
		}
		dir := path.Dir(name)
		if dir == "." {
			dir = "weir"
		}
		c := packages[dir]
		if c == nil {
			c = &counts{methods: map[string]int{}}
			packages[dir] = c
		}
		lines := strings.Count(string(src), "\n")
		c.lines += lines
		if lines > maxFile {
			large[name] = fmt.Sprintf("%d lines, want %d or fewer", lines, maxFile)
		}
		for _, d := range f.Decls {
			switch x := d.(type) {
			case *ast.FuncDecl:
				if x.Recv != nil {
					c.methods[receiver(x.Recv.List[0].Type)]++
				} else if x.Name.IsExported() {
					c.names++
				}
			case *ast.GenDecl:
				for _, s := range x.Specs {
					switch y := s.(type) {
					case *ast.TypeSpec:
						if y.Name.IsExported() {
							c.names++
						}
					case *ast.ValueSpec:
						for _, n := range y.Names {
							if n.IsExported() {
								c.names++
							}
						}
					}
				}
			}
		}
		return nil
	})
	for dir, c := range packages {
		limit := maxNames
		if dir == "weir" {
			limit = maxRootNames
		}
		// Other packages of a program are not an API.
		if c.names > limit && (dir == "weir" || library(dir+"/")) {
			large[dir+" names"] = fmt.Sprintf("%d exported names, want %d or fewer", c.names, limit)
		}
		if c.lines > maxPackage {
			large[dir+" lines"] = fmt.Sprintf("%d lines, want %d or fewer", c.lines, maxPackage)
		}
		for t, n := range c.methods {
			if n > maxMethods {
				large[dir+"."+t+" methods"] = fmt.Sprintf("%d methods, want %d or fewer", n, maxMethods)
			}
		}
	}
	return packages, large, err
}

// receiver returns the name of the type of a method.
func receiver(e ast.Expr) string {
	for {
		switch x := e.(type) {
		case *ast.StarExpr:
			e = x.X
		case *ast.IndexExpr:
			e = x.X
		case *ast.IndexListExpr:
			e = x.X
		case *ast.Ident:
			return x.Name
		default:
			return ""
		}
	}
}

// TestSizesBreach shows that each size can be exceeded.
func TestSizesBreach(t *testing.T) {
	for want, text := range map[string]string{
		"policy.T methods": "package policy\ntype t int\n" + repeat("func (*T[X]) m%d() {}\n", maxMethods+1),
		"policy/p.go":      "package policy\n" + strings.Repeat("\n", maxFile),
	} {
		_, large, err := sizes(fstest.MapFS{"policy/p.go": &fstest.MapFile{Data: []byte(text)}})
		if err != nil {
			t.Fatal(err)
		}
		if large[want] == "" {
			t.Errorf("sizes = %v, want a finding %q", large, want)
		}
	}
}

// repeat formats text once for each number below n.
func repeat(text string, n int) string {
	var b strings.Builder
	for i := range n {
		fmt.Fprintf(&b, text, i)
	}
	return b.String()
}
