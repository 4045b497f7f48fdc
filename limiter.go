package weir

import (
	"context"
	"fmt"
	"strings"
	"sync/atomic"
	"time"

	"github.com/floodweir/weir/internal/bounds"
	"github.com/floodweir/weir/internal/missing"
	"github.com/floodweir/weir/internal/waitqueue"
)

// Config adjusts a Limiter. Its zero value works.
type Config struct {
	// Prefix is put before every key, so that limiters which share a store do not
	// share state. It is joined to the key by a zero byte, and must not contain one.
	// Empty by default: two limiters of the same limit then share their keys.
	Prefix string

	// MaxWaiters is the most callers that may wait at a time in this Limiter; one
	// more is denied at once. 1024 if zero.
	MaxWaiters int

	// LimitFunc returns the limit of each key; nil if one limit is for all keys. The
	// limit of New then applies to keys for which it returns the zero Limit.
	LimitFunc LimitFunc

	// Carry says what becomes of a key's tokens when LimitFunc returns another limit
	// than before.
	Carry Carry

	// Name, if not empty, names the states of the keys (see Limit.Named), in at most 100
	// bytes. A state then outlives any number of changes of its limit, also if processes
	// that share a store change it one after another. Limiters with different tasks need
	// different names or prefixes. Usage carries over: other values of Carry are refused.
	// A Shared limit stays as it is.
	Name string
}

// maxName is the longest Config.Name, in bytes.
const maxName = 100

const defaultMaxWaiters = 1024

// allKeys is the key of Allow and Wait.
const allKeys = "*"

// A Limiter asks a Store about keys under one limit, or one for each key. It is safe
// for concurrent use, and needs no closing.
type Limiter struct {
	store   Store
	prefix  string
	name    string
	rules   atomic.Pointer[rules]
	perKey  keyLimits
	waiters waitqueue.Queue
}

// rules are the limit in force and those that it replaced.
type rules struct {
	limit Limit
	from  []Limit
	carry Carry
	short shortForm // nil if there is none
}

// A shortForm decides Takes of one token as the store's Do, without a Request and a Decision. If
// decided is false, it has changed nothing, and Do decides. Allow is AllowKey for one key.
type shortForm = interface {
	Allow(all string) (ok, decided bool)
	AllowKey(key string) (ok, decided bool)
}

// short sets the short form of r, if the store has one.
func (l *Limiter) short(r *rules) *rules {
	s, ok := l.store.(interface {
		Short(of Store, limit Limit, prefix string, carries bool) shortForm
	})
	if ok && !r.limit.IsZero() && l.perKey.limit == nil {
		r.short = s.Short(l.store, r.limit, l.prefix, len(r.from) > 0)
	}
	return r
}

// maxFrom is the number of replaced limits that are remembered.
const maxFrom = 4

// replace returns rules with another limit in force.
func (r *rules) replace(limit Limit, carry Carry) *rules {
	next := &rules{limit: limit, carry: carry}
	next.add(maxFrom, r.limit)
	next.add(maxFrom, r.from...)
	return next
}

// add adds limits that were in force before, up to most in total. Limits that have a state
// in common need it once.
func (r *rules) add(most int, limits ...Limit) {
	for _, l := range limits {
		if len(r.from) >= most {
			return
		}
		known := l.IsZero() || l.s.State == r.limit.s.State
		for _, f := range r.from {
			known = known || l.s.State == f.s.State
		}
		if !known {
			r.from = append(r.from, l)
		}
	}
}

// New makes a limiter that keeps its state in store. An error wraps ErrInvalid.
func New(store Store, limit Limit, c Config) (*Limiter, error) {
	switch {
	case missing.Value(store):
		return nil, fmt.Errorf("weir: store: %w: want a store such as memstore.New, got nil", ErrInvalid)
	case limit.IsZero() && c.LimitFunc == nil:
		return nil, fmt.Errorf("weir: limit: %w: want a limit such as MustLimit(\"10/s\"), got the zero Limit", ErrInvalid)
	case c.MaxWaiters < 0:
		return nil, fmt.Errorf("weir: MaxWaiters: %w: want 0 or more, got %d", ErrInvalid, c.MaxWaiters)
	case len(c.Name) > maxName:
		return nil, fmt.Errorf("weir: Name: %w: want at most %d bytes, got %d", ErrInvalid, maxName, len(c.Name))
	case len(c.Prefix) > bounds.MaxKey/2 || strings.IndexByte(c.Prefix, 0) >= 0:
		return nil, fmt.Errorf("weir: Prefix: %w: want at most %d bytes without a zero byte, got %.40q", ErrInvalid, bounds.MaxKey/2, c.Prefix)
	}
	l := &Limiter{store: store, name: c.Name}
	if err := l.checkCarry(c.Carry); err != nil {
		return nil, err
	}
	if c.Prefix != "" {
		l.prefix = c.Prefix + "\x00"
	}
	l.waiters.Max, l.waiters.Clock = c.MaxWaiters, waitqueue.ClockOf(store)
	if c.MaxWaiters == 0 {
		l.waiters.Max = defaultMaxWaiters
	}
	l.perKey.init(c)
	l.rules.Store(l.short(&rules{limit: named(limit, c.Name)}))
	return l, nil
}

