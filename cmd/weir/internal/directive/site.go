package directive

import (
	"cmp"
	"fmt"
	"go/ast"
	"go/token"
	"go/types"
	"slices"
	"strings"

	"github.com/floodweir/weir"
)

// A Site is a function, a method or a method of an interface with a limit. A directive
// on a type or an interface has a Site for each of its methods without a directive of its
// own.
type Site struct {
	Directive *Directive
	Pos       token.Pos   // of the directive
	Whole     bool        // the directive is that of Recv
	Offs      []token.Pos // if Whole: the directives that exempt methods of Recv
	Func      *types.Func
	Decl      *ast.FuncDecl   // nil for a method of an interface
	Recv      *types.TypeName // the type that Func is a method of; nil for a function
	Interface *types.TypeName // Recv if it is an interface

	Name   string       // "" if the directive has none: see wrapper.GuardName
	Limits []weir.Limit // 100 in 60 seconds, guard.DefaultLimit, if the directive has none

	Key     []KeyExpr
	Cost    int64 // what a call costs, unless CostOf is set
	CostOf  int   // the index of the parameter that is the cost; -1 if there is none
	Context Context
	Writer  int  // the index of the http.ResponseWriter of an HTTP handler; -1 if it is none
	Text    bool // its only result is text, which can be the message

	Fallback *Link // of fallback
	Degrade  *Link // of degrade
	OnError  []Link
	All      bool // OnError also handles the errors that Func returns
}

// A KeyExpr is a parameter, a field of one, or the process.
type KeyExpr struct {
	Instance bool // it is the name of the process; the other fields are zero

	Param int      // its index among the parameters
	Path  []string // the fields, from the outermost
	Type  types.Type

	Stringer bool // its text is that of its method String
	MayPanic bool // it dereferences a pointer or calls a method
}

// A Context describes how to get the context of a call.
type Context struct {
	Param  int  // the index of the parameter; -1 if there is none
	Method bool // that its method Context returns it, as that of *http.Request does
}

// A Link is a function or value that replaces the result of a call.
type Link struct {
	Object   types.Object // a function, a variable or a constant
	Method   bool         // of Recv
	Value    bool         // it is the answer; otherwise it is called
	Params   bool         // it takes the parameters of the function
	Err      bool         // it takes an error behind them
	Variadic bool         // the last of the parameters is spread
	Generic  bool         // it has the type parameters of the function
}

// A Fault is an invalid directive, with the reason.
type Fault struct {
	Pos     token.Pos
	Message string
}

// Function returns the name of the function for people:
// "example.com/shop.(*Service).GetID".
func (s *Site) Function() string {
	if s.Recv == nil {
		return s.Func.Pkg().Path() + "." + s.Func.Name()
	}
	path := s.Recv.Pkg().Path()
	if s.Pointer() {
		return path + ".(*" + s.Recv.Name() + ")." + s.Func.Name()
	}
	return path + "." + s.Recv.Name() + "." + s.Func.Name()
}

// Place returns the position of the function; that of the directive for a method of an
// interface.
func (s *Site) Place() token.Pos {
	if s.Decl != nil {
		return s.Decl.Pos()
	}
	return s.Pos
}

// what describes the function in a fault.
func (s *Site) what() string {
	if s.Recv == nil {
		return "function " + s.Func.Name()
	}
	return "method " + s.Recv.Name() + "." + s.Func.Name()
}

// Pointer reports whether the receiver is a pointer.
func (s *Site) Pointer() bool {
	if s.Recv == nil || s.Interface != nil {
		return false
	}
	_, ok := types.Unalias(s.Func.Signature().Recv().Type()).(*types.Pointer)
	return ok
}

// Failing reports whether the last result of the function is an error.
func (s *Site) Failing() bool { return failing(s.Func.Signature()) }

func failing(sig *types.Signature) bool {
	r := sig.Results()
	return r.Len() > 0 && types.Identical(r.At(r.Len()-1).Type(), types.Universe.Lookup("error").Type())
}

// A finder finds the sites of one package.
type finder struct {
	fset   *token.FileSet
	pkg    *types.Package
	info   *types.Info
	linked map[string]bool // functions that the linker knows by another name
	own    map[*types.Func]bool
	offs   map[token.Pos]*types.TypeName // directives that exempt methods of a type
	types  []typeDirective
	sites  []*Site
	faults []Fault
}

// Find finds the directives of a package. It needs the types of top-level declarations,
// but not those within functions. Sites and faults are in the order of files.
func Find(fset *token.FileSet, files []*ast.File, pkg *types.Package, info *types.Info) (sites []*Site, faults []Fault) {
	f := &finder{
		fset: fset, pkg: pkg, info: info,
		linked: map[string]bool{}, own: map[*types.Func]bool{}, offs: map[token.Pos]*types.TypeName{},
	}
	for _, file := range files {
		f.linknames(file)
	}
	for _, file := range files {
		f.file(file)
	}
	f.typeMethods(files)
	slices.SortStableFunc(f.sites, func(a, b *Site) int { return before(fset, a.Pos, b.Pos) })
	f.faults = append(f.faults, Clashes(fset, f.sites)...)
	slices.SortStableFunc(f.faults, func(a, b Fault) int { return before(fset, a.Pos, b.Pos) })
	return f.sites, f.faults
}

