package edge

// Format is the version of the form of a Plan. It changes when the Lua of another
// version would misread a plan.
const Format = 1

// A Plan holds the policies of a file in the form that edge/nginx reads: JSON, with
// every value that needs Go already computed. Integers are at most 2^53-1, and empty
// fields are absent.
type Plan struct {
	Format   int      `json:"format"`
	Version  int64    `json:"version,omitempty"` // of published policies
	Script   string   `json:"script"`            // redisstore.Script
	Prefix   string   `json:"prefix"`            // of every key in Redis: weir:1:
	Rules    []Rule   `json:"rules"`             // the limits, each once; other fields refer to them by position, from 1
	Policies []Policy `json:"policies"`          // in the order of the file, without those that are off
}

// A Rule is a limit as the script and the response fields need it.
type Rule struct {
	Limit     string  `json:"limit"`            // weir.Limit.String
	Suffix    string  `json:"suffix"`           // the end of a state's name: PREFIX{KEY}:SUFFIX; rules may share a state
	Stored    string  `json:"stored,omitempty"` // the rule as the script stores it with a named state
	Algorithm string  `json:"algorithm"`        // the script's name for it: token_bucket, primed/token_bucket
	Params    []int64 `json:"params"`           // the rule's parameters and, last, its refill time
	Capacity  int64   `json:"capacity"`         // weir.Limit.Capacity: the quota in response fields
	Window    int64   `json:"window,omitempty"` // in response fields, in seconds; 0 is omitted there
	Lease     int64   `json:"lease,omitempty"`  // of a concurrency limit, in µs: the TTL of a slot; 0 for other limits
}

// Adjusted is the limits of a key that an operator raised, for the Lua beside a plan.
type Adjusted struct {
	Format  int    `json:"format"`
	Rules   []Rule `json:"rules,omitempty"`
	Problem string `json:"problem,omitempty"` // why there are no rules: nginx keeps the limits of the plan
}

// A Policy is policy.Policy.
type Policy struct {
	Name         string           `json:"name"`
	Bucket       string           `json:"bucket"` // policy.Policy.Bucket: the start of its keys. A request is charged to the first matching policy of each bucket only
	Shadow       bool             `json:"shadow,omitempty"`
	Percent      int              `json:"percent"` // 1 to 100
	Match        Match            `json:"match"`
	Key          []Part           `json:"key"`
	Limits       []int            `json:"limits"` // positions in Rules
	Cost         int64            `json:"cost"`
	CostOf       any              `json:"cost_of,omitempty"` // expr.Portable
	Count        string           `json:"count"`             // policy.Count
	Failures     [][2]int         `json:"failures,omitempty"`
	OnDenied     OnDenied         `json:"on_denied"`
	OnStoreError string           `json:"on_store_error"`  // open or closed
	Exact        map[string][]int `json:"exact,omitempty"` // overrides of one key, by that key
	Wildcards    []Wildcard       `json:"wildcards,omitempty"`
}

// A Match is policy.Match, compiled. An absent list matches every request.
type Match struct {
	Methods []string `json:"methods,omitempty"` // upper case; HEAD wherever GET is
	Hosts   []Host   `json:"hosts,omitempty"`
	Paths   []Path   `json:"paths,omitempty"`
	Headers []Header `json:"headers,omitempty"`
	Where   any      `json:"where,omitempty"` // expr.Portable
}

// A Host is a name, or every name below it.
type Host struct {
	Name  string `json:"name"` // lower case
	Below bool   `json:"below,omitempty"`
}

// A Path is a path pattern.
type Path struct {
	Pattern  string   `json:"pattern"`  // as written in the file
	Segments []string `json:"segments"` // lower case; "" matches any one segment
	Rest     bool     `json:"rest,omitempty"`
}

// A Header requires one of Values, or any value but an empty one.
type Header struct {
	Name   string   `json:"name"` // lower case
	Values []string `json:"values,omitempty"`
	Any    bool     `json:"any,omitempty"`
}

// A Part is policy.KeyPart.
type Part struct {
	Source  string   `json:"source"`            // policy.Source
	Name    string   `json:"name,omitempty"`    // of a header, in lower case; of a constant, its text
	Bits    int      `json:"bits,omitempty"`    // of an IPv6 address
	Methods []string `json:"methods,omitempty"` // methods with a value of their own; all others share one
}

// An OnDenied is policy.OnDenied with its defaults filled in.
type OnDenied struct {
	Status      int               `json:"status"`
	Problem     bool              `json:"problem,omitempty"` // the body is problem+json (RFC 9457)
	Body        string            `json:"body,omitempty"`
	ContentType string            `json:"content_type,omitempty"`
	Redirect    string            `json:"redirect,omitempty"`
	Headers     map[string]string `json:"headers,omitempty"`
}

// A Wildcard is an override of more than one key. It has one Fit for each part.
type Wildcard struct {
	Fit    []Fit `json:"fit"`
	Limits []int `json:"limits"`
}

// A Fit matches any value or none, the addresses of a network, or a text with gaps.
type Fit struct {
	Any     bool     `json:"any,omitempty"`
	Network string   `json:"network,omitempty"` // such as 203.0.113.0/24
	Text    []string `json:"text,omitempty"`    // with a gap between two elements; one element matches exactly
}

// Settings is the rest of the configuration of edge/nginx, in JSON beside the Plan. It
// is part of the nginx configuration, so a published plan does not change it.
type Settings struct {
	Format   int      `json:"format"`
	Redis    Redis    `json:"redis"`
	Deadline int64    `json:"deadline"`         // of a call to Redis, in µs: failover.deadline
	Fields   []string `json:"fields"`           // httplimit.Fields by name: legacy, draft-08 or off
	Jitter   int64    `json:"jitter,omitempty"` // the maximum added to Retry-After, in µs
	Follow   bool     `json:"follow,omitempty"` // use published policies in place of those of the file
}

// A Redis is redisstore.Address without clusters.
type Redis struct {
	Hosts            []string `json:"hosts"` // host:port; of sentinels if Primary is set
	Primary          string   `json:"primary,omitempty"`
	Username         string   `json:"username,omitempty"`
	Password         string   `json:"password,omitempty"`
	DB               int      `json:"db,omitempty"`
	SentinelUsername string   `json:"sentinel_username,omitempty"`
	SentinelPassword string   `json:"sentinel_password,omitempty"`
	TLS              bool     `json:"tls,omitempty"`
	Verify           bool     `json:"verify,omitempty"`
	ServerName       string   `json:"server_name,omitempty"`
}
