package rpclimit

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/floodweir/weir"
	"github.com/floodweir/weir/enforce"
	"github.com/floodweir/weir/failover"
	"github.com/floodweir/weir/internal/backoff"
	"github.com/floodweir/weir/policy"
)

// DefaultMaxWait and DefaultMaxWaiters are the values of fields of PacerConfig that are zero.
const (
	DefaultMaxWait    = backoff.DefaultMaxWait
	DefaultMaxWaiters = backoff.DefaultMaxWaiters
)

const (
	maxPause   = 24 * time.Hour // of a server that asks for longer
	maxPaused  = 4096           // scopes whose pause is recorded
	maxRetries = 10
)

// A PacerConfig configures a Pacer. Its zero value has no limit, and pauses when servers ask
// for it.
type PacerConfig struct {
	// Limiter, if not nil, is asked for a token before each call and each retry. Clients
	// that share its store share the budget. A concurrency limit is refused: a client does
	// not return its slots.
	Limiter *weir.Limiter

	// Key returns the Limiter's key for a call; the target if nil. The target is the host
	// of the server, or what was dialed; the method is /package.Service/Method. A call
	// whose key is empty is not charged. A key that is longer than a store accepts ends the
	// call with InvalidArgument.
	//
	// A server's pause applies to calls of the same key to the same method of the same
	// target: if many users share a client, return the user.
	Key func(ctx context.Context, target, method string) string

	// MaxWait bounds how long a call is held back; DefaultMaxWait if zero, weir.NoWait or
	// weir.Unlimited. It is measured by the clock of the store. A call that would wait longer, or beyond the deadline of its context,
	// ends at once, unsent, with ResourceExhausted and a RetryInfo.
	MaxWait time.Duration

	// MaxWaiters bounds the calls that wait at a time; DefaultMaxWaiters if zero.
	MaxWaiters int

	// Retries is the number of times that a unary call is repeated that a server denied
	// with a RetryInfo, after that time: 0 to 10. A streaming call is not repeated.
	Retries int

	// OnStoreError decides about a call when Limiter's store makes no decision. By default,
	// policy.Local, the same limit in the memory of this process decides; policy.Open sends
	// the call; policy.Closed ends it with Unavailable. So does, in every mode, an error
	// that wraps weir.ErrOverloaded.
	OnStoreError policy.FailMode
}

// A Dialect connects a Pacer to a protocol.
type Dialect struct {
	// Error returns an error of the protocol.
	Error func(End) error

	// RetryAfter returns when the server allows a call that ended with an error, or nil, to
	// be repeated.
	RetryAfter func(error) (time.Duration, bool)
}

// A Pacer limits outgoing calls, and records the pauses that servers ask for, each for at most
// a day. A pause applies to calls of the same key to the same method of the same target.
type Pacer struct {
	c     PacerConfig
	d     Dialect
	store weir.Store // of Limiter, with the fallback that OnStoreError selects
	pacer backoff.Pacer
}

// NewPacer returns a Pacer. An error wraps weir.ErrInvalid.
func NewPacer(c PacerConfig, d Dialect) (*Pacer, error) {
	switch {
	case c.Limiter != nil && c.Limiter.Limit().IsConcurrency():
		return nil, fmt.Errorf("rpclimit: Limiter: %w: got concurrency limit %s, want a rate limit", weir.ErrInvalid, c.Limiter.Limit())
	case c.Retries < 0 || c.Retries > maxRetries:
		return nil, fmt.Errorf("rpclimit: Retries: %w: got %d, want 0 to %d", weir.ErrInvalid, c.Retries, maxRetries)
	case c.MaxWaiters < 0:
		return nil, fmt.Errorf("rpclimit: MaxWaiters: %w: got %d, want 0 or more", weir.ErrInvalid, c.MaxWaiters)
	}
	switch c.OnStoreError {
	case "":
		c.OnStoreError = policy.Local
	case policy.Open, policy.Closed, policy.Local:
	default:
		return nil, fmt.Errorf("rpclimit: OnStoreError: %w: got %.60q, want open, closed or local", weir.ErrInvalid, c.OnStoreError)
	}
	if c.Key == nil {
		c.Key = func(_ context.Context, target, _ string) string { return target }
	}
	p := &Pacer{c: c, d: d}
	if c.Limiter != nil {
		p.store = c.Limiter.Store()
	}
	if c.Limiter != nil && c.OnStoreError == policy.Local {
		local, err := failover.NewLocal(enforce.NewLocal(), 1)
		if err != nil {
			return nil, err
		}
		p.store = failover.WithFallback(p.store, local)
	}
	p.pacer.Queue.Max = cmp.Or(c.MaxWaiters, DefaultMaxWaiters)
	p.pacer.Pauses.MaxKeys, p.pacer.Pauses.MaxPause = maxPaused, maxPause
	return p, nil
}

