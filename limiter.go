package weir

import (
	"context"
	"fmt"
	"strings"
	"sync/atomic"
	"time"
)

// Config adjusts a Limiter. Its zero value works.
type Config struct {
	// Prefix is put before every key, so that limiters which share a store do not
	// share state. It is joined to the key by a zero byte, and must not contain one.
	// Empty by default: two limiters of the same limit then share their keys.
	Prefix string

	// MaxWaiters is the most callers that may wait for one key at a time in this
	// Limiter; one more is denied at once. 1024 if zero.
	MaxWaiters int
}

// DefaultMaxWaiters is the MaxWaiters of a Config that names none.
const DefaultMaxWaiters = 1024

// A Limiter asks a Store about keys under one limit. It is safe for concurrent
// use, keeps no state of keys, and needs no closing.
type Limiter struct {
	store  Store
	prefix string
	rules  atomic.Pointer[rules]
	queues queues
}

// rules are the limit in force and those that it replaced.
type rules struct {
	limit Limit
	from  []Limit
	carry Carry
}

// maxFrom is how many former limits are looked for behind the one in force.
const maxFrom = 4

// New makes a limiter that keeps its state in store. An error wraps ErrInvalid.
func New(store Store, limit Limit, c Config) (*Limiter, error) {
	switch {
	case store == nil:
		return nil, fmt.Errorf("weir: store: %w: want a store such as memstore.New, got nil", ErrInvalid)
	case limit.IsZero():
		return nil, fmt.Errorf("weir: limit: %w: want a limit such as MustLimit(\"10/s\"), got the zero Limit", ErrInvalid)
	case c.MaxWaiters < 0:
		return nil, fmt.Errorf("weir: MaxWaiters: %w: want 0 or more, got %d", ErrInvalid, c.MaxWaiters)
	case len(c.Prefix) > MaxKey/2 || strings.IndexByte(c.Prefix, 0) >= 0:
		return nil, fmt.Errorf("weir: Prefix: %w: want at most %d bytes without a zero byte, got %.40q", ErrInvalid, MaxKey/2, c.Prefix)
	}
	l := &Limiter{store: store}
	if c.Prefix != "" {
		l.prefix = c.Prefix + "\x00"
	}
	l.queues.most = c.MaxWaiters
	if l.queues.most == 0 {
		l.queues.most = DefaultMaxWaiters
	}
	l.rules.Store(&rules{limit: limit})
	return l, nil
}

// Limit is the limit in force.
func (l *Limiter) Limit() Limit { return l.rules.Load().limit }

// SetLimit puts another limit in force for every key. A key keeps what it owes:
// when it is next asked about, its state under the former limit is carried over
// as carry says. Of limits replaced before that, the last four are remembered.
// Processes that share a store each need the change. It returns an error that
// wraps ErrInvalid for the zero Limit.
func (l *Limiter) SetLimit(limit Limit, carry Carry) error {
	if limit.IsZero() {
		return fmt.Errorf("weir: limit: %w: want a limit, got the zero Limit", ErrInvalid)
	}
	for {
		old := l.rules.Load()
		if old.limit.Equal(limit) {
			return nil
		}
		now := &rules{limit: limit, carry: carry, from: []Limit{old.limit}}
		for _, f := range old.from {
			if len(now.from) < maxFrom && !f.Equal(limit) {
				now.from = append(now.from, f)
			}
		}
		if l.rules.CompareAndSwap(old, now) {
			return nil
		}
	}
}

// Request is what the limiter asks its store: to be decided together with the
// requests of other limiters by the store's DoAll.
func (l *Limiter) Request(verb Verb, key string, n int64) Request {
	r := l.rules.Load()
	if l.prefix != "" {
		key = l.prefix + key
	}
	return Request{Verb: verb, Key: key, Limit: r.limit, N: n, From: r.from, Carry: r.carry}
}

func (l *Limiter) do(ctx context.Context, verb Verb, key string, n int64) (Decision, error) {
	if key == "" {
		return Decision{}, errEmptyKey
	}
	return l.store.Do(ctx, l.Request(verb, key, n))
}

// Take consumes n tokens of key if all of them fit, and none otherwise. A cost
// of 0 is a Peek; a cost above the limit's capacity is denied with RetryAfter
// Never.
func (l *Limiter) Take(ctx context.Context, key string, n int64) (Decision, error) {
	return l.do(ctx, Take, key, n)
}

// TakeUpTo consumes as many of n tokens as fit, and says in Granted how many. It
// is denied when none does.
func (l *Limiter) TakeUpTo(ctx context.Context, key string, n int64) (Decision, error) {
	return l.do(ctx, TakeUpTo, key, n)
}

// Peek says what Take would say, and changes nothing.
func (l *Limiter) Peek(ctx context.Context, key string, n int64) (Decision, error) {
	return l.do(ctx, Peek, key, n)
}

// Charge consumes n tokens whether they fit or not. What does not fit is debt,
// which the key pays before it is admitted again.
func (l *Limiter) Charge(ctx context.Context, key string, n int64) (Decision, error) {
	return l.do(ctx, Charge, key, n)
}

// Return gives n tokens back, never beyond the limit's capacity. For a window it
// is the newest tokens that go back; ReturnAt is exact about which.
func (l *Limiter) Return(ctx context.Context, key string, n int64) (Decision, error) {
	return l.do(ctx, Return, key, n)
}

// ReturnAt gives back n tokens that were charged at the instant at, the At of
// their decision, if they still count: a window that has passed is not credited.
func (l *Limiter) ReturnAt(ctx context.Context, key string, n int64, at time.Time) (Decision, error) {
	if key == "" {
		return Decision{}, errEmptyKey
	}
	r := l.Request(Return, key, n)
	r.At = at
	return l.store.Do(ctx, r)
}

// Reset forgets key: it is as if never used.
func (l *Limiter) Reset(ctx context.Context, key string) (Decision, error) {
	return l.do(ctx, Reset, key, 0)
}
