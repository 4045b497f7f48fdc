package grammar

import (
	"time"

	"github.com/floodweir/weir/policy"
)

const wantKey = "want who shares a bucket: client.ip, client.ip/BITS, header:NAME, query:NAME, cookie:NAME, claim:NAME, path, method, host, const:TEXT or cel:EXPRESSION"

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

var policies = &Shape{Kind: Map, Def: "policy", OneOf: []string{"limits", "nginx"}, Want: "want limits, such as 10/s burst 20, or nginx, such as { rate: 10r/s, burst: 20 }", Fields: []Field{
	{Name: "name", Doc: "which policy it is, in headers, logs, metrics and keys", Required: true, Examples: []any{"api-per-client"}, Shape: name},
	{Name: "match", Doc: "which requests it is about: a path, an expression, or lists that all have to fit; every request if not said",
		Examples: []any{"/api/*", `request.path.startsWith("/api/")`}, Shape: match},
	{Name: "key", Doc: "who shares a bucket; several parts make one for each combination", Required: true, Examples: []any{[]string{"client.ip"}}, Shape: &Shape{
		Kind: ListOrOne, Want: wantKey, Of: keyPart,
	}},
	{Name: "limits", Doc: "what is allowed; decided together, all or nothing", Examples: []any{[]string{"10/s burst 20", "5000/24h"}}, Shape: limits},
	{Name: "nginx", Doc: "what is allowed, in place of limits: as limit_req of nginx says it and counts it", Examples: []any{map[string]any{"rate": "10r/s", "burst": 20, "nodelay": true}}, Shape: nginx},
	{Name: "cost", Doc: "how many tokens a request takes of each limit: a number, an expression, or what the response tells", Default: 1, Shape: cost},
	{Name: "count", Doc: "which requests count: those admitted, all (denied ones too), or those answered with failures or successes", Default: string(policy.CountAdmitted), Shape: count},
	{Name: "failures", Doc: "the statuses that count calls failures", Default: []string{"4xx", "5xx"}, Examples: []any{[]any{401, 403, "5xx", "500-504"}}, Shape: failures},
	{Name: "on_denied", Doc: "the answer to a denied request", Shape: onDenied},
	{Name: "on_store_error", Doc: "what becomes of a request that the store cannot decide", Default: string(policy.Open), Shape: failMode},
	{Name: "mode", Doc: "enforce; shadow decides and counts but lets everything through; off asks nothing", Default: string(policy.Enforce), Shape: mode},
	{Name: "percent", Doc: "enforce it for so many of a hundred keys; the others are in shadow", Default: 100, Shape: percent},
	{Name: "candidate", Doc: "limits to try out: they decide in shadow about the same requests", Examples: []any{[]string{"20/s"}}, Shape: limits},
	{Name: "carry", Doc: "what becomes of a key's tokens when its limits change", Default: Carries[0], Shape: &Shape{Kind: Word, Words: Carries}},
	{Name: "overrides", Doc: "limits of their own for certain keys", Shape: &Shape{
		Kind: List, Of: override, Want: "want a list of overrides such as { key: [203.0.113.7], limits: [1000/s] }",
	}},
}}

// Carries are the words for weir.Carry, in its order.
var Carries = []string{"proportional", "as_is", "additive", "reset"}

var failMode = &Shape{Kind: Word, Def: "on_store_error", Words: []string{string(policy.Open), string(policy.Closed), string(policy.Local)}}

var texts = &Shape{Kind: ListOrOne, Want: "want a text or a list of them", Of: &Shape{Kind: Text, Want: "want a text"}}

var expression = &Shape{Kind: Text, Want: `want an expression such as request.path.startsWith("/api/")`}

