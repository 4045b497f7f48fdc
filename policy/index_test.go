package policy_test

import (
	"fmt"
	"math/rand/v2"
	"reflect"
	"slices"
	"testing"

	"github.com/floodweir/weir"
	"github.com/floodweir/weir/policy"
)

// TestIndexFindsWhatAScanFinds compares Match, which searches an index, with Explain, which
// looks at every policy, for random policies and requests.
func TestIndexFindsWhatAScanFinds(t *testing.T) {
	some := func(rng *rand.Rand, most int, of ...string) (list []string) {
		for range rng.IntN(most + 1) {
			list = append(list, of[rng.IntN(len(of))])
		}
		return list
	}
	hosts := []string{"a.example", "b.a.example", "example", "*.example", "*.a.example", "*.b.a.example", "A.Example.", "192.0.2.1", "[2001:db8::1]"}
	paths := []string{"/", "/*", "/a", "/a/*", "/a/b", "/a/{x}", "/{x}/b", "/{x}/{y}", "/{x}/{rest...}", "/A/b/c", "/a/{x}/*", "/b", "/b/{rest...}"}
	methods := []string{"GET", "get", "HEAD", "POST", "DELETE", "QUERY", "LINK", "TRACE"}
	asked := map[string][]string{
		"host":   append([]string{"", ".", "x.b.a.example:80", ".example", "..example", "xexample", "x.EXAMPLE", "[2001:DB8:0::1]:80"}, hosts...),
		"method": append([]string{"", "Post", "PO\u017fT", "LIN\u212a", "OTHER"}, methods...),
		"path": {"", "/", "*", "/a", "/A/", "//a//b", "/a/b", "/a/b/c", "/b/a/../../a/b", "/a%2fb", "/a;x/b", `/a\b`, "/a/.;/b", "/b/..;/a",
			"/a/b?c", "/a/b#/c", "/a%23/b", "/x/b", "/x/y", "/x/y/z", "/%61/b", "/a/..%2fb/x"},
	}
	matches, unindexed := 0, 0
	for seed := range uint64(400) {
		rng := rand.New(rand.NewPCG(seed, 15))
		var ps []*policy.Policy
		for i := range 5 + rng.IntN(40) {
			c := policy.Config{
				Name:  fmt.Sprint("p", i),
				Match: policy.Match{Hosts: some(rng, 2, hosts...), Paths: some(rng, 3, paths...), Methods: some(rng, 2, methods...)},
				Mode:  []policy.Mode{policy.Enforce, policy.Enforce, policy.Shadow, policy.Off}[rng.IntN(4)],
			}
			if c.Mode == policy.Enforce && rng.IntN(4) == 0 {
				c.Percent = 1 + rng.IntN(100)
			}
			if rng.IntN(4) == 0 {
				c.Candidate = []weir.Limit{weir.MustLimit("3/m")}
			}
			if len(c.Match.Paths) > 0 && rng.IntN(2) == 0 {
				c.Key = []policy.KeyPart{{Source: policy.Path}}
			}
			switch rng.IntN(8) {
			case 0:
				c.Match.Where = condition{where("/a/b", new([]string))}
			case 1:
				c.Match.Headers = map[string][]string{"X-Plan": {"free"}}
			case 2: // more pairs of a host and a path than an index stores
				c.Match.Hosts = slices.Repeat([]string{"*.example", "a.example"}, 30)
				c.Match.Paths = slices.Repeat([]string{"/a/*", "/{x}/b"}, 30)
				unindexed++
			case 3:
				c.Zone, c.Key, c.Candidate = "zone", byIP, nil
			}
			ps = append(ps, mustNew(t, c))
		}
		set, err := policy.NewSet(ps...)
		if err != nil { // of zones whose policies cannot be in this order
			continue
		}
		var got, want policy.Matches
		for range 50 {
			r := request{host: asked["host"][rng.IntN(len(asked["host"]))], method: asked["method"][rng.IntN(len(asked["method"]))],
				path: asked["path"][rng.IntN(len(asked["path"]))], ip: fmt.Sprintf("192.0.2.%d", rng.IntN(9))}
			if rng.IntN(2) == 0 {
				r.header = map[string][]string{"X-Plan": {"free"}}
			}
			enforced := set.Match(&got, r)
			set.Explain(&want, r)
			matches += len(got.Charges)
			if !reflect.DeepEqual(got.Charges, want.Charges) || !reflect.DeepEqual(got.Requests, want.Requests) || enforced > len(got.Requests) {
				t.Fatalf("seed %d: %+v: Match = %d charges %v, want %d: %v", seed, r, len(got.Charges), names(got.Charges), len(want.Charges), names(want.Charges))
			}
		}
	}
	if matches < 10_000 || unindexed < 100 {
		t.Errorf("compared %d charges, and %d policies with many pairs: too few", matches, unindexed)
	}
}

func names(charges []policy.Charge) (all []string) {
	for _, c := range charges {
		all = append(all, c.Policy.Name())
	}
	return all
}

// endpoints returns n policies for one method of one path of one host each, as importers
// write them.
func endpoints(tb testing.TB, n int) *policy.Set {
	var ps []*policy.Policy
	for i := range n {
		ps = append(ps, mustNew(tb, policy.Config{Name: fmt.Sprint("p", i), Match: policy.Match{
			Hosts:   []string{fmt.Sprintf("h%d.example", i%100)},
			Paths:   []string{fmt.Sprintf("/svc%d/{id}/orders", i)},
			Methods: []string{"GET", "POST"},
		}}))
	}
	return mustSet(tb, ps...)
}

// TestIndexAllocates requires that a request that matches one of 1,000 policies allocates
// no more than with one policy.
func TestIndexAllocates(t *testing.T) {
	s := endpoints(t, 1000)
	var a policy.Attributes = request{method: "GET", host: "h7.example:80", path: "/svc7/4711/orders", ip: "203.0.113.7"}
	var q policy.Matches
	if got := testing.AllocsPerRun(1000, func() { s.Match(&q, a) }); got > 2 || len(q.Charges) != 1 {
		t.Errorf("Match allocates %v times and matches %d policies, want at most 2 times and 1 policy", got, len(q.Charges))
	}
}

// BenchmarkPolicies measures a request that matches one policy of many: the same one, or
// another one each time.
func BenchmarkPolicies(b *testing.B) {
	for _, n := range []int{1, 4, 10, 1000, 10_000} {
		s := endpoints(b, n)
		var same, each []policy.Attributes
		for i := range min(n, 1000) {
			i = i * n / min(n, 1000)
			each = append(each, request{method: "GET", host: fmt.Sprintf("h%d.example", i%100), path: fmt.Sprintf("/svc%d/4711/orders", i), ip: "203.0.113.7"})
		}
		same = each[len(each)/2:][:1]
		for name, requests := range map[string][]policy.Attributes{"same": same, "each": each} {
			b.Run(fmt.Sprint(n, "/", name), func(b *testing.B) {
				var q policy.Matches
				b.ReportAllocs()
				for i := 0; b.Loop(); i++ {
					if s.Match(&q, requests[i%len(requests)]); len(q.Charges) != 1 {
						b.Fatalf("%d policies match, want 1", len(q.Charges))
					}
				}
			})
		}
	}
}
