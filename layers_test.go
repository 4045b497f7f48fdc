package weir_test

import (
	"cmp"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"go/types"
	"io/fs"
	"maps"
	"os"
	"path"
	"slices"
	"strconv"
	"strings"
	"testing"
)

const home = "github.com/floodweir/weir"

// An outsider's programs use the public packages alone, as everybody's outside of this
// house have to.
const outsider = "flashsale"

// A place is where a package stands in the house.
type place struct {
	floor int
	std   []string // the only standard packages it may import; any if nil
	third []string // the modules of others that it may import; none if nil
}

// house is policy, not a description: imports run down only, from a higher floor
// to a lower one, never sideways or up. A package that is not named here has no
// place and fails the test. To add a package, give it the lowest floor that
// works; to add a module of others, write a decision record first
// (docs/decisions/0001-modules-and-floors.md, 0010-dependencies.md).
//
// A name that ends in /* stands for every package below it.
var house = map[string]place{
	// Arithmetic: no clock, lock, context or I/O. It uses fmt for the errors of its
	// constructors alone, and time for Duration alone.
	"internal/algo": {floor: 0, std: []string{"errors", "fmt", "math", "math/bits", "time"}},

	"memstore/internal/*": {floor: 0}, // data structures that know nothing of limits

	"internal/waitqueue": {floor: 0}, // who waits behind whom

	"": {floor: 1}, // package weir

	"memstore":          {floor: 2},
	"redisstore":        {floor: 2},
	"policy":            {floor: 2},
	"policy/internal/*": {floor: 1},

	"storetest/internal/*": {floor: 2}, // the slow model that stores are compared with

	"lease":     {floor: 3},
	"failover":  {floor: 3},
	"enforce":   {floor: 3}, // what all doors do with policies and a store
	"storetest": {floor: 3},
	"sim":       {floor: 3},

	"httplimit":       {floor: 4},
	"guard":           {floor: 4},
	"guard/instances": {floor: 5}, // which functions a fleet limits, in Redis
	"transport":       {floor: 4},
	"rpclimit":        {floor: 4}, // what doors of remote procedure calls share

	"contrib/rueidis":           {floor: 5, third: []string{"github.com/redis/rueidis"}},
	"contrib/goredis":           {floor: 5, third: []string{"github.com/redis/go-redis/v9"}},
	"contrib/grpc":              {floor: 5, third: []string{"google.golang.org/grpc", "google.golang.org/protobuf", "google.golang.org/genproto"}},
	"contrib/connect":           {floor: 5, third: []string{"connectrpc.com/connect", "google.golang.org/protobuf", "google.golang.org/genproto"}},
	"contrib/gin":               {floor: 5, third: []string{"github.com/gin-gonic/gin"}},
	"contrib/echo":              {floor: 5, third: []string{"github.com/labstack/echo/v5"}},
	"contrib/fiber":             {floor: 5, third: []string{"github.com/gofiber/fiber/v3", "github.com/valyala/fasthttp"}},
	"contrib/failsafe":          {floor: 5, third: []string{"github.com/failsafe-go/failsafe-go"}},
	"weirfile":                  {floor: 5},
	"weirfile/expr":             {floor: 3, third: []string{"cel.dev/cel-go", "cel.dev/expr", "google.golang.org/genproto", "google.golang.org/protobuf"}},
	"weirfile/strict":           {floor: 3, third: []string{"go.yaml.in/yaml/v4"}}, // YAML, and the faults of a file
	"weirfile/internal/grammar": {floor: 3},                                        // what can stand in a file, for its reader and its JSON Schema

	// The doors of the program. None knows another; internal/run joins them.
	"cmd/weir/internal/problem":   {floor: 5}, // an answer that several doors give
	"cmd/weir/internal/ratelimit": {floor: 5}, // the configuration of envoyproxy/ratelimit
	"cmd/weir/internal/nginxconf": {floor: 5}, // an nginx.conf, and the limits in it

	// The directive //weir:limit: what it says, the code that it stands for, and the three
	// that bring it into a program.
	"cmd/weir/internal/directive": {floor: 4},
	"cmd/weir/internal/wrapper":   {floor: 5},
	"cmd/weir/internal/generate":  {floor: 6, third: []string{"golang.org/x/tools"}},
	"cmd/weir/internal/weave":     {floor: 6, third: []string{"golang.org/x/tools"}},
	"cmd/weir/internal/vetcheck":  {floor: 6, third: []string{"golang.org/x/tools"}},

	"cmd/weir/internal/rls": {floor: 6, third: []string{
		"github.com/envoyproxy/go-control-plane/envoy", "google.golang.org/grpc", "google.golang.org/protobuf",
	}},
	"cmd/weir/internal/respd":     {floor: 6, third: []string{"github.com/tidwall/redcon"}},
	"cmd/weir/internal/metrics":   {floor: 6, third: []string{"github.com/prometheus/client_golang"}},
	"cmd/weir/internal/telemetry": {floor: 6, third: []string{"go.opentelemetry.io/otel", "go.opentelemetry.io/contrib", "github.com/prometheus/client_golang", "google.golang.org/grpc"}},
	"cmd/weir/internal/watch":     {floor: 6, third: []string{"github.com/fsnotify/fsnotify"}},
	"cmd/weir/internal/*":         {floor: 6},
	"cmd/weir/internal/run":       {floor: 7, third: []string{"google.golang.org/grpc"}},
	"cmd/weir/internal/cli":       {floor: 8, third: []string{"github.com/spf13/cobra"}},
	"cmd/weir":                    {floor: 9},

	// The flash sale: a program of its own on the public packages, as anybody's would be.
	"flashsale/sale":                 {floor: 6}, // its words
	"flashsale/pass":                 {floor: 7}, // what is signed: sessions, tickets, receipts
	"flashsale/verify/inventorytest": {floor: 7}, // the suite that every Gate runs
	"flashsale/verify/ledgertest":    {floor: 7}, // the suite that every Ledger runs
	"flashsale/meminventory":         {floor: 7}, // a Gate in this process
	"flashsale/redisinventory":       {floor: 7, third: []string{"github.com/redis/rueidis"}},
	"flashsale/ledger":               {floor: 7, third: []string{"github.com/jackc/pgx/v5", "modernc.org/sqlite", "github.com/google/uuid"}},
	"flashsale/verify/auditor":       {floor: 7, third: []string{"github.com/jackc/pgx/v5", "modernc.org/sqlite", "github.com/redis/rueidis"}},
	"flashsale/verify/lab":           {floor: 7, third: []string{"github.com/redis/rueidis"}}, // the lock question, with evidence
	"flashsale/front":                {floor: 7},                                              // what stands before it: nginx, the gateway
	"flashsale/shop":                 {floor: 8, third: []string{"github.com/google/uuid"}},
	"flashsale/layers":               {floor: 7, third: []string{"github.com/prometheus/client_golang"}}, // the limits before the shop
	"flashsale/wire":                 {floor: 8},                                                         // how the two below read and answer
	"flashsale/verify/load":          {floor: 8, third: []string{"github.com/valyala/fasthttp"}},
	"flashsale/pages":                {floor: 8},
	"flashsale/verify/webtest":       {floor: 8},                                                                                      // the suite that every way to the shop runs
	"flashsale/web":                  {floor: 9},                                                                                      // for buyers
	"flashsale/office":               {floor: 9, third: []string{"golang.org/x/crypto"}},                                              // for merchants
	"flashsale/run":                  {floor: 10, third: []string{"github.com/redis/rueidis", "github.com/prometheus/client_golang"}}, // where its parts meet
	"flashsale/cli":                  {floor: 11, third: []string{"github.com/spf13/cobra"}},
	"flashsale":                      {floor: 12},

	// Never tagged and never imported by what stands below.
	"benchmarks": {floor: 13},
	"examples/*": {floor: 13, third: []string{"github.com/ThreeDotsLabs/watermill", "github.com/go-chi/chi/v5"}},
	"edge/nginx": {floor: 0}, // the Lua of the edge, embedded
	"e2e/*":      {floor: 13, third: []string{"github.com/redis/rueidis", "github.com/redis/go-redis/v9", "github.com/jackc/pgx/v5"}},

	// Programs for building and testing; they stand beside the house.
	"tools/*": {floor: 0},
}