var match = &Shape{
	Kind: Choice, Want: `want a path such as /api/*, an expression such as request.path.startsWith("/api/"), or a map with ` + "paths, methods, hosts, headers or where",
	Any: []*Shape{expression, {
		Kind: Map, Def: "match", NotEmpty: true, Want: "want paths, methods, hosts, headers or where; for every request leave match out", Fields: []Field{
			{Name: "paths", Doc: "patterns of paths: /api/users, /api/* for all below too, /users/{id} for any one segment", Shape: texts},
			{Name: "methods", Doc: "methods, without case; GET stands for HEAD too", Shape: texts},
			{Name: "hosts", Doc: "host names, or *. and a name for all below it", Shape: texts},
			{Name: "headers", Doc: "values by name of header; * is any value", Examples: []any{map[string]any{"X-Plan": []string{"free", "trial"}}},
				Shape: &Shape{Kind: Named, Of: texts}},
			{Name: "where", Doc: "an expression (CEL) that has to be true as well", Examples: []any{`request.headers["x-plan"] != "gold"`}, Shape: expression},
		},
	}},
}

var keyPart = &Shape{
	Kind: Text, Def: "key_part", Want: wantKey,
	Pattern: `^(client\.ip(/[0-9]+)?|(header|query|cookie|claim|cel|const):[\s\S]+|path|method|host)$`,
}

var tokens = &Shape{Kind: Integer, Least: 1, Most: 1 << 40}

var cost = &Shape{
	Kind: Choice, Want: "want a number of tokens from 1 to 1099511627776, an expression such as int(request.headers[\"x-cost\"]), or a map with estimate and header or json",
	Any: []*Shape{tokens, expression, {
		Kind: Map, Def: "cost", OneOf: []string{"header", "json"}, Want: "want header or json, which say where the response tells its cost",
		Fields: []Field{
			{Name: "estimate", Doc: "what is reserved until the response tells: a number or an expression", Default: 1, Shape: &Shape{
				Kind: Choice, Any: []*Shape{tokens, expression}, Want: "want a number of tokens from 1 to 1099511627776, or an expression such as size(request.query.q)",
			}},
			{Name: "header", Doc: "the response header that tells the cost, as a whole number", Examples: []any{"X-Tokens-Used"},
				Shape: &Shape{Kind: Text, Want: "want the name of a response header"}},
			{Name: "json", Doc: "where the cost stands in a JSON response, as names of members joined by dots", Examples: []any{"usage.total_tokens"},
				Shape: &Shape{Kind: Text, Want: "want names of members joined by dots, such as usage.total_tokens"}},
		},
	}},
}

// WantStatus is what is expected of an element of failures.
const WantStatus = `want a status such as 401, a class such as 5xx, or a range such as "500-504", from 100 to 599`

var failures = &Shape{
	Kind: ListOrOne, Want: WantStatus,
	Of: &Shape{Kind: Choice, Def: "status", Want: WantStatus, Any: []*Shape{
		{Kind: Integer, Least: 100, Most: 599},
		{Kind: Text, Pattern: `^([1-5][xX]{2}|[1-5][0-9]{2}-[1-5][0-9]{2}|[1-5][0-9]{2})$`},
	}},
}

var onDenied = &Shape{Kind: Map, Def: "on_denied", Fields: []Field{
	{Name: "status", Doc: "the status; 303 with a redirect", Default: 429, Shape: &Shape{Kind: Integer, Least: 200, Most: 599}},
	{Name: "body", Doc: "problem+json (RFC 9457), or a text that is sent as it is", Default: "problem+json", Shape: &Shape{Kind: Text, Want: "want problem+json or a text"}},
	{Name: "content_type", Doc: "the media type of a text", Default: "text/plain; charset=utf-8",
		Shape: &Shape{Kind: Text, Want: "want a media type such as text/html; charset=utf-8"}},
	{Name: "headers", Doc: "fields to add, by name", Shape: &Shape{Kind: Named, Of: &Shape{Kind: Text, Want: "want the value of a header"}}},
	{Name: "redirect", Doc: "a URL or a path to send the client to, instead of a body", Examples: []any{"/busy"},
		Shape: &Shape{Kind: Text, Want: "want a URL or a path such as /busy"}},
	{Name: "wait", Doc: "hold a denied request back for at most so long, until it can be admitted", Examples: []any{"300ms"},
		Shape: &Shape{Kind: Duration, Longest: time.Minute}},
}}

