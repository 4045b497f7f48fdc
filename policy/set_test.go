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
}

// TestNewSetBoundsARequest checks that the limits which one request matches are bounded, and
// those of a set are not.
func TestNewSetBoundsARequest(t *testing.T) {
	var hundred []weir.Limit
	for j := range 100 {
		hundred = append(hundred, weir.MustLimit(fmt.Sprintf("%d/s", j+1)))
	}
	three := func(change func(i int, c *policy.Config)) (ps []*policy.Policy) {
		for i := range 3 {
			c := policy.Config{Name: fmt.Sprint("p", i), Limits: hundred}
			change(i, &c)
			ps = append(ps, mustNew(t, c))
		}
		return ps
	}
	last := func(change func(c *policy.Config)) func(int, *policy.Config) {
		return func(i int, c *policy.Config) {
			if i == 2 {
				change(c)
			}
		}
	}
	for _, tt := range []struct {
		name, want string // part of the error, or "" for none
		ps         []*policy.Policy
	}{
		{"every request", "300 limits with those of other policies for GET /", three(func(int, *policy.Config) {})},
		{"a host below another", "for GET x.a.example/", three(func(i int, c *policy.Config) {
			c.Match.Hosts = [][]string{{"*.example"}, {"b.example", "*.a.example"}, {"*.a.example"}}[i]
		})},
		{"a path below another", "for POST /a/x/b", three(func(i int, c *policy.Config) {
			c.Match = policy.Match{Methods: []string{"post"}, Paths: [][]string{{"/*"}, {"/a/*"}, {"/b", "/a/{id}/b"}}[i]}
		})},
		{"a header", "300 limits", three(last(func(c *policy.Config) { c.Match.Headers = map[string][]string{"X-A": {"*"}} }))},
		{"hosts", "", three(func(i int, c *policy.Config) { c.Match.Hosts = []string{fmt.Sprintf("h%d.example", i)} })},
		{"methods", "", three(func(i int, c *policy.Config) { c.Match.Methods = []string{[]string{"POST", "PUT", "GET"}[i]} })},
		{"headers", "", three(func(i int, c *policy.Config) { c.Match.Headers = map[string][]string{"X-A": {fmt.Sprint(i)}} })},
		{"a zone", "", three(func(i int, c *policy.Config) {
			c.Match.Paths = []string{[]string{"/a/b", "/a/*", "/*"}[i]}
			c.Zone = "z"
		})},
		{"shadow", "", three(last(func(c *policy.Config) { c.Mode = policy.Shadow }))},
		{"half of the keys", "", three(last(func(c *policy.Config) { c.Percent = 50 }))},
		{"two policies", "", three(func(int, *policy.Config) {})[:2]},
	} {
		_, err := policy.NewSet(tt.ps...)
		if tt.want == "" && err != nil || tt.want != "" && (!errors.Is(err, weir.ErrInvalid) || !strings.Contains(err.Error(), tt.want) || !strings.Contains(err.Error(), "at most 256")) {
			t.Errorf("%s: NewSet = %v, want %q", tt.name, err, tt.want)
		}
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
