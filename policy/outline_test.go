package policy_test

import (
	"fmt"
	"reflect"
	"testing"

	"github.com/floodweir/weir"
	"github.com/floodweir/weir/internal/outline"
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
	text := func(s ...string) outline.Fit { return outline.Fit{Text: s} }
	want := outline.Policy{
		Methods: []string{"GET", "HEAD", "PURGE"},
		Hosts:   []outline.Host{{Name: "example.com"}, {Name: "example.org", Below: true}},
		Paths: []outline.Path{
			{Pattern: "/"}, {Pattern: "/Api/{id}/x", Segments: []string{"api", "", "x"}}, {Pattern: "/files/{rest...}", Segments: []string{"files"}, Rest: true},
		},
		Headers: []outline.Header{{Name: "X-Plan", Values: []string{"Gold", "*"}}},
		Key: []outline.Part{
			{Bits: 56}, {Name: "Authorization"},
			{Name: "sub", Header: "Authorization", Bearer: true}, {Name: "a.b", Header: "X-Jwt"},
			{Methods: []string{"CONNECT", "DELETE", "GET", "HEAD", "OPTIONS", "PATCH", "POST", "PURGE", "PUT", "TRACE"}},
			{Name: "c"},
		},
		Exact: map[string]int{"all|11:203.0.113.7|8:bearer x|1:s|1:1|5:PURGE|1:c": 0},
		Wildcards: []outline.Wildcard{{Override: 1, Fit: []outline.Fit{
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

// TestOutlineMethods checks that the methods of an outline are those with keys of their
// own.
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
