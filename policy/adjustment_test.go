package policy_test

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/floodweir/weir"
	"github.com/floodweir/weir/policy"
)

func adjust(t testing.TB, s *policy.Set, all ...policy.Adjustment) *policy.Set {
	t.Helper()
	s, err := s.WithAdjustments(all)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// outcome returns the charges of a request, without their adjustments, and its requests to the
// store.
func outcome(s *policy.Set, a policy.Attributes) string {
	var q policy.Matches
	n := s.Match(&q, a)
	var b strings.Builder
	fmt.Fprintf(&b, "%d enforced", n)
	for _, c := range q.Charges {
		fmt.Fprintf(&b, "; %s %s %d-%d cost %d enforced %t blocked %t always %t", c.Policy.Name(), c.Key, c.From, c.To, c.Cost, c.Enforced, c.Blocked, c.Always)
	}
	for _, r := range q.Requests {
		fmt.Fprintf(&b, "; %s %s %s %d carry %d from", r.Key, r.Limit, r.Limit.Spec().State, r.N, r.Carry)
		for _, l := range r.From {
			fmt.Fprintf(&b, " %s %s", l, l.Spec().State)
		}
	}
	return b.String()
}

// TestAdjustmentIsOverride checks that adjustments decide random requests as the same overrides
// do, when they begin and after they end.
func TestAdjustmentIsOverride(t *testing.T) {
	texts := []string{"1/s", "2/s", "9/m", "8/m", "7/h", "3/s fixed_window", "2 concurrency", "5/h sliding_log"}
	key := func(r *rand.Rand) string { return fmt.Sprintf("10.0.0.%d", r.IntN(6)) }
	for seed := range uint64(1000) {
		r := rand.New(rand.NewPCG(seed, 1))
		most := 1 + r.IntN(2)
		randomLimits := func(r *rand.Rand) []weir.Limit {
			order := r.Perm(len(texts))
			return limits(texts[order[0]], texts[order[1]])[:1+r.IntN(most)]
		}
		c := policy.Config{Name: "p", Key: byIP, Limits: randomLimits(r), Candidate: limits("4/s"), Mode: []policy.Mode{policy.Enforce, policy.Shadow}[r.IntN(2)],
			Carry: []weir.Carry{weir.CarryUsage, weir.CarryUsage, weir.CarryAsIs, weir.CarryReset}[r.IntN(4)]}
		if c.Mode == policy.Enforce && r.IntN(3) == 0 {
			c.Percent = 50
		}
		for _, k := range []string{"10.0.0.1", "10.0.0.2", "10.0.0.0/30", "*"}[:r.IntN(5)] {
			o := policy.Override{Key: []string{k}, Limits: randomLimits(r)}
			switch r.IntN(4) {
			case 0:
				o.Limits, o.Block = nil, true
			case 1:
				o.Limits, o.Unlimited = nil, true
			}
			c.Overrides = append(c.Overrides, o)
		}
		earlier := c
		earlier.Limits, earlier.Overrides, earlier.Candidate = randomLimits(r), nil, nil
		base := mustSet(t, mustNew(t, c)).WithPrevious(mustSet(t, mustNew(t, earlier)))

		a := policy.Adjustment{Policy: "p", Key: []string{key(r)}, Limits: randomLimits(r)}
		if r.IntN(3) == 0 {
			a.Limits, a.Block = nil, true
		}
		with := c
		with.Overrides = []policy.Override{{Key: a.Key, Limits: a.Limits, Block: a.Block}}
		for _, o := range c.Overrides {
			if o.Key[0] != a.Key[0] {
				with.Overrides = append(with.Overrides, o)
			}
		}
		override := mustSet(t, mustNew(t, with)).WithPrevious(base)
		adjusted := adjust(t, base, a)
		pairs := [][2]*policy.Set{{override, adjusted}}
		if most == 1 && !a.Block && !a.Limits[0].IsConcurrency() {
			// Otherwise the former limits of the policy are lost in an override, but not here.
			ended := mustSet(t, mustNew(t, c)).WithPrevious(override)
			pairs = append(pairs, [2]*policy.Set{ended, adjust(t, adjusted)}, [2]*policy.Set{ended, mustSet(t, mustNew(t, c)).WithPrevious(adjusted)})
		} else if a.Block {
			pairs = append(pairs, [2]*policy.Set{base, adjust(t, adjusted)})
		}
		for step, pair := range pairs {
			for i := range 6 {
				q := request{ip: fmt.Sprintf("10.0.0.%d", i)}
				if got, want := outcome(pair[1], q), outcome(pair[0], q); got != want {
					t.Fatalf("seed %d, step %d, %s adjusted %+v:\n%s, want as the override\n%s", seed, step, q.ip, a, got, want)
				}
			}
		}
	}
}

// TestAdjustmentCarriesOver checks the former limits of a key through a freeze.
func TestAdjustmentCarriesOver(t *testing.T) {
	raise := func(text string) policy.Adjustment {
		return policy.Adjustment{Policy: "p", Key: []string{"1.2.3.4"}, Limits: limits(text)}
	}
	freeze := policy.Adjustment{Policy: "p", Key: []string{"1.2.3.4"}, Block: true}
	s := mustSet(t, mustNew(t, policy.Config{Limits: limits("1/s")}))
	for i, step := range []struct {
		adjustments []policy.Adjustment
		want        string
	}{
		{nil, "1/s:"},
		{[]policy.Adjustment{raise("5/s")}, "5/s:"}, // the same state
		{[]policy.Adjustment{raise("5/m")}, "5/m: 5/s"},
		{[]policy.Adjustment{raise("6/m")}, "6/m: 5/s"},
		{[]policy.Adjustment{freeze}, ""},
		{nil, "1/s: 6/m"},
		{[]policy.Adjustment{raise("7/h")}, "7/h: 6/m 5/s"},
	} {
		s = adjust(t, s, step.adjustments...)
		if got := follows(s, request{ip: "1.2.3.4"}); got != step.want {
			t.Errorf("step %d: %s, want %s", i, got, step.want)
		}
		if got := follows(s, request{ip: "1.2.3.5"}); got != "1/s:" {
			t.Errorf("step %d, another key: %s, want 1/s:", i, got)
		}
	}
	other := mustSet(t, mustNew(t, policy.Config{Limits: limits("1/s"), Key: []policy.KeyPart{part(policy.ClientIP, "56")}})).WithPrevious(s)
	if got := follows(other, request{ip: "1.2.3.4"}); got != "1/s:" {
		t.Errorf("after a change of the key parts: %s, want 1/s:", got)
	}
}

// TestAdjustmentOfZone checks that an adjustment of one policy of a zone applies in all.
func TestAdjustmentOfZone(t *testing.T) {
	in := func(name, method string) *policy.Policy {
		return mustNew(t, policy.Config{Name: name, Zone: "z", Match: policy.Match{Methods: []string{method}}})
	}
	s := adjust(t, mustSet(t, in("a", "GET"), in("b", "POST")), policy.Adjustment{Policy: "a", Key: []string{"1.2.3.4"}, Block: true})
	for _, method := range []string{"GET", "POST"} {
		if got := outcome(s, request{method: method, ip: "1.2.3.4"}); !strings.Contains(got, "blocked true") {
			t.Errorf("%s: %s, want blocked", method, got)
		}
	}
}

// TestAdjustmentOfTenant checks that one key of a policy with tenants can be blocked.
func TestAdjustmentOfTenant(t *testing.T) {
	c := policy.Config{Name: "p", Key: []policy.KeyPart{part(policy.Header, "X-A")}, Limits: limits("100/s burst 100"),
		Tenants: []policy.Tenant{{Key: []string{"gold"}, Weight: 1, Burst: 10}, {Key: []string{"*"}, Weight: 1, Burst: 10}}}
	s := mustSet(t, mustNew(t, c))
	err := s.CheckAdjustment(policy.Adjustment{Policy: "p", Key: []string{"gold"}, Limits: limits("1/s")})
	if err == nil || !strings.Contains(err.Error(), "limits") {
		t.Errorf("other limits of a tenant = %v, want an error", err)
	}
	s = adjust(t, s, policy.Adjustment{Policy: "p", Key: []string{"eve"}, Block: true, Note: "frozen"})
	for value, want := range map[string]bool{"eve": true, "bob": false, "gold": false} {
		var q policy.Matches
		s.Match(&q, request{header: map[string][]string{"X-A": {value}}})
		if c := q.Charges[0]; c.Blocked != want || (c.Adjustment != nil) != want || want && c.Adjustment.Note != "frozen" {
			t.Errorf("%s: %+v, want blocked %t with the note", value, c, want)
		}
	}
}

func TestAdjustmentErrors(t *testing.T) {
	s := mustSet(t, mustNew(t, policy.Config{Name: "p", Key: []policy.KeyPart{part(policy.ClientIP, ""), part(policy.Header, "X-A")}, Candidate: limits("3/s")}),
		mustNew(t, policy.Config{Name: "failures", Count: policy.CountFailures}))
	two := []string{"1.2.3.4", "a"}
	for _, tc := range []struct {
		a    policy.Adjustment
		want string // the field
	}{
		{policy.Adjustment{Policy: "q", Key: two, Block: true}, "policy"},
		{policy.Adjustment{Policy: "p~candidate", Key: two, Block: true}, "policy"},
		{policy.Adjustment{Policy: "p", Key: two[:1], Block: true}, "key"},
		{policy.Adjustment{Policy: "p", Key: []string{"1.2.3.0/24", "a"}, Block: true}, "key[0]"},
		{policy.Adjustment{Policy: "p", Key: []string{"*", "a"}, Block: true}, "key[0]"},
		{policy.Adjustment{Policy: "p", Key: []string{"1.2.3.4", " a"}, Block: true}, "key[1]"},
		{policy.Adjustment{Policy: "p", Key: two}, "limits"},
		{policy.Adjustment{Policy: "p", Key: two, Block: true, Limits: limits("1/s")}, "block"},
		{policy.Adjustment{Policy: "p", Key: two, Limits: limits("1/s", "1/s")}, "limits[1]"},
		{policy.Adjustment{Policy: "failures", Key: two[:1], Limits: limits("1 concurrency")}, "limits[0]"},
	} {
		err := s.CheckAdjustment(tc.a)
		var e *policy.Error
		if !errors.As(err, &e) || e.Field != tc.want || e.Policy != tc.a.Policy {
			t.Errorf("CheckAdjustment(%+v) = %v, want an error of %s", tc.a, err, tc.want)
		}
		with, err := s.WithAdjustments([]policy.Adjustment{tc.a, {Policy: "p", Key: two, Block: true}})
		if !errors.Is(err, weir.ErrInvalid) {
			t.Errorf("WithAdjustments(%+v) = %v, want ErrInvalid", tc.a, err)
		}
		if _, ok := with.Adjusted("p|7:1.2.3.4|1:a"); !ok || !with.Blocks() {
			t.Errorf("WithAdjustments(%+v) has not the valid adjustment", tc.a)
		}
	}
	if s.Blocks() || adjust(t, s).Blocks() {
		t.Error("a set without a block blocks")
	}
}

// TestAdjustmentOfEveryKey checks that each key of a policy can be adjusted by its values, also
// one with a '*', which a client may choose.
func TestAdjustmentOfEveryKey(t *testing.T) {
	p := mustNew(t, policy.Config{
		Match: policy.Match{Paths: []string{"/a/*"}, Hosts: []string{"example.com"}},
		Key:   []policy.KeyPart{part(policy.ClientIP, ""), part(policy.Path, ""), part(policy.Method, ""), part(policy.Host, ""), part(policy.Header, "Authorization"), part(policy.Query, "q")},
	})
	s := mustSet(t, p)
	for _, r := range []request{
		{method: "GET", host: "Example.com:80", path: "/a/b", ip: "1.2.3.4", header: map[string][]string{"Authorization": {"basic  xyz"}}, query: map[string][]string{"q": {"a*b"}}},
		{method: "BREW", host: "example.com", path: "/a/b", ip: "2001:db8::1"},
		{method: "BREW", host: "example.com", path: "/a/b", query: map[string][]string{"q": {"**"}}},
	} {
		var q policy.Matches
		s.Match(&q, r)
		values, ok := policy.KeyValues(q.Charges[0].Key)
		if !ok {
			t.Fatalf("KeyValues(%q): none", q.Charges[0].Key)
		}
		got := outcome(adjust(t, s, policy.Adjustment{Policy: "p", Key: values, Block: true}), r)
		if !strings.Contains(got, "blocked true") {
			t.Errorf("%+v with %q: %s, want blocked", r, values, got)
		}
		var byKey policy.Matches
		if err := s.MatchKey(&byKey, "p", values); err != nil || !reflect.DeepEqual(byKey.Charges, q.Charges) || !reflect.DeepEqual(byKey.Requests, q.Requests) {
			t.Errorf("MatchKey(%q) = %+v, %v, want as Match %+v", values, byKey.Charges, err, q.Charges)
		}
	}
}

// TestMatchKeyOfPrefix checks that a key by address finds an override of a prefix.
func TestMatchKeyOfPrefix(t *testing.T) {
	s := mustSet(t, limited(t, policy.Config{}, []string{"10.0.0.0/8"}, []string{"2001:db8::/32"}))
	for value, want := range map[string]int64{"10.1.2.3": 1, "2001:db8:1::": 2, "2001:db8:1::/64": 2, "11.0.0.1": 1000, "": 1000} {
		var q policy.Matches
		if err := s.MatchKey(&q, "p", []string{value}); err != nil || len(q.Requests) != 1 || q.Requests[0].Limit.Capacity() != want {
			t.Errorf("MatchKey(%q) = %+v, %v, want a capacity of %d", value, q.Requests, err, want)
		}
	}
	var q policy.Matches
	if err := s.MatchKey(&q, "q", nil); !errors.Is(err, weir.ErrInvalid) {
		t.Errorf("MatchKey of an unknown policy = %v, want ErrInvalid", err)
	}
}

// TestManyAdjustments checks that adjusting a set does not take as long as compiling its overrides.
func TestManyAdjustments(t *testing.T) {
	c := policy.Config{Name: "p", Key: byIP, Limits: ten}
	for i := range 100_000 {
		c.Overrides = append(c.Overrides, policy.Override{Key: []string{fmt.Sprintf("10.%d.%d.%d", i>>16, i>>8&255, i&255)}, Limits: limits("5/s")})
	}
	s := mustSet(t, mustNew(t, c))
	one := policy.Adjustment{Policy: "p", Key: []string{"10.0.0.1"}, Block: true}
	if n := testing.AllocsPerRun(1, func() { adjust(t, s, one) }); n > 100 {
		t.Errorf("one adjustment beside 100,000 overrides takes %v allocations, want at most 100", n)
	}
	s = adjust(t, s, one)
	var all []policy.Adjustment
	for i := range 10_000 {
		all = append(all, policy.Adjustment{Policy: "p", Key: []string{fmt.Sprintf("11.0.%d.%d", i>>8, i&255)}, Limits: limits("7/s")})
	}
	start := time.Now()
	s = adjust(t, s, all...)
	t.Logf("10,000 adjustments take %v", time.Since(start))
	if got := outcome(s, request{ip: "10.0.0.1"}); strings.Contains(got, "blocked true") {
		t.Error("an ended block still blocks")
	}
}

func BenchmarkMatchAdjusted(b *testing.B) {
	s := mustSet(b, mustNew(b, policy.Config{}))
	var all []policy.Adjustment
	for i := range 10_000 {
		all = append(all, policy.Adjustment{Policy: "p", Key: []string{fmt.Sprintf("11.0.%d.%d", i>>8, i&255)}, Block: true})
	}
	s = adjust(b, s, all...)
	var q policy.Matches
	var a policy.Attributes = request{ip: "203.0.113.7"}
	b.ReportAllocs()
	for b.Loop() {
		s.Match(&q, a)
	}
}

// TestMatchStates checks that every state of a key, also of former limits and of the candidate, is
// reset once.
func TestMatchStates(t *testing.T) {
	raise := policy.Adjustment{Policy: "p", Key: []string{"1.2.3.4"}, Limits: limits("5/h", "9/s")}
	s := mustSet(t, mustNew(t, policy.Config{Limits: limits("1/s", "2/m"), Candidate: limits("3/s")})).
		WithPrevious(mustSet(t, mustNew(t, policy.Config{Limits: limits("7/24h")})))
	for _, c := range []struct {
		set  *policy.Set
		want string
	}{
		{s, "p|7:1.2.3.4 =/s, p|7:1.2.3.4 =/m, p|7:1.2.3.4 =/24h, p~candidate|7:1.2.3.4 =/s"},
		{adjust(t, s, raise), "p|7:1.2.3.4 =/s, p|7:1.2.3.4 =/m, p|7:1.2.3.4 =/h, p|7:1.2.3.4 =/24h, p~candidate|7:1.2.3.4 =/s"},
		{adjust(t, adjust(t, s, raise)), "p|7:1.2.3.4 =/s, p|7:1.2.3.4 =/m, p|7:1.2.3.4 =/h, p|7:1.2.3.4 =/24h, p~candidate|7:1.2.3.4 =/s"},
	} {
		var q policy.Matches
		if err := c.set.MatchStates(&q, "p", []string{"1.2.3.4"}); err != nil {
			t.Fatal(err)
		}
		var got []string
		for _, r := range q.Requests {
			got = append(got, r.Key+" "+r.Limit.Spec().State)
			if r.Verb != weir.Reset {
				t.Errorf("%s: want a Reset", r.Verb)
			}
		}
		if text := strings.Join(got, ", "); text != c.want {
			t.Errorf("MatchStates = %s, want %s", text, c.want)
		}
	}
}
