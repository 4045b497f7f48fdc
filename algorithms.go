package weir

import (
	"fmt"
	"strings"
	"time"

	"github.com/floodweir/weir/internal/algo"
)

// The names of the algorithms.
const (
	tokenBucket   = "token_bucket"
	leakyBucket   = "leaky_bucket"
	fixedWindow   = "fixed_window"
	slidingWindow = "sliding_window"
	slidingLog    = "sliding_log"
	concurrency   = "concurrency"
	tenantBucket  = "tenant_bucket"
)

const (
	defaultLease    = time.Minute
	defaultSegments = 10
)

// A LimitConfig describes a limit: it is a TokenBucket, LeakyBucket, FixedWindow,
// SlidingWindow, SlidingLog, Concurrency or TenantBucket. Every count is from 1 to 2^40, and
// every duration is in whole microseconds, from 1 µs to 100 years.
type LimitConfig interface {
	// compile checks the description and makes its spec.
	compile() (*spec, error)
}

// A TokenBucket admits Burst at once and then Count per Period.
type TokenBucket struct {
	Count  int64
	Period time.Duration

	// Burst is the most tokens given at once; Count if zero.
	Burst int64

	// Interval adds Count tokens at the end of each Period instead of refilling
	// smoothly. With Epoch, periods begin at whole multiples of the Period since the
	// Unix epoch; otherwise with the first request of a key.
	Interval bool
	Epoch    bool

	// Initial is the number of tokens at the first request of a key, from 0 to Burst;
	// nil for a full bucket. A key is new again once its bucket was full for a day or,
	// if that is longer, for as long as an empty bucket takes to fill.
	Initial *int64

	// Warmup makes a bucket start at a third of its rate and reach the full rate
	// after this time of saturated use. It excludes Interval and Initial.
	Warmup time.Duration
}

// A LeakyBucket admits requests at a steady rate of Count per Period. It refuses
// requests above the rate and the burst, or delays them.
type LeakyBucket struct {
	Count  int64
	Period time.Duration

	// Burst is the number of requests above the rate that are admitted, as in nginx.
	Burst int64

	// Queue admits requests above the rate with a Delay instead of at once. The first
	// QueueFree of them have no delay.
	Queue     bool
	QueueFree int64

	// Nginx computes as nginx's limit_req does: in milliseconds and thousandths of a
	// request, with the rate cut to whole thousandths per second. Otherwise the
	// bucket is exact.
	Nginx bool

	// Shared gives one state to all shared leaky buckets of this rate, whatever their
	// burst, queue and delay, as the uses of one limit_req zone have. A change of
	// those then carries nothing over: the state is the same.
	Shared bool
}

// A FixedWindow counts requests per window.
type FixedWindow struct {
	Count int64

	// Period is the length of a window. Windows begin with the first request of a
	// key or, with Epoch, at whole multiples of the Period since the Unix epoch.
	Period time.Duration
	Epoch  bool

	// Calendar is "day", "week" (from Monday), "month" or "year": windows are those
	// of the calendar in Zone, which is UTC if nil. Period is then zero.
	Calendar string
	Zone     *time.Location

	// Day is the day on which the windows of a "month" begin, from 1 to 31; 1 if zero. In a
	// month without that day they begin on its last day.
	Day int
}

// A SlidingWindow counts requests in the last Period, in a ring of segments.
type SlidingWindow struct {
	Count  int64
	Period time.Duration

	// Segments is the number of sub-windows, from 1 to 100, which must divide the
	// Period into whole microseconds; 10 if zero.
	Segments int

	// Weighted counts the part of the oldest segment that is still within the
	// Period. Otherwise whole segments expire.
	Weighted bool
}

// A SlidingLog stores every admission of the last Period, and is exact.
type SlidingLog struct {
	Count  int64
	Period time.Duration
}

