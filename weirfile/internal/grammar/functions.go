package grammar

import (
	"slices"
	"time"

	"github.com/floodweir/weir/policy"
)

var functions = &Shape{Kind: Map, Def: "functions", NotEmpty: true, Want: "want mode, system or rules", Fields: []Field{
	{Name: "mode", Doc: "of all functions, those without a rule too: shadow denies nothing, off asks nothing", Default: string(policy.Enforce), Shape: mode},
	{Name: "system", Doc: "what holds for all calls together, beside the rule of each", Shape: system},
	{Name: "rules", Doc: "what holds for the functions and resources of one name", Shape: &Shape{
		Kind: List, Of: rule, Want: "want a list of rules, each with a name and limits",
	}},
}}

var system = &Shape{Kind: Map, Def: "system_rule", NotEmpty: true, Want: "want limits, adaptive or bulkhead", Fields: slices.Concat([]Field{
	{Name: "limits", Doc: "what is allowed to the whole program", Examples: []any{[]string{"1000/s", "200 concurrency"}}, Shape: limits},
	modeOfRule, onStoreErrorOfRule, waitOfRule, carryOfRule,
}, settings)}

var rule = &Shape{Kind: Map, Def: "rule", Want: "want limits, breaker, adaptive or bulkhead beside the name", Fields: slices.Concat([]Field{
	{Name: "name", Doc: "which functions it is about: the name in the program", Required: true, Examples: []any{"getId"}, Shape: name},
	{Name: "limits", Doc: "what is allowed to each key, instead of what the program says", Examples: []any{[]string{"10/10s"}}, Shape: limits},
	modeOfRule, onStoreErrorOfRule, waitOfRule,
	{Name: "percent", Doc: "enforce it for so many of a hundred keys; the others are in shadow", Default: 100, Shape: percent},
	{Name: "candidate", Doc: "limits to try out: they decide in shadow about the same calls", Examples: []any{[]string{"20/s"}}, Shape: limits},
	{Name: "count", Doc: "which calls count: those admitted, all (denied ones too), or those that fail or succeed", Default: string(policy.CountAdmitted), Shape: count},
	carryOfRule,
	{Name: "overrides", Doc: "limits of their own for certain keys", Shape: &Shape{
		Kind: List, Of: override, Want: "want a list of overrides such as { key: alice, limits: 1000/s }",
	}},
}, settings)}

var (
	modeOfRule         = Field{Name: "mode", Doc: "enforce; shadow decides and counts but denies nothing; off asks nothing", Default: string(policy.Enforce), Shape: mode}
	onStoreErrorOfRule = Field{Name: "on_store_error", Doc: "what becomes of a call that the store cannot decide", Default: string(policy.Open), Shape: failMode}
	waitOfRule         = Field{Name: "wait", Doc: "hold a denied call back for at most so long, until it can be admitted", Examples: []any{"300ms"},
		Shape: &Shape{Kind: Duration, Longest: time.Minute}}
	carryOfRule = Field{Name: "carry", Doc: "what becomes of a key's tokens when its limits change", Default: Carries[0], Shape: &Shape{Kind: Word, Words: Carries}}
)

// settings are what a rule can ask for beside limits.
var settings = []Field{
	{Name: "breaker", Doc: "stop calls for a while after too many failed or were slow", Shape: breaker},
	{Name: "adaptive", Doc: "bound how many calls are under way by how long they take", Shape: adaptive},
	{Name: "bulkhead", Doc: "bound how many calls are under way in this process", Shape: bulkhead},
}

var calls = &Shape{Kind: Integer, Least: 1, Most: 1_000_000}

var breaker = &Shape{Kind: Map, Def: "breaker", OneOf: []string{"failures", "rate"}, Want: "want failures or rate, one of them, which say when it opens", Fields: []Field{
	{Name: "failures", Doc: "so many of the last calls fail", Examples: []any{5}, Shape: calls},
	{Name: "rate", Doc: "so many of a hundred calls within the period fail", Examples: []any{50}, Shape: percent},
	{Name: "of", Doc: "with failures: of how many calls, as many as they are if not said; with rate: of at least how many, 20 if not said", Examples: []any{20}, Shape: calls},
	{Name: "period", Doc: "with rate: how long a call counts", Default: "10s", Shape: someTime},
	{Name: "slow", Doc: "from how long on a call counts as failed", Examples: []any{"2s"}, Shape: someTime},
	{Name: "cooldown", Doc: "how long it stays open", Default: "10s", Shape: someTime},
	{Name: "trials", Doc: "how many calls then try, and close it if all succeed", Default: 1, Shape: calls},
}}

var adaptive = &Shape{Kind: Map, Def: "adaptive", Fields: []Field{
	{Name: "min", Doc: "the least that are let under way", Default: 1, Shape: calls},
	{Name: "max", Doc: "the most", Default: 200, Shape: calls},
	{Name: "initial", Doc: "how many at first", Default: 20, Shape: calls},
}}

var bulkhead = &Shape{Kind: Map, Def: "bulkhead", Fields: []Field{
	{Name: "max", Doc: "how many calls at once", Required: true, Examples: []any{10},
		Shape: &Shape{Kind: Integer, Least: 1, Most: 1_000_000, Want: "want how many calls at once, from 1 to 1000000"}},
	{Name: "max_waiting", Doc: "how many wait for a place; as many as max if not said", Examples: []any{20}, Shape: calls},
	{Name: "wait", Doc: "how long they wait; not at all if not said", Examples: []any{"100ms"}, Shape: &Shape{Kind: Duration, Longest: time.Minute}},
}}

var someTime = &Shape{Kind: Duration, Shortest: time.Millisecond, Longest: time.Hour}
