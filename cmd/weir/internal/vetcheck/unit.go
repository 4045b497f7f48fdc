package vetcheck

import (
	"bytes"
	"fmt"
	"go/ast"
	"go/importer"
	"go/parser"
	"go/token"
	"go/types"
	"io"
	"os"

	"golang.org/x/tools/go/analysis/unitchecker"

	"github.com/floodweir/weir/cmd/weir/internal/directive"
)

// A unit is one package as the go command describes it. Package unitchecker would read
// the types of imports from earlier results, for every package of the build, also the
// standard library. Here they come from compiled packages, and packages without
// directives are skipped.
type unit struct{ unitchecker.Config }

// check finds faults in the directives of the unit.
func (u *unit) check() ([]finding, error) {
	if u.VetxOnly {
		return nil, nil
	}
	word := false
	for _, file := range u.GoFiles {
		text, err := os.ReadFile(file)
		if err != nil {
			return nil, err
		}
		word = word || directive.Mentioned(text) || bytes.HasPrefix(text, []byte(header))
	}
	if !word {
		return nil, nil
	}
	fset := token.NewFileSet()
	var files []*ast.File
	for _, name := range u.GoFiles {
		f, err := parser.ParseFile(fset, name, nil, parser.ParseComments|parser.SkipObjectResolution)
		if err != nil {
			return nil, err
		}
		files = append(files, f)
	}
	conf := types.Config{GoVersion: u.GoVersion, Importer: u.importer(fset)}
	info := &types.Info{Types: map[ast.Expr]types.TypeAndValue{}, Defs: map[*ast.Ident]types.Object{}, Uses: map[*ast.Ident]types.Object{}}
	pkg, err := conf.Check(u.ImportPath, fset, files, info)
	if err != nil {
		return nil, err
	}
	var found []finding
	for _, d := range examine(fset, files, pkg, info) {
		found = append(found, finding{fset.Position(d.Pos).String(), d.Message, d.Category == note})
	}
	return found, nil
}

// importer reads types from compiled packages.
func (u *unit) importer(fset *token.FileSet) types.Importer {
	gc := importer.ForCompiler(fset, "gc", func(path string) (io.ReadCloser, error) {
		file, ok := u.PackageFile[path]
		if !ok {
			return nil, fmt.Errorf("package %s is not compiled", path)
		}
		return os.Open(file)
	})
	return mapped{u.ImportMap, gc}
}

// mapped resolves the import paths of the unit: vendored packages, and those compiled
// for a test.
type mapped struct {
	paths map[string]string
	next  types.Importer
}

func (m mapped) Import(path string) (*types.Package, error) {
	if p, ok := m.paths[path]; ok {
		path = p
	}
	return m.next.Import(path)
}
