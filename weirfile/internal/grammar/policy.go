package grammar

import (
	"time"

	"github.com/floodweir/weir/policy"
)

const wantKey = "want a part of the request that identifies a bucket: client.ip, client.ip/BITS, header:NAME, query:NAME, cookie:NAME, claim:NAME, form:FIELD, json:PATH, path, method, host, const:TEXT or cel:EXPRESSION"

var (
	name = &Shape{
		Kind: Text, Pattern: `^[A-Za-z0-9][A-Za-z0-9._-]{0,63}$`, Want: "want 1 to 64 letters a to z, digits, '.', '_' and '-', with a letter or digit first",
	}
	count = &Shape{Kind: Word, Words: []string{
		string(policy.CountAdmitted), string(policy.CountAll), string(policy.CountFailures), string(policy.CountSuccesses),
	}}
	mode    = &Shape{Kind: Word, Words: []string{string(policy.Enforce), string(policy.Shadow), string(policy.Off)}}
	percent = &Shape{Kind: Integer, Least: 1, Most: 100}
)

var policies = &Shape{Kind: Map, Def: "policy", OneOf: [][]string{{"limits"}, {"nginx"}, {"block"}, {"budget"}}, Want: "want limits, such as 10/s burst 20, or nginx, such as { rate: 10r/s, burst: 20 }, block: true, or budget", Fields: []Field{
	{Name: "name", Doc: "the name in headers, logs, metrics and keys", Required: true, Examples: []any{"api-per-client"}, Shape: name},
	{Name: "match", Doc: "which requests it applies to: a path, an expression, or lists that must all match; every request if omitted",
		Examples: []any{"/api/*", `request.path.startsWith("/api/")`}, Shape: match},
	{Name: "except", Doc: "requests to which it does not apply: lists that must all match, or several such maps", Examples: []any{map[string]any{"paths": "/api/health"}}, Shape: except},
	{Name: "key", Doc: "the parts of a request that identify a bucket; several parts make one for each combination; required without block and budget", Required: true, Unless: []string{"block", "budget"}, Examples: []any{[]string{"client.ip"}}, Shape: &Shape{
		Kind: ListOrOne, Want: wantKey, Of: keyPart,
	}},
	{Name: "limits", Doc: "the limits; decided together, all or nothing. 0 blocks every request, unlimited limits only the keys of overrides", Examples: []any{[]string{"10/s burst 20", "5000/24h"}}, Shape: PolicyLimits},
	{Name: "block", Doc: "true denies every request, like limits: 0", Examples: []any{true}, Shape: boolean},
	{Name: "nginx", Doc: "a limit in the terms of nginx's limit_req, instead of limits", Examples: []any{map[string]any{"rate": "10r/s", "burst": 20, "nodelay": true}}, Shape: nginx},
	{Name: "budget", Doc: "limits in tokens or US dollars of language models, by the usage in responses, instead of limits", Shape: budgets},
	{Name: "cost", Doc: "the tokens that a request takes from each limit: a number, an expression, or a value in the response", Default: 1, Shape: cost},
	{Name: "count", Doc: "which requests count: admitted, all (also denied ones), or those with a response in failures, or not in failures", Default: string(policy.CountAdmitted), Shape: count},
	{Name: "failures", Doc: "the statuses that count as failures", Default: []string{"4xx", "5xx"}, Examples: []any{[]any{401, 403, "5xx", "500-504"}}, Shape: failures},
	{Name: "on_denied", Doc: "the response to a denied request", Shape: onDenied},
	{Name: "on_store_error", Doc: "what happens to a request that the store cannot decide", Default: string(policy.Local), Shape: failMode},
	{Name: "regions", Doc: "divide: the regions of the file divide the limits; each: every region has all of them", Default: "divide", Shape: &Shape{Kind: Word, Words: []string{"divide", "each"}}},
	{Name: "shares", Doc: "auto: processes divide the limits, and decide by their parts without the store; or the bounds of the parts", Default: "off", Shape: shares},
	{Name: "mode", Doc: "enforce; shadow decides and counts but admits every request; off decides nothing", Default: string(policy.Enforce), Shape: mode},
	{Name: "percent", Doc: "the percentage of keys for which it is enforced; the others are in shadow", Default: 100, Shape: percent},
	{Name: "candidate", Doc: "limits to try: they decide the same requests in shadow", Examples: []any{[]string{"20/s"}}, Shape: limits},
	{Name: "carry", Doc: "what a key keeps when its limits change: what it used, or a number of tokens", Default: Carries[0], Shape: &Shape{Kind: Word, Words: Carries}},
	{Name: "overrides", Doc: overridesDoc, Shape: overridesOf(policyOverride, wantOverrides)},
	{Name: "tenants", Doc: "a guaranteed minimum of the limit for certain keys; what they do not use is lent", Shape: &Shape{
		Kind: List, Of: tenant, Want: "want a list of tenants such as { key: acme, weight: 3, burst: 100 }",
	}},
	{Name: "surplus", Doc: "how tenants share what others do not use", Default: "first_come", Shape: &Shape{Kind: Word, Words: []string{"first_come", Weighted}}},
}}

