package weir

import (
	"fmt"
	"hash/fnv"
	"math"
	"time"

	"github.com/floodweir/weir/internal/algo"
)

// An Algorithm names the arithmetic of a limit.
type Algorithm string

// The algorithms.
const (
	// TokenBucket admits a burst at once and then count per period. The default.
	TokenBucket Algorithm = "token_bucket"
	// LeakyBucket is a bucket as a meter, which refuses, or as a queue, which delays.
	LeakyBucket Algorithm = "leaky_bucket"
	// FixedWindow counts per window.
	FixedWindow Algorithm = "fixed_window"
	// SlidingWindow counts in a ring of sub-windows.
	SlidingWindow Algorithm = "sliding_window"
	// SlidingLog remembers every admission of the last period.
	SlidingLog Algorithm = "sliding_log"
	// Concurrency counts how many run at once.
	Concurrency Algorithm = "concurrency"
)

// An Anchor says where the windows of a FixedWindow, or the refills of a
// TokenBucket by interval, begin.
type Anchor string

// The anchors.
const (
	// FirstRequest starts a window with the first request of a key.
	FirstRequest Anchor = "first"
	// Epoch starts windows at whole multiples of the period since the Unix epoch.
	Epoch Anchor = "epoch"
)

// LimitConfig describes a limit. Count and Period are required; the zero value
// of every other field is its default. A field that does not belong to the
// algorithm must be zero.
type LimitConfig struct {
	// Algorithm is TokenBucket if empty.
	Algorithm Algorithm

	// Count is the number of tokens per Period; of Concurrency, the number of
	// slots. From 1 to 2^40.
	Count int64

	// Period is the time in which Count tokens come: whole microseconds, from 1 µs
	// to 100 years. Of Concurrency, it is the lease after which a slot that nobody
	// renewed is free again; one minute if zero. With Calendar it must be zero.
	Period time.Duration

	// Burst is the most tokens that a TokenBucket gives at once; Count if zero. Of
	// a LeakyBucket, it is how many requests beyond the rate may pile up, as in
	// nginx; none if zero.
	Burst int64

	// Interval makes a TokenBucket receive its Count tokens at once at the end of
	// each Period, instead of smoothly.
	Interval bool

	// Initial is the number of tokens of a TokenBucket at a key's first request,
	// from 0 to Burst; nil is a full bucket. A key that was full and idle for as
	// long as its bucket takes to fill is new again.
	Initial *int64

	// Warmup makes a TokenBucket start cold, at a third of its rate, and reach its
	// full rate after this time of saturated use; whole microseconds.
	Warmup time.Duration

	// Queue makes a LeakyBucket admit what is above the rate with a Delay, instead
	// of at once. The first QueueFree of them are admitted without a delay.
	Queue     bool
	QueueFree int64

	// Nginx makes a LeakyBucket compute as nginx's limit_req does: in milliseconds
	// and thousandths of a request, with the rate cut to whole thousandths per
	// second. A LeakyBucket is exact otherwise.
	Nginx bool

	// Shared gives a LeakyBucket a state in common with all others of its rate that are
	// Shared, whatever their burst, queue and delay, as the uses of one zone of nginx's
	// limit_req have. What changes but the rate then carries nothing over: the state is
	// the same. It gives a Concurrency a state in common with all others that are Shared,
	// whatever their count and lease: what is in use. So the number of slots can change
	// while several processes ask, each with the number that it knows.
	Shared bool

	// Anchor is where a FixedWindow's windows, or the refills by Interval of a
	// TokenBucket, begin; FirstRequest if empty.
	Anchor Anchor

	// Calendar makes a FixedWindow's windows the days, weeks (from Monday), months
	// or years of Zone; UTC if nil.
	Calendar CalendarUnit
	Zone     *time.Location

	// Segments is the number of sub-windows of a SlidingWindow, from 1 to 100,
	// which must divide the Period into whole microseconds; 10 if zero.
	Segments int

	// Weighted makes a SlidingWindow count the share of its oldest segment that is
	// still within the period, instead of dropping whole segments.
	Weighted bool
}

// A Limit is a rule: how many tokens, in what time, by which algorithm. It is an
// immutable value of one word, made by NewLimit or ParseLimit and compared with
// Equal. The zero Limit is no limit, and every request with it is refused.
type Limit struct{ s *spec }

