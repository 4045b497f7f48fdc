package directive

import (
	"bytes"
	"go/ast"
	"go/token"
	"go/types"
	"strings"
)

// Comments returns the comments of a file that begin like a directive, valid or not.
func Comments(file *ast.File) (found []*ast.Comment) {
	for _, g := range file.Comments {
		for _, c := range g.List {
			if strings.HasPrefix(c.Text, Prefix) || almost(c.Text) {
				found = append(found, c)
			}
		}
	}
	return found
}

// almost reports whether a comment was probably meant as a directive: after a space, in
// /* */, in another case, or with another word after //weir:. Prose that begins with
// the word, and marks of weaving, are not.
func almost(text string) bool {
	rest, ok := cutFold(strings.TrimLeft(text[2:], " \t"), "weir:")
	if !ok || strings.HasPrefix(text, woven) {
		return false
	}
	if _, tight := cutFold(text, "//weir:"); tight && rest != "" && token.IsIdentifier(rest[:1]) {
		return true
	}
	if rest, ok = cutFold(strings.TrimLeft(rest, " \t"), "limit"); !ok {
		return false
	}
	rest = strings.TrimSpace(strings.TrimSuffix(rest, "*/"))
	return rest == "" || strings.Contains(strings.Fields(rest)[0], "=")
}

// woven stands in woven copies where a directive was: see package weave.
const woven = "//weir:woven"

// cutFold is strings.CutPrefix without case.
func cutFold(s, prefix string) (after string, found bool) {
	if len(s) < len(prefix) || !strings.EqualFold(s[:len(prefix)], prefix) {
		return s, false
	}
	return s[len(prefix):], true
}

// Mentioned reports whether a source file may contain a directive or a misspelled one.
// Callers use it to skip files.
func Mentioned(source []byte) bool {
	return bytes.Contains(source, []byte("weir:")) || bytes.Contains(bytes.ToLower(source), []byte("weir:"))
}

// file finds the directives of a file and their functions.
func (f *finder) file(file *ast.File) {
	used := map[*ast.Comment]bool{}
	for _, decl := range file.Decls {
		switch decl := decl.(type) {
		case *ast.FuncDecl:
			f.function(decl, used)
		case *ast.GenDecl:
			f.decl(decl, used)
		}
	}
	for _, c := range Comments(file) {
		if used[c] {
			continue
		}
		if !strings.HasPrefix(c.Text, Prefix) {
			f.faultf(c.Slash, "%q is no directive: want %s at the beginning of the comment, without a space and in lower case", first(c.Text), Prefix)
			continue
		}
		f.faultf(c.Slash, "%s: want it in the doc comment of a function, a method, a type or a method of an interface; it stands %s", Prefix, where(file, c))
	}
}

func first(text string) string {
	text, _, _ = strings.Cut(text, "\n")
	if i := strings.Index(text, "weir:limit"); i >= 0 {
		return text[:i+len("weir:limit")]
	}
	words := strings.Fields(text)
	if len(words) > 1 && len(words[0]) == 2 {
		return words[0] + " " + words[1]
	}
	return words[0]
}

// where describes the position of a misplaced comment.
func where(file *ast.File, c *ast.Comment) string {
	for _, decl := range file.Decls {
		doc := docOf(decl)
		at := c.Slash >= decl.Pos() && c.Slash < decl.End() || doc != nil && c.Slash >= doc.Pos() && c.Slash < doc.End()
		if !at {
			continue
		}
		switch decl := decl.(type) {
		case *ast.FuncDecl:
			return "inside function " + decl.Name.Name
		case *ast.GenDecl:
			return "on " + declared(decl)
		}
	}
	return "on nothing"
}

// declared describes a declaration.
func declared(decl *ast.GenDecl) string {
	switch decl.Tok {
	case token.IMPORT:
		return "an import"
	case token.TYPE:
		if spec, ok := decl.Specs[0].(*ast.TypeSpec); ok && len(decl.Specs) == 1 {
			if _, ok := spec.Type.(*ast.InterfaceType); ok {
				return "something of interface " + spec.Name.Name + " that is no method"
			}
			return "something of type " + spec.Name.Name + " that is no method"
		}
		return "types"
	case token.CONST:
		return "a constant"
	}
	return "a variable"
}

func docOf(decl ast.Decl) *ast.CommentGroup {
	switch decl := decl.(type) {
	case *ast.FuncDecl:
		return decl.Doc
	case *ast.GenDecl:
		return decl.Doc
	}
	return nil
}

