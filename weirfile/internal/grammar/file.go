package grammar

import (
	"slices"
	"time"
)

// File is the shape of a whole file.
var File = &Shape{Kind: Map, Def: "file", Fields: []Field{
	{Name: "store", Doc: "where state is stored: memory, or the URL of a Redis, Valkey or PostgreSQL that several processes share", Default: "memory",
		Examples: []any{"redis://127.0.0.1:6379/0", "redis+sentinel://a:26379,b:26379/main", "redis+cluster://a:7000,b:7000", "postgres://weir@db.internal/weir"}, Shape: store},
	{Name: "failover", Doc: "what happens when the store is slow or unavailable", Shape: failover},
	{Name: "shares", Doc: "whether processes divide limits and decide by their parts without the store: the default of policies, and for limits that come with requests", Default: "off", Shape: shares},
	{Name: "regions", Doc: "regions with stores of their own, which divide all limits", Shape: regions},
	{Name: "gateway", Doc: "the reverse proxy, which applies the policies to every request", Shape: gateway},
	{Name: "http", Doc: "the HTTP API, also for auth_request, ForwardAuth and forward_auth", Shape: http},
	{Name: "grpc", Doc: "the interface for Envoy's rate limit protocol", Shape: grpc},
	{Name: "resp", Doc: "the interface for Redis clients, with CL.THROTTLE", Shape: listener},
	{Name: "admin", Doc: "the console and the metrics, for operators", Shape: admin},
	{Name: "except", Doc: "requests to which no policy applies: lists that must all match, or several such maps", Examples: []any{map[string]any{"paths": "/healthz"}}, Shape: except},
	{Name: "prices", Doc: "the prices of language models, for budgets in usd", Shape: prices},
	{Name: "system", Doc: "reject requests at the gateway while this process is overloaded, the least important first", Shape: overload},
	{Name: "policies", Doc: "which requests are limited, how, and what happens to denied ones", Shape: &Shape{
		Kind: List, Of: policies, Want: "want a list of policies, each with name, key and limits",
	}},
	{Name: "functions", Doc: "limits on functions of Go programs that read this file, by name", Shape: functions},
}}

var store = &Shape{
	Kind: Text, Def: "store", Pattern: `^(memory|(redis|rediss|redis\+sentinel|rediss\+sentinel|redis\+cluster|rediss\+cluster|postgres|postgresql)://\S+)$`,
	Want: "want memory, or redis://HOST:PORT, rediss://…, redis+sentinel://…, redis+cluster://HOST:PORT,HOST:PORT or postgres://HOST/DATABASE",
}

var failover = &Shape{Kind: Map, Def: "failover", Fields: []Field{
	{Name: "deadline", Doc: "the maximum time of a decision by the store; then the policy's on_store_error decides", Default: "50ms",
		Shape: &Shape{Kind: Duration, Shortest: time.Millisecond, Longest: time.Minute}},
	{Name: "nodes", Doc: "the number of processes among which on_store_error: local divides a limit", Default: 1,
		Shape: &Shape{Kind: Integer, Least: 1, Most: 100_000}},
	{Name: "start_degraded", Doc: "start without the store, or with one that cannot keep limits, instead of exiting", Default: false, Shape: boolean},
}}

const wantShares = "want auto, off, or a map with lease and largest such as { lease: 10s, largest: 50 }"

var shares = &Shape{Kind: Choice, Def: "shares", Want: wantShares, Any: []*Shape{
	{Kind: Word, Words: []string{"auto", "off"}, Want: wantShares},
	{Kind: Map, NotEmpty: true, Want: wantShares, Fields: []Field{
		{Name: "lease", Doc: "the time for which a process may use its part without the store; the part of a process that died is unused as long", Default: "10s",
			Shape: &Shape{Kind: Duration, Shortest: time.Second, Longest: time.Hour}},
		{Name: "largest", Doc: "the largest part of a limit for one process, in percent", Default: 100, Shape: percent},
	}},
}}