const overridesDoc = "other limits for certain keys: a list, or a file: CSV with a column for each part of the key, and limits, or YAML with a list"

// overridesOf returns the shape of overrides.
func overridesOf(one *Shape, want string) *Shape {
	return &Shape{Kind: Choice, Want: want + ", or { file: overrides.csv }", Any: []*Shape{{Kind: List, Of: one, Want: want}, overridesFile}}
}

var overridesFile = &Shape{Kind: Map, Def: "overrides_file", Fields: []Field{
	{Name: "file", Doc: "a CSV or YAML file, relative to this file", Required: true, Examples: []any{"overrides.csv"}, Shape: &Shape{Kind: Text, Want: "want the name of a CSV or YAML file"}},
}}

const wantOverrides = "want a list of overrides such as { key: [203.0.113.7], limits: [1000/s] }"

// Weighted is the surplus that is divided by weight.
const Weighted = "weighted"

// Carries lists the words for the values of weir.Carry, in its order.
var Carries = []string{"usage", "proportional", "as_is", "additive", "reset"}

var failMode = &Shape{Kind: Word, Def: "on_store_error", Words: []string{string(policy.Open), string(policy.Closed), string(policy.Local)}}

var texts = &Shape{Kind: ListOrOne, Want: "want a text or a list of them", Of: &Shape{Kind: Text, Want: "want a text"}}

var expression = &Shape{Kind: Text, Want: `want an expression such as request.path.startsWith("/api/")`}

var match = &Shape{
	Kind: Choice, Want: `want a path such as /api/*, an expression such as request.path.startsWith("/api/"), or a map with ` + "paths, methods, hosts, headers or where",
	Any: []*Shape{expression, {
		Kind: Map, Def: "match", NotEmpty: true, Want: "want paths, methods, hosts, headers or where; for every request leave match out", Fields: []Field{
			{Name: "paths", Doc: "path patterns: /api/users, /api/* for every path below too, /users/{id} for any one segment", Shape: texts},
			{Name: "methods", Doc: "methods, without case; GET matches HEAD too", Shape: texts},
			{Name: "hosts", Doc: "host names, or *. and a name for every name below it", Shape: texts},
			{Name: "headers", Doc: "accepted values by header name; * is any value", Examples: []any{map[string]any{"X-Plan": []string{"free", "trial"}}},
				Shape: &Shape{Kind: Named, Of: texts}},
			{Name: "where", Doc: "an expression (CEL) that must be true as well", Examples: []any{`request.headers["x-plan"] != "gold"`}, Shape: expression},
		},
	}},
}

const wantExcept = "want paths, methods, hosts, ips, headers or preflight"

var except = &Shape{
	Kind: ListOrOne, Def: "except", Want: wantExcept, Of: &Shape{
		Kind: Map, Def: "exception", NotEmpty: true, Want: wantExcept, Fields: []Field{
			{Name: "paths", Doc: "path patterns, as in match", Shape: texts},
			{Name: "methods", Doc: "methods, as in match", Shape: texts},
			{Name: "hosts", Doc: "host names, as in match", Shape: texts},
			{Name: "ips", Doc: "addresses of clients, or prefixes", Examples: []any{[]string{"10.0.0.0/8"}}, Shape: texts},
			{Name: "headers", Doc: "the accepted value of a header that occurs once, by name; * is any value", Shape: &Shape{Kind: Named, Of: texts}},
			{Name: "preflight", Doc: "true selects CORS preflight requests", Examples: []any{true}, Shape: boolean},
		},
	},
}

var keyPart = &Shape{
	Kind: Text, Def: "key_part", Want: wantKey,
	Pattern: `^(client\.ip(/[0-9]+)?|(header|query|cookie|claim|form|json|cel|const):[\s\S]+|path|method|host)$`,
}

var tokens = &Shape{Kind: Integer, Least: 1, Most: 1 << 40}

