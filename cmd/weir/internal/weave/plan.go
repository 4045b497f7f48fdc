package weave

import (
	"cmp"
	"fmt"
	"go/ast"
	"go/token"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"

	"golang.org/x/tools/go/packages"

	"github.com/floodweir/weir/cmd/weir/internal/directive"
	"github.com/floodweir/weir/cmd/weir/internal/wrapper"
	"github.com/floodweir/weir/guard"
)

const guardPath = "github.com/floodweir/weir/guard"

// woven is what weaving came to.
type woven struct {
	Replace map[string]string
	Added   []string // those of Replace that are not on disk
}

// A fault is what is wrong with a directive.
type fault struct {
	at      token.Position
	message string
}

// A weaver makes the overlay of packages with directives.
type weaver struct {
	*loader
	cache  *cache
	woven  woven
	sites  []*directive.Site
	faults []fault
	forged bool     // that somebody has written the mark of weaving
	broken []string // the packages that do not compile
}

// weave weaves typed packages.
func (w *weaver) weave(pkgs []*packages.Package) error {
	w.woven = woven{Replace: map[string]string{}}
	units := map[string][]*packages.Package{} // by import path: the package, then as its tests have it
	for _, p := range pkgs {
		switch {
		case strings.HasSuffix(p.PkgPath, ".test") && p.Name == "main":
		case len(p.Errors) > 0 || p.IllTyped:
			w.broken = append(w.broken, p.PkgPath)
		case p.ForTest == "" || p.PkgPath == p.ForTest+"_test":
			units[p.PkgPath] = append([]*packages.Package{p}, units[p.PkgPath]...)
		case p.PkgPath == p.ForTest:
			units[p.PkgPath] = append(units[p.PkgPath], p)
		}
	}
	for _, path := range slices.Sorted(maps.Keys(units)) {
		unit := units[path]
		all := unit[len(unit)-1] // has every file
		taken := identifiers(all.Syntax)
		for i, p := range unit {
			tests := i > 0 || p.ForTest != ""
			if err := w.unit(p, tests, taken); err != nil {
				return err
			}
		}
	}
	for _, f := range directive.Clashes(w.fset, w.sites) {
		w.fault(f)
	}
	slices.SortFunc(w.faults, func(a, b fault) int {
		return cmp.Or(cmp.Compare(a.at.Filename, b.at.Filename), cmp.Compare(a.at.Line, b.at.Line), cmp.Compare(a.at.Column, b.at.Column))
	})
	return nil
}

func (w *weaver) fault(f directive.Fault) {
	at := w.fset.Position(f.Pos)
	if rel, err := filepath.Rel(w.dir, at.Filename); err == nil && len(rel) < len(at.Filename) {
		at.Filename = rel // as the go command says it
	}
	if said := (fault{at, f.Message}); !slices.Contains(w.faults, said) {
		w.faults = append(w.faults, said)
	}
}

// marks finds the mark of weaving where somebody has written it: it would hide a
// directive from the checker.
func (w *weaver) marks(p *packages.Package) {
	for _, f := range p.Syntax {
		for _, g := range f.Comments {
			for _, c := range g.List {
				if strings.HasPrefix(c.Text, Mark) {
					w.forged = true
					w.fault(directive.Fault{Pos: c.Slash, Message: Mark + " limits nothing: want " + directive.Prefix + "; the mark stands in woven copies alone"})
				}
			}
		}
	}
}

// identifiers are all names in files.
func identifiers(files []*ast.File) map[string]bool {
	names := map[string]bool{}
	for _, f := range files {
		ast.Inspect(f, func(n ast.Node) bool {
			if id, ok := n.(*ast.Ident); ok {
				names[id.Name] = true
			}
			return true
		})
	}
	return names
}

