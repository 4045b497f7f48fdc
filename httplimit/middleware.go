package httplimit

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"sync"
	"time"

	"github.com/floodweir/weir"
	"github.com/floodweir/weir/policy"
)

// A Config tunes a Middleware. Its zero value trusts no proxy and sends the current
// draft's fields and X-RateLimit-*.
type Config struct {
	// Client says how the client's address is found.
	Client ClientAddress

	// Fields are the response fields to send; DefaultFields if zero.
	Fields Fields

	// RetryJitter is the most that is added to Retry-After, at random, so that
	// clients do not all return at once; none if zero, at most an hour. It is never
	// negative: nobody is told a time at which they would be denied again.
	RetryJitter time.Duration

	// Local decides for policies whose OnStoreError is Local while the store does not:
	// see package failover. It is required if there is one.
	Local weir.Store

	// MaxWaiting is how many requests may be held back at a time by policies with an
	// OnDenied.Wait; one more is denied at once. DefaultMaxWaiting if zero.
	MaxWaiting int

	// SettleTTL is how long tokens stay reserved for a request whose response says
	// whether it counts or what it cost; DefaultSettleTTL if zero, 1s to weir.MaxTTL.
	// A request that runs longer is charged at its end; until then others may take what
	// it had reserved.
	SettleTTL time.Duration

	// Blind says that responses tell nothing of the request, as at a door that only
	// answers whether it may pass. What policies would count by the response is then
	// counted when it is admitted.
	Blind bool

	// Observe, if not nil, is told what became of a request, once for each policy
	// that it fell under; see [Unsettled] for the exception. It is called before the
	// handler and has to be quick.
	Observe func(*http.Request, Event)
}

// The defaults of a Config.
const (
	DefaultMaxWaiting = 1024
	DefaultSettleTTL  = 10 * time.Minute
)

// DegradedField is the response field that says how a request was decided without
// its store: "open", "closed" or "local".
const DegradedField = "Weir-Degraded"

// A Middleware limits requests. It is immutable and safe for concurrent use.
type Middleware struct {
	store   weir.Store
	set     *policy.Set
	c       Config
	room    room
	waits   bool      // a policy holds denied requests back
	settles bool      // a policy counts by the response
	counts  bool      // a policy counts what is denied
	pool    sync.Pool // of *inquiry
}

// New makes a middleware that asks store about the policies of set. An error wraps
// weir.ErrInvalid.
func New(store weir.Store, set *policy.Set, c Config) (*Middleware, error) {
	switch {
	case store == nil:
		return nil, fmt.Errorf("httplimit: store: %w: want a store, got nil", weir.ErrInvalid)
	case set == nil:
		return nil, fmt.Errorf("httplimit: policies: %w: want a set, got nil", weir.ErrInvalid)
	case c.RetryJitter < 0 || c.RetryJitter > time.Hour:
		return nil, fmt.Errorf("httplimit: retry jitter %v: %w: want 0 to 1h", c.RetryJitter, weir.ErrInvalid)
	case c.MaxWaiting < 0:
		return nil, fmt.Errorf("httplimit: max waiting %d: %w: want 0 or more", c.MaxWaiting, weir.ErrInvalid)
	case c.SettleTTL != 0 && (c.SettleTTL < time.Second || c.SettleTTL > weir.MaxTTL):
		return nil, fmt.Errorf("httplimit: settle ttl %v: %w: want 0, or 1s to %v", c.SettleTTL, weir.ErrInvalid, weir.MaxTTL)
	}
	if err := errors.Join(c.Fields.check(), c.Client.check()); err != nil {
		return nil, err
	}
	if c.Fields == 0 {
		c.Fields = DefaultFields
	}
	if c.SettleTTL == 0 {
		c.SettleTTL = DefaultSettleTTL
	}
	if c.MaxWaiting == 0 {
		c.MaxWaiting = DefaultMaxWaiting
	}
	m := &Middleware{store: store, set: set, c: c}
	m.room.most = c.MaxWaiting
	m.pool.New = func() any { return new(inquiry) }
	for _, p := range set.Policies() {
		pc := p.Config()
		if pc.OnStoreError == policy.Local && c.Local == nil {
			return nil, fmt.Errorf("httplimit: local: %w: policy %s is decided by it when the store makes no decision: want a store, got nil", weir.ErrInvalid, p.Name())
		}
		m.waits = m.waits || pc.OnDenied.Wait > 0
		m.counts = m.counts || pc.Count == policy.CountAll
		m.settles = m.settles || !c.Blind && byResponse(&pc)
	}
	return m, nil
}

// Wrap is next behind the limits. The ResponseWriter reaches next as it is, with
// everything that it can do, unless a policy of the request counts by the status or
// the body of the response. It is then wrapped: it flushes, hijacks and reads from a
// source as before, and http.ResponseController reaches the rest. For the body, next
// gets a copy of the request that accepts no encoding.
func (m *Middleware) Wrap(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		admitted, held := m.admit(w, r)
		switch {
		case admitted && held != nil:
			m.serve(next, w, r, held)
		case admitted:
			next.ServeHTTP(w, r)
		case held != nil:
			held.cancel()
		}
	})
}

// An inquiry is the questions of one request and their answers. It is used again:
// what outlives the decision keeps copies.
type inquiry struct {
	attributes attributes
	q          policy.Questions
	enforced   int // of q.Requests
	ds         []weir.Decision
	items      []Item
	text       []byte
	held       *holds
}

// admit decides about r. If it does not admit r it has answered. What r holds, if
// anything, is given back by the caller in either case.
func (m *Middleware) admit(w http.ResponseWriter, r *http.Request) (admitted bool, held *holds) {
	in := m.pool.Get().(*inquiry)
	returned := false
	defer func() {
		if !returned && in.held != nil {
			in.held.cancel() // an Observe that panics keeps nothing
		}
		in.attributes, in.held = attributes{}, nil
		m.pool.Put(in)
	}()
	admitted = m.judge(w, r, in)
	returned = true
	return admitted, in.held
}

// judge is admit, with what r holds in in.held.
func (m *Middleware) judge(w http.ResponseWriter, r *http.Request, in *inquiry) bool {
	in.attributes = attributes{r: r, client: &m.c.Client}
	in.enforced = m.set.Ask(&in.q, &in.attributes)
	if n := len(in.q.Requests); cap(in.ds) < n {
		in.ds = make([]weir.Decision, n)
	} else {
		in.ds = in.ds[:n]
	}
	n := 0
	for n < len(in.q.Asks) && !in.shadow(&in.q.Asks[n]) {
		n++
	}
	asks, shadows := in.q.Asks[:n], in.q.Asks[n:]
	admitted, delay := true, time.Duration(0)
	if n > 0 {
		admitted = m.enforce(w, r, in, asks)
		delay = weir.Combine(in.ds[:in.enforced]).Delay
	}
	for i := range shadows {
		if admitted || shadows[i].Always {
			m.try(r, in, shadows[i:i+1], admitted)
		}
	}
	if !admitted {
		return false
	}
	if _, err := pause(r.Context(), nil, delay); err != nil {
		m.refuse(w)
		return false
	}
	return true
}

// pause waits for turn, which never comes if it is nil, but no longer than d. It
// reports whether turn came. An error is the cause of the end of ctx.
func pause(ctx context.Context, turn <-chan struct{}, d time.Duration) (came bool, err error) {
	select {
	case <-turn:
		return true, nil
	default:
	}
	if d <= 0 {
		return false, nil
	}
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-turn:
		return true, nil
	case <-t.C:
		return false, nil
	case <-ctx.Done():
		return false, context.Cause(ctx)
	}
}