// TestFloors reads every Go file of every module.
func TestFloors(t *testing.T) {
	broken, files, err := inspect(os.DirFS("."))
	if err != nil {
		t.Fatal(err)
	}
	for _, b := range broken {
		t.Error(b)
	}
	if files < 10 {
		t.Errorf("inspected %d files, want the whole tree", files)
	}
}

// inspect returns every breach of policy in tree, and how many files it read.
func inspect(tree fs.FS) (broken []string, files int, err error) {
	in := inspector{fset: token.NewFileSet(), packages: map[string][]*ast.File{}}
	var sources []string
	err = fs.WalkDir(tree, ".", func(name string, d fs.DirEntry, err error) error {
		base := path.Base(name)
		switch {
		case err != nil:
			return err
		case d.IsDir():
			if name != "." && (base == "testdata" || base == "node_modules" || base[0] == '.' || base[0] == '_') {
				return fs.SkipDir
			}
		case base == "go.mod":
			return in.module(tree, name)
		case name == "go.sum":
			in.report(name, "the library requires nothing, so it has no go.sum")
		case path.Ext(name) == ".go":
			sources = append(sources, name)
		}
		return nil
	})
	if err != nil {
		return nil, 0, err
	}
	for _, name := range sources {
		src, err := fs.ReadFile(tree, name)
		if err != nil {
			return nil, 0, err
		}
		f, err := parser.ParseFile(in.fset, name, src, parser.SkipObjectResolution)
		if err != nil {
			return nil, 0, err
		}
		in.file(name, f)
	}
	for _, dir := range slices.Sorted(maps.Keys(in.packages)) {
		in.state(in.packages[dir])
	}
	return in.broken, len(sources), nil
}

