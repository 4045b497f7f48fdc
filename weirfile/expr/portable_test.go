package expr_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/floodweir/weir/weirfile/expr"
)

// compilers compile an expression of each kind.
var compilers = map[string]func(string) (fmt.Stringer, error){
	"condition": func(s string) (fmt.Stringer, error) { return expr.Condition(s) },
	"measure":   func(s string) (fmt.Stringer, error) { return expr.Measure(s) },
	"text":      func(s string) (fmt.Stringer, error) { return expr.Text(s) },
}

func TestPortable(t *testing.T) {
	for _, test := range []struct{ kind, text, want string }{
		{"condition", `request.path.startsWith("/a" + "/b") && request.method != "GET"`, `["&&",["startsWith",["path"],"/a/b"],["!=",["method"],"GET"]]`},
		{"condition", `!("X-Plan" in request.headers) || request.headers.Plan == "p"`, `["||",["!",["hasHeader","x-plan"]],["==",["header","plan"],"p"]]`},
		{"condition", `request.query["q"] in ["a", "b"]`, `["in",["query","q"],"a","b"]`},
		{"condition", `size(request.path) < 2 - 5 || request.host.size() >= 3`, `["||",["<",["size",["path"]],-3],[">=",["size",["host"]],3]]`},
		{"condition", `request.path == "/a" ? true : client.ip.contains(":")`, `["?:",["==",["path"],"/a"],true,["contains",["ip"],":"]]`},
		{"condition", `"s" in request.cookies && request.cookies.s.endsWith("x")`, `["&&",["hasCookie","s"],["endsWith",["cookie","s"],"x"]]`},
		{"measure", `request.method == "POST" ? 2 : 1`, `["?:",["==",["method"],"POST"],2,1]`},
		{"text", `request.query.a == "" ? client.ip : "q"`, `["?:",["==",["query","a"],""],["ip"],"q"]`},
	} {
		e, err := compilers[test.kind](test.text)
		if err != nil {
			t.Errorf("%s: %v", test.text, err)
			continue
		}
		p, err := expr.Portable(e)
		var b strings.Builder
		enc := json.NewEncoder(&b)
		enc.SetEscapeHTML(false)
		if encErr := enc.Encode(p); err != nil || encErr != nil || strings.TrimSpace(b.String()) != test.want {
			t.Errorf("Portable(%s) = %s, %v, want %s", test.text, b.String(), errors.Join(err, encErr), test.want)
		}
	}
}

// TestPortableErrors checks that the error names the part that is not portable.
func TestPortableErrors(t *testing.T) {
	for _, test := range []struct{ kind, text, want string }{
		{"condition", `request.path.matches("^/a")`, "a regular expression (matches)"},
		{"condition", `["/a", "/b"].exists(p, request.path.startsWith(p))`, "a loop (exists, all, map, filter)"},
		{"condition", `request.path.replace("a", "b") == "/b"`, "replace"},
		{"condition", `double(request.query["a"]) > 1.5`, "double"},
		{"condition", `int(request.query["a"]) == 7`, "int"},
		{"condition", `size(request.path) == 9007199254740992`, "an integer beyond 2^53-1: 9007199254740992"},
		{"condition", `size(request.path) + 1 == 3`, "+"},
		{"condition", `-size(request.path) == 3`, "-"},
		{"condition", `request.path < "/b"`, "< of string and string"},
		{"condition", `(request.path == "/a") < (request.path == "/b")`, "< of bool and bool"},
		{"condition", `request.query[request.query["a"]] == "b"`, "a name of a value of request.query that is not in quotes"},
		{"condition", `request.query[""] == "b"`, "a name of a value of request.query that is not in quotes"},
		{"condition", `cidr("10.0.0.0/8").containsIP(client.ip)`, "containsIP"},
		{"condition", `[request.path] == ["/a"]`, "a list or map in this place"},
		{"condition", `size(["a", request.path]) == 2`, "a list or map in this place"},
		{"condition", `dyn(request.path) == 1`, "dyn"},
		{"condition", `(request.path == "/a") in [true, request.path == "/b"]`, "in with a list of anything but strings in quotes"},
		{"condition", `request.path in [request.host, "/a"]`, "in with a list of anything but strings in quotes"},
		{"condition", `request.path in request.path.split("/")`, "string in list(string)"},
		{"text", `request.cookies.s.lowerAscii() + ":"`, "+"},
	} {
		e, err := compilers[test.kind](test.text)
		if err != nil {
			t.Errorf("%s: %v", test.text, err)
			continue
		}
		if p, err := expr.Portable(e); p != nil || err == nil || !strings.Contains(err.Error(), test.want) {
			t.Errorf("Portable(%s) = %v, %v, want an error with %q", test.text, p, err, test.want)
		}
	}
	if p, err := expr.Portable(foreign{}); p != nil || err == nil {
		t.Errorf("Portable of a foreign expression = %v, %v, want an error", p, err)
	}
}

type foreign struct{}

func (foreign) String() string { return "1 == 1" }

func ExamplePortable() {
	where, err := expr.Condition(`request.method != "G" + "ET"`)
	if err != nil {
		panic(err)
	}
	p, err := expr.Portable(where)
	fmt.Println(p, err)
	// Output: [!= [method] GET] <nil>
}