// unit weaves one package: the sites in its tests, or those that are not.
func (w *weaver) unit(p *packages.Package, tests bool, taken map[string]bool) error {
	sites, faults := directive.Find(p.Fset, p.Syntax, p.Types, p.TypesInfo)
	for _, f := range faults {
		w.fault(f)
	}
	w.marks(p)
	free := func(name string) string {
		for n := name; ; n += "_" {
			if !taken[n] {
				taken[n] = true
				return n
			}
		}
	}
	file := wrapper.NewFile(p.Types)
	recv := free("recv")
	names := map[string]map[function]string{} // by file
	wrappers := map[string][]wrapper.Wrapper{}
	for _, s := range sites {
		path := source(p, s.Pos)
		if isTest(path) != tests || generated(p, s) {
			continue
		}
		w.sites = append(w.sites, s)
		if s.Interface != nil {
			w.fault(directive.Fault{Pos: s.Pos, Message: fmt.Sprintf(
				"interface %s: has no body that could be woven; run weir generate, which writes a limited implementation", s.Interface.Name())})
			continue
		}
		name := free("woven" + title(s.Func.Name()))
		wr := wrapper.Wrapper{
			Site: s, Var: free("woven" + title(wrapper.VarName(s))), Made: guard.Woven,
			File: within(p, path), Line: p.Fset.Position(s.Decl.Pos()).Line,
			Name: s.Func.Name(), Target: name,
		}
		if s.Recv != nil {
			t := s.Recv.Name() + wrapper.TypeArgs(s.Func.Signature().RecvTypeParams())
			if s.Pointer() {
				t = "*" + t
			}
			wr.Recv, wr.Owner, wr.Target = wrapper.Receiver{Name: recv, Type: t}, recv, recv+"."+name
		}
		if names[path] == nil {
			names[path] = map[function]string{}
		}
		names[path][function{receiver(s.Decl), s.Func.Name()}] = name
		wrappers[path] = append(wrappers[path], wr)
	}
	if len(w.faults) > 0 && w.command.verb != "vet" || len(names) == 0 {
		return nil
	}
	if err := w.requires(p); err != nil {
		return err
	}
	var code strings.Builder
	for _, path := range slices.Sorted(maps.Keys(names)) {
		src, err := w.overlay.read(path)
		if err != nil {
			return fmt.Errorf("weave: %w", err)
		}
		out, at, err := rewrite(path, src, names[path])
		if err != nil {
			return err
		}
		if w.woven.Replace[path], err = w.cache.keep(out, ".go"); err != nil {
			return err
		}
		for _, wr := range wrappers[path] {
			place := at[function{receiver(wr.Site.Decl), wr.Name}]
			code.WriteString(placed(file.Guard(wr), place) + "\n" + placed(file.Func(wr), place) + "\n")
		}
	}
	return w.add(p, tests, "package "+p.Types.Name()+"\n\n"+file.Imports()+code.String())
}

// add adds a file to a package. Its name comes before all others: variables of a package
// come to be in the order of its files, and a variable of the user's may call a limited
// function so that the compiler does not see which guard has to be there before.
func (w *weaver) add(p *packages.Package, tests bool, code string) error {
	var path string
	for i := 1; ; i++ {
		name := "0-weir-woven"
		if i > 1 {
			name += fmt.Sprint(i)
		}
		if strings.HasSuffix(p.Types.Name(), "_test") {
			name += "_x"
		}
		if tests {
			name += "_test"
		}
		path = filepath.Join(filepath.Dir(p.GoFiles[0]), name+".go")
		if _, ok := w.overlay.Replace[path]; ok || w.woven.Replace[path] != "" {
			continue
		}
		if _, err := os.Lstat(path); os.IsNotExist(err) {
			break
		}
	}
	kept, err := w.cache.keep([]byte(code), ".go")
	if err != nil {
		return err
	}
	w.woven.Replace[path] = kept
	w.woven.Added = append(w.woven.Added, path)
	return nil
}

// generated reports whether weir generate has written a guard for a site.
func generated(p *packages.Package, s *directive.Site) bool {
	v := p.Types.Scope().Lookup(wrapper.VarName(s))
	return v != nil && strings.HasSuffix(p.Fset.Position(v.Pos()).Filename, "_weir.go")
}

// source is the file of the user's that a position is in. Files of cgo are read after it
// has rewritten them, and say where they come from.
func source(p *packages.Package, pos token.Pos) string {
	if f := p.Fset.PositionFor(pos, false).Filename; slices.Contains(p.GoFiles, f) {
		return f
	}
	return p.Fset.Position(pos).Filename
}

func title(name string) string {
	r, n := utf8.DecodeRuneInString(name)
	return string(unicode.ToUpper(r)) + name[n:]
}

func isTest(path string) bool { return strings.HasSuffix(path, "_test.go") }

// within is a path for people: below the module's directory.
func within(p *packages.Package, path string) string {
	if p.Module != nil && p.Module.Dir != "" {
		if rel, err := filepath.Rel(p.Module.Dir, path); err == nil && filepath.IsLocal(rel) {
			return filepath.ToSlash(rel)
		}
	}
	return filepath.Base(path)
}