// before compares positions by file. token.Pos depends on the order in which files were
// read.
func before(fset *token.FileSet, a, b token.Pos) int {
	x, y := fset.PositionFor(a, false), fset.PositionFor(b, false)
	return cmp.Or(cmp.Compare(x.Filename, y.Filename), cmp.Compare(x.Offset, y.Offset))
}

func (f *finder) faultf(pos token.Pos, format string, args ...any) {
	f.faults = append(f.faults, Fault{pos, fmt.Sprintf(format, args...)})
}

// Clashes returns a fault for each site with the name of an earlier one but other
// limits or another wait.
func Clashes(fset *token.FileSet, sites []*Site) (faults []Fault) {
	first := map[string]*Site{}
	for _, s := range sites {
		o := first[s.Name]
		switch {
		case s.Name == "":
		case o == nil:
			first[s.Name] = s
		case text(s) != text(o):
			at := fset.Position(o.Pos)
			faults = append(faults, Fault{s.at(s.Directive.Name), fmt.Sprintf(
				"name %q: has the limit %s at %s:%d and %s here; want equal limits, since guards of one name share their buckets, or another name",
				s.Name, text(o), base(at.Filename), at.Line, text(s))})
		}
	}
	return faults
}

func base(file string) string { return file[strings.LastIndexAny(file, `/\`)+1:] }

func text(s *Site) string {
	var all []string
	for _, l := range s.Limits {
		all = append(all, l.String())
	}
	limits := strings.Join(all, ", ")
	if w := s.Directive.MaxWait; w > 0 {
		limits += " with a wait of " + w.String()
	}
	return limits
}

// at returns the position of a value, or of the directive if it is absent.
func (s *Site) at(v Value) token.Pos { return place(s.Pos, v) }

func place(directive token.Pos, v Value) token.Pos {
	if !v.Set {
		return directive
	}
	return directive + token.Pos(len(Prefix)+v.At)
}

// site checks a directive against its function.
func (f *finder) site(s *Site) {
	d, sig := s.Directive, s.Func.Signature()
	s.Name, s.Limits, s.Cost, s.CostOf = d.Name.Text, d.Limits, 1, -1
	if s.Limits == nil {
		s.Limits = []weir.Limit{byDefault()}
	}
	good := len(f.faults)
	if s.Whole && s.Interface == nil {
		defer func() {
			for i := range f.faults[good:] {
				f.faults[good+i].Message += fmt.Sprintf("; or %s %s above %s", Prefix, off, s.what())
			}
		}()
	}
	if f.limitable(s); len(f.faults) > good {
		return
	}
	s.Context = contextOf(sig)
	s.Writer, s.Text = writerOf(sig), returnsText(sig)
	f.key(s)
	f.cost(s)
	f.links(s)
	if len(f.faults) == good {
		f.sites = append(f.sites, s)
	}
}

// limitable reports functions that cannot be wrapped.
func (f *finder) limitable(s *Site) {
	name, function := s.Func.Name(), s.Recv == nil
	switch {
	case name == "_":
		f.faultf(s.Pos, "%s: want one with a name", s.what())
	case function && (name == "init" || name == "main" && f.pkg.Name() == "main"):
		f.faultf(s.Pos, "function %s: want a function that is called by others; Go calls %s itself", name, name)
	case s.Decl != nil && s.Decl.Body == nil:
		f.faultf(s.Pos, "%s: want one with a body", s.what())
	case f.linked[name] && function:
		f.faultf(s.Pos, "function %s: want a function without //go:linkname or //export, whose callers would bypass the limit", name)
	case s.Decl != nil && recovers(s.Decl.Body):
		f.faultf(s.Pos, "%s: want one that does not call recover, which has no effect in a wrapped function", s.what())
	case strings.Contains(types.TypeString(s.Func.Signature(), nil), "_Ctype_"):
		f.faultf(s.Pos, "%s: want one without cgo types", s.what())
	}
}

// recovers reports whether a function calls recover. recover works only in the deferred
// function itself, so a wrapper would break it.
func recovers(body *ast.BlockStmt) (found bool) {
	ast.Inspect(body, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.FuncLit:
			return false
		case *ast.CallExpr:
			if id, ok := n.Fun.(*ast.Ident); ok && id.Name == "recover" && len(n.Args) == 0 {
				found = true
			}
		}
		return !found
	})
	return found
}

// linknames records the functions with a linker directive.
func (f *finder) linknames(file *ast.File) {
	for _, g := range file.Comments {
		for _, c := range g.List {
			words := strings.Fields(c.Text)
			if len(words) > 1 && (words[0] == "//go:linkname" || words[0] == "//export") {
				f.linked[words[1]] = true
			}
		}
	}
}