const wantPart = "want a percentage from 1 to 100, or auto for no part of its own"

var regions = &Shape{Kind: Map, Def: "regions", Fields: []Field{
	{Name: "members", Doc: "the regions and their parts; what these leave of 100 percent is the rest", Required: true, Shape: &Shape{
		Kind: List, Want: "want a list of regions such as { name: eu, part: 40 }", Of: &Shape{Kind: Map, Def: "region", Fields: []Field{
			{Name: "name", Doc: "the name of the region", Required: true, Examples: []any{"eu"}, Shape: name},
			{Name: "part", Doc: "the part of each limit that it has for itself, in percent; auto: none, it has only the rest", Required: true, Examples: []any{40}, Shape: &Shape{
				Kind: Choice, Want: wantPart, Any: []*Shape{{Kind: Integer, Least: 1, Most: 100, Want: wantPart}, {Kind: Word, Words: []string{"auto"}, Want: wantPart}},
			}},
			{Name: "store", Doc: "its store, as in store", Examples: []any{"redis://eu.internal:6379/0"}, Shape: store},
		}},
	}},
	{Name: "here", Doc: "the region of this process", Examples: []any{"eu"}, Shape: name},
	{Name: "global", Doc: "the Redis, Valkey or PostgreSQL by which all regions share the rest", Examples: []any{"redis://global.internal:6379/0"}, Shape: store},
	{Name: "lease", Doc: "the time for which a process may use its part of the rest without it", Default: "10s",
		Shape: &Shape{Kind: Duration, Shortest: time.Second, Longest: time.Hour}},
}}

var gateway = &Shape{Kind: Map, Def: "gateway", Fields: []Field{
	{Name: "listen", Doc: "where the gateway listens, or off", Default: "127.0.0.1:8000", Shape: listen},
	{Name: "routes", Doc: "upstreams by path; the longest path wins, and a route with a host before one without", Shape: &Shape{
		Kind: List, Of: route, Want: "want a list of routes such as { path: /, upstream: http://127.0.0.1:3000 }",
	}},
	{Name: "trusted_proxies", Doc: "proxies trusted for the client's address: addresses, prefixes, unix; none if omitted", Shape: trusted},
	{Name: "client_header", Doc: "the header in which trusted proxies send the client's address", Default: "x-forwarded-for", Shape: clientHeader},
	{Name: "headers", Doc: "response fields: off, or legacy (X-RateLimit-*) and one draft of the RateLimit fields",
		Default: []string{"draft-08", "legacy"}, Shape: fields},
	{Name: "retry_jitter", Doc: "the maximum random time added to Retry-After, so that clients do not all retry at once", Default: "0s",
		Shape: &Shape{Kind: Duration, Longest: time.Hour}},
	{Name: "key_body", Doc: "the largest request body, in bytes, that the key parts form and json read", Default: 65536,
		Shape: &Shape{Kind: Integer, Least: 1, Most: 1 << 20}},
	{Name: "key_body_timeout", Doc: "the longest wait for such a body", Default: "5s",
		Shape: &Shape{Kind: Duration, Shortest: time.Millisecond, Longest: time.Minute}},
}}

var overload = &Shape{Kind: Map, Def: "system", NotEmpty: true, Want: "want cpu, memory, load or inflight", Fields: []Field{
	modeOfProtection,
	{Name: "cpu", Doc: "shed requests above this percentage of the CPU that the process may use", Examples: []any{80}, Shape: percent},
	{Name: "memory", Doc: "shed requests above this percentage of the memory that the process may use", Examples: []any{90}, Shape: percent},
	{Name: "load", Doc: "shed requests above this load average of the machine", Examples: []any{16}, Shape: calls},
	{Name: "inflight", Doc: "the maximum number of requests in flight", Examples: []any{2000}, Shape: calls},
	{Name: "exempt", Doc: "requests that are neither rejected nor measured by system rules and protections of routes, such as health checks", Examples: []any{"/healthz"}, Shape: match},
	{Name: "priorities", Doc: "priority classes; the first that matches applies, others belong to the default class", Shape: &Shape{
		Kind: List, Want: "want a list of classes, each with a name, match and shed_at", Of: &Shape{Kind: Map, Def: "priority", Fields: []Field{
			{Name: "name", Doc: "the name of the class", Required: true, Examples: []any{"critical"}, Shape: name},
			{Name: "match", Doc: "the requests of the class, as in policies", Required: true, Examples: []any{"/pay/*"}, Shape: match},
			{Name: "shed_at", Doc: "shed it above this percentage of cpu and of inflight; 100: only when inflight is reached", Required: true, Examples: []any{70}, Shape: &Shape{
				Kind: Integer, Least: 1, Most: 100, Want: "want a percentage from 1 to 100",
			}},
		}},
	}},
}}

