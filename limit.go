package weir

import (
	"fmt"
	"hash/fnv"
	"math"
	"strings"
	"sync/atomic"
	"time"

	"github.com/floodweir/weir/internal/algo"
)

// A Limit is a rule: how many tokens, in which time, by which algorithm. It is an
// immutable value of one word. NewLimit and ParseLimit make it, and Equal compares
// it. A request with the zero Limit is refused.
type Limit struct{ s *spec }

// A spec is a compiled limit. The stores of this module read its exported fields.
type spec struct {
	Rule    algo.Rule
	ID      uint64 // hash of the text: equal limits have equal IDs
	State   string // names the state that a key has under the limit
	StateID uint64 // hash of State
	Named   bool   // State is a name: the limit of a state may change
	Scope   string // begins the ids of reservations, if limits share a state but not ids

	named atomic.Pointer[spec] // the limit that Named made last

	config    LimitConfig
	algorithm string
	count     int64
	period    time.Duration
	text      string
	tail      string // of text, which the limits of tenants have in common
}

// NewLimit makes a limit from its description. An error wraps ErrInvalid and names
// the field, its value and what would be accepted.
func NewLimit(c LimitConfig) (Limit, error) {
	if c == nil {
		return Limit{}, invalid("config", "nil", "a TokenBucket or another LimitConfig")
	}
	s, err := c.compile()
	if err != nil {
		return Limit{}, err
	}
	return s.limit(), nil
}

// limit completes s.
func (s *spec) limit() Limit {
	if s.State == "" {
		s.State = s.text
	}
	if s.ID == 0 {
		s.ID = fingerprint(s.text)
	}
	s.StateID = fingerprint(s.State)
	return Limit{s}
}

func fingerprint(text string) uint64 {
	h := fnv.New64a()
	h.Write([]byte(text))
	return h.Sum64()
}

// Named returns l with a name for its states. All limits of one name share the state of a
// key, in all processes. The state is stored with the limit that wrote it. A request under
// another limit migrates it first, as CarryUsage describes. Unnamed limits share a state only
// if they are equal. A limit that is Shared stays as it is.
func (l Limit) Named(name string) Limit {
	s := l.s
	if s == nil || !s.Named && s.State != s.text || s.Named && s.State[1:] == name {
		return l
	}
	if n := s.named.Load(); n != nil && n.State[1:] == name {
		return Limit{n}
	}
	state := "=" + name
	n := &spec{
		Rule: s.Rule, ID: fingerprint(s.text + "\x00" + state), State: state, StateID: fingerprint(state), Named: true,
		config: s.config, algorithm: s.algorithm, count: s.count, period: s.period, text: s.text,
	}
	s.named.Store(n)
	return Limit{n}
}

// Name returns the name that Named gave, or an empty text.
func (l Limit) Name() string {
	if s := l.Spec(); s.Named {
		return s.State[1:]
	}
	return ""
}

// MustLimit is ParseLimit for constants: it panics on an error.
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
func (l Limit) Equal(m Limit) bool { return l == m || l.String() == m.String() }

// Spec returns the compiled limit. Only implementations of Store need it.
func (l Limit) Spec() *spec {
	if l.s == nil {
		return new(spec)
	}
	return l.s
}

// Config returns the description of l with every default filled in; nil for the
// zero Limit.
func (l Limit) Config() LimitConfig { return l.Spec().config }

// Algorithm returns the name of the algorithm, such as "token_bucket".
func (l Limit) Algorithm() string { return l.Spec().algorithm }

// IsConcurrency reports whether l limits how many run at once: its tokens are
// slots, which callers give back.
func (l Limit) IsConcurrency() bool { return l.Spec().algorithm == concurrency }

// Count returns the number of tokens per period, or of slots.
func (l Limit) Count() int64 { return l.Spec().count }

// Period returns the time in which Count tokens come, or the lease of a slot. It is
// 0 for the windows of a calendar.
func (l Limit) Period() time.Duration { return l.Spec().period }

// Capacity returns the most tokens that l gives at once: its burst, or its count
// per window. A request for more is denied with Never.
func (l Limit) Capacity() int64 {
	if l.s == nil {
		return 0
	}
	return l.s.Rule.Capacity()
}

// String returns the limit in the grammar of ParseLimit, in one canonical form.
func (l Limit) String() string { return l.Spec().text + l.Spec().tail }

// Brief returns String without the list of all tenants, for logs and answers. ParseLimit reads
// it unless the algorithm is tenant_bucket.
func (l Limit) Brief() string {
	if l.Spec().tail == "" {
		return l.Spec().text
	}
	return strings.TrimSuffix(l.Spec().text, tenantsWord)
}

// Decision returns the decision of a store for the result r of the rule at the
// instant now, in µs.
func (s *spec) Decision(r algo.Result, now int64) (d Decision) {
	s.Fill(&d, &r, now)
	return d
}

// Fill writes what Decision returns into d: copying a Decision costs the memory
// store more than some decisions take.
func (s *spec) Fill(d *Decision, r *algo.Result, now int64) {
	d.OK, d.Borrowed, d.Limit, d.Granted = r.OK, r.Place != algo.Own, Limit{s}, r.Granted
	d.Remaining, d.Debt = max(0, r.Balance), max(0, -r.Balance)
	d.RetryAfter, d.ResetAfter, d.Delay = span(r.Retry), span(r.Reset), span(r.Delay)
	d.At, d.Degraded = time.UnixMicro(now), ""
}

// span returns µs as a Duration, or Never-1 if it does not fit.
func span(us int64) time.Duration {
	switch {
	case us <= math.MaxInt64/int64(time.Microsecond):
		return time.Duration(us) * time.Microsecond
	case us == algo.Never:
		return Never
	}
	return Never - 1
}

// micros returns d in whole µs.
func micros(field string, d time.Duration) (int64, error) {
	if d%time.Microsecond != 0 {
		return 0, fmt.Errorf("weir: limit: %w: %s %v: want whole microseconds", ErrInvalid, field, d)
	}
	return int64(d / time.Microsecond), nil
}
