package weir

import (
	"fmt"
	"strings"
	"time"

	"github.com/floodweir/weir/internal/algo"
)

// DefaultLease is the Period of a Concurrency limit that names none.
const DefaultLease = time.Minute

// DefaultSegments is the number of segments of a SlidingWindow that names none.
const DefaultSegments = 10

func invalid(field string, value any, want string) error {
	return fmt.Errorf("weir: limit: %s: %w: got %v, want %s", field, ErrInvalid, value, want)
}

// normalize fills defaults in and refuses what does not belong together. Ranges
// of numbers are left to the rule.
func (c *LimitConfig) normalize() error {
	if c.Algorithm == "" {
		c.Algorithm = TokenBucket
	}
	if c.Calendar != "" && c.Algorithm == TokenBucket && c.bucketOnly() == "" {
		c.Algorithm = FixedWindow // a calendar has windows, and nothing else was asked for
	}
	if err := c.foreign(); err != nil {
		return err
	}
	switch c.Algorithm {
	case TokenBucket:
		if c.Burst == 0 {
			c.Burst = c.Count
		}
		if c.Warmup != 0 && (c.Interval || c.Initial != nil) {
			return invalid("warmup", c.Warmup, "a smooth bucket without initial tokens: a warm-up starts cold and refills smoothly")
		}
		if c.Anchor != "" && !c.Interval {
			return invalid("anchor", c.Anchor, "none: only a refill by interval has an anchor")
		}
		if c.Interval {
			return c.normalizeAnchor()
		}
	case LeakyBucket:
		if c.QueueFree != 0 && !c.Queue {
			return invalid("delay", c.QueueFree, "a queue: only a queue delays")
		}
	case FixedWindow:
		return c.normalizeWindow()
	case SlidingWindow:
		if c.Segments == 0 {
			c.Segments = DefaultSegments
		}
	case Concurrency:
		if c.Period == 0 {
			c.Period = DefaultLease
		}
	}
	return nil
}

func (c *LimitConfig) normalizeAnchor() error {
	switch c.Anchor {
	case "":
		c.Anchor = FirstRequest
	case FirstRequest, Epoch:
	default:
		return invalid("anchor", fmt.Sprintf("%q", c.Anchor), `"first" or "epoch"`)
	}
	return nil
}

func (c *LimitConfig) normalizeWindow() error {
	if c.Calendar == "" {
		if c.Zone != nil {
			return invalid("calendar", c.Zone, "a calendar unit (day, week, month or year) with the zone")
		}
		return c.normalizeAnchor()
	}
	switch c.Calendar {
	case Day, Week, Month, Year:
	default:
		return invalid("calendar", fmt.Sprintf("%q", c.Calendar), "day, week, month or year")
	}
	if c.Anchor != "" {
		return invalid("anchor", c.Anchor, "none: the calendar says where windows begin")
	}
	if c.Period != 0 {
		return invalid("period", c.Period, "none: the calendar says how long windows are")
	}
	if c.Zone == nil {
		c.Zone = time.UTC
	}
	if _, err := time.LoadLocation(c.Zone.String()); err != nil || c.Zone == time.Local {
		return invalid("zone", c.Zone, "a zone of the time zone database, by name, so that every process means the same")
	}
	return nil
}

// bucketOnly is the first field set that only buckets have.
func (c *LimitConfig) bucketOnly() string {
	for _, f := range c.fields() {
		if f.set && strings.Contains(f.of, string(TokenBucket)) && f.name != "anchor" {
			return f.name
		}
	}
	return ""
}

type field struct {
	name string
	set  bool
	of   string // the algorithms that have it
}

func (c *LimitConfig) fields() []field {
	const token, leaky, fixed, sliding = string(TokenBucket), string(LeakyBucket), string(FixedWindow), string(SlidingWindow)
	return []field{
		{"burst", c.Burst != 0, token + " " + leaky},
		{"interval", c.Interval, token},
		{"initial", c.Initial != nil, token},
		{"warmup", c.Warmup != 0, token},
		{"queue", c.Queue, leaky},
		{"delay", c.QueueFree != 0, leaky},
		{"nginx", c.Nginx, leaky},
		{"shared", c.Shared, leaky + " " + string(Concurrency)},
		{"anchor", c.Anchor != "", fixed + " " + token},
		{"calendar", c.Calendar != "" || c.Zone != nil, fixed},
		{"segments", c.Segments != 0, sliding},
		{"weighted", c.Weighted, sliding},
	}
}

// foreign refuses a field that the algorithm does not have.
func (c *LimitConfig) foreign() error {
	switch c.Algorithm {
	case TokenBucket, LeakyBucket, FixedWindow, SlidingWindow, SlidingLog, Concurrency:
	default:
		return invalid("algorithm", fmt.Sprintf("%q", c.Algorithm),
			"token_bucket, leaky_bucket, fixed_window, sliding_window, sliding_log or concurrency")
	}
	for _, f := range c.fields() {
		if f.set && !strings.Contains(f.of, string(c.Algorithm)) {
			return fmt.Errorf("weir: limit: %s: %w: %s has none; it belongs to %s",
				f.name, ErrInvalid, c.Algorithm, strings.ReplaceAll(f.of, " ", " and "))
		}
	}
	return nil
}

