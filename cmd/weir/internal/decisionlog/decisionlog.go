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

// A Config is the configuration of a Log. Only Log is required.
type Config struct {
	// Log receives the lines.
	Log *slog.Logger

	// Every logs one of this many requests that were not denied, chosen at random; none
	// if zero.
	Every int

	// Denied logs one of this many denied requests; none if zero.
	Denied int

	// PerSecond is the maximum number of lines per second; DefaultPerSecond if zero.
	PerSecond int

	// Keys selects how a line names the key; Hash if empty.
	Keys Keys

	// Salt is the salt of hashed keys; random if empty. Processes with the same salt
	// write the same hashes. With a random salt, hashes of one process can be compared,
	// and a key cannot be found by trying.
	Salt []byte
}

// DefaultPerSecond is the default PerSecond of a Config.
const DefaultPerSecond = 100

// Keys selects how a line names a key.
type Keys string

// Values of Keys.
const (
	// Hash shows which lines have the same key, without the key.
	Hash Keys = "hash"
	// Plain shows the key. It contains data of clients, such as their addresses.
	Plain Keys = "plain"
	// Off omits keys.
	Off Keys = "off"
)

// A Log writes a sample of decisions.
type Log struct {
	c          Config
	lines      *weir.Limiter
	suppressed atomic.Int64
	problems   suppressor
}

// New returns a Log. An error wraps weir.ErrInvalid.
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
		rand.Read(c.Salt) // never fails
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

// Observe logs the decision of one policy, if it is in the sample. more are attributes of
// the request.
func (l *Log) Observe(ctx context.Context, interfaceName string, e enforce.Event, more ...slog.Attr) {
	if e.Policy == nil {
		return
	}
	if e.Err != nil || e.Decision.Degraded != "" || e.Fault != nil {
		l.observeProblems(ctx, interfaceName, &e)
	}
	if e.Outcome.AtEnd() {
		return
	}
	n := l.c.Every
	switch e.Outcome {
	case enforce.Denied, enforce.FailedClosed, enforce.Overloaded:
		n = l.c.Denied
	}
	if n == 0 || n > 1 && mrand.IntN(n) != 0 || !l.c.Log.Enabled(ctx, slog.LevelInfo) {
		return
	}
	if d, err := l.lines.Take(ctx, "lines", 1); err != nil || !d.OK {
		l.suppressed.Add(1)
		return
	}
	attrs := l.attributes(interfaceName, &e)
	if n > 1 {
		attrs = append(attrs, slog.Int("every", n)) // one line of so many
	}
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

// attributes returns the fields of a line.
func (l *Log) attributes(interfaceName string, e *enforce.Event) []slog.Attr {
	attrs := make([]slog.Attr, 0, 12)
	attrs = append(attrs, slog.String("interface", interfaceName), slog.String("policy", e.Policy.Name()), slog.String("outcome", string(e.Outcome)))
	if e.Shadow {
		attrs = append(attrs, slog.Bool("shadow", true))
	}
	if d := &e.Decision; !d.Limit.IsZero() {
		attrs = append(attrs, slog.String("limit", d.Limit.Brief()), slog.Int64("remaining", d.Remaining))
		switch {
		case d.RetryAfter == weir.Never:
			attrs = append(attrs, slog.String("retry_after", "never"))
		case d.RetryAfter > 0:
			attrs = append(attrs, slog.String("retry_after", d.RetryAfter.String()))
		}
		if d.Delay > 0 {
			attrs = append(attrs, slog.String("delay", d.Delay.String()))
		}
		if !d.At.IsZero() { // by the store's clock, unlike the time of the line
			attrs = append(attrs, slog.String("at", d.At.UTC().Format("2006-01-02T15:04:05.000000Z")))
		}
	}
	if e.Decision.Borrowed {
		attrs = append(attrs, slog.Bool("borrowed", true))
	}
	if d := e.Decision.Degraded; d != "" {
		attrs = append(attrs, slog.String("degraded", string(d)))
	}
	if version := e.Policy.Config().Settle.Meter.PriceVersion(); version != "" {
		attrs = append(attrs, slog.String("prices", version))
	}
	switch l.c.Keys {
	case Hash:
		attrs = append(attrs, slog.String("key", l.hash(e.Key)))
	case Plain:
		attrs = append(attrs, slog.String("key", cut(e.Key)))
	}
	return attrs
}