type inspector struct {
	fset     *token.FileSet
	modules  []string               // the directories of the modules but the library's
	packages map[string][]*ast.File // by directory, without tests
	broken   []string
}

func (in *inspector) report(where, format string, args ...any) {
	in.broken = append(in.broken, where+": "+fmt.Sprintf(format, args...))
}

func (in *inspector) at(n ast.Node) string { return in.fset.Position(n.Pos()).String() }

// module checks that a module is named as it is placed, and that the library's
// own requires nothing.
func (in *inspector) module(tree fs.FS, name string) error {
	text, err := fs.ReadFile(tree, name)
	if dir := path.Dir(name); dir != "." {
		in.modules = append(in.modules, dir)
	}
	want := path.Join(home, path.Dir(name))
	for line := range strings.Lines(string(text)) {
		word, rest, _ := strings.Cut(strings.TrimSpace(line), " ")
		switch {
		case word == "module" && rest != want:
			in.report(name, "module %s stands where %s belongs", rest, want)
		case word == "require" && want == home:
			in.report(name, "the library is standard library only: require %s", rest)
		}
	}
	return err
}

// file checks the imports and the calls of one file.
func (in *inspector) file(name string, f *ast.File) {
	test := strings.HasSuffix(name, "_test.go")
	dir := path.Dir(name)
	own := strings.TrimPrefix(dir, ".")
	p, ok := placeOf(own)
	if !ok && !test {
		in.report(name, "package %s has no floor", path.Join(home, own))
		return
	}
	for _, s := range f.Imports {
		imported, _ := strconv.Unquote(s.Path.Value)
		if !test {
			in.imported(in.at(s), own, p, imported)
		}
		if in.library(dir) && !in.library(strings.TrimPrefix(strings.TrimPrefix(imported, home), "/")) && !isStd(imported) {
			in.report(in.at(s), "the library and its tests are standard library only: imports %s", imported)
		}
	}
	for _, d := range f.Decls {
		if fn, ok := d.(*ast.FuncDecl); ok && fn.Name.Name == "init" && fn.Recv == nil {
			in.report(in.at(fn), "func init: nothing happens before main, and nothing is registered globally")
		}
	}
	if test {
		in.sleeps(f)
		return
	}
	in.packages[dir] = append(in.packages[dir], f)
	if own == "internal/algo" {
		in.clockless(f)
	}
}

// library reports whether a package, by its directory, is of the library's module.
func (in *inspector) library(dir string) bool {
	return isStd(dir) && !slices.ContainsFunc(in.modules, func(m string) bool {
		return dir == m || strings.HasPrefix(dir, m+"/")
	})
}

// imported checks one import of the package own, which stands at p.
func (in *inspector) imported(where, own string, p place, imported string) {
	rel, ours := strings.CutPrefix(imported+"/", home+"/")
	switch {
	case ours:
		rel = strings.TrimSuffix(rel, "/")
		if strings.HasPrefix(own+"/", outsider+"/") && !strings.HasPrefix(rel, outsider+"/") && strings.Contains("/"+rel+"/", "/internal/") {
			in.report(where, "%s uses what only Weir may: %s", own, imported)
		}
		if q, ok := placeOf(rel); !ok {
			in.report(where, "imports %s, which has no floor", imported)
		} else if q.floor >= p.floor {
			in.report(where, "%s on floor %d imports %s on floor %d: imports run down only",
				cmp.Or(own, "weir"), p.floor, cmp.Or(rel, "weir"), q.floor)
		}
	case isStd(imported):
		if imported == "unsafe" || imported == "C" || p.std != nil && !slices.Contains(p.std, imported) {
			in.report(where, "%s may not import %s", cmp.Or(own, "weir"), imported)
		}
	case !slices.ContainsFunc(p.third, func(m string) bool { return imported == m || strings.HasPrefix(imported, m+"/") }):
		in.report(where, "%s may not import %s: a dependency is a decision", cmp.Or(own, "weir"), imported)
	}
}

// placeOf finds the row of a package: its own, or the longest that ends in /*.
func placeOf(pkg string) (place, bool) {
	if p, ok := house[pkg]; ok {
		return p, true
	}
	for dir := path.Dir(pkg); dir != "."; dir = path.Dir(dir) {
		if p, ok := house[dir+"/*"]; ok {
			return p, true
		}
	}
	return place{}, false
}

