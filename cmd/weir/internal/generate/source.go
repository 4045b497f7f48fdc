package generate

import (
	"errors"
	"fmt"
	"go/ast"
	"go/format"
	"go/parser"
	"go/token"
	"go/types"
	"path/filepath"
	"strings"
	"unicode"
	"unicode/utf8"

	"golang.org/x/tools/go/packages"

	"github.com/floodweir/weir/cmd/weir/internal/directive"
	"github.com/floodweir/weir/cmd/weir/internal/wrapper"
	"github.com/floodweir/weir/guard"
)

// A source is the file of one package under construction.
type source struct {
	g      *generator
	p      *packages.Package
	files  []*ast.File // of the package, without generated ones
	mine   map[string]string
	target string

	out  *wrapper.File
	used map[string]token.Position // what the file declares, and for which directive
	b    strings.Builder
}

// write returns the text of the file.
func (s *source) write(sites []*directive.Site) string {
	s.out, s.used = wrapper.NewFile(s.p.Types), map[string]token.Position{}
	for i, site := range sites {
		switch {
		case site.Recv == nil:
			s.function(site)
		case first(sites, site.Recv) == i:
			s.decorator(of(sites, site.Recv))
		}
	}
	text := fmt.Sprintf("%s\n\npackage %s\n\n%s%s", Header, s.p.Name, s.out.Imports(), s.b.String())
	clean, err := format.Source([]byte(text))
	if err != nil {
		s.g.fault(sites[0].Pos, "code for %s is not Go: %v", s.p.Name, err)
		return text
	}
	return string(clean)
}

func first(sites []*directive.Site, recv *types.TypeName) int {
	for i, s := range sites {
		if s.Recv == recv {
			return i
		}
	}
	return -1
}

func of(sites []*directive.Site, recv *types.TypeName) (some []*directive.Site) {
	for _, s := range sites {
		if s.Recv == recv {
			some = append(some, s)
		}
	}
	return some
}

// limited returns the name of a wrapper: the name with a prefix, exported if the name
// is.
func limited(before, name string) string {
	r, n := utf8.DecodeRuneInString(name)
	words := before + string(unicode.ToUpper(r)) + name[n:]
	if !token.IsExported(name) {
		return words
	}
	r, n = utf8.DecodeRuneInString(words)
	return string(unicode.ToUpper(r)) + words[n:]
}

// claim reserves a name of the package, or reports its use.
func (s *source) claim(site *directive.Site, name string) string {
	at, taken := s.taken(name)
	if taken {
		s.g.fault(site.Pos, "%s: the generated code needs this name for %s, which is declared at %s:%d: rename one of them", name, site.Func.Name(), filepath.Base(at.Filename), at.Line)
	}
	s.used[name] = s.g.fset.PositionFor(site.Pos, false)
	return name
}

// taken reports where a name is already declared.
func (s *source) taken(name string) (token.Position, bool) {
	if at, ok := s.used[name]; ok {
		return at, true
	}
	obj := s.p.Types.Scope().Lookup(name)
	if obj == nil {
		return token.Position{}, false
	}
	at := s.g.fset.PositionFor(obj.Pos(), false)
	_, old := s.mine[at.Filename]
	return at, !old
}

// wrapper returns the fields that all wrappers of a site share.
func (s *source) wrapper(site *directive.Site) wrapper.Wrapper {
	return wrapper.Wrapper{
		Site: site, Var: s.claim(site, wrapper.VarName(site)), BuiltBy: guard.Generated,
		// No line: an edit above a function would make the file stale.
		File: filepath.Base(s.g.fset.PositionFor(site.Place(), false).Filename),
	}
}

// function writes a limited function.
func (s *source) function(site *directive.Site) {
	w := s.wrapper(site)
	w.Target = site.Func.Name()
	w.Name = s.claim(site, limited("limited", w.Target))
	w.Doc = about(w.Name, w.Target, site)
	s.b.WriteString(s.out.Guard(w) + "\n" + s.out.Func(w) + "\n")
}