var cost = &Shape{
	Kind: Choice, Want: "want a number of tokens from 1 to 1099511627776, an expression such as int(request.headers[\"x-cost\"]), or a map with estimate and header, json or expr",
	Any: []*Shape{tokens, expression, {
		Kind: Map, Def: "cost", OneOf: [][]string{{"header"}, {"json"}, {"expr"}}, Want: "want header, json or expr, the cost in the response",
		Fields: []Field{
			{Name: "estimate", Doc: "the tokens reserved until the response: a number or an expression", Default: 1, Shape: &Shape{
				Kind: Choice, Any: []*Shape{tokens, expression}, Want: "want a number of tokens from 1 to 1099511627776, or an expression such as size(request.query.q)",
			}},
			{Name: "header", Doc: "the response header with the cost, a whole number", Examples: []any{"X-Tokens-Used"},
				Shape: &Shape{Kind: Text, Want: "want the name of a response header"}},
			{Name: "json", Doc: "the place of the cost in a JSON response, as member names joined by dots, or a sum of such places", Examples: []any{"usage.total_tokens", "usage.input_tokens + usage.output_tokens"},
				Shape: &Shape{Kind: Text, Want: "want names of members joined by dots, such as usage.total_tokens, or a sum such as usage.input_tokens + usage.output_tokens"}},
			{Name: "expr", Doc: "an expression for the cost, over request, response.status, response.headers and response.body; rounded up", Examples: []any{"double(response.body.usage.total_tokens) * 1.5"},
				Shape: &Shape{Kind: Text, Want: "want an expression such as response.body.usage.input_tokens + 4 * response.body.usage.output_tokens"}},
		},
	}},
}

// WantStatus describes the accepted elements of failures.
const WantStatus = `want a status such as 401, a class such as 5xx, or a range such as "500-504", from 100 to 599`

var failures = &Shape{
	Kind: ListOrOne, Want: WantStatus,
	Of: &Shape{Kind: Choice, Def: "status", Want: WantStatus, Any: []*Shape{
		{Kind: Integer, Least: 100, Most: 599},
		{Kind: Text, Pattern: `^([1-5][xX]{2}|[1-5][0-9]{2}-[1-5][0-9]{2}|[1-5][0-9]{2})$`},
	}},
}

var onDenied = &Shape{Kind: Map, Def: "on_denied", Fields: []Field{
	{Name: "status", Doc: "the status; 303 with redirect", Default: 429, Shape: &Shape{Kind: Integer, Least: 200, Most: 599}},
	{Name: "body", Doc: "problem+json (RFC 9457), or a text to send", Default: "problem+json", Shape: &Shape{Kind: Text, Want: "want problem+json or a text"}},
	{Name: "content_type", Doc: "the media type of a text", Default: "text/plain; charset=utf-8",
		Shape: &Shape{Kind: Text, Want: "want a media type such as text/html; charset=utf-8"}},
	{Name: "headers", Doc: "header fields to add, by name", Shape: &Shape{Kind: Named, Of: &Shape{Kind: Text, Want: "want the value of a header"}}},
	{Name: "redirect", Doc: "a URL or path to redirect the client to, instead of a body", Examples: []any{"/busy"},
		Shape: &Shape{Kind: Text, Want: "want a URL or a path such as /busy"}},
	{Name: "wait", Doc: "the maximum time that a denied request waits until it can be admitted", Examples: []any{"300ms"},
		Shape: &Shape{Kind: Duration, Longest: time.Minute}},
}}

var override = &Shape{Kind: Map, Def: "override", Fields: []Field{
	{Name: "key", Doc: "a value for each part of the policy's key, in its order; * matches any text, and a prefix any address in it", Required: true, Shape: &Shape{
		Kind: ListOrOne, Want: wantValue, Of: &Shape{Kind: AnyText, Want: wantValue},
	}},
	{Name: "limits", Doc: "the limits of such a key, instead of the policy's", Required: true, Shape: limits},
}}

var policyOverride = &Shape{Kind: Map, Def: "policy_override", Fields: []Field{
	override.Fields[0],
	{Name: "limits", Doc: "the limits of such a key, instead of the policy's; 0 blocks it, unlimited does not limit it", Required: true, Shape: PolicyLimits},
}}

// PolicyLimits is the shape of the limits of a policy, which can block or admit all requests.
var PolicyLimits = &Shape{
	Kind: ListOrOne, Def: "policy_limits", Want: "want at least one limit, such as 10/s burst 20; 0 to block, or unlimited",
	Of: &Shape{Kind: Choice, Want: limits.Of.Want + "; 0 to block, or unlimited", Any: append([]*Shape{
		{Kind: Integer}, {Kind: Text, Pattern: `^(0|unlimited)$`},
	}, limits.Of.Any...)},
}

