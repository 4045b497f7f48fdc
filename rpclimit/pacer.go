package rpclimit

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/floodweir/weir"
	"github.com/floodweir/weir/policy"
)

// DefaultMaxWait is the MaxWait of a Pacing that names none.
const DefaultMaxWait = time.Minute

// A Pacing says how a client is paced. Its zero value paces nothing, and obeys servers.
type PacerConfig struct {
	// Limiter, if not nil, is asked for a token before each call, and again before a
	// call is repeated. It is of a rate.
	Limiter *weir.Limiter

	// Key says whose budget a call is of; if it is nil, the target's. A call for which it
	// is empty is not paced.
	Key func(ctx context.Context, target, method string) string

	// MaxWait is the longest that a call is held back; DefaultMaxWait if zero. No call
	// waits if it is negative.
	MaxWait time.Duration

	// Retries is how often a unary call is repeated that a server denied: 0 to 10.
	Retries int

	// OnStoreError is policy.Open, the default, or policy.Closed.
	OnStoreError policy.FailMode
}

// A Dialect is what a Pacer has to know of a protocol.
type Dialect struct {
	// Error is an error of the protocol.
	Error func(End) error

	// RetryAfter is what a server says about repeating a call that ended with an error,
	// which may be nil.
	RetryAfter func(error) (time.Duration, bool)
}

// A Pacer paces calls where they go out, and remembers for at most a day until when which
// servers are not to be asked. What a server says holds for calls of the same key to the
// same method of the same target.
type Pacer struct {
	c     PacerConfig
	d     Dialect
	holds holds
}

// NewPacer makes a Pacer.
func NewPacer(c PacerConfig, d Dialect) (*Pacer, error) {
	switch {
	case c.Limiter != nil && c.Limiter.Limit().Config().Algorithm == weir.Concurrency:
		return nil, fmt.Errorf("limiter: limit %s: %w: want a rate: nobody gives a slot back", c.Limiter.Limit(), weir.ErrInvalid)
	case c.Retries < 0 || c.Retries > 10:
		return nil, fmt.Errorf("retries %d: %w: want 0 to 10", c.Retries, weir.ErrInvalid)
	}
	switch c.OnStoreError {
	case "":
		c.OnStoreError = policy.Open
	case policy.Open, policy.Closed:
	default:
		return nil, fmt.Errorf("on store error %.60q: %w: want open or closed", c.OnStoreError, weir.ErrInvalid)
	}
	switch {
	case c.MaxWait == 0:
		c.MaxWait = DefaultMaxWait
	case c.MaxWait < 0:
		c.MaxWait = 0
	}
	if c.Key == nil {
		c.Key = func(_ context.Context, target, _ string) string { return target }
	}
	return &Pacer{c: c, d: d}, nil
}

// A Call is one that goes out.
type Call struct {
	key   string // of the limiter
	scope string // what a server's word holds for
}

// Call is a call of method to target.
func (p *Pacer) Call(ctx context.Context, target, method string) Call {
	key := p.c.Key(ctx, target, method)
	return Call{key, target + "\x00" + method + "\x00" + key}
}

// Unary calls send, which sends a call, once the server may be asked and the limiter
// admits it, and again if the server denied it and said when to retry. It returns how the
// call ended last.
func (p *Pacer) Unary(ctx context.Context, c Call, send func() error) error {
	var denied error
	for retries := p.c.Retries; ; retries-- {
		if end := p.admit(ctx, c); end != nil {
			if denied != nil && end.Code == ResourceExhausted {
				return denied // what the server said tells more
			}
			return p.d.Error(*end)
		}
		err := send()
		if !p.Observe(c, err) || retries == 0 {
			return err
		}
		denied = err
	}
}

// Admit holds a call back until the server may be asked and the limiter admits it. An
// error is how the call ends, unsent.
func (p *Pacer) Admit(ctx context.Context, c Call) error {
	if end := p.admit(ctx, c); end != nil {
		return p.d.Error(*end)
	}
	return nil
}

// Heed notes what the server said about repeating a call that ended with err, and reports
// whether it did.
func (p *Pacer) Observe(c Call, err error) bool {
	d, ok := p.d.RetryAfter(err)
	if ok {
		p.holds.set(c.scope, d)
	}
	return ok
}

// admit is Admit, and returns how the call ends.
func (p *Pacer) admit(ctx context.Context, c Call) *End {
	until := time.Now().Add(p.c.MaxWait)
	if end, ok := ctx.Deadline(); ok && end.Before(until) {
		until = end
	}
	if end := p.holds.wait(ctx, c.scope, until); end != nil {
		return end
	}
	if p.c.Limiter == nil || c.key == "" {
		return nil
	}
	d, err := p.c.Limiter.Wait(ctx, c.key, 1, max(0, time.Until(until)))
	switch {
	case err != nil && ctx.Err() != nil:
		e := gone(ctx)
		return &e
	case errors.Is(err, weir.ErrInvalid): // no fault of the store's, and no way past the limit
		return &End{InvalidArgument, fmt.Errorf("call not sent: its limit cannot be asked: %w", err), weir.Never}
	case err != nil && p.c.OnStoreError == policy.Closed:
		return &End{Unavailable, fmt.Errorf("call not sent: its limit could not be decided: %w", err), weir.Never}
	case err != nil:
		return nil
	case !d.OK:
		return unsent("the limit "+d.Limit.String(), d.RetryAfter)
	}
	// A server may have spoken while this one waited. Its token has come by then, and
	// is not given back: to be late is to have used one's turn.
	return p.holds.wait(ctx, c.scope, until)
}

// unsent is the end of a call that would have had to wait for too long.
func unsent(why string, retry time.Duration) *End {
	e := end(ResourceExhausted, "call not sent: held back by "+why, retry)
	return &e
}
