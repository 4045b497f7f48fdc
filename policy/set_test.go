package policy_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/floodweir/weir"
	"github.com/floodweir/weir/policy"
)

func TestSetAsks(t *testing.T) {
	both := []weir.Limit{weir.MustLimit("10/s"), weir.MustLimit("100/m")}
	off := mustNew(t, policy.Config{Name: "off", Mode: policy.Off})
	shadow := mustNew(t, policy.Config{Name: "shadow", Mode: policy.Shadow, Limits: both})
	other := mustNew(t, policy.Config{Name: "other", Match: policy.Match{Paths: []string{"/other"}}})
	first := mustNew(t, policy.Config{Name: "first", Cost: 3, Limits: both})
	second := mustNew(t, policy.Config{Name: "second"})
	s := mustSet(t, off, shadow, other, first, second)

	var q policy.Matches
	for step := range 3 { // used again and again
		if got := s.Match(&q, request{path: "/", ip: "192.0.2.1"}); got != 3 {
			t.Fatalf("step %d: Match = %d enforced requests, want 3", step, got)
		}
		var names []string
		for _, a := range q.Charges {
			names = append(names, fmt.Sprintf("%s[%d:%d]", a.Policy.Name(), a.From, a.To))
			for _, r := range q.Requests[a.From:a.To] {
				if err := r.Validate(); err != nil || r.Key != a.Key || r.N != a.Policy.Config().Cost || r.Verb != weir.Take {
					t.Errorf("step %d: request %+v of %s (%v), want a valid Take of its cost and key", step, r, a.Policy.Name(), err)
				}
			}
		}
		if got, want := strings.Join(names, " "), "first[0:2] second[2:3] shadow[3:5]"; got != want {
			t.Errorf("step %d: asks = %s, want %s", step, got, want)
		}
	}
	if s.Policy("first") != first || s.Policy("none") != nil || len(s.Policies()) != 5 {
		t.Error("Policy or Policies do not give what the set was made of")
	}
	if n := new(policy.Set).Match(&q, request{}); n != 0 || len(q.Charges) != 0 {
		t.Errorf("the zero Set asks %d requests and %d policies, want none", n, len(q.Charges))
	}
}

func TestNewSetErrors(t *testing.T) {
	p := mustNew(t, policy.Config{Name: "p"})
	if _, err := policy.NewSet(p, p); !errors.Is(err, weir.ErrInvalid) || !strings.Contains(err.Error(), `name: "p"`) {
		t.Errorf("NewSet of one name twice = %v, want an error that names it", err)
	}
	var many []*policy.Policy
	for i := range 3 {
		var limits []weir.Limit
		for j := range 100 {
			limits = append(limits, weir.MustLimit(fmt.Sprintf("%d/s", j+1)))
		}
		many = append(many, mustNew(t, policy.Config{Name: fmt.Sprint("p", i), Limits: limits}))
	}
	if _, err := policy.NewSet(many...); !errors.Is(err, weir.ErrInvalid) || !strings.Contains(err.Error(), "at most 256") {
		t.Errorf("NewSet of 300 limits = %v, want an error that names the most", err)
	}
	if _, err := policy.NewSet(many[:2]...); err != nil {
		t.Errorf("NewSet of 200 limits = %v, want none", err)
	}
}

func TestAskAllocates(t *testing.T) {
	s := mustSet(t, mustNew(t, policy.Config{Match: policy.Match{Methods: []string{"GET"}, Hosts: []string{"a.example"}, Paths: []string{"/api/{id}/x"}}}))
	var a policy.Attributes = request{method: "GET", host: "a.example:80", path: "/api/7/x", ip: "203.0.113.7"}
	var q policy.Matches
	if got := testing.AllocsPerRun(1000, func() { s.Match(&q, a) }); got > 2 {
		t.Errorf("Match allocates %v times, want at most 2: the key and the test's address", got)
	}
	if len(q.Charges) != 1 {
		t.Fatal("the policy does not match")
	}
}
