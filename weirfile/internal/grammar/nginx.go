package grammar

// nginx is the shape of limit_req and limit_conn in nginx's terms.
var nginx = &Shape{Kind: Map, Def: "nginx", Want: "want a map such as { rate: 10r/s, burst: 20 } or { connections: 5 }", NotEmpty: true, Fields: []Field{
	{Name: "zone", Doc: "the state that policies share, whatever their burst and delay; a state of its own if omitted", Examples: []any{"perip"}, Shape: name},
	{Name: "rate", Doc: "requests per second (10r/s) or minute (6r/m), evenly spaced", Examples: []any{"10r/s", "6r/m"}, Shape: &Shape{
		Kind: Text, Pattern: `^[0-9]+r/[sm]$`, Want: "want a rate as nginx writes it, such as 10r/s or 6r/m",
	}},
	{Name: "connections", Doc: "concurrent requests, as limit_conn, in place of rate; those of one zone count together", Examples: []any{5}, Shape: &Shape{Kind: Integer, Least: 1, Most: 10000}},
	{Name: "burst", Doc: "the number of requests that may exceed the rate", Default: 0, Examples: []any{20}, Shape: piled},
	{Name: "nodelay", Doc: "admit requests within the burst at once; delay them to the rate if false", Default: false, Shape: boolean},
	{Name: "delay", Doc: "admit this number of requests within the burst at once, and delay the others", Default: 0, Examples: []any{8}, Shape: piled},
	{Name: "dry_run", Doc: "decide and count but admit every request without delay: mode: shadow", Default: false, Shape: boolean},
	{Name: "status", Doc: "the status of the response to a denied request, as on_denied.status", Default: 503, Shape: &Shape{Kind: Integer, Least: 400, Most: 599}},
	{Name: "exact", Doc: "count exactly instead of in milliseconds and thousandths of a request", Default: false, Shape: boolean},
}}

var piled = &Shape{Kind: Integer, Least: 0, Most: 1 << 40}
