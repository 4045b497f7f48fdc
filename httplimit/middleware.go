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

	// Observe, if not nil, is told what became of a request, once for each policy
	// that it fell under. It is called before the handler and has to be quick.
	Observe func(*http.Request, Event)
}

// DegradedField is the response field that says how a request was decided without
// its store, such as "open".
const DegradedField = "Weir-Degraded"

// A Middleware limits requests. It is safe for concurrent use.
type Middleware struct {
	store weir.Store
	set   *policy.Set
	c     Config
	pool  sync.Pool // of *inquiry
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
	}
	if err := errors.Join(c.Fields.check(), c.Client.check()); err != nil {
		return nil, err
	}
	if c.Fields == 0 {
		c.Fields = DefaultFields
	}
	m := &Middleware{store: store, set: set, c: c}
	m.pool.New = func() any { return new(inquiry) }
	return m, nil
}

// Wrap is next behind the limits. The ResponseWriter reaches next as it is, with
// everything that it can do.
func (m *Middleware) Wrap(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		admitted, held := m.admit(w, r)
		if held != nil {
			defer held.release()
		}
		if admitted {
			next.ServeHTTP(w, r)
		}
	})
}

// An inquiry is the questions of one request and their answers.
type inquiry struct {
	attributes attributes
	q          policy.Questions
	ds         []weir.Decision
	items      []Item
	text       []byte
	held       *slots
}

// admit decides about r. If it does not admit r it has answered. The slots that r
// holds, if any, are given back by the caller in either case.
func (m *Middleware) admit(w http.ResponseWriter, r *http.Request) (admitted bool, held *slots) {
	in := m.pool.Get().(*inquiry)
	returned := false
	defer func() {
		if !returned && in.held != nil {
			in.held.release() // an Observe that panics keeps no slot
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
	enforced := m.set.Ask(&in.q, &in.attributes)
	if len(in.q.Asks) == 0 {
		return true
	}
	if n := len(in.q.Requests); cap(in.ds) < n {
		in.ds = make([]weir.Decision, n)
	} else {
		in.ds = in.ds[:n]
	}
	in.held = reserve(in.q.Requests)
	delay := time.Duration(0)
	if enforced > 0 {
		ok, err := do(r.Context(), m.store, in.q.Requests[:enforced], in.ds[:enforced])
		if err != nil {
			if !m.undecided(w, r, in, enforced, err) {
				return false
			}
		} else {
			if ok {
				in.held.hold(r.Context(), m.store, in.q.Requests[:enforced])
			}
			m.describe(w, in, enforced)
			m.observe(r, in, enforced, ok)
			if !ok {
				m.deny(w, in, enforced)
				return false
			}
			delay = weir.Combine(in.ds[:enforced]).Delay
		}
	}
	m.shadow(r, in, enforced)
	return wait(r.Context(), delay)
}

// do decides requests together.
func do(ctx context.Context, store weir.Store, rs []weir.Request, ds []weir.Decision) (bool, error) {
	if len(rs) == 1 {
		d, err := store.Do(ctx, rs[0])
		ds[0] = d
		return d.OK, err
	}
	return store.DoAll(ctx, rs, ds)
}

// wait reports whether the time d passed before the client went away.
func wait(ctx context.Context, d time.Duration) bool {
	if d <= 0 {
		return true
	}
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return true
	case <-ctx.Done():
		return false
	}
}

// observe tells what became of an enforced request.
func (m *Middleware) observe(r *http.Request, in *inquiry, enforced int, ok bool) {
	if m.c.Observe == nil {
		return
	}
	for _, a := range in.q.Asks {
		if a.From >= enforced {
			break
		}
		e := Event{Policy: a.Policy, Key: a.Key, Outcome: Admitted, Decision: weir.Combine(in.ds[a.From:a.To])}
		switch {
		case !e.Decision.OK:
			e.Outcome = Denied
		case !ok:
			e.Outcome = Held
		}
		m.c.Observe(r, e)
	}
}

// shadow asks the shadow policies of an admitted request, each by itself.
func (m *Middleware) shadow(r *http.Request, in *inquiry, enforced int) {
	for _, a := range in.q.Asks {
		if a.From < enforced {
			continue
		}
		rs, ds := in.q.Requests[a.From:a.To], in.ds[a.From:a.To]
		ok, err := do(r.Context(), m.store, rs, ds)
		e := Event{Policy: a.Policy, Key: a.Key, Outcome: Admitted}
		switch {
		case err != nil:
			e.Outcome, e.Err = FailedOpen, err
		default:
			e.Decision = weir.Combine(ds)
			if !ok {
				e.Outcome = Denied
			}
		}
		if err == nil && ok {
			in.held.hold(r.Context(), m.store, rs)
		}
		if m.c.Observe != nil {
			m.c.Observe(r, e)
		}
	}
}

// undecided does what the policies say of a request that the store did not decide,
// and reports whether it goes through. Otherwise it is answered.
func (m *Middleware) undecided(w http.ResponseWriter, r *http.Request, in *inquiry, enforced int, err error) bool {
	gone, outcome := r.Context().Err() != nil, FailedOpen
	for _, a := range in.q.Asks {
		if a.From < enforced && (gone || a.Policy.Config().OnStoreError == policy.Closed) {
			outcome = FailedClosed
		}
	}
	if m.c.Observe != nil {
		for _, a := range in.q.Asks {
			if a.From < enforced {
				m.c.Observe(r, Event{Policy: a.Policy, Key: a.Key, Outcome: outcome, Err: err})
			}
		}
	}
	degraded := weir.FailedOpen
	if outcome == FailedClosed {
		degraded = weir.FailedClosed
	}
	if m.c.Fields != NoFields {
		w.Header().Set(DegradedField, string(degraded))
	}
	if outcome == FailedClosed {
		m.refuse(w)
	}
	return outcome == FailedOpen
}
