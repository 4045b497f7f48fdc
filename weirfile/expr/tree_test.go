package expr_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/floodweir/weir/weirfile/expr"
)

// said is a tree on one line: calls as (name args), constants as type:value.
func said(t *expr.Tree) string {
	switch {
	case t.Call != "":
		var b strings.Builder
		b.WriteString("(" + t.Call)
		for _, a := range t.Args {
			b.WriteString(" " + said(a))
		}
		return b.String() + ")"
	case t.Name != "":
		return t.Name
	}
	return fmt.Sprintf("%s:%v", t.Type, t.Value)
}

func TestTreeOf(t *testing.T) {
	condition := func(s string) (fmt.Stringer, error) { return expr.Condition(s) }
	measure := func(s string) (fmt.Stringer, error) { return expr.Measure(s) }
	text := func(s string) (fmt.Stringer, error) { return expr.Text(s) }
	for _, test := range []struct {
		compile    func(string) (fmt.Stringer, error)
		text, want string
	}{
		{condition, `request.path.startsWith("/a" + "/b") && request.method != "GET"`, `(&& (startsWith request.path string:/a/b) (!= request.method string:GET))`},
		{condition, `!("x-plan" in request.headers) || request.headers.Plan == "p"`, `(|| (! (in string:x-plan request.headers)) (== ([] request.headers string:Plan) string:p))`},
		{condition, `request.query["q"] in ["a", "b"]`, `(in ([] request.query string:q) (list string:a string:b))`},
		{condition, `cidr("10.0.0.0/8").containsIP(client.ip)`, `(containsIP (cidr string:10.0.0.0/8) client.ip)`},
		{condition, `request.path.matches("^/a")`, `(matches request.path string:^/a)`},
		{condition, `["/a", "/b"].exists(p, request.path.startsWith(p))`, `(loop)`},
		{condition, `-size(request.path) < 2 - 5`, `(< (neg (size request.path)) int:-3)`},
		{condition, `request.path == "/a" ? true : client.ip == "1.2.3.4"`, `(?: (== request.path string:/a) bool:true (== client.ip string:1.2.3.4))`},
		{condition, `double(request.query["a"]) > 1.5 + 1.0`, `(> (double ([] request.query string:a)) double:2.5)`},
		{measure, `int(request.headers["x-cost"]) / 1024 + 1`, `(+ (/ (int ([] request.headers string:x-cost)) int:1024) int:1)`},
		{text, `request.cookies.s.lowerAscii() + ":"`, `(+ (lowerAscii ([] request.cookies string:s)) string::)`},
	} {
		e, err := test.compile(test.text)
		if err != nil {
			t.Errorf("%s: %v", test.text, err)
			continue
		}
		tree, ok := expr.TreeOf(e)
		if !ok || said(tree) != test.want {
			t.Errorf("TreeOf(%s) = %s, %t, want %s", test.text, said(tree), ok, test.want)
		}
	}
	if tree, ok := expr.TreeOf(foreign{}); tree != nil || ok {
		t.Errorf("TreeOf of a foreign expression = %v, %t, want none", tree, ok)
	}
}

// TestTreeTypes: every part of a tree has its type.
func TestTreeTypes(t *testing.T) {
	e, err := expr.Condition(`(request.path + "x" in ["a"]) == (size(request.method) > 1 + 1)`)
	if err != nil {
		t.Fatal(err)
	}
	var types func(*expr.Tree) string
	types = func(t *expr.Tree) string {
		s := t.Type
		for _, a := range t.Args {
			s += " " + types(a)
		}
		return s
	}
	tree, _ := expr.TreeOf(e)
	if got, want := types(tree), "bool bool string string string list(string) string bool int string int"; got != want {
		t.Errorf("the types are %s, want %s", got, want)
	}
}

type foreign struct{}

func (foreign) String() string { return "1 == 1" }

func ExampleTreeOf() {
	where, err := expr.Condition(`request.method != "G" + "ET"`)
	if err != nil {
		panic(err)
	}
	tree, _ := expr.TreeOf(where)
	fmt.Println(tree.Call, tree.Args[0].Name, tree.Args[1].Value)
	// Output: != request.method GET
}
