package weir

import (
	"cmp"
	"fmt"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/floodweir/weir/internal/fault"
)

// ParseLimit reads a limit from text:
//
//	10/s                                  10 per second, 10 at once; also 10/sec or 10r/s
//	0.5/s                                 1 per 2 s; 1.5/m is 3 per 2 minutes, 2 at once
//	10/s burst 20                         20 at once, then 10 per second
//	5000/24h
//	100/1m30s interval                    all 100 back at the end of each 90 s
//	10/s burst 10 initial 0               a new key starts empty
//	50/s warmup 30s                       starts cold, at a third of the rate
//	10/s leaky_bucket burst 20            refuse requests above
//	10/s leaky_bucket burst 20 queue      delay requests above
//	10/s leaky_bucket burst 20 delay 8    delay requests above 8
//	10/s leaky_bucket burst 20 nodelay nginx
//	10/s leaky_bucket burst 20 shared     one state with others of 10/s
//	100/m fixed_window anchor epoch
//	100000/month calendar Asia/Shanghai   calendar months of a time zone
//	1000/month calendar UTC day 15        billing periods; day 31 is the last of each month
//	100/m sliding_window segments 6 weighted
//	100/m sliding_log
//	20 concurrency lease 30s              20 at a time
//	20 concurrency shared                 one state with others, of any count and lease
//	100/s tenant_bucket burst 140 weighted tenant a tenants a:3:50,b:1:20
//	                                      that of a, with NAME:WEIGHT:BURST of all tenants
//
// A period is a Go duration or a unit: us, ms, s, m, h, d, w, sec, min, hr, second, minute,
// hour, day, week or year. A day has 24 hours, a week 7 days and a year 365. With the
// word calendar and a time zone, day, week, month and year are windows of the calendar. A month without a zone
// is one of UTC. A number may have underscores, as in 1_000_000. An error wraps
// ErrInvalid, and quotes the text and the invalid word.
func ParseLimit(text string) (Limit, error) {
	if len(text) > 256 && !(strings.Contains(text, tenantBucket) && len(text) < 256<<10) {
		return Limit{}, fmt.Errorf("weir: limit: %w: want at most 256 bytes, got %d", ErrInvalid, len(text))
	}
	p := parser{text: text, words: strings.Fields(text)}
	c, err := p.limit()
	if err != nil {
		return Limit{}, err
	}
	config, err := c.config()
	if err != nil {
		return Limit{}, err
	}
	return NewLimit(config)
}

// A parsed is a limit with the options of every algorithm, so that an error can name
// the option of another algorithm.
type parsed struct {
	algorithm string
	count     int64
	period    time.Duration
	ceiling   int64 // the burst of a count with a decimal point, if none is given
	fraction  int64 // the number of periods of a count with a decimal point
	burst     int64
	interval  bool
	initial   *int64
	warmup    time.Duration
	queue     bool
	queueFree int64
	nginx     bool
	shared    bool
	anchor    string
	calendar  string
	zone      *time.Location
	day       int
	segments  int
	weighted  bool
	tenant    string
	tenants   []Tenant
}

type parser struct {
	text  string
	words []string
	seen  map[string]bool
}

func (p *parser) errorf(format string, args ...any) error {
	return fmt.Errorf("weir: limit %q: %w: %w", p.text, ErrInvalid, fmt.Errorf(format, args...))
}

// next removes and returns the next word; "" at the end.
func (p *parser) next() string {
	if len(p.words) == 0 {
		return ""
	}
	w := p.words[0]
	p.words = p.words[1:]
	return w
}

func (p *parser) limit() (parsed, error) {
	var c parsed
	if len(p.words) == 0 {
		return c, p.errorf(`want a limit such as "10/s burst 20", got nothing`)
	}
	if i := slices.IndexFunc(p.words, func(w string) bool { return strings.HasSuffix(w, ",") }); i >= 0 || strings.Contains(p.words[0], ",") {
		return c, p.errorf("want one limit, got a comma: several limits are a list of texts")
	}
	count, period, ok := strings.Cut(p.next(), "/")
	if ok {
		if err := p.rate(&c, count, period); err != nil {
			return c, err
		}
	} else {
		var err error
		if c.count, err = p.number("count", count); err != nil {
			return c, err
		}
	}
	p.seen = map[string]bool{}
	for len(p.words) > 0 {
		if err := p.option(&c); err != nil {
			return c, err
		}
	}
	if c.period != 0 {
		c.calendar = "" // without the word calendar a day has 24 hours
	}
	if c.fraction > 1 && (c.algorithm != "" && c.algorithm != tokenBucket && c.algorithm != leakyBucket || c.interval) {
		return c, p.errorf("count: want a whole number with %s, whose windows have a period, got %q", cmp.Or(c.algorithm, "interval"), count)
	}
	if p.seen["lease"] && c.algorithm != concurrency {
		return c, p.errorf("lease: want it with concurrency only")
	}
	if !ok && c.algorithm != concurrency {
		return c, p.errorf("want a count per period such as %d/s, got %q", max(1, c.count), count)
	}
	if ok && c.algorithm == concurrency {
		return c, p.errorf(`want "%d concurrency", got a count per period`, c.count)
	}
	return c, nil
}

