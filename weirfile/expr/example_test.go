package expr_test

import (
	"fmt"

	"github.com/floodweir/weir/weirfile/expr"
)

func ExampleCondition() {
	c, err := expr.Condition(`request.path.startsWith("/api/") && request.headers["x-plan"] != "gold"`)
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(c.Eval(&request{path: "/api/users"}))
	fmt.Println(c.Eval(&request{path: "/api/users", headers: map[string][]string{"X-Plan": {"gold"}}}))

	_, err = expr.Condition(`request.metod == "GET"`)
	fmt.Println(err)
	// Output:
	// true <nil>
	// false <nil>
	// expr:1:1: undeclared reference to 'request.metod' (did you mean 'request.method'?)
}

func ExampleMeasure() {
	m, err := expr.Measure(`request.method == "GET" ? 1 : 10`)
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(m.Eval(&request{method: "PUT"}))
	// Output: 10 <nil>
}

func ExampleText() {
	t, err := expr.Text(`request.host.split(".")[0]`)
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(t.Eval(&request{host: "acme.example.com"}))
	// Output: acme <nil>
}
