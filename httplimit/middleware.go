package httplimit

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"sync"
	"time"

	"github.com/floodweir/weir"
	"github.com/floodweir/weir/enforce"
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

	enforce.Options

	// NoResponse means that responses say nothing about requests, as in forward-auth,
	// which only answers whether a request may pass. A policy that counts by the response
	// then counts what is admitted.
	NoResponse bool

	// Observe, if not nil, is told what became of a request, once for each policy
	// that it fell under; see [enforce.Unsettled] for the exception. It is called before the
	// handler and has to be quick.
	Observe func(*http.Request, enforce.Event)
}

// DegradedField is the response field that says how a request was decided without
// its store: "open", "closed" or "local".
const DegradedField = "Weir-Degraded"

// A Middleware limits requests. It is safe for concurrent use, and changes by Yield alone.
type Middleware struct {
	gate *enforce.Enforcer
	c    Config
	pool sync.Pool // of *inquiry
}

// Check returns an error, which wraps weir.ErrInvalid, if Client, Fields or RetryJitter is
// invalid. New checks the other fields too.
func (c *Config) Check() error {
	var err error
	if c.RetryJitter < 0 || c.RetryJitter > time.Hour {
		err = fmt.Errorf("httplimit: RetryJitter: %w: got %v, want 0 to 1h", weir.ErrInvalid, c.RetryJitter)
	}
	return errors.Join(err, c.Fields.check(), c.Client.check())
}

// New makes a middleware that asks store about the policies of set. An error wraps
// weir.ErrInvalid.
func New(store weir.Store, set *policy.Set, c Config) (*Middleware, error) {
	if err := c.Check(); err != nil {
		return nil, err
	}
	if c.Fields == 0 {
		c.Fields = DefaultFields
	}
	gc := enforce.Config{Options: c.Options, NoResponse: c.NoResponse, KeepOnCancel: true}
	if observe := c.Observe; observe != nil {
		gc.Observe = func(_ context.Context, a policy.Attributes, e enforce.Event) { observe(a.(*attributes).r, e) }
	}
	g, err := enforce.New(store, set, gc)
	if err != nil {
		return nil, fmt.Errorf("httplimit: %w", err)
	}
	m := &Middleware{gate: g, c: c}
	m.pool.New = func() any { return new(inquiry) }
	return m, nil
}

// Yield makes next, which has not yielded, the successor of m: requests that wait in m
// are decided by the policies of next when their time comes, and get no allowance beside
// those that came to next. What has passed ends in m. It does nothing if next is nil.
func (m *Middleware) Replace(next *Middleware) {
	if next != nil {
		m.gate.Replace(next.gate)
	}
}

// Wrap is next behind the limits. The ResponseWriter reaches next as it is, with
// everything that it can do, unless a policy of the request counts by the status or
// the body of the response. It is then wrapped: it flushes, hijacks and reads from a
// source as before, and http.ResponseController reaches the rest. For the body, next
// gets a copy of the request that accepts no encoding.
func (m *Middleware) Wrap(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch admitted, in := m.admit(w, r); {
		case in != nil:
			m.serve(next, w, r, in)
		case admitted:
			next.ServeHTTP(w, r)
		}
	})
}

// An inquiry is the questions of one request and their answers. It is used again.
type inquiry struct {
	attributes attributes
	pass       enforce.Admission
	items      []Item
	text       []byte
}

// admit decides about r. If it does not admit r it has answered. If r holds something,
// that is in held, and settled by the caller.
func (m *Middleware) admit(w http.ResponseWriter, r *http.Request) (admitted bool, held *inquiry) {
	in := m.pool.Get().(*inquiry)
	decided := false
	defer func() {
		if !decided {
			in.pass.Cancel() // a ResponseWriter that panics keeps nothing
		}
		if held == nil {
			m.recycle(in)
		}
	}()
	in.attributes = attributes{w: w, r: r, client: &m.c.Client}
	outcome := m.gate.Enter(r.Context(), &in.attributes, &in.pass)
	m.describe(w, in)
	switch {
	case outcome == enforce.Denied:
		m.deny(w, in)
	case outcome == enforce.FailedClosed:
		m.refuse(w)
	case in.pass.NeedsExit():
		held = in
	}
	decided = true
	return outcome.Passes(), held
}

// recycle lets go of what in knows of its request, which is over for the gate.
func (m *Middleware) recycle(in *inquiry) {
	in.pass.Exit(enforce.Result{})
	in.attributes = attributes{}
	m.pool.Put(in)
}

// serve lets r through to next, and settles what it holds by the response.
func (m *Middleware) serve(next http.Handler, w http.ResponseWriter, r *http.Request, in *inquiry) {
	res, panicked := &response{ResponseWriter: w}, true
	defer func() {
		in.pass.Exit(res.result(panicked, r.Context().Err() != nil))
		m.recycle(in)
	}()
	next.ServeHTTP(res.watch(r, &in.pass))
	panicked = false
}