var http = &Shape{Kind: Map, Def: "http", Fields: []Field{
	{Name: "listen", Doc: "where the HTTP API listens, or off", Default: "127.0.0.1:8080", Shape: listen},
	{Name: "trusted_proxies", Doc: "proxies trusted for the requests that they describe to /v1/auth: addresses, prefixes, unix; none if omitted", Shape: trusted},
	{Name: "client_header", Doc: "the header in which they send the client's address", Default: "x-forwarded-for", Shape: clientHeader},
	{Name: "serve", Doc: "what the listener serves beside health: all, or auth for /v1/auth alone", Default: "all", Shape: &Shape{Kind: Word, Words: []string{"all", "auth"}}},
	{Name: "hosts", Doc: "names that requests without credentials may have as Host, beside localhost and addresses", Examples: []any{[]string{"weir.internal"}}, Shape: &Shape{
		Kind: ListOrOne, Want: wantHost, Of: &Shape{Kind: Text, Pattern: `^[A-Za-z0-9._-]+$`, Want: wantHost},
	}},
}}

const wantHost = "want a host name such as weir.internal, without a port"

var grpc = &Shape{Kind: Map, Def: "grpc", Fields: []Field{
	{Name: "listen", Doc: "where the gRPC interface listens, or off", Default: "127.0.0.1:8081", Shape: listen},
	{Name: "config", Doc: "a directory, or a file, of envoyproxy/ratelimit YAML to serve; relative to this file", Examples: []any{"./ratelimit/config"},
		Shape: &Shape{Kind: Text, Want: "want the path of a directory or file of envoyproxy/ratelimit configuration"}},
	{Name: "on_store_error", Doc: "the response when the store is unavailable; an error if omitted, which leaves the decision to Envoy's failure_mode_deny", Shape: failMode},
	{Name: "response_headers", Doc: "add RateLimit fields to responses", Default: false, Shape: boolean},
	{Name: "dynamic_metadata", Doc: "add the request, and the metadata of the limits that admitted it, to responses", Default: false, Shape: boolean},
	{Name: "shadow_mode", Doc: "decide and count, but admit every request", Default: false, Shape: boolean},
	{Name: "quota_mode", Doc: "deny a request only if all of its limits do", Default: false, Shape: boolean},
	{Name: "merge_domains", Doc: "allow several files of config for one domain", Default: false, Shape: boolean},
	{Name: "quota_service", Doc: "domains of config that Envoy's rate limit quota service has instead", Shape: quotaService},
}}

var quotaService = &Shape{Kind: Map, Def: "quota_service", Fields: []Field{
	{Name: "domains", Doc: "the domains; their limits are token or leaky buckets", Required: true, Examples: []any{[]string{"edge"}}, Shape: &Shape{
		Kind: ListOrOne, Want: wantDomain, Of: &Shape{Kind: Text, Want: wantDomain},
	}},
	{Name: "ttl", Doc: "how long a client decides by an assignment that is not renewed, in whole seconds", Default: "15s",
		Shape: &Shape{Kind: Duration, Shortest: 14 * time.Second, Longest: time.Hour}},
	{Name: "after_expiry", Doc: "how clients are configured to decide after that; with allow there is no bound", Default: "deny", Shape: &Shape{
		Kind: Choice, Want: "want deny, allow or { reuse: 60s }", Any: []*Shape{
			{Kind: Word, Words: []string{"deny", "allow"}, Want: "want deny, allow or { reuse: 60s }"},
			{Kind: Map, Def: "after_expiry", Fields: []Field{
				{Name: "reuse", Doc: "how long clients reuse the last assignment", Required: true, Examples: []any{"60s"},
					Shape: &Shape{Kind: Duration, Shortest: time.Second, Longest: time.Hour, Want: "want a time such as 60s, from 1s to 1h0m0s"}},
			}},
		},
	}},
}}

