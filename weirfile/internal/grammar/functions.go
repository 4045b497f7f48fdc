package grammar

import (
	"slices"
	"time"

	"github.com/floodweir/weir/policy"
)

var functions = &Shape{Kind: Map, Def: "functions", NotEmpty: true, Want: "want mode, system or rules", Fields: []Field{
	{Name: "mode", Doc: "the mode of all functions, also those without a rule: shadow denies nothing, off decides nothing", Default: string(policy.Enforce), Shape: mode},
	{Name: "system", Doc: "a rule for all calls together, beside the rule of each", Shape: system},
	{Name: "rules", Doc: "rules for the functions and resources of one name", Shape: &Shape{
		Kind: List, Of: rule, Want: "want a list of rules, each with a name and limits",
	}},
}}

var system = &Shape{Kind: Map, Def: "system_rule", NotEmpty: true, Want: "want limits, adaptive or bulkhead", Fields: slices.Concat([]Field{
	{Name: "limits", Doc: "the limits of the whole program", Examples: []any{[]string{"1000/s", "200 concurrency"}}, Shape: limits},
	modeOfRule, onStoreErrorOfRule, waitOfRule, carryOfRule, perInstanceOfRule,
}, settings)}

var rule = &Shape{Kind: Map, Def: "rule", Want: "want limits, breaker, adaptive or bulkhead beside the name", Fields: slices.Concat([]Field{
	{Name: "name", Doc: "the name of the functions in the program", Required: true, Examples: []any{"getId"}, Shape: name},
	{Name: "limits", Doc: "the limits of each key, instead of those in the program", Examples: []any{[]string{"10/10s"}}, Shape: limits},
	modeOfRule, onStoreErrorOfRule, waitOfRule,
	{Name: "percent", Doc: "the percentage of keys for which it is enforced; the others are in shadow", Default: 100, Shape: percent},
	{Name: "candidate", Doc: "limits to try: they decide the same calls in shadow", Examples: []any{[]string{"20/s"}}, Shape: limits},
	{Name: "count", Doc: "which calls count: admitted, all (also denied ones), failures or successes", Default: string(policy.CountAdmitted), Shape: count},
	carryOfRule, perInstanceOfRule,
	{Name: "overrides", Doc: "other limits for certain keys", Shape: &Shape{
		Kind: List, Of: override, Want: "want a list of overrides such as { key: alice, limits: 1000/s }",
	}},
}, settings)}

var (
	modeOfRule         = Field{Name: "mode", Doc: "enforce; shadow decides and counts but denies nothing; off decides nothing", Default: string(policy.Enforce), Shape: mode}
	onStoreErrorOfRule = Field{Name: "on_store_error", Doc: "what happens to a call that the store cannot decide", Default: string(policy.Local), Shape: failMode}
	waitOfRule         = Field{Name: "wait", Doc: "the maximum time that a denied call waits until it can be admitted", Examples: []any{"300ms"},
		Shape: &Shape{Kind: Duration, Longest: time.Minute}}
	perInstanceOfRule = Field{Name: "per_instance", Doc: "each process has the limits for itself, also in a shared store", Default: false, Shape: boolean}
	carryOfRule       = Field{Name: "carry", Doc: "what happens to a key's tokens when its limits change", Default: Carries[0], Shape: &Shape{Kind: Word, Words: Carries}}
)

// settings lists the protections that a rule can configure beside limits.
var settings = []Field{
	{Name: "breaker", Doc: "a circuit breaker: reject calls for a while after too many failed or were slow", Shape: breaker},
	{Name: "adaptive", Doc: "limit concurrent calls by their latency", Shape: adaptive},
	{Name: "bulkhead", Doc: "limit concurrent calls in this process", Shape: bulkhead},
}

var calls = &Shape{Kind: Integer, Least: 1, Most: 1_000_000}

var breaker = &Shape{Kind: Map, Def: "breaker", OneOf: [][]string{{"failures"}, {"rate", "slow_rate"}}, Want: "want either failures, or rate or slow_rate or both, which define when it opens", Fields: []Field{
	{Name: "failures", Doc: "open when this number of the last calls failed", Examples: []any{5}, Shape: calls},
	{Name: "rate", Doc: "open when this percentage of the calls within the period failed", Examples: []any{50}, Shape: percent},
	{Name: "slow_rate", Doc: "open when this percentage of the calls within the period was slow; slow calls then do not count as failed", Examples: []any{60}, Shape: percent},
	{Name: "of", Doc: "with failures: of how many calls, equal to failures if omitted; with a rate: the minimum number of calls, 20 if omitted", Examples: []any{20}, Shape: calls},
	{Name: "period", Doc: "how long a call counts: with a rate, or with failures instead of of", Default: "10s", Shape: someTime},
	{Name: "slow", Doc: "the time from which a call is slow, and counts as failed or in slow_rate", Examples: []any{"2s"}, Shape: someTime},
	{Name: "cooldown", Doc: "the time that it stays open", Default: "10s", Shape: someTime},
	{Name: "trials", Doc: "the number of probes after that, which close it if all succeed", Default: 1, Shape: calls},
	modeOfProtection,
}}

var adaptive = &Shape{Kind: Map, Def: "adaptive", Fields: []Field{
	{Name: "min", Doc: "the minimum number of concurrent calls", Default: 1, Shape: calls},
	{Name: "max", Doc: "the maximum number of concurrent calls", Default: 200, Shape: calls},
	{Name: "initial", Doc: "the number of concurrent calls at first", Default: 20, Shape: calls},
	modeOfProtection,
}}

var bulkhead = &Shape{Kind: Map, Def: "bulkhead", Fields: []Field{
	{Name: "max", Doc: "the number of concurrent calls", Required: true, Examples: []any{10},
		Shape: &Shape{Kind: Integer, Least: 1, Most: 1_000_000, Want: "want a number of concurrent calls from 1 to 1000000"}},
	{Name: "max_waiters", Doc: "the number of calls that may wait; equal to max if omitted", Examples: []any{20}, Shape: calls},
	{Name: "max_waiting", Doc: "the old form of max_waiters", Deprecated: true, Shape: calls},
	{Name: "wait", Doc: "the maximum time that they wait; none if omitted", Examples: []any{"100ms"}, Shape: &Shape{Kind: Duration, Longest: time.Minute}},
	modeOfProtection,
}}

var modeOfProtection = Field{Name: "mode", Doc: "enforce; shadow decides and counts but refuses nothing", Default: string(policy.Enforce),
	Shape: &Shape{Kind: Word, Words: []string{string(policy.Enforce), string(policy.Shadow)}}}

var someTime = &Shape{Kind: Duration, Shortest: time.Millisecond, Longest: time.Hour}
