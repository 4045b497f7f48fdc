package grammar

import "github.com/floodweir/weir/budget"

// words returns values as words.
func words[T ~string](values []T) []string {
	list := make([]string, len(values))
	for i, v := range values {
		list[i] = string(v)
	}
	return list
}

const (
	wantPercentages = "want percentages from 1 to 100, such as [80, 90]"
	wantModel       = "want the name of a model; * stands for any text"
	wantPrice       = `want US dollars per million tokens, such as "1.25"`
)

var price = &Shape{Kind: Scalar, Want: wantPrice}

// priceFields lists the prices of a model.
var priceFields = []Field{
	{Name: "input", Doc: "the price of a million input tokens in US dollars", Required: true, Examples: []any{"1.25"}, Shape: price},
	{Name: "cached", Doc: "the price of input tokens that are read from a cache; that of input if omitted", Examples: []any{"0.125"}, Shape: price},
	{Name: "cache_write", Doc: "the price of input tokens that are written to a cache; that of input if omitted", Shape: price},
	{Name: "cache_write_1h", Doc: "the same for a cache of an hour; that of cache_write if omitted", Shape: price},
	{Name: "output", Doc: "the price of a million output tokens, with reasoning", Required: true, Examples: []any{"10"}, Shape: price},
}

var prices = &Shape{Kind: Map, Def: "prices", Fields: []Field{
	{Name: "unknown_model", Doc: "deny requests for a model without a price; or its price: that of a model of the table, or highest for the highest price of each kind", Default: "deny", Shape: &Shape{
		Kind: Text, Want: "want deny, highest, or a model of the table",
	}},
	{Name: "models", Doc: "the prices; exact names precede patterns", Required: true, Shape: &Shape{
		Kind: List, Want: `want a list of prices such as { model: m1, input: "1.25", output: "10" }`,
		Of: &Shape{Kind: Map, Def: "price", Fields: append([]Field{
			{Name: "model", Doc: "names of models; * stands for any text", Required: true, Examples: []any{[]string{"m1", "m1-*"}}, Shape: &Shape{
				Kind: ListOrOne, Want: wantModel, Of: &Shape{Kind: Text, Want: wantModel},
			}},
			{Name: "above", Doc: "the number of input tokens above which the prices of long apply", Examples: []any{200000}, Shape: tokens},
			{Name: "long", Doc: "the prices of the whole response above that number", Shape: &Shape{Kind: Map, Def: "long_price", Fields: priceFields}},
		}, priceFields...)},
	}},
}}

// LevelLimits is the shape of the limits of a level, in the unit of the budget.
var LevelLimits = &Shape{
	Kind: ListOrOne, Def: "level_limits", Want: "want at least one limit, such as 200/day calendar UTC; 0 to block, or unlimited",
	Of: &Shape{Kind: Choice, Want: "want a limit such as 200/day calendar UTC; 0 to block, or unlimited", Any: []*Shape{
		{Kind: Integer}, {Kind: Text},
	}},
}