type spec struct {
	config LimitConfig
	rule   algo.Rule
	text   string
	id     uint64
	state  string // the part of text that names the state
	place  uint64 // its hash
}

// NewLimit makes a limit from its description. An error wraps ErrInvalid and
// names the field, its value and what would be accepted.
func NewLimit(c LimitConfig) (Limit, error) {
	if err := c.normalize(); err != nil {
		return Limit{}, err
	}
	rule, err := c.rule()
	if err != nil {
		return Limit{}, fmt.Errorf("weir: limit: %w: %w", ErrInvalid, err)
	}
	s := &spec{config: c, rule: rule, text: c.text()}
	s.state = c.state(s.text)
	s.id, s.place = fingerprint(s.text), fingerprint(s.state)
	return Limit{s}, nil
}

func fingerprint(text string) uint64 {
	h := fnv.New64a()
	h.Write([]byte(text))
	return h.Sum64()
}

// MustLimit is ParseLimit for a text that is known to be good; it panics
// otherwise.
func MustLimit(text string) Limit {
	l, err := ParseLimit(text)
	if err != nil {
		panic(err)
	}
	return l
}

// IsZero reports whether l is the zero Limit.
func (l Limit) IsZero() bool { return l.s == nil }

// Equal reports whether two limits are the same rule, however they were written.
func (l Limit) Equal(m Limit) bool { return l.String() == m.String() }

// Config describes l with every default filled in.
func (l Limit) Config() LimitConfig {
	if l.s == nil {
		return LimitConfig{}
	}
	return l.s.config
}

// Capacity is the most tokens that l gives at once: its burst, or its count per
// window. A request for more is denied with Never. The zero Limit has none.
func (l Limit) Capacity() int64 {
	if l.s == nil {
		return 0
	}
	return l.s.rule.Capacity()
}

// String is the limit in the grammar of ParseLimit, in one canonical form.
func (l Limit) String() string {
	if l.s == nil {
		return ""
	}
	return l.s.text
}

// Rule is the arithmetic of l, for stores; nil for the zero Limit.
func (l Limit) Rule() algo.Rule {
	if l.s == nil {
		return nil
	}
	return l.s.rule
}

// Fingerprint identifies l among limits: equal limits have equal fingerprints,
// and different ones different ones but for an accident of 64 bits.
func (l Limit) Fingerprint() uint64 {
	if l.s == nil {
		return 0
	}
	return l.s.id
}

// State names the state that a key has under l: limits of one State have it in common.
// It is the text of l but of a LeakyBucket that is Shared, whose state is what has not
// drained: that is the rate alone, and nothing of it is in burst, queue and delay; and of
// a Concurrency that is Shared, whose state is what is in use.
func (l Limit) State() string {
	if l.s == nil {
		return ""
	}
	return l.s.state
}

// StateFingerprint is to [Limit.State] what Fingerprint is to l.
func (l Limit) StateFingerprint() uint64 {
	if l.s == nil {
		return 0
	}
	return l.s.place
}

// Decision is what a store answers for the result r of l's rule at the instant
// now, in µs.
func (l Limit) Decision(r algo.Result, now int64) (d Decision) {
	d.Fill(l, &r, now)
	return d
}

// Fill makes d what [Limit.Decision] returns, in its place: a copy of a Decision
// costs a store in this process more than some of its decisions.
func (d *Decision) Fill(l Limit, r *algo.Result, now int64) {
	d.OK, d.Limit, d.Granted, d.Remaining = r.OK, l, r.Granted, max(0, r.Balance)
	d.RetryAfter, d.ResetAfter, d.Delay = span(r.Retry), span(r.Reset), span(r.Delay)
	d.At, d.Degraded = time.UnixMicro(now), Exact
}

// span is µs as a Duration. One that is too long to be said is just below Never.
func span(us int64) time.Duration {
	switch {
	case us <= math.MaxInt64/int64(time.Microsecond):
		return time.Duration(us) * time.Microsecond
	case us == algo.Never:
		return Never
	}
	return Never - 1
}

// micros is d in µs, exactly.
func micros(field string, d time.Duration) (int64, error) {
	if d%time.Microsecond != 0 {
		return 0, fmt.Errorf("%s %v: want whole microseconds", field, d)
	}
	return int64(d / time.Microsecond), nil
}