// isStd reports whether an import path is the standard library's: its first
// element has no dot.
func isStd(imported string) bool {
	first, _, _ := strings.Cut(imported, "/")
	return !strings.Contains(first, ".")
}

// clockless allows nothing of package time but durations.
func (in *inspector) clockless(f *ast.File) {
	durations := []string{"Duration", "Nanosecond", "Microsecond", "Millisecond", "Second", "Minute", "Hour"}
	ast.Inspect(f, func(n ast.Node) bool {
		if s, ok := n.(*ast.SelectorExpr); ok && isName(s.X, localName(f, "time")) && !slices.Contains(durations, s.Sel.Name) {
			in.report(in.at(s), "arithmetic has no clock: time.%s", s.Sel.Name)
		}
		return true
	})
}

// sleeps forbids waiting for real time in a test, and skipping one. Under
// testing/synctest a sleep is how fake time passes.
func (in *inspector) sleeps(f *ast.File) {
	ast.Inspect(f, func(n ast.Node) bool {
		if c, ok := n.(*ast.CallExpr); ok {
			if s, ok := c.Fun.(*ast.SelectorExpr); ok && isName(s.X, localName(f, "testing/synctest")) {
				return false
			}
		}
		s, ok := n.(*ast.SelectorExpr)
		switch {
		case !ok:
		case isName(s.X, localName(f, "time")) && s.Sel.Name == "Sleep":
			in.report(in.at(s), "time.Sleep in a test: wait for what happens, or use testing/synctest")
		case (isName(s.X, "t") || isName(s.X, "b") || isName(s.X, "f")) && strings.HasPrefix(s.Sel.Name, "Skip"):
			in.report(in.at(s), "a skipped test shows nothing")
		}
		return true
	})
}

// localName is what f calls a package that it imports; "" if it does not.
func localName(f *ast.File, imported string) string {
	for _, s := range f.Imports {
		if s.Path.Value == strconv.Quote(imported) {
			if s.Name != nil {
				return s.Name.Name
			}
			return path.Base(imported)
		}
	}
	return ""
}

func isName(e ast.Expr, name string) bool {
	id, ok := e.(*ast.Ident)
	return ok && name != "" && id.Name == name
}

// state forbids variables of a package that change: ones that its functions
// assign to, take the address of or delete from, and ones made of locks and
// atomics. (A sync.Pool means nothing to anybody, and sync.OnceValue is a
// constant that is computed late.)
func (in *inspector) state(files []*ast.File) {
	info := &types.Info{Uses: map[*ast.Ident]types.Object{}}
	conf := types.Config{Error: func(error) {}} // imports are not resolved, names of this package are
	pkg, _ := conf.Check("p", in.fset, files, info)
	changed := func(e ast.Expr) {
		for {
			switch x := e.(type) {
			case *ast.IndexExpr:
				e = x.X
			case *ast.SelectorExpr:
				e = x.X
			case *ast.StarExpr:
				e = x.X
			case *ast.ParenExpr:
				e = x.X
			case *ast.Ident:
				if v, ok := info.Uses[x].(*types.Var); ok && v.Parent() == pkg.Scope() {
					in.report(in.at(x), "package variable %s changes: state belongs to a value that someone makes", x.Name)
				}
				return
			default:
				return
			}
		}
	}
	for _, f := range files {
		ast.Inspect(f, func(n ast.Node) bool {
			switch x := n.(type) {
			case *ast.AssignStmt:
				for _, e := range x.Lhs {
					changed(e)
				}
			case *ast.IncDecStmt:
				changed(x.X)
			case *ast.UnaryExpr:
				if x.Op == token.AND {
					changed(x.X)
				}
			case *ast.CallExpr:
				if isName(x.Fun, "delete") || isName(x.Fun, "clear") {
					changed(x.Args[0])
				}
			}
			return true
		})
		for _, d := range f.Decls {
			if g, ok := d.(*ast.GenDecl); ok && g.Tok == token.VAR {
				in.locks(f, g)
			}
		}
	}
}

// locks forbids package variables made of sync and sync/atomic.
func (in *inspector) locks(f *ast.File, g *ast.GenDecl) {
	ast.Inspect(g, func(n ast.Node) bool {
		if _, ok := n.(*ast.FuncLit); ok {
			return false
		}
		s, ok := n.(*ast.SelectorExpr)
		if ok && (isName(s.X, localName(f, "sync")) && s.Sel.Name != "Pool" && !strings.HasPrefix(s.Sel.Name, "OnceValue") ||
			isName(s.X, localName(f, "sync/atomic"))) {
			in.report(in.at(s), "package variable with a %s: state belongs to a value that someone makes", s.Sel.Name)
		}
		return true
	})
}