// A Concurrency limits how many requests run at once.
type Concurrency struct {
	// Count is the number of slots.
	Count int64

	// Lease is the time after which a slot that was not renewed is free again; one
	// minute if zero.
	Lease time.Duration

	// Shared gives one state to all shared concurrency limits of a key, whatever
	// their count and lease. The number of slots can then change while several
	// processes ask, each with the number that it has.
	Shared bool
}

func invalid(field string, value any, want string) error {
	return fmt.Errorf("weir: limit: %s: %w: got %v, want %s", field, ErrInvalid, value, want)
}

// compiled returns s with a rule, or the error of the rule.
func (s *spec) compiled(rule algo.Rule, err error) (*spec, error) {
	if err != nil {
		return nil, fmt.Errorf("weir: limit: %w: %w", ErrInvalid, err)
	}
	s.Rule = rule
	return s, nil
}

// rateSpec returns the spec of a count per period, with the period in µs.
func rateSpec(c LimitConfig, algorithm string, count int64, period time.Duration, text string) (*spec, int64, error) {
	us, err := micros("period", period)
	if algorithm != tokenBucket {
		text = " " + algorithm + text
	}
	text = fmt.Sprintf("%d/%s", count, per(period)) + text
	return &spec{config: c, algorithm: algorithm, count: count, period: period, text: text}, us, err
}

func (c TokenBucket) compile() (*spec, error) {
	if c.Burst == 0 {
		c.Burst = c.Count
	}
	switch {
	case c.Warmup != 0 && (c.Interval || c.Initial != nil):
		return nil, invalid("warmup", c.Warmup, "a smooth bucket without initial tokens: a warm-up starts cold and refills smoothly")
	case c.Epoch && !c.Interval:
		return nil, invalid("anchor", "epoch", "none: only a refill by interval has an anchor")
	}
	text := fmt.Sprintf(" burst %d", c.Burst) + option(" interval", c.Interval) + option(" warmup "+spell(c.Warmup), c.Warmup != 0)
	if c.Initial != nil {
		text += fmt.Sprintf(" initial %d", *c.Initial)
	}
	text += option(" anchor epoch", c.Epoch)
	s, period, err := rateSpec(c, tokenBucket, c.Count, c.Period, text)
	if err != nil {
		return nil, err
	}
	var rule algo.Rule
	switch {
	case c.Warmup != 0:
		warmup, err := micros("warmup", c.Warmup)
		if err != nil {
			return nil, err
		}
		return s.compiled(algo.NewWarmupBucket(c.Count, period, warmup, c.Burst))
	case c.Interval:
		rule, err = algo.NewIntervalBucket(c.Count, period, c.Burst, c.Epoch)
	default:
		rule, err = algo.NewTokenBucket(c.Count, period, c.Burst)
	}
	if err == nil && c.Initial != nil {
		rule, err = algo.NewPrimed(rule, *c.Initial)
	}
	return s.compiled(rule, err)
}

func (c LeakyBucket) compile() (*spec, error) {
	if c.QueueFree != 0 && !c.Queue {
		return nil, invalid("delay", c.QueueFree, "a queue: only a queue delays")
	}
	text := fmt.Sprintf(" burst %d", c.Burst) + option(" queue", c.Queue) +
		option(fmt.Sprintf(" delay %d", c.QueueFree), c.QueueFree != 0) + option(" nginx", c.Nginx) + option(" shared", c.Shared)
	s, period, err := rateSpec(c, leakyBucket, c.Count, c.Period, text)
	if err != nil {
		return nil, err
	}
	if c.Shared { // burst, queue and delay are not part of the state
		s.State = fmt.Sprintf("%d/%s %s", c.Count, per(c.Period), leakyBucket) + option(" nginx", c.Nginx)
	}
	q := algo.Queueing{Queue: c.Queue, Free: c.QueueFree}
	if c.Nginx {
		return s.compiled(algo.NewLimitReq(c.Count, period, c.Burst, q))
	}
	return s.compiled(algo.NewLeakyBucket(c.Count, period, c.Burst, q))
}

