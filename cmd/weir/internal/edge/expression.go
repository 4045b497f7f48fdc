package edge

import (
	"fmt"
	"net/netip"
	"strings"

	"github.com/floodweir/weir/internal/fault"
	"github.com/floodweir/weir/weirfile/expr"
)

// exact is the largest whole number that JSON says exactly to the Lua.
const exact = 1<<53 - 1

// expression compiles an expression, or notes what of it nginx cannot evaluate.
func (c *compiler) expression(field string, e fmt.Stringer) *Expression {
	t, ok := expr.TreeOf(e)
	if !ok {
		c.Add(field, fault.Quote(e.String()), "want an expression in CEL: %s", elsewhere)
		return nil
	}
	x, beyond := convert(t)
	if beyond != "" {
		c.Add(field, fault.Quote(e.String()), "nginx cannot evaluate %s: write it without, or %s", beyond, elsewhere)
		return nil
	}
	return x
}

const (
	text    = "string"
	number  = "int"
	boolean = "bool"
)

// An operation is one that edge/nginx has: what it takes, by the type of each operand.
type operation struct {
	op    string
	takes []string // signatures: types of operands, separated by spaces
}

// operations are those whose operands are evaluated before, by CEL's name.
var operations = map[string]operation{
	"&&": {"&&", []string{"bool bool"}},
	"||": {"||", []string{"bool bool"}},
	"!":  {"!", []string{"bool"}},
	"?:": {"?:", []string{"bool string string", "bool int int", "bool bool bool"}},
	"==": {"==", []string{"string string", "int int", "bool bool"}},
	"!=": {"!=", []string{"string string", "int int", "bool bool"}},
	"<":  {"<", []string{"string string", "int int"}},
	"<=": {"<=", []string{"string string", "int int"}},
	">":  {">", []string{"string string", "int int"}},
	">=": {">=", []string{"string string", "int int"}},
	"+":  {"+", []string{"string string", "int int"}},
	"-":  {"-", []string{"int int"}},
	"*":  {"*", []string{"int int"}},
	"/":  {"/", []string{"int int"}},
	"%":  {"%", []string{"int int"}},

	"neg":        {"neg", []string{"int"}},
	"startsWith": {"startsWith", []string{"string string"}},
	"endsWith":   {"endsWith", []string{"string string"}},
	"contains":   {"contains", []string{"string string"}},
	"size":       {"size", []string{"string"}},
	"int":        {"int", []string{"string"}},
	"lowerAscii": {"lowerAscii", []string{"string"}},
	"upperAscii": {"upperAscii", []string{"string"}},
}

// names are the leaves that are no constants.
var names = map[string]string{"request.method": "method", "request.host": "host", "request.path": "path", "client.ip": "ip"}

// lookups are what has values by name: what gives one, and what says whether it is there.
var lookups = map[string][2]string{
	"request.headers": {"header", "hasHeader"}, "request.query": {"query", "hasQuery"}, "request.cookies": {"cookie", "hasCookie"},
}

// convert is a tree as edge/nginx has it, or what is beyond that, in words.
func convert(t *expr.Tree) (x *Expression, beyond string) {
	switch {
	case t.Call == "" && t.Name != "":
		if op, ok := names[t.Name]; ok {
			return &Expression{Op: op}, ""
		}
		return nil, t.Name
	case t.Call == "":
		return convertConstant(t)
	}
	switch t.Call {
	case "[]":
		return convertLookup(t.Args[0], t.Args[1], 0)
	case "in":
		if t.Args[1].Name != "" {
			return convertLookup(t.Args[1], t.Args[0], 1)
		}
		return convertIn(t)
	case "containsIP":
		return convertNetwork(t)
	case "loop":
		return nil, "loops (exists, all, map, filter)"
	case "matches":
		return nil, "regular expressions (matches)"
	case "list", "map":
		return nil, "a " + t.Call + " in this place"
	}
	o, ok := operations[t.Call]
	if !ok {
		return nil, t.Call
	}
	x = &Expression{Op: o.op}
	var types []string
	for _, a := range t.Args {
		y, beyond := convert(a)
		if beyond != "" {
			return nil, beyond
		}
		x.Args, types = append(x.Args, y), append(types, a.Type)
	}
	signature := strings.Join(types, " ")
	for _, s := range o.takes {
		if s == signature {
			return x, ""
		}
	}
	return nil, fmt.Sprintf("%s of %s", t.Call, strings.Join(types, " and "))
}

func convertConstant(t *expr.Tree) (x *Expression, beyond string) {
	switch v := t.Value.(type) {
	case string, bool:
		return &Expression{Op: "const", Value: v}, ""
	case int64:
		if v > exact || v < -exact {
			return nil, fmt.Sprintf("numbers beyond 2^53 - 1, such as %d", v)
		}
		return &Expression{Op: "const", Value: v}, ""
	}
	return nil, "constants of type " + t.Type
}

// convertLookup is the value of a request under a constant name, or whether there is one.
func convertLookup(of, name *expr.Tree, form int) (x *Expression, beyond string) {
	ops, ok := lookups[of.Name]
	if !ok {
		return nil, "a value by name of anything but request.headers, request.query and request.cookies"
	}
	s, ok := name.Value.(string)
	if !ok || s == "" {
		return nil, "the name of a value of " + of.Name + " that is not in quotes"
	}
	if of.Name == "request.headers" {
		s = strings.ToLower(s)
	}
	return &Expression{Op: ops[form], Name: s}, ""
}

func convertIn(t *expr.Tree) (x *Expression, beyond string) {
	needle, list := t.Args[0], t.Args[1]
	if list.Call != "list" || needle.Type != text && needle.Type != number {
		return nil, fmt.Sprintf("%s in %s", needle.Type, list.Type)
	}
	left, beyond := convert(needle)
	if beyond != "" {
		return nil, beyond
	}
	right, texts := &Expression{Op: "list", Args: []*Expression{}}, []string{}
	for _, a := range list.Args {
		y, beyond := convert(a)
		switch {
		case beyond != "":
			return nil, beyond
		case a.Type != needle.Type:
			return nil, fmt.Sprintf("%s in a list with %s", needle.Type, a.Type)
		}
		right.Args = append(right.Args, y)
		if s, ok := y.Value.(string); ok && y.Op == "const" {
			texts = append(texts, s)
		}
	}
	if len(texts) == len(right.Args) && needle.Type == text {
		right = &Expression{Op: "const", Value: texts}
	}
	return &Expression{Op: "in", Args: []*Expression{left, right}}, ""
}

// convertNetwork is cidr("10.0.0.0/8").containsIP(text).
func convertNetwork(t *expr.Tree) (x *Expression, beyond string) {
	network, address := t.Args[0], t.Args[1]
	if network.Call != "cidr" || len(network.Args) != 1 || network.Args[0].Call != "" {
		return nil, `containsIP of anything but a network in quotes, such as cidr("10.0.0.0/8")`
	}
	s, _ := network.Args[0].Value.(string)
	p, err := netip.ParsePrefix(s)
	if err != nil || p.Addr().Is4In6() {
		return nil, "the network " + fault.Quote(s)
	}
	if address.Call == "ip" && len(address.Args) == 1 {
		address = address.Args[0]
	}
	if address.Type != text {
		return nil, "containsIP of " + address.Type
	}
	y, beyond := convert(address)
	if beyond != "" {
		return nil, beyond
	}
	return &Expression{Op: "cidr", Value: p.Masked().String(), Args: []*Expression{y}}, ""
}
