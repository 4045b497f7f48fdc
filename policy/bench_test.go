package policy_test

import (
	"fmt"
	"testing"

	"github.com/floodweir/weir/policy"
)

// BenchmarkMatch measures the cost of policies for a request, without a store.
func BenchmarkMatch(b *testing.B) {
	var many []*policy.Policy
	for i := range 50 {
		c := policy.Config{Name: fmt.Sprint("p", i), Match: policy.Match{Paths: []string{fmt.Sprintf("/svc%d/*", i)}}}
		if i == 49 {
			c.Match.Paths = []string{"/svc7/{id}/orders"}
		}
		many = append(many, mustNew(b, c))
	}
	for _, bc := range []struct {
		name string
		set  *policy.Set
		want int
	}{
		{"one", mustSet(b, mustNew(b, policy.Config{})), 1},
		{"2of50", mustSet(b, many...), 2},
	} {
		b.Run(bc.name, func(b *testing.B) {
			var q policy.Matches
			var a policy.Attributes = request{method: "GET", host: "a.example", path: "/svc7/4711/orders", ip: "203.0.113.7"}
			b.ReportAllocs()
			for b.Loop() {
				bc.set.Match(&q, a)
			}
			if len(q.Charges) != bc.want {
				b.Fatalf("%d policies match, want %d", len(q.Charges), bc.want)
			}
		})
	}
}