const wantDomain = "want the name of a domain of grpc.config"

var listener = &Shape{Kind: Map, Def: "listener", Fields: []Field{
	{Name: "listen", Doc: "where the interface listens: HOST:PORT, or off", Shape: listen},
}}

var admin = &Shape{Kind: Map, Def: "admin", Fields: []Field{
	{Name: "listen", Doc: "where the admin interface listens, or off", Default: "127.0.0.1:9090", Shape: listen},
	{Name: "trusted_proxies", Doc: "proxies trusted for the client's address and, in X-Forwarded-Proto, for https: addresses, prefixes; none if omitted", Shape: trusted},
	{Name: "client_header", Doc: "the header in which they send the client's address", Default: "x-forwarded-for", Shape: clientHeader},
}}

var boolean = &Shape{Kind: Boolean}

var listen = &Shape{
	Kind: Text, Def: "listen", Pattern: `^(off|.*:[0-9]+)$`, Want: "want HOST:PORT such as 127.0.0.1:8000, :8000 for all addresses, or off",
}

var route = &Shape{Kind: Map, Def: "route", Fields: slices.Concat([]Field{
	{Name: "path", Doc: "this path and every path below it", Default: "/", Shape: &Shape{
		Kind: Text, Pattern: `^/`, Want: "want a path such as /api, which matches every path below it too",
	}},
	{Name: "host", Doc: "match only requests for this host", Examples: []any{"api.example.com"}, Shape: &Shape{
		Kind: Text, Want: "want a host name such as api.example.com, without a port",
	}},
	{Name: "upstream", Doc: "the URL to forward requests to", Required: true, Examples: []any{"http://127.0.0.1:3000"}, Shape: &Shape{
		Kind: Text, Pattern: `^([Hh][Tt][Tt][Pp][Ss]?|[Hh]2[Cc])://`,
		Want: "want a URL such as http://127.0.0.1:3000, of the scheme http, https or h2c, without user, query and fragment",
	}},
	{Name: "timeout", Doc: "the maximum time until the upstream's response begins; unlimited if omitted",
		Shape: &Shape{Kind: Duration, Shortest: time.Millisecond, Longest: 24 * time.Hour}},
}, settings)}

var trusted = &Shape{
	Kind: ListOrOne, Def: "trusted_proxies", Want: "want an address, a prefix such as 10.0.0.0/8, or unix for a proxy on a Unix socket",
	Of: &Shape{
		Kind: Text, Pattern: `^(unix|[0-9.]+(/[0-9]+)?|[0-9A-Fa-f.]*:[0-9A-Fa-f:.]*(/[0-9]+)?)$`,
		Want: "want an address, a prefix such as 10.0.0.0/8, or unix for a proxy on a Unix socket",
	},
}

var clientHeader = &Shape{Kind: Word, Def: "client_header", Words: []string{"x-forwarded-for", "forwarded"}, Fold: true}

var fields = &Shape{
	Kind: ListOrOne, Def: "headers", Want: "want off, or any of legacy and one draft (draft-03, draft-06, draft-07 or draft-08)",
	Of: &Shape{
		Kind: Word, Words: []string{"off", "legacy", "draft-03", "draft-06", "draft-07", "draft-08"},
		Want: "want off, or any of legacy and one draft (draft-03, draft-06, draft-07 or draft-08)",
	},
}
