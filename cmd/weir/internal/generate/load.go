package generate

import (
	"context"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"

	"golang.org/x/tools/go/packages"

	"github.com/floodweir/weir/cmd/weir/internal/directive"
)

// A generator reads the packages of one load.
type generator struct {
	dir    string
	fset   *token.FileSet
	known  map[string]*packages.Package // every package that was loaded
	guard  error                        // why package guard cannot be imported
	faults []string
	files  []File
}

// load loads the packages, and package guard, which the generated code imports.
func (g *generator) load(ctx context.Context, c Config) ([]*packages.Package, error) {
	patterns := c.Patterns
	if len(patterns) == 0 {
		patterns = []string{"."}
	}
	for _, p := range patterns {
		if strings.HasSuffix(p, ".go") {
			return nil, fmt.Errorf("generate: %s: want packages, as . or ./..., and not a file", p)
		}
	}
	g.fset, g.known = token.NewFileSet(), map[string]*packages.Package{}
	// Types of dependencies come from source: one of them may itself not compile before
	// it has its generated file.
	const mode = packages.NeedName | packages.NeedFiles | packages.NeedCompiledGoFiles | packages.NeedImports |
		packages.NeedDeps | packages.NeedTypes | packages.NeedSyntax | packages.NeedTypesInfo | packages.NeedTypesSizes | packages.NeedModule
	loaded, err := packages.Load(&packages.Config{
		Mode: mode, Context: ctx, Dir: g.dir, Env: c.Env, Fset: g.fset, ParseFile: parseFor(goroot(ctx, g.dir, c.Env)),
	}, append(slices.Clone(patterns), guardPath)...)
	if err != nil {
		return nil, fmt.Errorf("generate: load %s: %s", strings.Join(patterns, " "), cleaned(err))
	}
	var roots []*packages.Package
	for _, p := range loaded {
		if p.PkgPath != guardPath {
			roots = append(roots, p)
			continue
		}
		for _, e := range p.Errors {
			g.guard = fmt.Errorf("the generated code imports %s, which this module does not have: run go get github.com/floodweir/weir (go list: %s)", guardPath, oneLine(e.Msg))
			break
		}
	}
	packages.Visit(loaded, nil, func(p *packages.Package) { g.known[p.PkgPath] = p })
	slices.SortFunc(roots, func(a, b *packages.Package) int { return strings.Compare(a.PkgPath, b.PkgPath) })
	for _, p := range roots {
		if len(p.GoFiles) == 0 && len(p.Errors) > 0 {
			return nil, fmt.Errorf("generate: load %s: %s", strings.Join(patterns, " "), oneLine(p.Errors[0].Msg))
		}
	}
	return roots, nil
}

// goroot returns the directory of the standard library, or "" if the go command does not work.
func goroot(ctx context.Context, dir string, env []string) string {
	cmd := exec.CommandContext(ctx, "go", "env", "GOROOT")
	cmd.Dir, cmd.Env = dir, env
	out, err := cmd.Output()
	if err != nil {
		return "" // packages.Load returns the error
	}
	return strings.TrimSpace(string(out))
}

// parseFor returns a parser of files. It leaves out the function bodies of the standard library,
// whose types do not depend on them: checking them takes half the time of a load.
func parseFor(goroot string) func(*token.FileSet, string, []byte) (*ast.File, error) {
	std := filepath.Join(goroot, "src") + string(filepath.Separator)
	return func(fset *token.FileSet, name string, text []byte) (*ast.File, error) {
		if goroot == "" || !strings.HasPrefix(name, std) {
			return parser.ParseFile(fset, name, text, parser.AllErrors|parser.ParseComments)
		}
		file, err := parser.ParseFile(fset, name, text, parser.SkipObjectResolution)
		if err != nil {
			return file, err
		}
		for _, d := range file.Decls {
			if f, ok := d.(*ast.FuncDecl); ok {
				f.Body = nil
			}
		}
		return file, nil
	}
}

// cleaned returns an error of the go command without the text that the driver adds.
func cleaned(err error) string {
	text := err.Error()
	if _, stderr, ok := strings.Cut(text, "stderr:"); ok {
		text = stderr
	}
	return oneLine(text)
}

func oneLine(text string) string {
	return strings.Join(strings.Fields(text), " ")
}

// outside reports directives in files that are not generated for: tests, and files that
// build constraints exclude. Otherwise such a limit would be missing silently.
func (g *generator) outside(p *packages.Package) {
	tests, _ := filepath.Glob(filepath.Join(escape(dirOf(p)), "*_test.go"))
	for _, name := range slices.Concat(tests, p.IgnoredFiles) {
		text, err := os.ReadFile(name)
		if err != nil || !strings.HasSuffix(name, ".go") || !directive.Mentioned(text) {
			continue
		}
		file, _ := parser.ParseFile(g.fset, name, text, parser.ParseComments|parser.SkipObjectResolution)
		if file == nil || strings.TrimSuffix(file.Name.Name, "_test") != p.Name {
			continue
		}
		for _, c := range directive.Comments(file) {
			if strings.HasSuffix(name, "_test.go") {
				g.fault(c.Slash, "%s is in a test, for which nothing is generated: want it elsewhere, or weir go test, which weaves it", directive.Prefix)
			} else {
				g.fault(c.Slash, "%s is in a file that build constraints leave out here: want it in one that is always built", directive.Prefix)
			}
		}
	}
}

// escape returns a pattern that matches only a directory.
func escape(dir string) string {
	return strings.NewReplacer(`[`, `\[`, `*`, `\*`, `?`, `\?`).Replace(dir)
}

// fault records a fault at a position.
func (g *generator) fault(pos token.Pos, format string, args ...any) {
	at := g.fset.PositionFor(pos, false)
	g.faults = append(g.faults, fmt.Sprintf("%s:%d:%d: %s", g.rel(at.Filename), at.Line, at.Column, fmt.Sprintf(format, args...)))
}

// said returns an error of the go command as a fault.
func (g *generator) said(e packages.Error) string {
	if file, rest, ok := strings.Cut(e.Pos, ":"); ok && file != "" {
		return g.rel(file) + ":" + rest + ": " + oneLine(e.Msg)
	}
	return oneLine(e.Msg)
}

// rel returns a path relative to the directory.
func (g *generator) rel(name string) string {
	if r, err := filepath.Rel(g.dir, name); err == nil && !strings.HasPrefix(r, "..") && filepath.IsAbs(name) {
		return r
	}
	return name
}
