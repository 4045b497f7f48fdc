package weave

import (
	"bytes"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"slices"
	"strings"

	"github.com/floodweir/weir/cmd/weir/internal/directive"
)

// Mark replaces a directive in a woven copy. It has the length of directive.Prefix, to
// keep columns.
const Mark = "//weir:woven"

// A function is identified by its name and the name of its receiver's type, if it has
// one.
type function struct{ recv, name string }

// An edit replaces a range of bytes.
type edit struct {
	from, to int
	text     string
}

// rewrite returns the copy of a file in which functions have other names, and the
// positions of their declarations. Positions in the copy are those of the file at path.
// The directives of the functions, and those on the lines of marks, become marks.
func rewrite(path string, src []byte, names map[function]string, marks map[int]bool) (out []byte, at map[function]token.Position, err error) {
	src = bytes.TrimPrefix(src, []byte("\xef\xbb\xbf"))
	fset := token.NewFileSet()
	f, err := parser.ParseFile(fset, path, src, parser.ParseComments|parser.SkipObjectResolution)
	if err != nil {
		return nil, nil, fmt.Errorf("weave: %w", err)
	}
	offset := func(p token.Pos) int { return fset.PositionFor(p, false).Offset }
	var edits []edit
	at = map[function]token.Position{}
	for _, d := range f.Decls {
		decl, ok := d.(*ast.FuncDecl)
		if !ok {
			continue
		}
		fn := function{receiver(decl), decl.Name.Name}
		name, ok := names[fn]
		if !ok {
			continue
		}
		at[fn] = fset.Position(decl.Name.Pos())
		for _, c := range doc(decl) {
			if strings.HasPrefix(c.Text, directive.Prefix) {
				from := offset(c.Slash)
				edits = append(edits, edit{from, from + len(directive.Prefix), Mark})
			}
		}
		if end := fset.Position(decl.Name.End()); end.Column > 0 {
			name += fmt.Sprintf("/*line :%d:%d*/", end.Line, end.Column)
		}
		edits = append(edits, edit{offset(decl.Name.Pos()), offset(decl.Name.End()), name})
	}
	for _, c := range directive.Comments(f) {
		if strings.HasPrefix(c.Text, directive.Prefix) && marks[fset.PositionFor(c.Slash, false).Line] {
			from := offset(c.Slash)
			edits = append(edits, edit{from, from + len(directive.Prefix), Mark})
		}
	}
	for fn := range names {
		if _, ok := at[fn]; !ok {
			return nil, nil, fmt.Errorf("weave: %s: want a declaration of %s in it", path, fn.name)
		}
	}
	slices.SortFunc(edits, func(a, b edit) int { return a.from - b.from })
	var b bytes.Buffer
	fmt.Fprintf(&b, "//line %s:1:1\n", path)
	last := 0
	for _, e := range edits {
		b.Write(src[last:e.from])
		b.WriteString(e.text)
		last = e.to
	}
	b.Write(src[last:])
	return b.Bytes(), at, nil
}

// doc returns the doc comment of a function.
func doc(decl *ast.FuncDecl) []*ast.Comment {
	if decl.Doc == nil {
		return nil
	}
	return decl.Doc.List
}

// receiver returns the name of the receiver's type; "" for a function.
func receiver(decl *ast.FuncDecl) string {
	if decl.Recv == nil || len(decl.Recv.List) == 0 {
		return ""
	}
	t := decl.Recv.List[0].Type
	for {
		switch x := t.(type) {
		case *ast.StarExpr:
			t = x.X
		case *ast.ParenExpr:
			t = x.X
		case *ast.IndexExpr:
			t = x.X
		case *ast.IndexListExpr:
			t = x.X
		case *ast.Ident:
			return x.Name
		default:
			return ""
		}
	}
}

// placed returns code whose lines all have one position in the user's file, so that a
// stack trace shows the declaration. In code with a multi-line literal only its
// beginning has that position.
func placed(code string, at token.Position) string {
	line := fmt.Sprintf("//line %s:%d:%d\n", at.Filename, at.Line, max(at.Column, 1))
	if strings.Contains(code, "`") {
		return line + code
	}
	var b strings.Builder
	for l := range strings.Lines(code) {
		if strings.TrimSpace(l) != "" {
			b.WriteString(line)
		}
		b.WriteString(l)
	}
	return b.String()
}
