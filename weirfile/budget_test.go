package weirfile_test

import (
	"os"
	"strings"
	"testing"

	"github.com/floodweir/weir/budget"
	"github.com/floodweir/weir/policy"
	"github.com/floodweir/weir/weirfile"
)

// TestBudget checks that each level of a budget is a policy with the limits in its unit.
func TestBudget(t *testing.T) {
	f, err := weirfile.Parse("weir.yaml", []byte(`
prices:
  unknown_model: m1
  models: [{ model: m1, input: "1.25", cached: 0.125, output: 10 }]
policies:
  - name: ai
    match: /v1/*
    mode: shadow
    budget:
      unit: usd
      format: anthropic
      levels:
        - { name: key, key: "header:Authorization", limits: [12.50/day calendar UTC, 1/h burst 0.5] }
        - { name: org, key: "const:acme", limits: 1_000/month calendar UTC }
      reserve: { max_input: 100, max_output: 50 }
  - name: tokens
    budget: { unit: output_tokens, levels: [{ name: all, key: "const:all", limits: 10000/day }] }
`))
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, p := range f.Policies.Policies() {
		c := p.Config()
		var limits []string
		for _, l := range c.Limits {
			limits = append(limits, l.String())
		}
		got = append(got, p.Name()+" "+string(c.Mode)+": "+strings.Join(limits, ", ")+": "+c.Settle.Meter.String())
	}
	want := []string{
		"ai.key shadow: 12500000/day fixed_window calendar UTC, 1000000/h burst 500000: usd of anthropic, max_input 100, max_output 50",
		"ai.org shadow: 1000000000/month fixed_window calendar UTC: usd of anthropic, max_input 100, max_output 50",
		"tokens.all enforce: 10000/24h burst 10000: output_tokens of auto, max_input 0, max_output 4096",
	}
	if strings.Join(got, "\n") != strings.Join(want, "\n") {
		t.Fatalf("policies\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
	cost, err := f.Policies.Policies()[0].Config().Settle.Meter.Cost(budget.Usage{Model: "unknown", Input: 40, Cached: 60, Output: 50})
	if cost != 558 || err != nil {
		t.Errorf("Cost = %d, %v, want 558", cost, err)
	}
}

// TestGatewayPage checks the example of docs/budgets.md.
func TestGatewayPage(t *testing.T) {
	page, err := os.ReadFile("../docs/budgets.md")
	if err != nil {
		t.Fatal(err)
	}
	_, text, _ := strings.Cut(string(page), "```yaml\n")
	text, _, _ = strings.Cut(text, "```")
	f, err := weirfile.Parse("ai-gateway.yaml", []byte(text))
	if err != nil {
		t.Fatal(err)
	}
	if n := len(f.Policies.Policies()); n != 3 || f.Policies.Policies()[0].Config().Mode != policy.Enforce {
		t.Errorf("%d policies, want a policy for each of 3 levels", n)
	}
}
