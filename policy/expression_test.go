package policy_test

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/floodweir/weir"
	"github.com/floodweir/weir/policy"
)

// An expression returns text; condition and cost convert it.
type expression struct {
	text string
	do   func(policy.Attributes) (string, error)
}

func (e expression) String() string                           { return e.text }
func (e expression) Eval(a policy.Attributes) (string, error) { return e.do(a) }

type condition struct{ expression }

func (c condition) Eval(a policy.Attributes) (bool, error) {
	s, err := c.do(a)
	return s == "true", err
}

type cost struct{ expression }

func (c cost) Eval(a policy.Attributes) (n int64, err error) {
	s, err := c.do(a)
	fmt.Sscan(s, &n)
	return n, err
}

var errBroken = errors.New("division by zero")

func says(text string) expression {
	return expression{text, func(policy.Attributes) (string, error) { return text, nil }}
}

func breaks(text string) expression {
	return expression{"broken", func(policy.Attributes) (string, error) { return text, errBroken }}
}

func ofHeader(name string) expression {
	return expression{"header " + name, func(a policy.Attributes) (string, error) { return strings.Join(a.Header(name), ","), nil }}
}

// where records the paths of its evaluations, and is true for one of them.
func where(path string, asked *[]string) expression {
	return expression{"path == " + path, func(a policy.Attributes) (string, error) {
		*asked = append(*asked, a.Host()+a.Path())
		return fmt.Sprint(a.Path() == path), nil
	}}
}

// chargeOf returns the charge and the requests of a set with one policy.
func chargeOf(t testing.TB, p *policy.Policy, r policy.Attributes) (policy.Charge, []weir.Request) {
	t.Helper()
	var q policy.Matches
	mustSet(t, p).Match(&q, r)
	if len(q.Charges) == 0 {
		return policy.Charge{}, nil
	}
	return q.Charges[0], q.Requests[q.Charges[0].From:q.Charges[0].To]
}

// TestWhere checks that a condition is evaluated for each variant of the path until it is
// true, with the normalized host, after the lists.
func TestWhere(t *testing.T) {
	for _, tc := range []struct {
		path, holds string
		matches     bool
		asked       string
	}{
		{"/api/users", "/api/users", true, "a.example/api/users"},
		{"/API//Users/?x=1", "/api/users", true, "a.example/api/users"},
		{"/", "/", true, "a.example/"},
		{"/x", "/api", false, "a.example/x"},
		{"/other/..%2fapi", "/api", true, "a.example/api"},
		{"/other/..%2fapi", "/other/../api", true, "a.example/api a.example/other/../api"},
		{"/api/../b", "/c", false, "a.example/b a.example/api/../b"},
	} {
		var asked []string
		p := mustNew(t, policy.Config{Match: policy.Match{Where: condition{where(tc.holds, &asked)}, Methods: []string{"GET"}}})
		ask, _ := chargeOf(t, p, request{method: "GET", host: "A.Example.:8080", path: tc.path})
		if (ask.Policy != nil) != tc.matches || strings.Join(asked, " ") != tc.asked || ask.Err != nil {
			t.Errorf("%s where path == %s: matches %v, asked %q, error %v, want %v, %q, none", tc.path, tc.holds, ask.Policy != nil, asked, ask.Err, tc.matches, tc.asked)
		}
		asked = nil
		if ask, _ := chargeOf(t, p, request{method: "PUT", path: tc.path}); ask.Policy != nil || asked != nil {
			t.Errorf("%s of another method: matches %v, asked %q, want neither", tc.path, ask.Policy != nil, asked)
		}
	}
}

