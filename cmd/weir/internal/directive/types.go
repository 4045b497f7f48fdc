package directive

import (
	"go/ast"
	"go/token"
	"go/types"
	"slices"
	"strings"
)

// A typeDirective is the directive of a type. The methods of an interface are found with it, so
// it has no d.
type typeDirective struct {
	obj *types.TypeName
	d   *Directive
	pos token.Pos
}

// typ records the directive of a type that is no interface.
func (f *finder) typ(spec *ast.TypeSpec, d *Directive, pos token.Pos) {
	obj, _ := f.info.Defs[spec.Name].(*types.TypeName)
	switch {
	case obj == nil:
		f.faultf(pos, "type %s: want one with known methods", spec.Name.Name)
	case obj.IsAlias():
		f.faultf(pos, "type %s: want a type, not an alias of one", obj.Name())
	case d.Off:
		f.offs[pos] = nil
	default:
		f.types = append(f.types, typeDirective{obj, d, pos})
	}
}

// typeMethods finds the methods that directives of types limit: those that are exported and
// without a directive of their own. Methods of embedded types belong to those types. Code
// generators write methods that are no part of the interface, and tests have their own.
func (f *finder) typeMethods(files []*ast.File) {
	limited := map[*types.TypeName]bool{}
	for _, t := range f.types {
		limited[t.obj] = true
		if t.d != nil {
			f.methods(files, t)
		}
	}
	for pos, recv := range f.offs {
		if recv == nil || !limited[recv] {
			f.faultf(pos, "off: exempts nothing here: want it on a method that the directive of its type or interface limits")
		}
	}
}

func (f *finder) methods(files []*ast.File, t typeDirective) {
	var offs []token.Pos
	for pos, recv := range f.offs {
		if recv == t.obj {
			offs = append(offs, pos)
		}
	}
	slices.Sort(offs)
	found := false
	for _, file := range files {
		if ast.IsGenerated(file) || f.isTest(file.Package) && !f.isTest(t.pos) {
			continue
		}
		for _, decl := range file.Decls {
			decl, ok := decl.(*ast.FuncDecl)
			if !ok || decl.Recv == nil || !decl.Name.IsExported() {
				continue
			}
			fn, ok := f.info.Defs[decl.Name].(*types.Func)
			if !ok || f.own[fn] || receiver(fn) != t.obj {
				continue
			}
			found = true
			f.site(&Site{Directive: t.d, Pos: t.pos, Whole: true, Offs: offs, Func: fn, Decl: decl, Recv: t.obj})
		}
	}
	if !found {
		f.faultf(t.pos, "type %s: want one with an exported method that has no directive of its own", t.obj.Name())
	}
}

func (f *finder) isTest(pos token.Pos) bool {
	return strings.HasSuffix(f.fset.PositionFor(pos, false).Filename, "_test.go")
}
