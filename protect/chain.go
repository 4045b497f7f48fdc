package protect

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"
)

// A Protection can refuse requests or calls, for example a circuit breaker. It is safe for
// concurrent use.
type Protection interface {
	// Name returns its kind, such as "breaker".
	Name() string

	// Enter decides about a request. An error refuses it; otherwise exit, unless nil, is called
	// once, with the error of the request. If the request was not made, because another
	// protection or a limit refused it, the error wraps ErrCanceled: it neither failed nor
	// succeeded. For a System, key is the name of a priority class.
	Enter(ctx context.Context, key string) (exit func(err error), err error)

	// State returns text for operators: "closed", "open", "12 of 20".
	State() string
}

// A Whole is a Protection that may hold a request until the end of its response. Others end at
// the first byte.
type Whole interface {
	Protection
	WholeRequest() bool
}

// A Reading is the state of a Protection in numbers. A number that it does not have is 0.
type Reading struct {
	State    string // of a circuit breaker: "closed", "open" or "half-open"; "" otherwise
	Limit    int    // the most requests in flight, now
	InFlight int
	Waiters  int

	// Open is the time until an open circuit breaker admits a trial.
	Open time.Duration
}

// A Measured is a Protection with a Reading, for metrics.
type Measured interface {
	Protection
	Read() Reading
}

// ErrCanceled means that a request was not made. See Protection.
var ErrCanceled = fmt.Errorf("protect: refused before it was made: %w", context.Canceled)

// Refused reports that a protection refused a request. It wraps Reason.
type Refused struct {
	Reason error

	// RetryAfter is the time until a request may be admitted; 0 if unknown.
	RetryAfter time.Duration
}

// Error returns the reason, and the retry time if it is known.
func (r *Refused) Error() string {
	if r.RetryAfter <= 0 {
		return r.Reason.Error()
	}
	return fmt.Sprintf("%v: retry after %v", r.Reason, r.RetryAfter.Round(time.Millisecond))
}

// Unwrap returns the reason.
func (r *Refused) Unwrap() error { return r.Reason }

// Rejected reports which protection of a Chain rejected a request. It wraps Err.
type Rejected struct {
	Name string // of the protection
	Err  error
}

// Error returns "protect: breaker: circuit breaker open".
func (r *Rejected) Error() string { return "protect: " + r.Name + ": " + r.Err.Error() }

// Unwrap returns Err.
func (r *Rejected) Unwrap() error { return r.Err }

// RetryAfter returns the time until a request may be admitted, at least a second.
func (r *Rejected) RetryAfter() time.Duration {
	var refused *Refused
	if errors.As(r.Err, &refused) {
		return max(time.Second, refused.RetryAfter)
	}
	return time.Second
}

// Shadow returns a protection that decides as p does but refuses nothing. A Chain reports what p
// would refuse. Requests that p would refuse are not reported to p.
func Shadow(p Protection) Protection { return &shadow{p} }

type shadow struct{ Protection }

func (s *shadow) Enter(ctx context.Context, key string) (func(error), error) {
	exit, err := s.Protection.Enter(ctx, key)
	if err != nil {
		return nil, nil
	}
	return exit, nil
}

func (s *shadow) State() string { return s.Protection.State() + " (shadow)" }

// Read implements Measured.
func (s *shadow) Read() Reading {
	if m, ok := s.Protection.(Measured); ok {
		return m.Read()
	}
	return Reading{}
}

// A Config configures a Chain. Its zero value rejects nothing.
type Config struct {
	// Protections are asked in this order. The order that works best is: system, breaker,
	// bulkhead, adaptive.
	Protections []Protection

	// Observe, if not nil, is called for each refusal, also for one in shadow mode, which
	// rejects nothing. It must return quickly.
	Observe func(name string, shadow bool)
}

// A Chain asks protections in order.
type Chain struct {
	links   []link
	observe func(name string, shadow bool)
}

type link struct {
	Protection
	shadow, whole bool
}

