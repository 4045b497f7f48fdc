package edge

// Format is the number of the form of a Plan. A change that the Lua of another format
// would misread makes it another.
const Format = 1

// A Plan is the policies of a file as edge/nginx decides by them: in JSON, with
// everything computed that Go alone can compute. Whole numbers are at most 2^53 - 1.
// Fields that are empty are absent.
type Plan struct {
	Format   int      `json:"format"`
	Version  int64    `json:"version,omitempty"` // of published policies
	Script   string   `json:"script"`            // redisstore.Script
	Prefix   string   `json:"prefix"`            // of every key in Redis: weir:1:
	Rules    []Rule   `json:"rules"`             // the limits, each once; others name them by their place, from 1
	Policies []Policy `json:"policies"`          // in the order of the file; without those that are off

	Calendars []Calendar `json:"calendars,omitempty"` // each once; rules name them by their place, from 1
}

// A Rule is a limit as the script and the response fields take it.
type Rule struct {
	Limit     string  `json:"limit"`              // weir.Limit.String
	Suffix    string  `json:"suffix"`             // what the name of a state ends in: PREFIX{KEY}:SUFFIX; rules may share a state
	Algorithm string  `json:"algorithm"`          // as the script names it: token_bucket, primed/token_bucket
	Params    []int64 `json:"params"`             // the rule's numbers and, last, its horizon; of a calendar, with 0 for the bounds of its windows
	Capacity  int64   `json:"capacity"`           // weir.Limit.Capacity: the quota of the response fields
	Window    int64   `json:"window,omitempty"`   // of the response fields, in seconds; 0: is not said
	Lease     int64   `json:"lease,omitempty"`    // of a concurrency limit, µs: the ttl of a slot; 0: no concurrency limit
	Calendar  int     `json:"calendar,omitempty"` // of Calendars, where the windows depend on the date
}

// A Calendar gives the windows of a time zone. Bounds are the instants at which a
// window ends and the next begins, in seconds since the epoch, ascending, from before
// the plan was made on.
//
// Params want five of them in µs, from the place At on (counted from 1): the start of
// the window before now's, of now's, of the two after it, and the end of the last. Where
// there are not five such, nothing is decided, and the policy's on_store_error has its
// say.
type Calendar struct {
	Of     string  `json:"of"` // such as "day Europe/Berlin", for those who read it
	Bounds []int64 `json:"bounds"`
	At     int     `json:"at"`
}

// A Policy is policy.Policy.
type Policy struct {
	Name         string           `json:"name"`
	Bucket       string           `json:"bucket"` // policy.Policy.Bucket: what its keys begin with. Of policies with one bucket that fit a request the first alone is asked
	Shadow       bool             `json:"shadow,omitempty"`
	Percent      int              `json:"percent"` // 1 to 100
	Match        Match            `json:"match"`
	Key          []Part           `json:"key"`
	Limits       []int            `json:"limits"` // of Rules
	Cost         int64            `json:"cost"`
	CostOf       *Expression      `json:"cost_of,omitempty"`
	Settle       string           `json:"settle,omitempty"` // the response header that tells the cost
	Count        string           `json:"count"`            // policy.Count
	Failures     [][2]int         `json:"failures,omitempty"`
	OnDenied     OnDenied         `json:"on_denied"`
	OnStoreError string           `json:"on_store_error"` // open or closed
	Candidate    []int            `json:"candidate,omitempty"`
	Carry        int              `json:"carry"`           // weir.Carry: 3 is reset
	Exact        map[string][]int `json:"exact,omitempty"` // overrides of one key, by that key
	Wildcards    []Wildcard       `json:"wildcards,omitempty"`
}

// A Match is policy.Match, compiled: lists that are absent fit all.
type Match struct {
	Methods []string    `json:"methods,omitempty"` // upper case; with HEAD where GET is
	Hosts   []Host      `json:"hosts,omitempty"`
	Paths   []Path      `json:"paths,omitempty"`
	Headers []Header    `json:"headers,omitempty"`
	Where   *Expression `json:"where,omitempty"`
}

// A Host is a name, or all names below it.
type Host struct {
	Name  string `json:"name"` // lower case
	Below bool   `json:"below,omitempty"`
}

// A Path is a pattern of paths.
type Path struct {
	Pattern  string   `json:"pattern"`  // as it was written
	Segments []string `json:"segments"` // lower case; "" is any one segment
	Rest     bool     `json:"rest,omitempty"`
}