// decorator writes a type whose methods are limited and that embeds the others.
func (s *source) decorator(sites []*directive.Site) {
	recv := sites[0].Recv
	n := recv.Name()
	params := recv.Type().(*types.Named).TypeParams()
	declared, args := s.out.TypeParams(params), wrapper.TypeArgs(params)
	name, field, next, held := limited("limited", n), n, n+args, ""
	if sites[0].Interface != nil && token.IsExported(n) {
		name = "limited" + n // what is exported is the constructor
	}
	s.claim(sites[0], name)
	constructor := s.claim(sites[0], limited("newLimited", n))
	result := "*" + name + args
	what := "are limited: " + methods(sites)
	if it := sites[0].Interface; it != nil {
		result = next
		if it.Type().Underlying().(*types.Interface).NumMethods() == len(sites) {
			field, held = "next", "next "
			what = "are limited, all of them"
		}
	} else if pointers(recv) {
		next = "*" + next
	}
	for _, site := range sites {
		if site.Func.Name() == field {
			s.g.fault(site.Pos, "method %s: has the name of its type, which the generated type embeds: want another name of one of them", field)
		}
	}
	wrappers := make([]wrapper.Wrapper, len(sites))
	for i, site := range sites {
		wrappers[i] = s.wrapper(site)
		s.b.WriteString(s.out.Guard(wrappers[i]) + "\n")
	}
	fmt.Fprintf(&s.b, "%s", comment(fmt.Sprintf("%s is a %s whose methods %s.", name, strings.TrimSuffix(next, args), what)))
	fmt.Fprintf(&s.b, "type %s%s struct{ %s%s }\n\n", name, declared, held, next)
	fmt.Fprintf(&s.b, "%s", comment(fmt.Sprintf("%s limits next: calls that go past what it returns are not limited.", constructor)))
	fmt.Fprintf(&s.b, "func %s%s(next %s) %s { return &%s%s{next} }\n\n", constructor, declared, next, result, name, args)
	for i, w := range wrappers {
		method := w.Site.Func.Name()
		own := wrapper.TypeArgs(w.Site.Func.Signature().RecvTypeParams())
		if w.Site.Interface != nil {
			own = args
		}
		w.Recv = wrapper.Receiver{Name: "l", Type: "*" + name + own}
		w.Owner = "l." + field
		w.Target = w.Owner + "." + method
		w.Name, w.Doc = method, about(method, n+"."+method, sites[i])
		s.b.WriteString(s.out.Func(w) + "\n")
	}
}

// pointers reports whether a type has methods on a pointer.
func pointers(t *types.TypeName) bool {
	for m := range t.Type().(*types.Named).Methods() {
		if _, ok := m.Signature().Recv().Type().(*types.Pointer); ok {
			return true
		}
	}
	return false
}

func methods(sites []*directive.Site) string {
	var names []string
	for _, s := range sites {
		names = append(names, s.Func.Name())
	}
	return strings.Join(names, ", ")
}

// about returns the comment of a limited function.
func about(name, original string, s *directive.Site) string {
	var limits []string
	for _, l := range s.Limits {
		limits = append(limits, l.String())
	}
	text := fmt.Sprintf("%s is %s under the limit %s: %s", name, original, wrapper.GuardName(s), strings.Join(limits, " and "))
	if k := s.Directive.Key; k.Set {
		text += " for each " + strings.Join(strings.Fields(strings.ReplaceAll(k.Text, ",", " ")), " and ")
	}
	text += "."
	if l := s.Fallback; l != nil {
		text += " A denied call returns the result of " + l.Object.Name() + "."
	}
	if l := s.Degrade; l != nil {
		text += " A denied call returns the result of " + l.Object.Name() + "."
	}
	if m := s.Directive.Message; m.Set && s.Fallback == nil && s.Degrade == nil {
		text += fmt.Sprintf(" A denied call returns %q.", m.Text)
	}
	return wrapped(text)
}

// wrapped wraps a text to the width of comments.
func wrapped(text string) string {
	var b strings.Builder
	n := 0
	for i, word := range strings.Fields(text) {
		switch {
		case i == 0:
		case n+len(word) > 85:
			b.WriteByte('\n')
			n = 0
		default:
			b.WriteByte(' ')
			n++
		}
		b.WriteString(word)
		n += len(word)
	}
	return b.String()
}

func comment(text string) string {
	return "// " + strings.ReplaceAll(wrapped(text), "\n", "\n// ") + "\n"
}

// check compiles the package with its generated file.
func (s *source) check(text string) {
	file, err := parser.ParseFile(s.g.fset, s.target, text, parser.ParseComments|parser.SkipObjectResolution)
	if err != nil {
		s.g.faults = append(s.g.faults, fmt.Sprintf("%s: the generated code is not Go: %v", s.g.rel(s.target), err))
		return
	}
	conf := types.Config{Importer: importer{s.g, s.p}, Sizes: s.p.TypesSizes, Error: func(err error) {
		e, ok := err.(types.Error)
		if !ok || e.Soft && s.g.fset.PositionFor(e.Pos, false).Filename != s.target {
			return // an import that is not used is for the compiler to say
		}
		if s.g.fset.PositionFor(e.Pos, false).Filename == s.target {
			e.Msg = "the generated code does not compile: " + e.Msg
		}
		s.g.fault(e.Pos, "%s", oneLine(e.Msg))
	}}
	if m := s.p.Module; m != nil && m.GoVersion != "" {
		conf.GoVersion = "go" + m.GoVersion
	}
	_, _ = conf.Check(s.p.PkgPath, s.g.fset, append(s.files[:len(s.files):len(s.files)], file), nil) // conf.Error receives the errors
}

// An importer provides the imports of a package and of its generated file.
type importer struct {
	g *generator
	p *packages.Package
}

func (i importer) Import(path string) (*types.Package, error) {
	if path == "unsafe" {
		return types.Unsafe, nil
	}
	p := i.p.Imports[path]
	if p == nil {
		p = i.g.known[path]
	}
	if p != nil && len(p.Errors) > 0 && p.Name == "" {
		return nil, errors.New(oneLine(p.Errors[0].Msg))
	}
	if p == nil || p.Types == nil {
		return nil, fmt.Errorf("package %s cannot be imported", path)
	}
	return p.Types, nil
}