var budgets = &Shape{Kind: Map, Def: "budget", Fields: []Field{
	{Name: "unit", Doc: "what the limits count", Required: true, Shape: &Shape{
		Kind: Word, Words: words(budget.Units()), Want: "want usd, tokens, input_tokens or output_tokens",
	}},
	{Name: "format", Doc: "the format of the responses", Default: string(budget.Auto), Shape: &Shape{Kind: Word, Words: words(budget.Formats())}},
	{Name: "levels", Doc: "the keys and their limits; charged together, all or nothing", Required: true, Shape: &Shape{
		Kind: List, Want: `want a list of levels such as { name: team, key: "claim:team", limits: 200/day calendar UTC }`,
		Of: &Shape{Kind: Map, Def: "level", Fields: []Field{
			{Name: "name", Doc: "the name of the level; its policy is POLICY.LEVEL", Required: true, Examples: []any{"team"}, Shape: name},
			{Name: "key", Doc: "the parts of a request that identify a bucket", Required: true, Shape: &Shape{Kind: ListOrOne, Want: wantKey, Of: keyPart}},
			{Name: "limits", Doc: "the limits in the unit of the budget; US dollars may have decimals. 0 blocks every request, unlimited limits only the keys of overrides", Required: true, Examples: []any{"12.50/day calendar UTC"}, Shape: LevelLimits},
			{Name: "overrides", Doc: overridesDoc, Shape: overridesOf(&Shape{Kind: Map, Def: "level_override", Fields: []Field{
				override.Fields[0],
				{Name: "limits", Doc: "the limits of such a key, instead of the level's; 0 blocks it, unlimited does not limit it", Required: true, Shape: LevelLimits},
			}}, "want a list of overrides such as { key: research, limits: 500/month calendar UTC }")},
		}},
	}},
	{Name: "warn", Doc: "when the budget warns, in the response field Weir-Budget-Warning and by a webhook", Shape: &Shape{Kind: Map, Def: "warn", Fields: []Field{
		{Name: "at", Doc: "percentages of a limit", Required: true, Examples: []any{[]int{80, 90}}, Shape: &Shape{
			Kind: ListOrOne, Want: wantPercentages, Of: &Shape{Kind: Integer, Least: 1, Most: 100, Want: wantPercentages},
		}},
		{Name: "webhook", Doc: "the URL that gets each of them, once for each key and period; https outside of this host", Examples: []any{"https://hooks.example.com/budget"}, Shape: &Shape{
			Kind: Text, Want: "want a URL such as https://hooks.example.com/budget",
		}},
		{Name: "secret_file", Doc: "a file with the secret that signs what is sent, relative to this file", Examples: []any{"webhook.secret"}, Shape: &Shape{
			Kind: Text, Want: "want the name of a file with the secret",
		}},
		{Name: "secret", Doc: "the secret itself, of 16 bytes or more, as text or, after whsec_, in base64", Shape: &Shape{Kind: Text, Want: "want a secret of at least 16 bytes"}},
		{Name: "allow_http", Doc: "accept a webhook without TLS outside of this host", Default: false, Shape: boolean},
	}}},
	{Name: "exhausted", Doc: "the end of a stream for which no further step can be reserved", Default: "finish", Shape: &Shape{
		Kind: Word, Words: []string{"finish", "error", "allow"}, Want: "want finish, error or allow",
	}},
	{Name: "disconnected", Doc: "drain reads a response for its usage after its client has disconnected; cancel cancels the request", Default: "drain", Shape: &Shape{
		Kind: Word, Words: []string{"drain", "cancel"}, Want: "want drain or cancel",
	}},
	{Name: "include_usage", Doc: "request the usage of streams of chat completions, and remove it for clients that did not ask for it", Default: false, Shape: boolean},
	{Name: "include_max", Doc: "send reserve.max_output to the upstream, in requests without a smaller maximum of output tokens; its name in chat completions, other APIs have one", Shape: &Shape{
		Kind: Word, Words: []string{"max_tokens", "max_completion_tokens"}, Want: "want max_tokens or max_completion_tokens",
	}},
	{Name: "reserve", Doc: "the bound of a request, which is charged until its response", Shape: &Shape{Kind: Map, Def: "reserve", NotEmpty: true, Want: "want max_input, max_output, step or max_body", Fields: []Field{
		{Name: "max_input", Doc: "the maximum of input tokens; the bytes of the body and 1,000 if omitted", Examples: []any{8000}, Shape: tokens},
		{Name: "max_output", Doc: "the maximum of output tokens; a smaller one in the request replaces it", Default: budget.DefaultMaxOutput, Shape: tokens},
		{Name: "step", Doc: "the output tokens that are reserved for a stream at a time; max_output at once if omitted", Examples: []any{1000}, Shape: tokens},
		{Name: "max_body", Doc: "the maximum of bytes of a request body in which the model and max_tokens are read", Default: budget.DefaultMaxBody, Shape: &Shape{
			Kind: Integer, Least: 1, Most: 64 << 20,
		}},
	}}},
}}