func (c FixedWindow) compile() (*spec, error) {
	if c.Calendar != "" {
		return c.compileCalendar()
	}
	if c.Day != 0 {
		return nil, invalid("day", c.Day, "a count per month with it")
	}
	if c.Zone != nil {
		return nil, invalid("calendar", c.Zone, "a calendar unit (day, week, month or year) with the zone")
	}
	s, period, err := rateSpec(c, fixedWindow, c.Count, c.Period, option(" anchor epoch", c.Epoch))
	if err != nil {
		return nil, err
	}
	return s.compiled(algo.NewFixedWindow(c.Count, period, c.Epoch))
}

func (c FixedWindow) compileCalendar() (*spec, error) {
	if c.Zone == nil {
		c.Zone = time.UTC
	}
	switch c.Calendar {
	case day, week, month, year:
	default:
		return nil, invalid("calendar", fmt.Sprintf("%q", c.Calendar), "day, week, month or year")
	}
	if c.Day == 1 {
		c.Day = 0
	}
	switch _, err := time.LoadLocation(c.Zone.String()); {
	case c.Day < 0 || c.Day > 31:
		return nil, invalid("day", c.Day, "1 to 31")
	case c.Day != 0 && c.Calendar != month:
		return nil, invalid("day", c.Day, "a count per month with it")
	case c.Epoch:
		return nil, invalid("anchor", "epoch", "none: the calendar says where windows begin")
	case c.Period != 0:
		return nil, invalid("period", c.Period, "none: the calendar says how long windows are")
	case err != nil || c.Zone == time.Local:
		return nil, invalid("zone", c.Zone, "a zone of the time zone database, by name, so that every process means the same")
	}
	s := &spec{
		config: c, algorithm: fixedWindow, count: c.Count,
		text: fmt.Sprintf("%d/%s %s calendar %s", c.Count, c.Calendar, fixedWindow, c.Zone) + option(fmt.Sprintf(" day %d", c.Day), c.Day != 0),
	}
	return s.compiled(algo.NewCalendarWindow(c.Count, calendar{unit: c.Calendar, zone: c.Zone, day: max(1, c.Day)}))
}

func (c SlidingWindow) compile() (*spec, error) {
	if c.Segments == 0 {
		c.Segments = defaultSegments
	}
	text := fmt.Sprintf(" segments %d", c.Segments) + option(" weighted", c.Weighted)
	s, period, err := rateSpec(c, slidingWindow, c.Count, c.Period, text)
	if err != nil {
		return nil, err
	}
	return s.compiled(algo.NewSlidingWindow(c.Count, period, c.Segments, c.Weighted))
}

func (c SlidingLog) compile() (*spec, error) {
	s, period, err := rateSpec(c, slidingLog, c.Count, c.Period, "")
	if err != nil {
		return nil, err
	}
	return s.compiled(algo.NewSlidingLog(c.Count, period))
}

func (c Concurrency) compile() (*spec, error) {
	if c.Lease == 0 {
		c.Lease = defaultLease
	}
	lease, err := micros("period", c.Lease)
	if err != nil {
		return nil, err
	}
	s := &spec{
		config: c, algorithm: concurrency, count: c.Count, period: c.Lease,
		text: fmt.Sprintf("%d %s lease %s", c.Count, concurrency, spell(c.Lease)) + option(" shared", c.Shared),
	}
	if c.Shared {
		s.State = concurrency
	}
	return s.compiled(algo.NewConcurrency(c.Count, lease))
}

// option returns the text of an option that is set.
func option(text string, set bool) string {
	if !set {
		return ""
	}
	return text
}

// per returns the period as the text after the slash: one second is "s".
func per(d time.Duration) string {
	text := spell(d)
	if unit, one := strings.CutPrefix(text, "1"); one && units[unit] == d {
		return unit
	}
	return text
}

// spell returns d as ParseLimit reads it, in its largest whole unit up to hours.
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