func (l *Limiter) checkCarry(c Carry) error {
	switch {
	case c > CarryReset:
		return fmt.Errorf("weir: Carry: %w: want a constant of type Carry, got %d", ErrInvalid, c)
	case c != CarryUsage && l.name != "":
		return fmt.Errorf("weir: Carry: %w: want CarryUsage, as the limiter has a name, got %d", ErrInvalid, c)
	}
	return nil
}

// named returns limit with a name, if there is one.
func named(limit Limit, name string) Limit {
	if name == "" {
		return limit
	}
	return limit.Named(name)
}

// Limit returns the limit in force, for keys whose limit is not from LimitFunc.
func (l *Limiter) Limit() Limit { return l.rules.Load().limit }

// Store returns the store that l asks.
func (l *Limiter) Store() Store { return l.store }

// SetLimit puts another limit in force for every key. A key keeps what it owes:
// at its next request its state under the former limit is carried over as carry
// says. A Limiter remembers the last four limits that it replaced. Processes that
// share a store each need the change. Until all have it, those with the former limit
// use a state of their own, unless the Limiter has a Config.Name. SetLimit returns an
// error that wraps ErrInvalid for the zero Limit.
func (l *Limiter) SetLimit(limit Limit, carry Carry) error {
	if limit.IsZero() {
		return fmt.Errorf("weir: limit: %w: want a limit, got the zero Limit", ErrInvalid)
	}
	if err := l.checkCarry(carry); err != nil {
		return err
	}
	limit = named(limit, l.name)
	for {
		old := l.rules.Load()
		if old.limit.Equal(limit) {
			return nil
		}
		if l.rules.CompareAndSwap(old, l.short(old.replace(limit, carry))) {
			return nil
		}
	}
}

// Request returns a Take of n tokens of key, to be decided together with the requests
// of other limiters by TakeAll or the store's DoAll. An error is that of LimitFunc.
func (l *Limiter) Request(ctx context.Context, key string, n int64) (Request, error) {
	if key == "" {
		return Request{}, errEmptyKey
	}
	usual := l.rules.Load()
	if l.perKey.limit == nil {
		return usual.request(l.prefix+key, n), nil
	}
	r, err := l.perKey.rules(ctx, key, usual)
	if err != nil {
		return Request{}, err
	}
	return r.request(l.prefix+key, n), nil
}

func (r *rules) request(key string, n int64) Request {
	return Request{Key: key, Limit: r.limit, N: n, From: r.from, Carry: r.carry}
}

func (l *Limiter) do(ctx context.Context, verb Verb, key string, n int64) (Decision, error) {
	r, err := l.Request(ctx, key, n)
	if err != nil {
		return Decision{}, err
	}
	r.Verb = verb
	return l.store.Do(ctx, r)
}

// Allow takes 1 token of a key that all callers of Allow and Wait share, and reports
// whether it could. It reports false if the store cannot decide: Take returns the
// error.
func (l *Limiter) Allow() bool {
	if r := l.rules.Load(); r.short != nil {
		if ok, decided := r.short.Allow(allKeys); decided {
			return ok
		}
	}
	return l.allow(allKeys)
}

// AllowKey is Allow for a key.
func (l *Limiter) AllowKey(key string) bool {
	if r := l.rules.Load(); r.short != nil {
		if ok, decided := r.short.AllowKey(key); decided {
			return ok
		}
	}
	return l.allow(key)
}

// allow is AllowKey without a short form.
func (l *Limiter) allow(key string) bool {
	d, err := l.do(context.Background(), Take, key, 1)
	return err == nil && d.OK
}

// Take consumes n tokens of key if all of them fit, and none otherwise. A cost of 0
// consumes nothing. A cost above the limit's capacity is denied with RetryAfter Never.
func (l *Limiter) Take(ctx context.Context, key string, n int64) (Decision, error) {
	return l.do(ctx, Take, key, n)
}

// TakeUpTo consumes as many of n tokens as fit, and returns their number in Granted.
// It is denied if none fits.
func (l *Limiter) TakeUpTo(ctx context.Context, key string, n int64) (Decision, error) {
	return l.do(ctx, TakeUpTo, key, n)
}

// Peek returns what Take would return, and changes nothing.
func (l *Limiter) Peek(ctx context.Context, key string, n int64) (Decision, error) {
	return l.do(ctx, Peek, key, n)
}

// Charge consumes n tokens whether they fit or not. What does not fit is debt, which
// the key pays before it is admitted again.
func (l *Limiter) Charge(ctx context.Context, key string, n int64) (Decision, error) {
	return l.do(ctx, Charge, key, n)
}

// Return gives n tokens back, never beyond the limit's capacity. Under a window the
// newest tokens go back. ReturnAt names the charge instead.
func (l *Limiter) Return(ctx context.Context, key string, n int64) (Decision, error) {
	return l.do(ctx, Return, key, n)
}

// ReturnAt gives back n tokens that were charged at the instant at, the At of their
// decision, if they still count: a window that has passed is not credited.
func (l *Limiter) ReturnAt(ctx context.Context, key string, n int64, at time.Time) (Decision, error) {
	r, err := l.Request(ctx, key, n)
	if err != nil {
		return Decision{}, err
	}
	r.Verb, r.At = Return, at
	return l.store.Do(ctx, r)
}

// Reset deletes the state of key: it is as if never used.
func (l *Limiter) Reset(ctx context.Context, key string) (Decision, error) {
	return l.do(ctx, Reset, key, 0)
}
