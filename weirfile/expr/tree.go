package expr

import (
	"fmt"

	"cel.dev/cel-go/cel"
	"cel.dev/cel-go/common/ast"
	"cel.dev/cel-go/common/operators"
	"cel.dev/cel-go/common/types"
)

// A Tree is an expression as the calls that it consists of, for a program that
// evaluates it in another language. What does not depend on a request is computed.
//
// It is a call if Call is not empty, or else a leaf: a name if Name is not empty, or
// else a constant.
type Tree struct {
	// Call is an operator as it is written, "?:", "neg" for the minus before a number,
	// "[]" for a value by name as in request.headers["x"], "list" for a list, the name
	// of a function or method, or, of what is none of these, what it is: "loop" for
	// macros such as exists, "map".
	Call string
	Args []*Tree // those of a call; what a method is called on is the first

	// Type is CEL's name of the type, such as string, int, bool or list(string).
	Type string

	Name  string // request.method, client.ip and so on
	Value any    // a string, int64, uint64, float64, bool, []byte, or else nil
}

// TreeOf is the Tree of what Condition, Measure and Text return. There is none of
// what this package did not make.
func TreeOf(e fmt.Stringer) (t *Tree, ok bool) {
	var p *program
	switch e := e.(type) {
	case condition:
		p = e.program
	case measure:
		p = e.program
	case value:
		p = e.program
	default:
		return nil, false
	}
	a := p.checked.NativeRep()
	return tree(a, a.Expr()), true
}

var operatorNames = map[string]string{
	operators.Conditional: "?:", operators.LogicalNot: "!", operators.Negate: "neg", operators.Index: "[]",
}

func tree(a *ast.AST, e ast.Expr) *Tree {
	t := &Tree{Type: cel.FormatCELType(a.GetType(e.ID()))}
	all := func(list []ast.Expr) {
		for _, e := range list {
			t.Args = append(t.Args, tree(a, e))
		}
	}
	switch e.Kind() {
	case ast.IdentKind:
		t.Name = e.AsIdent()
	case ast.LiteralKind:
		t.Value = constant(e.AsLiteral())
		t.Type = e.AsLiteral().Type().TypeName() // one that was computed has none yet
	case ast.ListKind:
		t.Call = "list"
		all(e.AsList().Elements())
	case ast.SelectKind: // request.headers.x: check refuses every other
		s := e.AsSelect()
		t.Call, t.Args = "[]", []*Tree{tree(a, s.Operand()), {Type: "string", Value: s.FieldName()}}
	case ast.CallKind:
		c := e.AsCall()
		t.Call = c.FunctionName()
		if name, ok := operatorNames[t.Call]; ok {
			t.Call = name
		} else if name, ok := operators.FindReverseBinaryOperator(t.Call); ok {
			t.Call = name
		}
		if c.IsMemberFunction() {
			all([]ast.Expr{c.Target()})
		}
		all(c.Args())
	case ast.ComprehensionKind:
		t.Call = "loop"
	default:
		t.Call = "map"
	}
	return t
}

func constant(v any) any {
	switch v := v.(type) {
	case types.String:
		return string(v)
	case types.Int:
		return int64(v)
	case types.Uint:
		return uint64(v)
	case types.Double:
		return float64(v)
	case types.Bool:
		return bool(v)
	case types.Bytes:
		return []byte(v)
	}
	return nil
}