// rule builds the arithmetic of a normalized description.
func (c *LimitConfig) rule() (algo.Rule, error) {
	period, err := micros("period", c.Period)
	if err != nil {
		return nil, err
	}
	switch c.Algorithm {
	case LeakyBucket:
		q := algo.Queueing{Queue: c.Queue, Free: c.QueueFree}
		if c.Nginx {
			return algo.NewLimitReq(c.Count, period, c.Burst, q)
		}
		return algo.NewLeakyBucket(c.Count, period, c.Burst, q)
	case FixedWindow:
		if c.Calendar != "" {
			return algo.NewCalendarWindow(c.Count, calendar{c.Calendar, c.Zone})
		}
		return algo.NewFixedWindow(c.Count, period, c.Anchor == Epoch)
	case SlidingWindow:
		return algo.NewSlidingWindow(c.Count, period, c.Segments, c.Weighted)
	case SlidingLog:
		return algo.NewSlidingLog(c.Count, period)
	case Concurrency:
		return algo.NewConcurrency(c.Count, period)
	}
	return c.bucket(period)
}

func (c *LimitConfig) bucket(period int64) (algo.Rule, error) {
	var rule algo.Rule
	var err error
	switch {
	case c.Warmup != 0:
		warmup, werr := micros("warmup", c.Warmup)
		if werr != nil {
			return nil, werr
		}
		return algo.NewWarmupBucket(c.Count, period, warmup, c.Burst)
	case c.Interval:
		rule, err = algo.NewIntervalBucket(c.Count, period, c.Burst, c.Anchor == Epoch)
	default:
		var b *algo.TokenBucket
		b, err = algo.NewTokenBucket(c.Count, period, c.Burst)
		rule = b
	}
	if err != nil || c.Initial == nil {
		return rule, err
	}
	return algo.NewPrimed(rule, *c.Initial)
}

// text is the canonical form of a normalized description.
func (c *LimitConfig) text() string {
	var b strings.Builder
	switch {
	case c.Algorithm == Concurrency:
		fmt.Fprintf(&b, "%d concurrency lease %s", c.Count, spell(c.Period))
		option(&b, c.Shared, " shared")
		return b.String()
	case c.Calendar != "":
		fmt.Fprintf(&b, "%d/%s", c.Count, c.Calendar)
	default:
		fmt.Fprintf(&b, "%d/%s", c.Count, per(c.Period))
	}
	if c.Algorithm != TokenBucket {
		fmt.Fprintf(&b, " %s", c.Algorithm)
	}
	switch c.Algorithm {
	case TokenBucket, LeakyBucket:
		fmt.Fprintf(&b, " burst %d", c.Burst)
	case SlidingWindow:
		fmt.Fprintf(&b, " segments %d", c.Segments)
	}
	option(&b, c.Interval, " interval")
	option(&b, c.Warmup != 0, " warmup "+spell(c.Warmup))
	if c.Initial != nil {
		fmt.Fprintf(&b, " initial %d", *c.Initial)
	}
	option(&b, c.Queue, " queue")
	option(&b, c.QueueFree != 0, fmt.Sprintf(" delay %d", c.QueueFree))
	option(&b, c.Nginx, " nginx")
	option(&b, c.Shared, " shared")
	option(&b, c.Anchor == Epoch, " anchor epoch")
	option(&b, c.Weighted, " weighted")
	if c.Calendar != "" {
		fmt.Fprintf(&b, " calendar %s", c.Zone)
	}
	return b.String()
}

// state is the part of the canonical text that names a state.
func (c *LimitConfig) state(text string) string {
	if !c.Shared {
		return text
	}
	if c.Algorithm == Concurrency {
		return string(Concurrency)
	}
	rate := fmt.Sprintf("%d/%s %s", c.Count, per(c.Period), c.Algorithm)
	if c.Nginx {
		rate += " nginx"
	}
	return rate
}

func option(b *strings.Builder, set bool, text string) {
	if set {
		b.WriteString(text)
	}
}

// per is what stands behind the slash: of one unit, the unit alone.
func per(d time.Duration) string {
	text := spell(d)
	if unit, one := strings.CutPrefix(text, "1"); one && units[unit] == d {
		return unit
	}
	return text
}

// spell is d as ParseLimit reads it, in its largest whole unit up to hours.
func spell(d time.Duration) string {
	for _, u := range []struct {
		unit time.Duration
		name string
	}{{time.Hour, "h"}, {time.Minute, "m"}, {time.Second, "s"}, {time.Millisecond, "ms"}} {
		if d != 0 && d%u.unit == 0 {
			return fmt.Sprintf("%d%s", d/u.unit, u.name)
		}
	}
	return fmt.Sprintf("%dus", d/time.Microsecond)
}
