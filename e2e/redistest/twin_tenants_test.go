package redistest_test

import (
	"fmt"
	"testing"

	"github.com/floodweir/weir/internal/algo"
)

// tenantsOf returns the rules of all children of a parent.
func tenantsOf(t *testing.T, count, period, burst int64, children ...algo.Tenant) (rules []algo.Rule) {
	t.Helper()
	for i := range children {
		r, err := algo.NewTenantBucket(count, period, burst, children, i)
		if err != nil {
			t.Fatal(err)
		}
		rules = append(rules, r)
	}
	return rules
}

// TestTwinTenantBucket sends asks of random children. In the last lists processes with different
// children, weights, bursts and rates share the state.
func TestTwinTenantBucket(t *testing.T) {
	lists := map[string][]algo.Rule{}
	for _, p := range bucketRates {
		for i, children := range [][]algo.Tenant{
			{{ID: 1, Weight: 1, Burst: p.burst}},
			{{ID: 1, Weight: 3, Burst: 1}, {ID: 2, Weight: 1, Burst: max(1, p.burst/2-1)}},
			{{ID: 7, Weight: 3, Burst: max(1, p.burst/4)}, {ID: 5, Weight: 2, Burst: max(1, p.burst/4)}, {ID: 9, Weight: 7, Burst: max(1, p.burst/8)}},
		} {
			if _, err := algo.NewTenantBucket(p.count, p.period, p.burst, children, 0); err == nil {
				lists[fmt.Sprint(p, i)] = tenantsOf(t, p.count, p.period, p.burst, children...)
			}
		}
	}
	if len(lists) < 20 {
		t.Fatalf("%d parents accepted, want at least 20", len(lists))
	}
	a, b, c := algo.Tenant{ID: 11, Weight: 3, Burst: 20}, algo.Tenant{ID: 12, Weight: 1, Burst: 5}, algo.Tenant{ID: 13, Weight: 1, Burst: 5}
	heavy := algo.Tenant{ID: 12, Weight: 7, Burst: 30}
	was := tenantsOf(t, 100, second, 60, a, b, c)
	lists["weights"] = append(was, tenantsOf(t, 100, second, 60, a, heavy, c)...)
	lists["children"] = append(was, tenantsOf(t, 100, second, 60, c, a)...)
	lists["parents"] = append(was, tenantsOf(t, 7, second, 50, b, algo.Tenant{ID: 99, Weight: 7, Burst: 20}, a)...)
	lists["units"] = append(tenantsOf(t, 999_983, 1_000_003, 77, a, b), tenantsOf(t, 1, second, 1_000_000, a, heavy)...)
	runSharing(t, lists)
}