var override = &Shape{Kind: Map, Def: "override", Fields: []Field{
	{Name: "key", Doc: "a value for each part of the policy's key, in its order; * is any text, a prefix any address in it", Required: true, Shape: &Shape{
		Kind: ListOrOne, Want: wantValue, Of: &Shape{Kind: AnyText, Want: wantValue},
	}},
	{Name: "limits", Doc: "what is allowed to such a key, instead of the policy's limits", Required: true, Shape: limits},
}}

const wantValue = `want the values of the key, as text; "" for those who have none`

var limits = &Shape{
	Kind: ListOrOne, Def: "limits", Want: "want at least one limit, such as 10/s burst 20",
	Of: &Shape{
		Kind: Choice, Def: "limit", Want: `want a limit such as "10/s burst 20" or { rate: 10/s, burst: 20 }`,
		Any: []*Shape{
			{Kind: Text, Pattern: `^\s*[0-9][0-9_]*(/|\s)`},
			{Kind: Map, Fields: limitFields},
		},
	},
}

var (
	scalar = &Shape{Kind: Scalar, Want: "want a value"}
	word   = &Shape{Kind: Text, Want: "want a value"}
)

// The fields of a limit are the words of its text, in their order.
var limitFields = []Field{
	{Name: "rate", Doc: "COUNT/PERIOD; the number of slots with algorithm: concurrency", Required: true, Examples: []any{"10/s", "5000/24h"},
		Shape: &Shape{Kind: Scalar, Want: "want a rate such as 10/s, or a number of slots with algorithm: concurrency"}},
	{Name: "algorithm", Doc: "how it is counted", Default: "token_bucket", Shape: &Shape{Kind: Word, Words: []string{
		"token_bucket", "gcra", "leaky_bucket", "fixed_window", "sliding_window", "sliding_log", "concurrency",
	}}},
	{Name: "burst", Doc: "how many at once; the count of the rate if not said", Examples: []any{20}, Shape: scalar},
	{Name: "refill", Doc: "how a token bucket is refilled: smooth, or interval for all tokens at the end of each period", Default: "smooth", Shape: &Shape{
		Kind: Word, Words: []string{"smooth", "interval"},
	}},
	{Name: "interval", Doc: "the old form of refill: interval", Deprecated: true, Shape: boolean},
	{Name: "initial", Doc: "the tokens of a new key in a token bucket; a full bucket if not said", Shape: scalar},
	{Name: "warmup", Doc: "how long a token bucket takes from a third of its rate to all of it", Examples: []any{"30s"}, Shape: word},
	{Name: "queue", Doc: "hold back what a leaky bucket would refuse", Default: false, Shape: boolean},
	{Name: "delay", Doc: "hold back what is above this number in a leaky bucket", Shape: scalar},
	{Name: "nodelay", Doc: "do not hold back, as nginx says it", Default: false, Shape: boolean},
	{Name: "nginx", Doc: "count a leaky bucket exactly as nginx's limit_req does", Default: false, Shape: boolean},
	{Name: "shared", Doc: "have one state with the other leaky buckets of this rate", Default: false, Shape: boolean},
	{Name: "anchor", Doc: "where windows begin: first (the key's first request) or epoch", Default: "first", Shape: word},
	{Name: "calendar", Doc: "windows are the days, weeks, months or years of this time zone", Examples: []any{"Asia/Shanghai"}, Shape: word},
	{Name: "segments", Doc: "into how many parts a sliding window is divided", Default: 10, Shape: scalar},
	{Name: "weighted", Doc: "count the share of the oldest part of a sliding window", Default: false, Shape: boolean},
	{Name: "lease", Doc: "after how long a slot of concurrency is free again if nobody renews it", Default: "1m", Shape: word},
}
