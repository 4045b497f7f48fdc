package policy_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/floodweir/weir"
	"github.com/floodweir/weir/policy"
)

// TestBlock checks the charges of policies and overrides that block or do not limit a key.
func TestBlock(t *testing.T) {
	overrides := []policy.Override{{Key: []string{"192.0.2.1"}, Block: true}, {Key: []string{"10.0.0.0/8"}, Unlimited: true}, {Key: []string{"192.0.2.2"}, Limits: ten}}
	set := mustSet(t,
		mustNew(t, policy.Config{Name: "limited", Overrides: overrides, Candidate: []weir.Limit{weir.MustLimit("5/s")}}),
		newPolicy(t, policy.Config{Name: "open", Key: byIP, Unlimited: true, Overrides: overrides}),
		newPolicy(t, policy.Config{Name: "tried", Block: true, Mode: policy.Shadow}),
	)
	for ip, want := range map[string]string{
		"192.0.2.1": "limited blocked enforced, open blocked enforced, tried blocked, limited~candidate 1",
		"10.1.2.3":  "tried blocked, limited~candidate 1",
		"192.0.2.2": "limited 1 enforced, open 1 enforced, limited~candidate 1, tried blocked",
		"192.0.2.3": "limited 1 enforced, limited~candidate 1, tried blocked",
	} {
		var q policy.Matches
		set.Match(&q, request{ip: ip})
		var got []string
		for _, c := range q.Charges {
			text := c.Policy.Name()
			if c.Blocked {
				text += " blocked"
			} else {
				text += " 1"
			}
			if c.Enforced {
				text += " enforced"
			}
			if c.Blocked != (c.From == c.To) {
				t.Errorf("%s: the charge of %s has %d requests", ip, c.Policy.Name(), c.To-c.From)
			}
			got = append(got, text)
		}
		if slices.Sort(got); !slices.Equal(got, slices.Sorted(slices.Values(strings.Split(want, ", ")))) {
			t.Errorf("%s: charges are %v, want %s", ip, got, want)
		}
	}
	var q policy.Matches
	for _, c := range set.Explain(&q, request{ip: "10.1.2.3"}) {
		want := ""
		if name := c.Policy.Name(); name == "limited" || name == "open" {
			want = "unlimited"
		}
		if c.Missed != want {
			t.Errorf("Explain: %s is missed by %q, want %q", c.Policy.Name(), c.Missed, want)
		}
	}
	for want, c := range map[string]policy.Config{
		"block":               {Block: true, Limits: ten},
		"limits":              {Unlimited: true, Limits: ten},
		"overrides[0].block":  {Limits: ten, Overrides: []policy.Override{{Key: []string{"*"}, Block: true, Unlimited: true}}},
		"overrides[0].limits": {Limits: ten, Overrides: []policy.Override{{Key: []string{"*"}}}},
		"nginx.zone":          {Block: true, Zone: "z"},
	} {
		c.Name, c.Key = "p", byIP
		if _, err := policy.New(c); err == nil || !strings.Contains(err.Error(), ": "+want+": ") {
			t.Errorf("New = %v, want an error about %s", err, want)
		}
	}
}

func newPolicy(t *testing.T, c policy.Config) *policy.Policy {
	t.Helper()
	p, err := policy.New(c)
	if err != nil {
		t.Fatal(err)
	}
	return p
}
