package decisionlog

import (
	"context"
	"crypto/rand"
	"fmt"
	"log/slog"
	mrand "math/rand/v2"
	"sync/atomic"
	"time"

	"github.com/floodweir/weir"
	"github.com/floodweir/weir/enforce"
	"github.com/floodweir/weir/memstore"
)

// A Config describes a Log. Log is required; the zero value of every other field works.
type Config struct {
	// Log is where lines go.
	Log *slog.Logger

	// Every logs one of so many requests that were not denied, chosen at random; none
	// if zero.
	Every int

	// Denied logs one of so many requests that were denied; none if zero.
	Denied int

	// PerSecond is the most lines in a second; DefaultPerSecond if zero.
	PerSecond int

	// Keys says how a line names the key; Hash if empty.
	Keys Keys

	// Salt makes the hashes of keys those of other processes with the same salt. If
	// empty it is random: lines of this process can be compared with each other, and
	// nobody can find the key by trying.
	Salt []byte
}

// DefaultPerSecond is the PerSecond of a Config that names none.
const DefaultPerSecond = 100

// Keys says how a line names a key.
type Keys string

// The ways to name a key.
const (
	// Hash tells which lines are about one key, and not which key.
	Hash Keys = "hash"
	// Plain is the key. It holds what clients sent, such as their addresses.
	Plain Keys = "plain"
	// Off leaves keys out.
	Off Keys = "off"
)

// A Log is a log of decisions.
type Log struct {
	c          Config
	lines      *weir.Limiter
	suppressed atomic.Int64
	problems   suppressor
}

// New makes a Log. An error wraps weir.ErrInvalid.
func New(c Config) (*Log, error) {
	switch {
	case c.Log == nil:
		return nil, fmt.Errorf("decisionlog: Log: %w: want a logger, got nil", weir.ErrInvalid)
	case c.Every < 0:
		return nil, fmt.Errorf("decisionlog: Every: %w: want one of 0 or more, got %d", weir.ErrInvalid, c.Every)
	case c.Denied < 0:
		return nil, fmt.Errorf("decisionlog: Denied: %w: want one of 0 or more, got %d", weir.ErrInvalid, c.Denied)
	case c.PerSecond < 0:
		return nil, fmt.Errorf("decisionlog: PerSecond: %w: want 0 or more lines, got %d", weir.ErrInvalid, c.PerSecond)
	}
	if c.PerSecond == 0 {
		c.PerSecond = DefaultPerSecond
	}
	switch c.Keys {
	case "":
		c.Keys = Hash
	case Hash, Plain, Off:
	default:
		return nil, fmt.Errorf("decisionlog: Keys: %w: want hash, plain or off, got %.40q", weir.ErrInvalid, c.Keys)
	}
	if len(c.Salt) == 0 {
		c.Salt = make([]byte, 32)
		rand.Read(c.Salt) // which never fails
	}
	limit, err := weir.NewLimit(weir.TokenBucket{Count: int64(c.PerSecond), Period: time.Second})
	if err != nil {
		return nil, fmt.Errorf("decisionlog: PerSecond: %w", err)
	}
	store, err := memstore.New(memstore.Config{MaxKeys: 1})
	if err != nil {
		return nil, err
	}
	l := &Log{c: c}
	l.lines, err = weir.New(store, limit, weir.Config{})
	return l, err
}

// Observe logs what became of a request under one policy, if it is chosen. The further
// attributes say what the door knows of the request.
func (l *Log) Observe(ctx context.Context, door string, e enforce.Event, more ...slog.Attr) {
	if e.Policy == nil {
		return
	}
	if e.Err != nil || e.Decision.Degraded != "" || e.Fault != nil {
		l.observeProblems(ctx, door, &e)
	}
	if e.Outcome == enforce.Unsettled { // told beside the outcome
		return
	}
	n := l.c.Every
	if e.Outcome == enforce.Denied || e.Outcome == enforce.FailedClosed {
		n = l.c.Denied
	}
	if n == 0 || n > 1 && mrand.IntN(n) != 0 || !l.c.Log.Enabled(ctx, slog.LevelInfo) {
		return
	}
	if d, err := l.lines.Take(ctx, "lines", 1); err != nil || !d.OK {
		l.suppressed.Add(1)
		return
	}
	attrs := l.attributes(door, &e)
	if left := l.suppressed.Swap(0); left > 0 {
		attrs = append(attrs, slog.Int64("suppressed", left))
	}
	for _, a := range more {
		if a.Value.Kind() == slog.KindString {
			a.Value = slog.StringValue(cut(a.Value.String()))
		}
		attrs = append(attrs, a)
	}
	l.c.Log.LogAttrs(ctx, slog.LevelInfo, "decision", attrs...)
}

// attributes are what a line says.
func (l *Log) attributes(door string, e *enforce.Event) []slog.Attr {
	attrs := make([]slog.Attr, 0, 12)
	attrs = append(attrs, slog.String("interface", door), slog.String("policy", e.Policy.Name()), slog.String("outcome", string(e.Outcome)))
	if e.Shadow {
		attrs = append(attrs, slog.Bool("shadow", true))
	}
	if d := &e.Decision; !d.Limit.IsZero() {
		attrs = append(attrs, slog.String("limit", d.Limit.String()), slog.Int64("remaining", d.Remaining))
		switch {
		case d.RetryAfter == weir.Never:
			attrs = append(attrs, slog.String("retry_after", "never"))
		case d.RetryAfter > 0:
			attrs = append(attrs, slog.String("retry_after", d.RetryAfter.String()))
		}
		if d.Delay > 0 {
			attrs = append(attrs, slog.String("delay", d.Delay.String()))
		}
		if !d.At.IsZero() { // by the store's clock, which the line's time is not
			attrs = append(attrs, slog.String("at", d.At.UTC().Format("2006-01-02T15:04:05.000000Z")))
		}
	}
	if d := e.Decision.Degraded; d != "" {
		attrs = append(attrs, slog.String("degraded", string(d)))
	}
	switch l.c.Keys {
	case Hash:
		attrs = append(attrs, slog.String("key", l.hash(e.Key)))
	case Plain:
		attrs = append(attrs, slog.String("key", cut(e.Key)))
	}
	return attrs
}