var tenant = &Shape{Kind: Map, Def: "tenant", Fields: []Field{
	{Name: "key", Doc: "a value for each part of the policy's key, in its order; the tenant * is that of all other keys", Required: true, Shape: &Shape{
		Kind: ListOrOne, Want: wantValue, Of: &Shape{Kind: AnyText, Want: wantValue},
	}},
	{Name: "weight", Doc: "its part of the rate, relative to the other weights", Default: 1, Shape: &Shape{Kind: Integer, Least: 1, Most: 1_000_000}},
	{Name: "burst", Doc: "what it gets at once of its own; never lent", Required: true, Examples: []any{100}, Shape: &Shape{
		Kind: Integer, Least: 1, Most: 1 << 40, Want: "want a whole number of tokens, such as 100",
	}},
	{Name: "ceil", Doc: "the most that it gets with borrowed tokens", Examples: []any{"800/s"}, Shape: oneLimit},
}}

const wantValue = `want the values of the key, as text; "" for a request without the part`

var limits = &Shape{Kind: ListOrOne, Def: "limits", Want: "want at least one limit, such as 10/s burst 20", Of: oneLimit}

var oneLimit = &Shape{
	Kind: Choice, Def: "limit", Want: `want a limit such as "10/s burst 20" or { rate: 10/s, burst: 20 }`,
	Any: []*Shape{
		{Kind: Text, Pattern: `^\s*[0-9][0-9_]*(\.[0-9]+)?r?(/|\s)`},
		{Kind: Map, Fields: limitFields},
	},
}

var (
	scalar = &Shape{Kind: Scalar, Want: "want a value"}
	word   = &Shape{Kind: Text, Want: "want a value"}
)

// limitFields lists the words of a limit's text, in their order.
var limitFields = []Field{
	{Name: "rate", Doc: "COUNT/PERIOD; the number of slots with algorithm: concurrency", Required: true, Examples: []any{"10/s", "5000/24h"},
		Shape: &Shape{Kind: Scalar, Want: "want a rate such as 10/s, or a number of slots with algorithm: concurrency"}},
	{Name: "algorithm", Doc: "how requests are counted", Default: "token_bucket", Shape: &Shape{Kind: Word, Words: []string{
		"token_bucket", "gcra", "leaky_bucket", "fixed_window", "sliding_window", "sliding_log", "concurrency",
	}}},
	{Name: "burst", Doc: "the capacity of a bucket; the count of the rate if omitted", Examples: []any{20}, Shape: scalar},
	{Name: "refill", Doc: "how a token bucket is refilled: smooth, or interval for all tokens at the end of each period", Default: "smooth", Shape: &Shape{
		Kind: Word, Words: []string{"smooth", "interval"},
	}},
	{Name: "interval", Doc: "the old form of refill: interval", Deprecated: true, Shape: boolean},
	{Name: "initial", Doc: "the tokens of a new key in a token bucket; full if omitted", Shape: scalar},
	{Name: "warmup", Doc: "the time in which a token bucket rises from a third of its rate to all of it", Examples: []any{"30s"}, Shape: word},
	{Name: "queue", Doc: "delay what a leaky bucket would deny", Default: false, Shape: boolean},
	{Name: "delay", Doc: "delay what is above this number in a leaky bucket", Shape: scalar},
	{Name: "nodelay", Doc: "do not delay, in nginx's terms", Default: false, Shape: boolean},
	{Name: "nginx", Doc: "count a leaky bucket exactly as nginx's limit_req does", Default: false, Shape: boolean},
	{Name: "shared", Doc: "share the state of the other leaky buckets of this rate", Default: false, Shape: boolean},
	{Name: "anchor", Doc: "where windows begin: first (the key's first request) or epoch", Default: "first", Shape: word},
	{Name: "calendar", Doc: "use the days, weeks, months or years of this time zone as windows", Examples: []any{"Asia/Shanghai"}, Shape: word},
	{Name: "day", Doc: "the day on which the windows of a calendar month begin; 31 is the last day of every month", Default: 1, Shape: scalar},
	{Name: "segments", Doc: "the number of parts of a sliding window", Default: 10, Shape: scalar},
	{Name: "weighted", Doc: "count the oldest part of a sliding window by its share", Default: false, Shape: boolean},
	{Name: "lease", Doc: "the time after which a concurrency slot is free unless it is renewed", Default: "1m", Shape: word},
}
