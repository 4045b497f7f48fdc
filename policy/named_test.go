package policy_test

import (
	"strings"
	"testing"

	"github.com/floodweir/weir"
	"github.com/floodweir/weir/policy"
)

// TestNames checks the names of the states of a policy: equal for limits that differ in count,
// rate or burst, and different for all limits of a key.
func TestNames(t *testing.T) {
	names := func(limits []weir.Limit) string {
		var all []string
		for _, l := range limits {
			all = append(all, l.Spec().State)
		}
		return strings.Join(all, ", ")
	}
	for _, tc := range []struct{ limits, carry, want string }{
		{"10/s, 1000/h", "", "=/s, =/h"},
		{"20/s burst 100, 1/h", "", "=/s, =/h"},
		{"600/m, 5/90s", "", "=/m, =/90s"},
		{"5/s, 5/s fixed_window, 5/s sliding_window, 5/s sliding_log, 5/s leaky_bucket", "", "=/s, =/s fixed_window, =/s sliding_window, =/s sliding_log, =/s leaky_bucket"},
		{"5/s interval", "", "=/s"},
		{"9/s sliding_window segments 5 weighted", "", "=/s sliding_window"},
		{"7/month fixed_window calendar Asia/Shanghai", "", "=/month fixed_window"},
		{"5 concurrency, 10/s", "", "=concurrency, =/s"},
		{"10/s burst 100, 50/s burst 1, 9/h", "", "10/s burst 100, 50/s burst 1, =/h"},
		{"3/s leaky_bucket nginx shared", "", "3/s leaky_bucket nginx"},
		{"5 concurrency, 10/s", "reset", "=concurrency, 10/s burst 10"},
		{"10/s, 1000/h", "proportional", "10/s burst 10, 1000/h burst 1000"},
	} {
		c := policy.Config{Limits: limits(strings.Split(tc.limits, ", ")...)}
		c.Carry = map[string]weir.Carry{"reset": weir.CarryReset, "proportional": weir.CarryProportional}[tc.carry]
		c.Candidate = []weir.Limit{weir.MustLimit("1/24h")}
		c.Overrides = []policy.Override{{Key: []string{"1.2.3.4"}, Limits: c.Limits}}
		p := mustNew(t, c)
		got := p.Config()
		if names(got.Limits) != tc.want || names(got.Overrides[0].Limits) != tc.want {
			t.Errorf("%s %s: states %s, in an override %s, want %s", tc.limits, tc.carry, names(got.Limits), names(got.Overrides[0].Limits), tc.want)
		}
		if candidate := names(got.Candidate); candidate != "=/24h" && tc.carry == "" {
			t.Errorf("%s: state of the candidate %s", tc.limits, candidate)
		}
		if again := mustNew(t, got).Config(); names(again.Limits) != tc.want {
			t.Errorf("%s: a policy of the same configuration has states %s, want %s", tc.limits, names(again.Limits), tc.want)
		}
		if c.Limits[0].Name() != "" {
			t.Errorf("%s: the limits of the caller have names", tc.limits)
		}
	}
	own := mustNew(t, policy.Config{Limits: []weir.Limit{weir.MustLimit("10/s").Named("peak"), weir.MustLimit("5/s").Named("average")}})
	if got := names(own.Config().Limits); got != "=peak, =average" {
		t.Errorf("states %s, want the names of the caller", got)
	}
}
