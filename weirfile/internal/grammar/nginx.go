package grammar

// nginx is limit_req, in the words of nginx.
var nginx = &Shape{Kind: Map, Def: "nginx", Want: "want a map such as { rate: 10r/s, burst: 20 }", Fields: []Field{
	{Name: "zone", Doc: "a state that the policies of one zone have in common, whatever their burst and delay; of the policy alone if not said", Examples: []any{"perip"}, Shape: name},
	{Name: "rate", Doc: "requests a second (10r/s) or a minute (6r/m), evenly spaced", Required: true, Examples: []any{"10r/s", "6r/m"}, Shape: &Shape{
		Kind: Text, Pattern: `^[0-9]+r/[sm]$`, Want: "want a rate as nginx writes it, such as 10r/s or 6r/m",
	}},
	{Name: "burst", Doc: "how many requests beyond the rate may pile up", Default: 0, Examples: []any{20}, Shape: piled},
	{Name: "nodelay", Doc: "let what piles up through at once; it is delayed to the rate if not said", Default: false, Shape: boolean},
	{Name: "delay", Doc: "let so many of what piles up through at once, and delay the others", Default: 0, Examples: []any{8}, Shape: piled},
	{Name: "dry_run", Doc: "decide and count but let everything through, undelayed: mode: shadow", Default: false, Shape: boolean},
	{Name: "status", Doc: "of the answer to a refused request, as on_denied.status", Default: 503, Shape: &Shape{Kind: Integer, Least: 400, Most: 599}},
	{Name: "exact", Doc: "count exactly, and not in whole milliseconds and thousandths of a request", Default: false, Shape: boolean},
}}

var piled = &Shape{Kind: Integer, Least: 0, Most: 1 << 40}
