package policy_test

import (
	"fmt"
	"slices"
	"testing"

	"github.com/floodweir/weir"
	"github.com/floodweir/weir/policy"
)

func TestExplain(t *testing.T) {
	tighter := []weir.Limit{weir.MustLimit("5/s")}
	var asked []string
	s := mustSet(t,
		mustNew(t, policy.Config{Name: "off", Mode: policy.Off, Match: policy.Match{Methods: []string{"PUT"}}, Candidate: tighter}),
		mustNew(t, policy.Config{Name: "shadow", Mode: policy.Shadow}),
		mustNew(t, policy.Config{Name: "methods", Match: policy.Match{Methods: []string{"PUT"}, Hosts: []string{"b"}}, Candidate: tighter}),
		mustNew(t, policy.Config{Name: "hosts", Match: policy.Match{Hosts: []string{"b"}, Paths: []string{"/b"}}}),
		mustNew(t, policy.Config{Name: "paths", Match: policy.Match{Paths: []string{"/b"}, Headers: map[string][]string{"X-Plan": {"b"}}}}),
		mustNew(t, policy.Config{Name: "header", Match: policy.Match{Headers: map[string][]string{"X-A": {"*"}, "x-plan": {"b"}}, Where: condition{where("/b", &asked)}}}),
		mustNew(t, policy.Config{Name: "where", Match: policy.Match{Where: condition{where("/b", &asked)}}}),
		mustNew(t, policy.Config{Name: "all", Match: policy.Match{Methods: []string{"GET"}, Paths: []string{"/a"}}, Candidate: tighter}),
	)
	r := request{method: "GET", host: "a", path: "/a", header: map[string][]string{"X-A": {"x"}, "X-Plan": {"a"}}}
	var q, plain policy.Matches
	for range 2 {
		found := s.Explain(&q, r)
		got := ""
		for _, f := range found {
			got += f.Policy.Name() + " " + f.Missed
			if (f.Missed == "") != (f.Key != "") || (f.Missed == "") != (f.To > 0) {
				t.Errorf("charge %+v, want either requests or Missed", f)
			}
			if f.Missed == "" {
				got += fmt.Sprintf("[%d:%d]", f.From, f.To)
				if q.Requests[f.From].Key != f.Key {
					t.Errorf("the key of %s is %q, that of its requests is %q", f.Policy.Name(), f.Key, q.Requests[f.From].Key)
				}
			}
			got += "\n"
		}
		const want = `off mode
off~candidate mode
shadow [1:2]
methods match.methods
methods~candidate match.methods
hosts match.hosts
paths match.paths
header match.headers.x-plan
where match.where
all [0:1]
all~candidate [2:3]
`
		if got != want {
			t.Errorf("Explain finds:\n%swant:\n%s", got, want)
		}
		if n := s.Match(&plain, r); n != 1 || !slices.EqualFunc(plain.Charges, q.Charges, func(a, b policy.Charge) bool { return a == b }) {
			t.Errorf("Match = %d and %+v, Explain fills in %+v", n, plain.Charges, q.Charges)
		}
	}
	if len(asked) != 4 {
		t.Errorf("the conditions were asked %d times, want 4", len(asked))
	}
	if found := new(policy.Set).Explain(&q, r); len(found) != 0 || len(q.Charges) != 0 {
		t.Errorf("the zero Set finds %v", found)
	}
}