func (p *parser) option(c *parsed) error {
	word := p.next()
	if p.seen[word] {
		return p.errorf("%s is given twice", word)
	}
	p.seen[word] = true
	switch word {
	case "gcra":
		return p.algorithm(c, tokenBucket)
	case tokenBucket, leakyBucket, fixedWindow, slidingWindow, slidingLog, concurrency, tenantBucket:
		return p.algorithm(c, word)
	case "interval":
		c.interval = true
	case "queue":
		c.queue = true
	case "nginx":
		c.nginx = true
	case "shared":
		c.shared = true
	case "weighted":
		c.weighted = true
	case "nodelay":
		if c.queue {
			return p.errorf("nodelay contradicts queue and delay")
		}
	default:
		return p.valued(c, word)
	}
	if c.queue && p.seen["nodelay"] {
		return p.errorf("nodelay contradicts queue and delay")
	}
	return nil
}

func (p *parser) algorithm(c *parsed, name string) error {
	if c.algorithm != "" {
		return p.errorf("want one algorithm, got %s and %s", c.algorithm, name)
	}
	c.algorithm = name
	return nil
}

// optionWords are the words of a limit after its rate.
var optionWords = strings.Fields("burst initial warmup delay anchor calendar day segments lease interval queue nodelay nginx shared weighted " +
	"gcra token_bucket leaky_bucket fixed_window sliding_window sliding_log concurrency")

// suggest returns a question for the known word that resembles a misspelled one, or "".
func suggest(word string, known []string) string {
	if m := fault.Meant(word, known); m != "" {
		return ": did you mean " + m + "?"
	}
	return ""
}

// valued reads an option that is followed by a value.
func (p *parser) valued(c *parsed, word string) (err error) {
	value := ""
	switch word {
	case "burst", "initial", "warmup", "delay", "anchor", "calendar", "day", "segments", "lease", "tenant", "tenants":
		if value = p.next(); value == "" {
			return p.errorf("want a value after %s", word)
		}
	}
	switch word {
	case "burst":
		if c.burst, err = p.number(word, value); err == nil && c.burst < 1 && !(c.burst == 0 && strings.Contains(p.text, leakyBucket)) {
			return p.errorf("burst: want at least 1, got %s", value)
		}
	case "initial":
		var n int64
		n, err = p.number(word, value)
		c.initial = &n
	case "warmup":
		c.warmup, err = p.duration(word, value)
	case "lease":
		c.period, err = p.duration(word, value)
	case "delay":
		c.queue = true
		c.queueFree, err = p.number(word, value)
		if p.seen["nodelay"] {
			return p.errorf("nodelay contradicts queue and delay")
		}
	case "tenant":
		if c.tenant, err = url.QueryUnescape(value); err != nil {
			err = p.errorf("tenant: want a name as in a URL query, got %.40q", value)
		}
	case "tenants":
		c.tenants, err = p.parseTenants(value)
	case "anchor":
		c.anchor = value
	case "segments":
		var n int64
		n, err = p.number(word, value)
		if err == nil && (n < 1 || n > 100) {
			return p.errorf("segments: want 1 to 100, got %s", value)
		}
		c.segments = int(n)
	case "calendar":
		return p.zone(c, value)
	case "day":
		var n int64
		n, err = p.number(word, value)
		if err == nil && (n < 1 || n > 31 || c.calendar != month) {
			return p.errorf("day: want 1 to 31 with a count per month, got %s", value)
		}
		c.day = int(n)
	default:
		hint := suggest(word, optionWords)
		if hint == "" && c.period == 0 && c.calendar == "" {
			return p.errorf("want a count per period such as 10/s, got %q", p.text)
		}
		return p.errorf("want burst, an algorithm or one of its options, got %q%s", word, hint)
	}
	return err
}