// A Header has to have one of Values, or any value but an empty one.
type Header struct {
	Name   string   `json:"name"` // lower case
	Values []string `json:"values,omitempty"`
	Any    bool     `json:"any,omitempty"`
}

// A Part is policy.KeyPart.
type Part struct {
	Source  string      `json:"source"`            // policy.Source
	Name    string      `json:"name,omitempty"`    // of a header, in lower case; of a claim, its name; of a constant, its text
	Header  string      `json:"header,omitempty"`  // of a claim, in lower case
	Bearer  bool        `json:"bearer,omitempty"`  // the claim's token follows a scheme
	Bits    int         `json:"bits,omitempty"`    // of an IPv6 address
	Methods []string    `json:"methods,omitempty"` // those that are told apart; all others are one
	Of      *Expression `json:"of,omitempty"`
}

// An OnDenied is policy.OnDenied with its defaults filled in.
type OnDenied struct {
	Status      int               `json:"status"`
	Problem     bool              `json:"problem,omitempty"` // the body is a problem (RFC 9457)
	Body        string            `json:"body,omitempty"`
	ContentType string            `json:"content_type,omitempty"`
	Redirect    string            `json:"redirect,omitempty"`
	Headers     map[string]string `json:"headers,omitempty"`
	Wait        int64             `json:"wait,omitempty"` // µs
}

// A Wildcard is an override that fits more keys than one: it has a Fit for each part.
type Wildcard struct {
	Fit    []Fit `json:"fit"`
	Limits []int `json:"limits"`
}

// A Fit is any value and none, the addresses of a network, or a text with gaps.
type Fit struct {
	Any     bool     `json:"any,omitempty"`
	Network string   `json:"network,omitempty"` // such as 203.0.113.0/24
	Text    []string `json:"text,omitempty"`    // with a gap between each two; one alone is exact
}

// An Expression is CEL as edge/nginx evaluates it: a tree of calls whose leaves are
// constants and what a request has, with the values and errors that package expr gives
// them: texts that are too long, headers that stand there twice with different values.
// Op is one of
//
//	"const"                       Value: a text, a whole number of at most 2^53 - 1
//	                              (either sign), a boolean or a list of texts
//	"method" "host" "path" "ip"   of the request
//	"header" "query" "cookie"     its value under Name
//	"hasHeader" "hasQuery"        whether there is a value under Name
//	"hasCookie"
//	"list"                        Args: texts, or whole numbers; only behind "in"
//	"in"                          Args[0] in Args[1], a "list" or a "const" that is one
//	"&&" "||" "!" "?:"            as in CEL, errors and short cuts included
//	"==" "!="                     of two texts, numbers or booleans
//	"<" "<=" ">" ">="             of two texts, by bytes, or of two numbers
//	"+"                           of two texts, or of two numbers
//	"-" "*" "/" "%" "neg"         of numbers; 64 bits, and an error beyond them; quotients
//	                              are cut towards 0, and 0 divides nothing
//	"startsWith" "endsWith"       of Args[0], by Args[1]
//	"contains"
//	"size"                        of a text, in characters of UTF-8
//	"int"                         of a text, as strconv.ParseInt reads it
//	"lowerAscii" "upperAscii"     of a text
//	"cidr"                        whether Value, such as 10.0.0.0/8, contains the address
//	                              whose text is Args[0]; what is no address is an error,
//	                              and so is one with a zone or an IPv4 address in IPv6
//
// What CEL has beyond that cannot be compiled, and says so.
type Expression struct {
	Op    string        `json:"op"`
	Value any           `json:"value,omitempty"`
	Name  string        `json:"name,omitempty"`
	Args  []*Expression `json:"args,omitempty"`
}

// Settings are what else edge/nginx has to know, in JSON beside the Plan. They stand in
// the configuration of nginx and change with it alone.
type Settings struct {
	Format   int      `json:"format"`
	Redis    Redis    `json:"redis"`
	Deadline int64    `json:"deadline"`         // µs that a question may take: failover.deadline
	Fields   []string `json:"fields"`           // httplimit.Fields by name: legacy, draft-08 …, or off
	Jitter   int64    `json:"jitter,omitempty"` // µs: the most that is added to Retry-After
	Follow   bool     `json:"follow,omitempty"` // take published policies in place of those of the file
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