// A Call is an outgoing call.
type Call struct {
	key   string // of the limiter
	scope string // of a server's pause
}

// Call returns a call of method to target.
func (p *Pacer) Call(ctx context.Context, target, method string) Call {
	key := p.c.Key(ctx, target, method)
	return Call{key, target + "\x00" + method + "\x00" + key}
}

// Unary calls send, which sends a call, once the pause is over and the limiter admits the
// call. It calls send again if the server denied the call and said when to retry. It returns
// the result of the last attempt.
func (p *Pacer) Unary(ctx context.Context, c Call, send func() error) error {
	var denied error
	for retries := p.c.Retries; ; retries-- {
		if end := p.admit(ctx, c); end != nil {
			if denied != nil && end.Code == ResourceExhausted {
				return denied // the server's error is more specific
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

// Admit holds a call back until the pause is over and the limiter admits it. An error means
// that the call may not be sent.
func (p *Pacer) Admit(ctx context.Context, c Call) error {
	if end := p.admit(ctx, c); end != nil {
		return p.d.Error(*end)
	}
	return nil
}

// Observe records the pause that the server asked for in err, the result of a call, and
// reports whether it asked for one.
func (p *Pacer) Observe(c Call, err error) bool {
	d, ok := p.d.RetryAfter(err)
	if ok {
		p.pacer.Pauses.Set(c.scope, d)
	}
	return ok
}

// admit returns nil once the call may be sent, or else how it ends.
func (p *Pacer) admit(ctx context.Context, c Call) *End {
	r := backoff.Request{Key: c.key, Scope: c.scope, Wait: p.pacer.Deadline(p.c.MaxWait)}
	if p.c.Limiter != nil && c.key != "" {
		r.Budget = oneToken{p.c.Limiter, p.store, c.key}
	}
	result, err := p.pacer.Admit(ctx, r)
	d := result.Decision
	switch {
	case err != nil && ctx.Err() != nil:
		e := canceled(ctx)
		return &e
	case errors.Is(err, weir.ErrInvalid): // the caller's fault, so OnStoreError does not apply
		return &End{Code: InvalidArgument, Err: fmt.Errorf("call not sent: invalid limit request: %w", err), Retry: weir.Never}
	case err != nil && (p.c.OnStoreError != policy.Open || errors.Is(err, weir.ErrOverloaded)):
		return &End{Code: Unavailable, Err: fmt.Errorf("call not sent: no decision about its limit: %w", err), Retry: weir.Never}
	case err != nil:
		return nil
	case result.Paused:
		return unsent("a pause that the server asked for", d.RetryAfter)
	case !d.OK:
		return unsent("the limit "+d.Limit.Brief(), d.RetryAfter)
	}
	return nil
}

// unsent returns the end of a call that would have to wait too long.
func unsent(by string, retry time.Duration) *End {
	e := end(ResourceExhausted, "call not sent: held back by "+by, retry)
	return &e
}

// A oneToken is one token of one key of a Limiter.
type oneToken struct {
	limiter *weir.Limiter
	store   weir.Store
	key     string
}

// Do implements [backoff.Budget].
func (b oneToken) Do(ctx context.Context, verb weir.Verb) (weir.Decision, error) {
	return b.send(ctx, verb, time.Time{})
}

// Return implements [backoff.Budget].
func (b oneToken) Return(ctx context.Context, at time.Time) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), time.Second)
	defer cancel()
	_, _ = b.send(ctx, weir.Return, at)
}

func (b oneToken) send(ctx context.Context, verb weir.Verb, at time.Time) (weir.Decision, error) {
	r, err := b.limiter.Request(ctx, b.key, 1)
	if err != nil {
		return weir.Decision{}, err
	}
	r.Verb, r.At = verb, at
	return b.store.Do(ctx, r)
}
