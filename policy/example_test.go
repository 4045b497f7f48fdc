package policy_test

import (
	"fmt"
	"strings"

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
	var q policy.Matches
	set.Match(&q, request{method: "GET", path: "//API/users?page=2", ip: "203.0.113.7"})
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

// premium is a condition written in Go.
type premium struct{}

func (premium) Eval(a policy.Attributes) (bool, error) {
	return strings.HasPrefix(a.Path(), "/premium/"), nil
}

func (premium) String() string { return `path.startsWith("/premium/")` }

func ExampleExpression() {
	p, _ := policy.New(policy.Config{
		Name:   "premium",
		Match:  policy.Match{Where: premium{}},
		Key:    []policy.KeyPart{{Source: policy.Claim, Name: "sub"}},
		Limits: []weir.Limit{weir.MustLimit("10/s")},
	})
	set, _ := policy.NewSet(p)
	var q policy.Matches
	for _, path := range []string{"/other", "//Premium/reports?page=2"} {
		fmt.Println(path, set.Match(&q, request{path: path}))
	}
	// Output:
	// /other 0
	// //Premium/reports?page=2 1
}

func ExampleOverride() {
	p, _ := policy.New(policy.Config{
		Name:   "api",
		Key:    []policy.KeyPart{{Source: policy.ClientIP}, {Source: policy.Header, Name: "X-Plan"}},
		Limits: []weir.Limit{weir.MustLimit("10/s")},
		Overrides: []policy.Override{
			{Key: []string{"10.0.0.0/8", "*"}, Limits: []weir.Limit{weir.MustLimit("1000/s")}},
			{Key: []string{"*", "gold-*"}, Limits: []weir.Limit{weir.MustLimit("100/s")}},
		},
	})
	set, _ := policy.NewSet(p)
	var q policy.Matches
	for _, r := range []request{
		{ip: "10.1.2.3"},
		{ip: "203.0.113.7", header: map[string][]string{"X-Plan": {"gold-2026"}}},
		{ip: "203.0.113.7"},
	} {
		set.Match(&q, r)
		fmt.Println(q.Requests[0].Limit)
	}
	// Output:
	// 1000/s burst 1000
	// 100/s burst 100
	// 10/s burst 10
}

func ExampleSet_WithPrevious() {
	version := func(limit string) *policy.Set {
		p, _ := policy.New(policy.Config{
			Name: "api", Key: []policy.KeyPart{{Source: policy.ClientIP}}, Limits: []weir.Limit{weir.MustLimit(limit)}, Carry: weir.CarryAsIs,
		})
		s, _ := policy.NewSet(p)
		return s
	}
	inForce := version("10/s")
	inForce = version("5/s").WithPrevious(inForce) // the file was changed, and read again
	var q policy.Matches
	inForce.Match(&q, request{ip: "203.0.113.7"})
	fmt.Println(q.Requests[0].Limit, "follows", q.Requests[0].From)
	// Output: 5/s burst 5 follows [10/s burst 10]
}

func ExampleSet_Explain() {
	writes, _ := policy.New(policy.Config{
		Name: "writes", Match: policy.Match{Methods: []string{"POST"}}, Key: []policy.KeyPart{{Source: policy.ClientIP}}, Limits: []weir.Limit{weir.MustLimit("5/s")},
	})
	all, _ := policy.New(policy.Config{
		Name: "all", Key: []policy.KeyPart{{Source: policy.ClientIP}}, Limits: []weir.Limit{weir.MustLimit("10/s")}, Candidate: []weir.Limit{weir.MustLimit("8/s")},
	})
	set, _ := policy.NewSet(writes, all)
	var q policy.Matches
	for _, f := range set.Explain(&q, request{method: "GET", ip: "203.0.113.7"}) {
		if f.Missed != "" {
			fmt.Println(f.Policy.Name(), "does not match:", f.Missed)
			continue
		}
		fmt.Println(f.Policy.Name(), f.Key, q.Requests[f.From].Limit)
	}
	// Output:
	// writes does not match: match.methods
	// all all|11:203.0.113.7 10/s burst 10
	// all~candidate all~candidate|11:203.0.113.7 8/s burst 8
}
