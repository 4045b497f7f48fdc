package policy_test

import (
	"fmt"

	"github.com/floodweir/weir"
	"github.com/floodweir/weir/policy"
)

func Example() {
	p, err := policy.New(policy.Config{
		Name:   "api-per-client",
		Match:  policy.Match{Paths: []string{"/api/*"}},
		Key:    []policy.KeyPart{{Source: policy.ClientIP}},
		Limits: []weir.Limit{weir.MustLimit("10/s burst 20"), weir.MustLimit("5000/24h")},
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	set, err := policy.NewSet(p)
	if err != nil {
		fmt.Println(err)
		return
	}
	var q policy.Questions
	set.Ask(&q, request{method: "GET", path: "//API/users?page=2", ip: "203.0.113.7"})
	for _, r := range q.Requests {
		fmt.Println(r.Verb, r.N, r.Key, r.Limit)
	}
	// Output:
	// take 1 api-per-client|11:203.0.113.7 10/s burst 20
	// take 1 api-per-client|11:203.0.113.7 5000/24h burst 5000
}

func ExampleNew_errors() {
	_, err := policy.New(policy.Config{
		Name:   "login",
		Key:    []policy.KeyPart{{Source: policy.Path}},
		Limits: []weir.Limit{weir.MustLimit("5/m")},
		Cost:   6,
	})
	fmt.Println(err)
	// Output:
	// policy "login": key[0]: "path": want match.paths with it: the key holds the pattern that matched, never the path itself
	// policy "login": limits[0]: "5/m burst 5": want a capacity of at least 6, the cost of a request: it never admits one
}

func ExampleParseKeyPart() {
	k, err := policy.ParseKeyPart("header:X-Api-Key")
	fmt.Println(k.Source, k.Name, err)
	// Output: header X-Api-Key <nil>
}
