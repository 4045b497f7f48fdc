package vetcheck

import (
	"go/ast"
	"go/token"
	"strings"

	"golang.org/x/tools/go/analysis"

	"github.com/floodweir/weir/cmd/weir/internal/directive"
	"github.com/floodweir/weir/cmd/weir/internal/wrapper"
)

// mark stands in woven files where a directive was: see package weave.
const mark = "//weir:woven"

// Analyzer is the check for whoever runs analyzers.
func Analyzer() *analysis.Analyzer {
	return &analysis.Analyzer{
		Name: "weirlimit",
		Doc: "report //weir:limit directives that limit nothing\n\n" +
			"A directive is reported if it cannot be followed, if this build neither weaves it (weir go build)\n" +
			"nor has the code that weir generate writes, or if that code is about an older directive.",
		Run: check,
	}
}

func check(pass *analysis.Pass) (any, error) {
	sites, faults := directive.Find(pass.Fset, pass.Files, pass.Pkg, pass.TypesInfo)
	for _, f := range faults {
		pass.Report(analysis.Diagnostic{Pos: f.Pos, Message: f.Message})
	}
	said := map[token.Pos]bool{} // a directive on an interface has many sites
	for _, s := range sites {
		if message := missing(pass, s); message != "" && !said[s.Pos] {
			said[s.Pos] = true
			pass.Report(analysis.Diagnostic{Pos: s.Pos, Message: message})
		}
	}
	for _, f := range pass.Files {
		marks(pass, f)
	}
	return nil, nil
}

// missing is what there is to say of a directive that can be followed; "" if it is.
func missing(pass *analysis.Pass, s *directive.Site) string {
	v := pass.Pkg.Scope().Lookup(wrapper.VarName(s))
	if v != nil && strings.HasSuffix(pass.Fset.Position(v.Pos()).Filename, "_weir.go") {
		return ""
	}
	if s.Interface != nil {
		return "the limit on interface " + s.Interface.Name() + " is not generated in this build: run weir generate; an interface cannot be woven"
	}
	return "the limit on " + s.Func.Name() + " is not woven or generated in this build: use weir go in place of go, or run weir generate"
}

// marks reports the mark of weaving in files that are not woven: whoever writes it
// there would hide a directive from everybody.
func marks(pass *analysis.Pass, f *ast.File) {
	for _, g := range f.Comments {
		for _, c := range g.List {
			if !strings.HasPrefix(c.Text, mark) {
				continue
			}
			if at := pass.Fset.PositionFor(c.Pos(), false); at.Filename == pass.Fset.Position(c.Pos()).Filename {
				pass.Report(analysis.Diagnostic{Pos: c.Pos(), Message: mark + " limits nothing: want " + directive.Prefix + "; the mark stands in woven copies alone"})
			}
		}
	}
}
