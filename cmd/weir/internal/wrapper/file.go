package wrapper

import (
	"fmt"
	"go/types"
	"path"
	"slices"
	"strings"
)

// The packages that the code may need.
const (
	weirPath  = "github.com/floodweir/weir"
	guardPath = "github.com/floodweir/weir/guard"
)

// A File is the source file that code is written for. It records the imports that the
// code needs.
type File struct {
	pkg   *types.Package
	names map[string]string // of imports, by path
	taken map[string]bool   // names that imports have
}

// NewFile returns a file of a package, without imports. Imports avoid the names of the
// package's type parameters, which would hide them.
func NewFile(pkg *types.Package) *File {
	f := &File{pkg: pkg, names: map[string]string{}, taken: map[string]bool{}}
	take := func(params *types.TypeParamList) {
		for p := range params.TypeParams() {
			f.taken[p.Obj().Name()] = true
		}
	}
	for _, name := range pkg.Scope().Names() {
		switch obj := pkg.Scope().Lookup(name).(type) {
		case *types.Func:
			take(obj.Signature().TypeParams())
		case *types.TypeName:
			if n, ok := obj.Type().(*types.Named); ok {
				take(n.TypeParams())
				for m := range n.Methods() {
					take(m.Signature().RecvTypeParams())
				}
			}
		}
	}
	return f
}

// Import adds an import and returns its name in the file: name, unless the file or the
// package uses that otherwise.
func (f *File) Import(path, name string) string {
	if n, ok := f.names[path]; ok {
		return n
	}
	n := unique(name, func(n string) bool { return f.taken[n] || f.pkg.Scope().Lookup(n) != nil })
	f.names[path], f.taken[n] = n, true
	return n
}

// Type returns a type as the file writes it.
func (f *File) Type(t types.Type) string {
	return types.TypeString(t, func(p *types.Package) string {
		if p.Path() == f.pkg.Path() {
			return ""
		}
		return f.Import(p.Path(), p.Name())
	})
}

// Imports returns the import declarations that the code needs so far, the standard
// library's first.
func (f *File) Imports() string {
	var std, others []string
	for p, name := range f.names {
		line := fmt.Sprintf("%q", p)
		if name != path.Base(p) {
			line = name + " " + line
		}
		if head, _, _ := strings.Cut(p, "/"); strings.Contains(head, ".") {
			others = append(others, line)
		} else {
			std = append(std, line)
		}
	}
	if len(f.names) == 0 {
		return ""
	}
	byPath := func(a, b string) int { return strings.Compare(a[strings.Index(a, `"`):], b[strings.Index(b, `"`):]) }
	slices.SortFunc(std, byPath)
	slices.SortFunc(others, byPath)
	var b strings.Builder
	b.WriteString("import (\n")
	for _, line := range std {
		b.WriteString("\t" + line + "\n")
	}
	if len(std) > 0 && len(others) > 0 {
		b.WriteString("\n")
	}
	for _, line := range others {
		b.WriteString("\t" + line + "\n")
	}
	b.WriteString(")\n\n")
	return b.String()
}

// unique returns name, with a number if it is in use.
func unique(name string, taken func(string) bool) string {
	n := name
	for i := 2; taken(n); i++ {
		n = fmt.Sprint(name, i)
	}
	return n
}