func (p *parser) zone(c *parsed, name string) error {
	if c.calendar == "" {
		return p.errorf("calendar: want a count per day, week, month or year")
	}
	zone, err := time.LoadLocation(name)
	if err != nil || zone == time.Local {
		return p.errorf("calendar: want a time zone such as Asia/Shanghai, got %q", name)
	}
	c.zone, c.period = zone, 0
	return nil
}

// config returns the description that the options make together.
func (c *parsed) config() (LimitConfig, error) {
	if c.algorithm == "" {
		c.algorithm = tokenBucket
		if c.calendar != "" && c.bucketOption() == "" {
			c.algorithm = fixedWindow // a calendar has windows
		}
	}
	for _, o := range c.options() {
		if o.set && !strings.Contains(o.of, c.algorithm) {
			return nil, fmt.Errorf("weir: limit: %s: %w: %s has none; it belongs to %s",
				o.name, ErrInvalid, c.algorithm, strings.ReplaceAll(o.of, " ", " and "))
		}
	}
	epoch := c.anchor == "epoch"
	switch {
	case c.anchor == "":
	case c.algorithm == tokenBucket && !c.interval:
		return nil, invalid("anchor", c.anchor, "none: only a refill by interval has an anchor")
	case c.calendar != "":
		return nil, invalid("anchor", c.anchor, "none: the calendar says where windows begin")
	case !epoch && c.anchor != "first":
		return nil, invalid("anchor", fmt.Sprintf("%q", c.anchor), `"first" or "epoch"`)
	}
	switch c.algorithm {
	case leakyBucket:
		return LeakyBucket{Count: c.count, Period: c.period, Burst: c.burst, Queue: c.queue, QueueFree: c.queueFree, Nginx: c.nginx, Shared: c.shared}, nil
	case fixedWindow:
		return FixedWindow{Count: c.count, Period: c.period, Epoch: epoch, Calendar: c.calendar, Zone: c.zone, Day: c.day}, nil
	case slidingWindow:
		return SlidingWindow{Count: c.count, Period: c.period, Segments: c.segments, Weighted: c.weighted}, nil
	case slidingLog:
		return SlidingLog{Count: c.count, Period: c.period}, nil
	case tenantBucket:
		return TenantBucket{Count: c.count, Period: c.period, Burst: c.burst, Weighted: c.weighted, Tenants: c.tenants, Tenant: c.tenant}, nil
	case concurrency:
		return Concurrency{Count: c.count, Lease: c.period, Shared: c.shared}, nil
	}
	if c.burst == 0 {
		c.burst = c.ceiling
	}
	return TokenBucket{
		Count: c.count, Period: c.period, Burst: c.burst, Interval: c.interval, Epoch: epoch, Initial: c.initial, Warmup: c.warmup,
	}, nil
}

// bucketOption returns the first option that only buckets have.
func (c *parsed) bucketOption() string {
	for _, o := range c.options() {
		if o.set && strings.Contains(o.of, tokenBucket) && o.name != "anchor" {
			return o.name
		}
	}
	return ""
}

type parsedOption struct {
	name string
	set  bool
	of   string // the algorithms that have it
}

func (c *parsed) options() []parsedOption {
	return []parsedOption{
		{"burst", c.burst != 0, tokenBucket + " " + leakyBucket + " " + tenantBucket},
		{"interval", c.interval, tokenBucket},
		{"initial", c.initial != nil, tokenBucket},
		{"warmup", c.warmup != 0, tokenBucket},
		{"queue", c.queue, leakyBucket},
		{"delay", c.queueFree != 0, leakyBucket},
		{"nginx", c.nginx, leakyBucket},
		{"shared", c.shared, leakyBucket + " " + concurrency},
		{"anchor", c.anchor != "", fixedWindow + " " + tokenBucket},
		{"calendar", c.calendar != "" || c.zone != nil, fixedWindow},
		{"day", c.day != 0, fixedWindow},
		{"segments", c.segments != 0, slidingWindow},
		{"weighted", c.weighted, slidingWindow + " " + tenantBucket},
		{"tenant", c.tenant != "", tenantBucket},
		{"tenants", c.tenants != nil, tenantBucket},
	}
}
