package expr

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"cel.dev/cel-go/cel"
	"cel.dev/cel-go/common/ast"
	"cel.dev/cel-go/common/operators"
	"cel.dev/cel-go/common/overloads"
	"cel.dev/cel-go/common/types"
)

// Portable returns an expression of this package as nested lists, for a program that
// evaluates it in another language. A list is an operation: a name and its operands.
// Anything else is a constant: a string, a bool or an int64 of at most 2^53-1.
//
//	method, host, path, ip               a value of the request
//	header, query, cookie                the value with the name given by the operand
//	hasHeader, hasQuery, hasCookie       whether that value exists
//	&&, ||, !, ?:                        as in CEL, including its rules for errors
//	==, !=                               of two strings, ints or bools
//	<, <=, >, >=                         of two ints
//	in                                   a string and the constant strings to compare it with
//	startsWith, endsWith, contains       of two strings
//	size                                 the characters of a string
//
// An expression that uses more of CEL than this returns an error that names the part.
// So does one that another package made.
func Portable(e fmt.Stringer) (any, error) {
	var p *program
	switch e := e.(type) {
	case condition:
		p = e.program
	case measure:
		p = e.program
	case value:
		p = e.program
	default:
		return nil, errors.New("an expression that is not CEL")
	}
	a := p.checked.NativeRep()
	return portable{a}.convert(a.Expr())
}

// portable converts the expressions of one program.
type portable struct{ ast *ast.AST }

// An operation is a CEL function that Portable supports.
type operation struct {
	name  string
	types []string // the accepted operand types, separated by spaces
}

var operations = map[string]operation{
	operators.LogicalAnd:    {"&&", []string{"bool bool"}},
	operators.LogicalOr:     {"||", []string{"bool bool"}},
	operators.LogicalNot:    {"!", []string{"bool"}},
	operators.Conditional:   {"?:", []string{"bool string string", "bool int int", "bool bool bool"}},
	operators.Equals:        {"==", []string{"string string", "int int", "bool bool"}},
	operators.NotEquals:     {"!=", []string{"string string", "int int", "bool bool"}},
	operators.Less:          {"<", []string{"int int"}},
	operators.LessEquals:    {"<=", []string{"int int"}},
	operators.Greater:       {">", []string{"int int"}},
	operators.GreaterEquals: {">=", []string{"int int"}},
	overloads.StartsWith:    {"startsWith", []string{"string string"}},
	overloads.EndsWith:      {"endsWith", []string{"string string"}},
	overloads.Contains:      {"contains", []string{"string string"}},
	overloads.Size:          {"size", []string{"string"}},
}

// portableNames lists the values of a request that have no name of their own.
var portableNames = map[string]string{method: "method", host: "host", path: "path", clientIP: "ip"}

// lookups lists, for each map of a request, the operations that read a value and that
// report whether it exists.
var lookups = map[string][2]string{headers: {"header", "hasHeader"}, query: {"query", "hasQuery"}, cookies: {"cookie", "hasCookie"}}

// maxInteger is the largest integer that a float64 holds exactly with all smaller ones.
const maxInteger = 1<<53 - 1

func (p portable) convert(e ast.Expr) (any, error) {
	switch e.Kind() {
	case ast.IdentKind:
		if name, ok := portableNames[e.AsIdent()]; ok {
			return []any{name}, nil
		}
		return nil, errors.New(e.AsIdent())
	case ast.LiteralKind:
		return constantOf(e)
	case ast.SelectKind: // request.headers.x: check refuses every other
		s := e.AsSelect()
		return read(s.Operand(), s.FieldName(), 0)
	case ast.CallKind:
		return p.call(e.AsCall())
	case ast.ComprehensionKind:
		return nil, errors.New("a loop (exists, all, map, filter)")
	}
	return nil, errors.New("a list or map in this place")
}

func constantOf(e ast.Expr) (any, error) {
	switch v := e.AsLiteral().(type) {
	case types.String:
		return string(v), nil
	case types.Bool:
		return bool(v), nil
	case types.Int:
		if v > maxInteger || v < -maxInteger {
			return nil, fmt.Errorf("an integer beyond 2^53-1: %d", v)
		}
		return int64(v), nil
	}
	return nil, fmt.Errorf("a constant of type %s", e.AsLiteral().Type().TypeName())
}

func (p portable) call(c ast.CallExpr) (any, error) {
	args := c.Args()
	if c.IsMemberFunction() {
		args = append([]ast.Expr{c.Target()}, args...)
	}
	switch c.FunctionName() {
	case operators.Index:
		name, _ := literal(args[1])
		return read(args[0], name, 0)
	case operators.In:
		if args[1].Kind() == ast.IdentKind {
			name, _ := literal(args[0])
			return read(args[1], name, 1)
		}
		return p.in(args[0], args[1])
	}
	o, ok := operations[c.FunctionName()]
	if !ok {
		return nil, errors.New(p.name(c.FunctionName()))
	}
	out, operands := []any{o.name}, []string{}
	for _, a := range args {
		operand, err := p.convert(a)
		if err != nil {
			return nil, err
		}
		out, operands = append(out, operand), append(operands, p.typeOf(a))
	}
	if !slices.Contains(o.types, strings.Join(operands, " ")) {
		return nil, fmt.Errorf("%s of %s", o.name, strings.Join(operands, " and "))
	}
	return out, nil
}

// read returns the operation that reads a value of a request by a constant name, or,
// with form 1, that reports whether it exists.
func read(of ast.Expr, name string, form int) (any, error) {
	forms, ok := lookups[of.AsIdent()]
	switch {
	case !ok:
		return nil, errors.New("a value by name of anything but request.headers, request.query and request.cookies")
	case name == "":
		return nil, fmt.Errorf("a name of a value of %s that is not in quotes", of.AsIdent())
	case of.AsIdent() == headers:
		name = strings.ToLower(name)
	}
	return []any{forms[form], name}, nil
}

func (p portable) in(e, list ast.Expr) (any, error) {
	operand, err := p.convert(e)
	if err != nil {
		return nil, err
	}
	out := []any{"in", operand}
	if list.Kind() != ast.ListKind {
		return nil, fmt.Errorf("%s in %s", p.typeOf(e), p.typeOf(list))
	}
	for _, element := range list.AsList().Elements() {
		text, ok := literal(element)
		if !ok || p.typeOf(e) != "string" {
			return nil, errors.New("in with a list of anything but strings in quotes")
		}
		out = append(out, text)
	}
	return out, nil
}

// typeOf returns CEL's name of the type of an expression. One that was folded into a
// constant has no checked type.
func (p portable) typeOf(e ast.Expr) string {
	if e.Kind() == ast.LiteralKind {
		return e.AsLiteral().Type().TypeName()
	}
	return cel.FormatCELType(p.ast.GetType(e.ID()))
}

// name returns a function as it is written in an expression.
func (portable) name(function string) string {
	if function == operators.Negate {
		return "-"
	}
	if name, ok := operators.FindReverseBinaryOperator(function); ok {
		return name
	}
	if function == overloads.Matches {
		return "a regular expression (matches)"
	}
	return function
}