// directive reads the directive of a doc comment; nil if there is no valid one.
func (f *finder) directive(doc *ast.CommentGroup, used map[*ast.Comment]bool) (*Directive, token.Pos) {
	var found *Directive
	var pos token.Pos
	if doc == nil {
		return nil, pos
	}
	for _, c := range doc.List {
		text, ok := strings.CutPrefix(c.Text, Prefix)
		if !ok {
			continue
		}
		used[c] = true
		if text != "" && text[0] != ' ' && text[0] != '\t' && text[0] != '\r' {
			f.faultf(c.Slash, "unknown directive %s: want %s", strings.Fields(c.Text)[0], Prefix)
			continue
		}
		if pos.IsValid() {
			f.faultf(c.Slash, "second %s on one function: want one, with all limits in it, as in limit=\"10/s, 1000/h\"", Prefix)
			continue
		}
		pos = c.Slash
		d, err := Parse(text)
		if err != nil {
			e := err.(*Error)
			f.faultf(c.Slash+token.Pos(len(Prefix)+e.At), "%s", e.Message)
			continue
		}
		found = d
	}
	return found, pos
}

func (f *finder) function(decl *ast.FuncDecl, used map[*ast.Comment]bool) {
	d, pos := f.directive(decl.Doc, used)
	fn, ok := f.info.Defs[decl.Name].(*types.Func)
	if ok && pos.IsValid() {
		f.own[fn] = true
	}
	switch {
	case d == nil:
		return
	case !ok:
		if decl.Recv == nil && decl.Name.Name == "init" {
			f.faultf(pos, "function init: want a function that is called by others; Go calls init itself")
			return
		}
		f.faultf(pos, "function %s: want a function with known types", decl.Name.Name)
		return
	case d.Off:
		f.offs[pos] = receiver(fn)
		return
	}
	s := &Site{Directive: d, Pos: pos, Func: fn, Decl: decl, Recv: receiver(fn)}
	if s.Recv == nil && decl.Recv != nil {
		f.faultf(pos, "method %s: want a method with a known receiver type", fn.Name())
		return
	}
	f.site(s)
}

// receiver returns the type that fn is a method of; nil if there is none.
func receiver(fn *types.Func) *types.TypeName {
	recv := fn.Signature().Recv()
	if recv == nil {
		return nil
	}
	t := types.Unalias(recv.Type())
	if p, ok := t.(*types.Pointer); ok {
		t = types.Unalias(p.Elem())
	}
	if n, ok := t.(*types.Named); ok {
		return n.Obj()
	}
	return nil
}

// decl reads the types and interfaces of a declaration.
func (f *finder) decl(decl *ast.GenDecl, used map[*ast.Comment]bool) {
	if decl.Tok != token.TYPE {
		return
	}
	for _, spec := range decl.Specs {
		spec := spec.(*ast.TypeSpec)
		it, ok := spec.Type.(*ast.InterfaceType)
		doc := spec.Doc
		if doc == nil && len(decl.Specs) == 1 {
			doc = decl.Doc
		}
		d, pos := f.directive(doc, used)
		if !ok {
			if d != nil {
				f.typ(spec, d, pos)
			}
			continue
		}
		f.iface(spec, it, d, pos, used)
	}
}

// iface finds the methods of an interface that a directive limits: their own, or d.
func (f *finder) iface(spec *ast.TypeSpec, it *ast.InterfaceType, d *Directive, pos token.Pos, used map[*ast.Comment]bool) {
	type own struct {
		d   *Directive
		pos token.Pos
	}
	methods := map[string]own{}
	at := pos
	for _, field := range it.Methods.List {
		if _, ok := field.Type.(*ast.FuncType); !ok || len(field.Names) != 1 {
			continue
		}
		md, mpos := f.directive(field.Doc, used)
		if mpos.IsValid() {
			methods[field.Names[0].Name] = own{md, mpos}
			if !at.IsValid() {
				at = mpos
			}
		}
	}
	if !at.IsValid() {
		return
	}
	obj, _ := f.info.Defs[spec.Name].(*types.TypeName)
	if obj == nil || obj.Parent() != f.pkg.Scope() {
		f.faultf(at, "interface %s: want one with known methods", spec.Name.Name)
		return
	}
	if d != nil && d.Off {
		f.offs[pos], d = nil, nil
	}
	for _, m := range methods {
		if m.d != nil && m.d.Off {
			f.offs[m.pos] = nil
			if d != nil {
				f.offs[m.pos] = obj
			}
		}
	}
	set, ok := obj.Type().Underlying().(*types.Interface)
	switch {
	case obj.IsAlias():
		f.faultf(at, "interface %s: want a type, not an alias of one", obj.Name())
		return
	case !ok || !set.IsMethodSet():
		f.faultf(at, "interface %s: want one with only methods; a constraint cannot be wrapped", obj.Name())
		return
	case set.NumMethods() == 0:
		f.faultf(at, "interface %s: want one with methods", obj.Name())
		return
	}
	for fn := range set.Methods() {
		m, ok := methods[fn.Name()]
		if !ok {
			m = own{d, pos}
		}
		if m.d != nil && !m.d.Off {
			f.site(&Site{Directive: m.d, Pos: m.pos, Whole: !ok, Func: fn, Recv: obj, Interface: obj})
		}
	}
	if d != nil {
		f.types = append(f.types, typeDirective{obj: obj})
	}
}