// New returns a Chain.
func New(c Config) *Chain {
	chain := &Chain{observe: c.Observe}
	if chain.observe == nil {
		chain.observe = func(string, bool) {}
	}
	for _, p := range c.Protections {
		l := link{Protection: p}
		if s, ok := p.(*shadow); ok {
			l.Protection, l.shadow = s.Protection, true
		}
		if w, ok := l.Protection.(Whole); ok {
			l.whole = w.WholeRequest()
		}
		chain.links = append(chain.links, l)
	}
	return chain
}

// States returns the states of the protections by name.
func (c *Chain) States() map[string]string {
	states := make(map[string]string, len(c.links))
	for _, l := range c.links {
		states[l.Name()] = l.State()
	}
	return states
}

// Enter decides about a request of a priority class, or of the default class if empty. If no
// protection refuses it, the caller ends the Pass and makes the request with the context that
// Enter returns. Otherwise the error is a *Rejected.
func (c *Chain) Enter(ctx context.Context, class string) (context.Context, *Pass, error) {
	p := new(Pass)
	ctx = context.WithValue(ctx, passKey{}, p)
	entered := false
	defer func() {
		if !entered {
			p.Cancel() // also if a Protection panics
		}
	}()
	for _, l := range c.links {
		exit, err := l.Enter(ctx, class)
		switch {
		case err != nil && ctx.Err() != nil:
			return ctx, nil, &Rejected{l.Name(), err} // the client disconnected
		case err != nil:
			c.observe(l.Name(), l.shadow)
			if !l.shadow {
				return ctx, nil, &Rejected{l.Name(), err}
			}
		case exit != nil:
			p.exits = append(p.exits, held{exit, l.whole})
		}
	}
	entered = true
	return ctx, p, nil
}

type passKey struct{}

// A Pass is a request that a Chain has admitted. All methods may be called on a nil Pass.
type Pass struct {
	mu     sync.Mutex
	exits  []held
	waited time.Duration
}

type held struct {
	exit  func(error)
	whole bool
}

// FromContext returns the Pass of a request, or nil.
func FromContext(ctx context.Context) *Pass {
	p, _ := ctx.Value(passKey{}).(*Pass)
	return p
}

// Took returns the time since start that a request spent in the resource: without what it waited
// for limits. A Protection calls it with the context of Enter.
func Took(ctx context.Context, start time.Time) time.Duration {
	took := time.Since(start)
	if p := FromContext(ctx); p != nil {
		p.mu.Lock()
		defer p.mu.Unlock()
		took -= p.waited
	}
	return took
}

// Now returns the time for Waited, without reading the clock for a nil Pass.
func (p *Pass) Now() (start time.Time) {
	if p != nil {
		start = time.Now()
	}
	return start
}

// Waited adds the time since start, from Now, which the request did not spend in the resource: it
// waited for a limit, or for its client.
func (p *Pass) Waited(start time.Time) {
	if p == nil {
		return
	}
	d := time.Since(start)
	p.mu.Lock()
	defer p.mu.Unlock()
	p.waited += d
}

// Respond reports the first byte of the response, or the error of a request without one. Only the
// first call counts.
func (p *Pass) Respond(err error) { p.exit(err, false) }

// End reports the end of the request. If there was no response, err is its result.
func (p *Pass) End(err error) { p.exit(err, true) }

// Cancel ends a request that was not made.
func (p *Pass) Cancel() { p.exit(ErrCanceled, true) }

// exit calls the exit functions in reverse order.
func (p *Pass) exit(err error, whole bool) {
	if p == nil {
		return
	}
	p.mu.Lock()
	var now []func(error)
	kept := p.exits[:0]
	for _, h := range p.exits {
		if h.whole && !whole {
			kept = append(kept, h)
		} else {
			now = append(now, h.exit)
		}
	}
	p.exits = kept
	p.mu.Unlock()
	for i := len(now) - 1; i >= 0; i-- {
		now[i](err)
	}
}
