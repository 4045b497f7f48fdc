package guard_test

import (
	"errors"
	"testing"

	"github.com/floodweir/weir"
	"github.com/floodweir/weir/guard"
	"github.com/floodweir/weir/internal/fakestore"
	"github.com/floodweir/weir/policy"
)

// TestPerInstance checks that a rule can give each process its own limits in a shared store, also
// for overrides and for all calls together.
func TestPerInstance(t *testing.T) {
	for _, per := range []bool{false, true} {
		store := fakestore.Memory(t)
		one := rule(t, policy.Config{Name: "f", Limits: limits("2/h"), Overrides: []policy.Override{
			{Key: []string{"vip"}, Limits: limits("3/h")}, {Key: []string{"free-*"}, Limits: limits("1/h")}}})
		system := rule(t, policy.Config{Name: "system", Limits: limits("7/h")})
		one.PerInstance, system.PerInstance = per, per
		f := &guard.Functions{Rules: []guard.Rule{one}, System: &system}
		total := map[string]int{}
		for _, instance := range []string{"", "", "pod-1", "pod-1"} {
			g := registry(t, guard.Config{Store: store, Functions: f, Instance: instance}).MustGuard(guard.Resource{Name: "f"})
			for _, key := range []string{"anna", "vip", "free-1"} {
				total[key] += passed(t, g, key, 4)
			}
			total["all"] += passed(t, g, "bob", 4)
		}
		want := map[string]int{"anna": 2, "vip": 3, "free-1": 1, "all": 1}
		for key, n := range want {
			if per {
				n *= 3 // the last process has the name of the one before
			}
			if total[key] != n {
				t.Errorf("per instance %v: %d calls of %s pass, want %d", per, total[key], key, n)
			}
		}
	}
}

// TestInstance checks that the name of a process is unique, lasts, and can be set.
func TestInstance(t *testing.T) {
	a, b := registry(t, guard.Config{}), registry(t, guard.Config{})
	name := a.Instance()
	if name == "" || name == b.Instance() {
		t.Errorf("Instance = %q and %q, want different names", name, b.Instance())
	}
	configure(t, a, guard.Config{Functions: functions(rule(t, policy.Config{Name: "f", Limits: limits("2/h")}))})
	if got := a.Instance(); got != name {
		t.Errorf("Instance = %q after Configure, want %q as before", got, name)
	}
	configure(t, a, guard.Config{Instance: "pod-1"})
	if got := a.Instance(); got != "pod-1" {
		t.Errorf("Instance = %q, want that of Config", got)
	}
	for _, bad := range []guard.Config{
		{Instance: "pod 1"},
		{Functions: functions(guard.Rule{Name: "f", PerInstance: true, Settings: guard.Settings{Bulkhead: &guard.Bulkhead{Max: 1}}})},
	} {
		if err := a.Configure(bad); !errors.Is(err, weir.ErrInvalid) {
			t.Errorf("Configure(%+v) = %v, want ErrInvalid", bad, err)
		}
	}
	if got := a.Instance(); got != "pod-1" {
		t.Errorf("Instance = %q after an error, want that of before", got)
	}
}
