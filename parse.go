package weir

import (
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"
)

// ParseLimit reads a limit from text:
//
//	10/s                                  10 per second, 10 at once
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
//	100/m sliding_window segments 6 weighted
//	100/m sliding_log
//	20 concurrency lease 30s              20 at a time
//	20 concurrency shared                 one state with others, of any count and lease
//
// A period is a Go duration or a unit: us, ms, s, m, h, d, w, second, minute, hour,
// day (24 hours), week (7 days) or year (365 days). With the word calendar and a time
// zone, day, week, month and year are windows of the calendar. A month without a zone
// is one of UTC. A number may have underscores, as in 1_000_000. An error wraps
// ErrInvalid, and quotes the text and the invalid word.
func ParseLimit(text string) (Limit, error) {
	if len(text) > 256 {
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
	segments  int
	weighted  bool
}

type parser struct {
	text  string
	words []string
	seen  map[string]bool
}

func (p *parser) errorf(format string, args ...any) error {
	return fmt.Errorf("weir: limit %q: %w: %s", p.text, ErrInvalid, fmt.Sprintf(format, args...))
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
	count, period, ok := strings.Cut(p.next(), "/")
	var err error
	if c.count, err = p.number("count", count); err != nil {
		return c, err
	}
	if ok {
		if err := p.period(&c, period); err != nil {
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
	if p.seen["lease"] && c.algorithm != concurrency {
		return c, p.errorf("lease: want it with concurrency only")
	}
	if !ok && c.algorithm != concurrency {
		return c, p.errorf("want a count per period such as %d/s, got %q", c.count, count)
	}
	if ok && c.algorithm == concurrency {
		return c, p.errorf(`want "%d concurrency", got a count per period`, c.count)
	}
	return c, nil
}

func (p *parser) number(name, word string) (int64, error) {
	n, err := strconv.ParseInt(strings.ReplaceAll(word, "_", ""), 10, 64)
	if err != nil || strings.HasPrefix(word, "_") || strings.HasPrefix(word, "+") {
		return 0, p.errorf("%s: want a whole number, got %q", name, word)
	}
	return n, nil
}

var units = map[string]time.Duration{
	"us": time.Microsecond, "µs": time.Microsecond, "ms": time.Millisecond, "s": time.Second, "m": time.Minute, "h": time.Hour,
	"d": 24 * time.Hour, "w": 7 * 24 * time.Hour,
	"second": time.Second, "minute": time.Minute, "hour": time.Hour,
	"day": 24 * time.Hour, "week": 7 * 24 * time.Hour, "year": 365 * 24 * time.Hour,
}

// period reads the text after the slash.
func (p *parser) period(c *parsed, word string) error {
	if word == month {
		c.calendar = month
		return nil
	}
	d, err := p.duration("period", word)
	if err != nil {
		return err
	}
	c.period = d
	switch word {
	case day, week, year:
		c.calendar = word // in case the word calendar follows
	}
	return nil
}

// duration reads a unit, a whole number of days or weeks, or a Go duration.
func (p *parser) duration(name, word string) (time.Duration, error) {
	if d, ok := units[word]; ok {
		return d, nil
	}
	for _, unit := range []string{"d", "w"} {
		if n, err := strconv.ParseInt(strings.TrimSuffix(word, unit), 10, 64); err == nil && strings.HasSuffix(word, unit) {
			if n > int64(math.MaxInt64/units[unit]) || n < 0 {
				return 0, p.errorf("%s: want at most 100 years, got %q", name, word)
			}
			return time.Duration(n) * units[unit], nil
		}
	}
	d, err := time.ParseDuration(word)
	if err != nil {
		return 0, p.errorf("%s: want a duration such as 1m30s, or s, minute, day, month and the like, got %q", name, word)
	}
	if d <= 0 {
		return 0, p.errorf("%s: want more than 0, got %q", name, word)
	}
	return d, nil
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
	case tokenBucket, leakyBucket, fixedWindow, slidingWindow, slidingLog, concurrency:
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

// valued reads an option that is followed by a value.
func (p *parser) valued(c *parsed, word string) (err error) {
	value := ""
	switch word {
	case "burst", "initial", "warmup", "delay", "anchor", "calendar", "segments", "lease":
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
	default:
		return p.errorf("want burst, an algorithm or one of its options, got %q", word)
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
		return FixedWindow{Count: c.count, Period: c.period, Epoch: epoch, Calendar: c.calendar, Zone: c.zone}, nil
	case slidingWindow:
		return SlidingWindow{Count: c.count, Period: c.period, Segments: c.segments, Weighted: c.weighted}, nil
	case slidingLog:
		return SlidingLog{Count: c.count, Period: c.period}, nil
	case concurrency:
		return Concurrency{Count: c.count, Lease: c.period, Shared: c.shared}, nil
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
		{"burst", c.burst != 0, tokenBucket + " " + leakyBucket},
		{"interval", c.interval, tokenBucket},
		{"initial", c.initial != nil, tokenBucket},
		{"warmup", c.warmup != 0, tokenBucket},
		{"queue", c.queue, leakyBucket},
		{"delay", c.queueFree != 0, leakyBucket},
		{"nginx", c.nginx, leakyBucket},
		{"shared", c.shared, leakyBucket + " " + concurrency},
		{"anchor", c.anchor != "", fixedWindow + " " + tokenBucket},
		{"calendar", c.calendar != "" || c.zone != nil, fixedWindow},
		{"segments", c.segments != 0, slidingWindow},
		{"weighted", c.weighted, slidingWindow},
	}
}
