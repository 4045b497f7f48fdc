package weirfile_test

import (
	"fmt"
	"maps"
	"os"
	"path/filepath"
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

// TestLevelOverrides checks overrides of a level, as a list and in a file. Their limits are in the
// unit of the budget, errors name their positions, and the file is watched.
func TestLevelOverrides(t *testing.T) {
	dir := t.TempDir()
	write := func(name, text string) string {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	write("teams.csv", "header:X-Team,limits\nresearch,500/month calendar UTC\nsales,0\n")
	const head = "prices: { models: [{ model: m1, input: 1, output: 10 }] }\npolicies:\n  - name: ai\n    budget:\n      unit: usd\n      levels:\n"
	path := write("weir.yaml", head+`        - { name: team, key: "header:X-Team", limits: 200/month calendar UTC, overrides: { file: teams.csv } }
        - { name: key, key: "header:Authorization", limits: unlimited, overrides: [{ key: Bearer trial, limits: 0.50/day calendar UTC }] }
`)
	f, err := weirfile.Load(path)
	if err != nil {
		t.Fatal(err)
	}
	got := map[string]string{}
	for _, p := range f.Policies.Policies() {
		for _, o := range p.Config().Overrides {
			got[p.Name()+" "+o.Key[0]] = fmt.Sprint(o.Limits, o.Block)
		}
	}
	want := map[string]string{
		"ai.team research":    "[500000000/month fixed_window calendar UTC] false",
		"ai.team sales":       "[] true",
		"ai.key Bearer trial": "[500000/day fixed_window calendar UTC] false",
	}
	if !maps.Equal(got, want) {
		t.Errorf("overrides = %q, want %q", got, want)
	}
	if names := weirfile.Includes(path); len(names) != 1 || names[0] != filepath.Join(dir, "teams.csv") {
		t.Errorf("Includes = %q, want the table", names)
	}

	write("teams.csv", "header:X-Team,limits\nresearch,1/day calendar UTC\nsales,0.0000001/day\nops,0.5/s concurrency\nops,9/day\n")
	write("weir.yaml", head+`        - { name: key, key: "const:all", limits: 1/day calendar UTC, overrides: [{ key: other, limits: 1/day calendar UTC }, { key: all, limits: 1 day }] }
        - { name: team, key: "header:X-Team", limits: 200/month calendar UTC, overrides: { file: teams.csv } }
`)
	_, err = weirfile.Load(path)
	for _, want := range []string{
		"teams.csv:3:1: policies[0].budget.levels[1].overrides[1].limits: \"0.0000001/day\": want an amount of US dollars",
		"teams.csv:4:1: policies[0].budget.levels[1].overrides[2].limits: \"0.5/s concurrency\": ",
		"weir.yaml:7:146: policies[0].budget.levels[0].overrides[1].limits[0]: \"1 day\": want an amount of US dollars",
	} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("Load = %v, want %s", err, want)
		}
	}

	write("teams.csv", "header:X-Team,limits\nresearch,1/day calendar UTC\nresearch,9/day\n")
	write("weir.yaml", head+`        - { name: key, key: "const:all", limits: 1/day calendar UTC, overrides: [{ key: other, limits: 1/day calendar UTC }] }
        - { name: team, key: "header:X-Team", limits: 200/month calendar UTC, overrides: { file: teams.csv } }
`)
	_, err = weirfile.Load(path)
	for _, want := range []string{
		"weir.yaml:7:89: policies[0].budget.levels[0].overrides[0].key[0]: \"other\": want",
		"teams.csv:3:1: policies[0].budget.levels[1].overrides[1].key: \"research\": want every key once",
	} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("Load = %v, want %s", err, want)
		}
	}
}

// TestWarn checks the warnings of a budget, with the secret in a file, and errors at their
// positions without the secret.
func TestWarn(t *testing.T) {
	dir := t.TempDir()
	const secret = "0123456789abcdef"
	load := func(warn string) (*weirfile.File, error) {
		path := filepath.Join(dir, "weir.yaml")
		text := "policies:\n  - name: ai\n    budget:\n      unit: tokens\n      levels: [{ name: team, key: client.ip, limits: 90000/day }]\n      warn: " + warn + "\n"
		for name, text := range map[string]string{"weir.yaml": text, "good": secret + "\n", "short": "tooshort"} {
			if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
				t.Fatal(err)
			}
		}
		if names := weirfile.Includes(path); strings.Contains(warn, "_file") != (len(names) == 1) {
			t.Errorf("%s: Includes = %q, want the file of the secret", warn, names)
		}
		return weirfile.Load(path)
	}
	for _, warn := range []string{
		`{ at: [80, 90], webhook: "https://hooks.example.com/b", secret_file: good }`, `{ at: [80, 90], webhook: "http://hooks.internal/b", allow_http: true, secret: "` + secret + `" }`,
	} {
		f, err := load(warn)
		if err != nil {
			t.Fatalf("%s: %v", warn, err)
		}
		w := f.Policies.Policies()[0].Config().Settle.Meter.Config().Warn
		if w == nil || fmt.Sprint(w.At) != "[80 90]" || !strings.HasSuffix(w.Webhook, "/b") || w.Secret != secret || w.Level("ai.team") != "team" {
			t.Errorf("%s: Warn = %+v, want 80, 90, a webhook and the secret", warn, w)
		}
	}
	for warn, want := range map[string]string{
		`{ webhook: "https://hooks.example.com" }`: ":6:13: policies[0].budget.warn.at: want percentages",
		`{ at: [80, 0] }`:                          ":6:24: policies[0].budget.warn.at[1]: 0: want percentages",
		`{ at: 80, webhook: "http://hooks.example.com", secret: ` + secret + `x }`:   `:6:32: policies[0].budget.warn.webhook: "http://hooks.example.com": want https`,
		`{ at: 80, webhook: "https://hooks.example.com" }`:                           ":6:13: policies[0].budget.warn.secret: want a secret",
		`{ at: 80, webhook: "https://hooks.example.com", secret: tooshort }`:         ":6:69: policies[0].budget.warn.secret: want a secret of 16",
		`{ at: 80, webhook: "https://hooks.example.com", secret_file: short }`:       ":6:74: policies[0].budget.warn.secret: want a secret of 16",
		`{ at: 80, webhook: "https://hooks.example.com", secret_file: none }`:        ":6:74: policies[0].budget.warn.secret_file: \"none\": want a file with the secret",
		`{ at: 80, webhook: "https://h.example.com", secret_file: good, secret: s }`: "want it or secret, not both",
		`{ at: 80, url: x }`: "policies[0].budget.warn.url",
	} {
		if _, err := load(warn); err == nil || !strings.Contains(err.Error(), want) || strings.Contains(err.Error(), "tooshort") || strings.Contains(err.Error(), secret) {
			t.Errorf("%s: Load = %v, want %s without the secret", warn, err, want)
		}
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
