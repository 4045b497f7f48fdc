package policy_test

import (
	"fmt"
	"reflect"
	"testing"

	"github.com/floodweir/weir"
	"github.com/floodweir/weir/policy"
)

func TestOutline(t *testing.T) {
	five := []weir.Limit{weir.MustLimit("5/s")}
	p := mustNew(t, policy.Config{
		Name: "all",
		Match: policy.Match{
			Methods: []string{"get", "Purge", "GET"}, Hosts: []string{"Example.COM.", "*.example.org"},
			Paths: []string{"/", "/Api/{id}/x", "/files/{rest...}"}, Headers: map[string][]string{"x-plan": {"Gold", "*"}},
		},
		Key: []policy.KeyPart{
			part(policy.ClientIP, "56"), part(policy.Header, "authorization"), part(policy.Claim, "sub"), part(policy.Claim, "a.b@x-jwt"),
			part(policy.Method, ""), part(policy.Constant, "c"),
		},
		Overrides: []policy.Override{
			{Key: []string{"203.0.113.7", "BEARER x", "s", "1", "purge", "c"}, Limits: five},
			{Key: []string{"203.0.113.0/24", "a*b**c", "*", "", "GET", "c"}, Limits: five},
		},
	})
	o := p.Outline()
	text := func(s ...string) policy.FitOutline { return policy.FitOutline{Text: s} }
	want := policy.Outline{
		Methods: []string{"GET", "HEAD", "PURGE"},
		Hosts:   []policy.HostOutline{{Name: "example.com"}, {Name: "example.org", Below: true}},
		Paths: []policy.PathOutline{
			{Pattern: "/"}, {Pattern: "/Api/{id}/x", Segments: []string{"api", "", "x"}}, {Pattern: "/files/{rest...}", Segments: []string{"files"}, Rest: true},
		},
		Headers: []policy.HeaderOutline{{Name: "X-Plan", Values: []string{"Gold", "*"}}},
		Key: []policy.PartOutline{
			{Source: policy.ClientIP, Bits: 56}, {Source: policy.Header, Name: "Authorization"},
			{Source: policy.Claim, Name: "sub", Header: "Authorization", Bearer: true}, {Source: policy.Claim, Name: "a.b", Header: "X-Jwt"},
			{Source: policy.Method, Methods: []string{"CONNECT", "DELETE", "GET", "HEAD", "OPTIONS", "PATCH", "POST", "PURGE", "PUT", "TRACE"}},
			{Source: policy.Constant, Name: "c"},
		},
		Overrides: map[string][]weir.Limit{"all|11:203.0.113.7|8:bearer x|1:s|1:1|5:PURGE|1:c": five},
		Wildcards: []policy.WildcardOutline{{Limits: five, Fit: []policy.FitOutline{
			{Network: o.Wildcards[0].Fit[0].Network}, text("a", "b", "c"), {Any: true}, text(""), text("GET"), text("c"),
		}}},
	}
	if got := fmt.Sprint(o.Wildcards[0].Fit[0].Network); got != "203.0.113.0/24" {
		t.Errorf("the network is %s, want 203.0.113.0/24", got)
	}
	if !reflect.DeepEqual(o, want) {
		t.Errorf("Outline() =\n%+v, want\n%+v", o, want)
	}
}

// TestOutlineMethods: the methods of an outline are those that a key tells apart.
func TestOutlineMethods(t *testing.T) {
	p := mustNew(t, policy.Config{Match: policy.Match{Methods: []string{"GET", "purge"}}, Key: []policy.KeyPart{part(policy.Method, "")}})
	set, err := policy.NewSet(p)
	if err != nil {
		t.Fatal(err)
	}
	known := map[string]bool{}
	for _, m := range p.Outline().Key[0].Methods {
		known[m] = true
	}
	for _, m := range []string{"GET", "HEAD", "PURGE"} {
		var q policy.Matches
		set.Match(&q, request{method: m, path: "/"})
		if len(q.Charges) != 1 || q.Charges[0].Key != fmt.Sprintf("p|%d:%s", len(m), m) || !known[m] {
			t.Errorf("%s: asks %v, and the outline knows it: %t", m, q.Charges, known[m])
		}
	}
}

func ExamplePolicy_Outline() {
	p, err := policy.New(policy.Config{
		Name:   "api",
		Match:  policy.Match{Methods: []string{"get"}, Paths: []string{"/Users/{id}/*"}},
		Key:    []policy.KeyPart{{Source: policy.ClientIP}},
		Limits: []weir.Limit{weir.MustLimit("10/s")},
		Overrides: []policy.Override{
			{Key: []string{"203.0.113.7"}, Limits: []weir.Limit{weir.MustLimit("100/s")}},
		},
	})
	if err != nil {
		panic(err)
	}
	o := p.Outline()
	fmt.Println(o.Methods)
	fmt.Printf("%q\n", o.Paths[0].Segments)
	fmt.Println(o.Overrides)
	// Output:
	// [GET HEAD]
	// ["users" ""]
	// map[api|11:203.0.113.7:[100/s burst 100]]
}