// TestFaultsDoNotBypass checks that a request with an expression that fails is limited, and
// that its Charge has the error.
func TestFaultsDoNotBypass(t *testing.T) {
	byText := func(e expression) []policy.KeyPart { return []policy.KeyPart{{Source: policy.CEL, Of: e}} }
	for _, tc := range []struct {
		name     string
		c        policy.Config
		key, err string
		cost     int64
	}{
		{"where", policy.Config{Match: policy.Match{Where: condition{breaks("")}}}, "p|7:1.2.3.4", "match.where", 1},
		{"cost", policy.Config{Cost: 3, CostOf: cost{breaks("7")}}, "p|7:1.2.3.4", "cost", 3},
		{"negative cost", policy.Config{Cost: 3, CostOf: cost{says("-7")}}, "p|7:1.2.3.4", "want 0 or more tokens, got -7", 3},
		{"key", policy.Config{Key: byText(breaks("x"))}, "p|-", "key[0]", 1},
		{"two", policy.Config{Key: byText(breaks("x")), CostOf: cost{breaks("2")}}, "p|-", "key[0]", 1},
	} {
		tc.c.Candidate = []weir.Limit{weir.MustLimit("1/s")}
		if tc.c.Cost > 1 {
			tc.c.Candidate = []weir.Limit{weir.MustLimit("20/s")}
		}
		var q policy.Matches
		set := mustSet(t, mustNew(t, tc.c), mustNew(t, policy.Config{Name: "well"}))
		if n := set.Match(&q, request{ip: "1.2.3.4"}); n != 2 || len(q.Charges) != 3 {
			t.Fatalf("%s: %d enforced of %d asks, want 2 of 3", tc.name, n, len(q.Charges))
		}
		for i, want := range []string{tc.key, "", strings.Replace(tc.key, "p|", "p~candidate|", 1)} {
			ask := q.Charges[i]
			if want == "" {
				if ask.Err != nil {
					t.Errorf("%s: error of another policy = %v, want none", tc.name, ask.Err)
				}
				continue
			}
			if ask.Err == nil || !strings.Contains(ask.Err.Error(), tc.err) || !strings.Contains(ask.Err.Error(), `policy "p"`) {
				t.Errorf("%s: error = %v, want one with the policy and %q", tc.name, ask.Err, tc.err)
			}
			if r := q.Requests[ask.From]; ask.Key != want || ask.Cost != tc.cost || r.N != tc.cost || r.Key != want {
				t.Errorf("%s: ask %+v, request %+v, want key %s and cost %d", tc.name, ask, r, want, tc.cost)
			}
		}
		if tc.name != "negative cost" && !errors.Is(q.Charges[0].Err, errBroken) {
			t.Errorf("%s: %v does not wrap the expression's error", tc.name, q.Charges[0].Err)
		}
	}
}

func TestCostOf(t *testing.T) {
	for text, want := range map[string]int64{"0": 0, "1": 1, "10": 10, "1000000": 1_000_000, "9223372036854775807": 1<<63 - 1} {
		ask, rs := chargeOf(t, mustNew(t, policy.Config{CostOf: cost{says(text)}}), request{})
		if ask.Err != nil || ask.Cost != want || rs[0].N != want || rs[0].Validate() != nil {
			t.Errorf("cost of %s: ask %d (%v), request %d (%v), want %d", text, ask.Cost, ask.Err, rs[0].N, rs[0].Validate(), want)
		}
	}
}

// TestExpressionsSeeTheVariantThatMatched checks expressions after a pattern and after a
// condition.
func TestExpressionsSeeTheVariantThatMatched(t *testing.T) {
	var asked []string
	note := where("", &asked)
	key := []policy.KeyPart{{Source: policy.CEL, Of: note}}
	for _, m := range []policy.Match{
		{Paths: []string{"/api/*"}},
		{Where: condition{expression{"", func(a policy.Attributes) (string, error) {
			return fmt.Sprint(strings.HasPrefix(a.Path(), "/api/")), nil
		}}}},
	} {
		asked = nil
		p := mustNew(t, policy.Config{Match: m, Key: key, CostOf: cost{note}})
		chargeOf(t, p, request{host: "h", path: "/API/x/..%2f../Other"})
		if want := []string{"h/api/x/../../other", "h/api/x/../../other"}; !slices.Equal(asked, want) {
			t.Errorf("match %v: key and cost see %q, want %q", m, asked, want)
		}
	}
}

func TestExpressionKey(t *testing.T) {
	p := mustNew(t, policy.Config{Key: []policy.KeyPart{{Source: policy.CEL, Of: ofHeader("X-A")}}})
	for text, want := range map[string]string{"": "p|-", " \t": "p|-", "a": "p|1:a", " a ": "p|1:a", "a|1:b": "p|5:a|1:b"} {
		if k, _ := keyOf(t, p, request{header: map[string][]string{"X-A": {text}}}); k != want {
			t.Errorf("key of %q = %q, want %q", text, k, want)
		}
	}
	if got, want := p.Config().Key[0].String(), "cel:header X-A"; got != want {
		t.Errorf("String = %q, want %q", got, want)
	}
}

// An uncomparable is an expression for which == panics.
type uncomparable struct {
	expression
	_ []int
}

// TestKeyPartIsComparable checks that key parts are compared by their text.
func TestKeyPartIsComparable(t *testing.T) {
	if a, b := part(policy.Header, "a"), part(policy.Header, "a"); a != b {
		t.Error("equal parts differ")
	}
	c := policy.Config{Name: "p", Limits: ten, Key: []policy.KeyPart{
		{Source: policy.CEL, Of: uncomparable{expression: says("a")}},
		{Source: policy.CEL, Of: uncomparable{expression: says("b")}},
	}}
	p, err := policy.New(c)
	if err != nil {
		t.Fatal(err)
	}
	mustSet(t, p).WithPrevious(mustSet(t, p))
	c.Key[1] = c.Key[0]
	if _, err := policy.New(c); err == nil || !strings.Contains(err.Error(), `key[1]: "cel:a": want every part once`) {
		t.Errorf("New of one expression twice = %v, want an error", err)
	}
}
