package vetcheck

import (
	"go/ast"
	"go/token"
	"go/types"
	"strings"

	"golang.org/x/tools/go/analysis"

	"github.com/floodweir/weir/cmd/weir/internal/directive"
)

// mark replaces a directive in woven files: see package weave.
const mark = "//weir:woven"

const name = "weirlimit"

// note is the category of a diagnostic that does not fail the check.
const note = "note"

// Analyzer returns the check for programs that run analyzers.
func Analyzer() *analysis.Analyzer {
	return &analysis.Analyzer{
		Name: name,
		Doc: "report //weir:limit directives that limit nothing\n\n" +
			"A directive is reported if it cannot be followed, if this build neither weaves it (weir go build)\n" +
			"nor has the code that weir generate writes, or if that code is about an older directive.",
		Run: func(pass *analysis.Pass) (any, error) {
			for _, d := range examine(pass.Fset, pass.Files, pass.Pkg, pass.TypesInfo) {
				pass.Report(d)
			}
			return nil, nil
		},
	}
}

// examine finds directives of a package without effect.
func examine(fset *token.FileSet, files []*ast.File, pkg *types.Package, info *types.Info) (found []analysis.Diagnostic) {
	report := func(pos token.Pos, message string) {
		found = append(found, analysis.Diagnostic{Pos: pos, Message: message})
	}
	sites, faults := directive.Find(fset, files, pkg, info)
	for _, f := range faults {
		report(f.Pos, f.Message)
	}
	generatedIn(fset, files, pkg).check(sites, report)
	noted := map[token.Pos]bool{} // the directive of an interface has a site for each method
	for _, s := range sites {
		for _, n := range s.Directive.Notes {
			pos := s.Pos + token.Pos(len(directive.Prefix)+n.At)
			if !noted[pos] {
				noted[pos] = true
				found = append(found, analysis.Diagnostic{Pos: pos, Category: note, Message: n.Message})
			}
		}
	}
	for _, f := range files {
		for _, c := range marks(fset, f) {
			report(c.Pos(), mark+" limits nothing: want "+directive.Prefix+"; the mark stands in woven copies alone")
		}
	}
	return found
}

// marks returns the marks of weaving in a file that is not woven, which would hide a
// directive.
func marks(fset *token.FileSet, f *ast.File) (found []*ast.Comment) {
	for _, g := range f.Comments {
		for _, c := range g.List {
			if strings.HasPrefix(c.Text, mark) && fset.PositionFor(c.Pos(), false).Filename == fset.Position(c.Pos()).Filename {
				found = append(found, c)
			}
		}
	}
	return found
}
