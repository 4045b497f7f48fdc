package httplimit

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"sync"
	"time"

	"github.com/floodweir/weir"
	"github.com/floodweir/weir/enforce"
	"github.com/floodweir/weir/internal/linger"
	"github.com/floodweir/weir/internal/plainhttp"
	"github.com/floodweir/weir/internal/replay"
	"github.com/floodweir/weir/policy"
	"github.com/floodweir/weir/protect"
)

// A Config configures a Middleware. Its zero value trusts no proxy and sends the fields of the
// current draft and X-RateLimit-*.
type Config struct {
	// Client finds the address of the client.
	Client ClientAddress

	// Fields are the response fields to send; DefaultFields if zero.
	Fields Fields

	// RetryJitter is the maximum random time that is added to Retry-After, so that clients
	// do not all return at once; none if zero, at most an hour.
	RetryJitter time.Duration

	// Body bounds the reading of request bodies, which only key parts in them require. The
	// body of such a request is read before the decision, and replayed unchanged. Put the
	// middleware outside of others that read bodies.
	Body BodyLimit

	enforce.Options

	// NoResponse declares that responses contain no result, as in forward-auth, which only
	// answers whether a request may pass. A policy that counts by the response then counts
	// admitted requests.
	NoResponse bool

	// Decoders decode responses from which a policy reads its cost, by encoding, such as "br",
	// beside gzip and deflate: see budget.NewReader.
	Decoders map[string]func(io.Reader) (io.ReadCloser, error)

	// ExemptPreflight admits CORS preflight requests without a decision, like an exception of
	// the policies with Preflight.
	ExemptPreflight bool

	// Observe, if not nil, is called with the decision about a request, once for each policy
	// that applies. It is called before the handler, and with outcomes that are AtEnd after it
	// too. It must return quickly.
	Observe func(*http.Request, enforce.Event)
}

// DegradedField is the response field that reports how a request was decided without the store:
// "open", "closed" or "local".
const DegradedField = "Weir-Degraded"

// WarningField is the response field with enforce.Admission.BudgetWarning.
const WarningField = "Weir-Budget-Warning"

// ProtectionField is the response field with the name of the protection that rejected a request:
// see [Protect].
const ProtectionField = "Weir-Protection"

// A Middleware limits requests. It is safe for concurrent use.
type Middleware struct {
	enforcer *enforce.Enforcer
	c        Config
	pool     sync.Pool // of *request
	memory   *replay.Memory
	drains   linger.Drains // responses without a client
}

// Check returns an error, which wraps weir.ErrInvalid, if Client, Fields, RetryJitter or Body is
// invalid. New checks the other fields too.
func (c *Config) Check() error {
	var err error
	if c.RetryJitter < 0 || c.RetryJitter > time.Hour {
		err = fmt.Errorf("httplimit: RetryJitter: %w: got %v, want 0 to 1h", weir.ErrInvalid, c.RetryJitter)
	}
	return errors.Join(err, c.Fields.check(), c.Client.check(), c.Body.check())
}

// New returns a middleware for the policies of set. An error wraps weir.ErrInvalid.
func New(store weir.Store, set *policy.Set, c Config) (*Middleware, error) {
	if err := c.Check(); err != nil {
		return nil, err
	}
	if c.Fields == 0 {
		c.Fields = DefaultFields
	}
	c.Body.Max, c.Body.Timeout = cmp.Or(c.Body.Max, DefaultMaxBody), cmp.Or(c.Body.Timeout, DefaultBodyTimeout)
	config := enforce.Config{Options: c.Options, NoResponse: c.NoResponse, KeepOnCancel: true}
	if observe := c.Observe; observe != nil {
		config.Observe = func(_ context.Context, a policy.Attributes, e enforce.Event) { observe(a.(*attributes).r, e) }
	}
	m := &Middleware{c: c}
	set, err := m.exempt(set)
	if err == nil {
		m.enforcer, err = enforce.New(store, set, config)
	}
	if err != nil {
		return nil, fmt.Errorf("httplimit: %w", err)
	}
	if !c.NoResponse {
		m.memory = &replay.Memory{Max: maxBodies}
	}
	m.pool.New = func() any { return &request{fields: make([]plainhttp.Pair, 0, 2*maxFields)} }
	return m, nil
}

// exempt adds the exception of ExemptPreflight to a set.
func (m *Middleware) exempt(set *policy.Set) (*policy.Set, error) {
	if !m.c.ExemptPreflight || set == nil {
		return set, nil
	}
	return set.Exempt(policy.Exception{Preflight: true})
}

// SetPolicies replaces the policies of m while it serves. Keys carry their state over, and
// requests that wait are decided by the new policies. After an error, which wraps
// weir.ErrInvalid, the policies before stay.
func (m *Middleware) SetPolicies(set *policy.Set) error {
	set, err := m.exempt(set)
	if err == nil {
		err = m.enforcer.SetPolicies(set)
	}
	if err != nil {
		return fmt.Errorf("httplimit: %w", err)
	}
	return nil
}

// Replace makes next, which has another Config, the successor of m. Requests that wait in m are decided by the policies of
// next when their wait ends, without an allowance of their own. Admitted requests end in m. A
// Middleware that was replaced cannot be a successor. Replace does nothing if next is nil.
func (m *Middleware) Replace(next *Middleware) {
	if next != nil {
		m.enforcer.Replace(next.enforcer)
	}
}

// Wrap returns a handler that calls next for admitted requests. Next gets the ResponseWriter
// itself, unless a policy of the request counts by the status or the body of the response. It is
// then wrapped, and has those of http.Flusher, http.Hijacker, http.Pusher and http.CloseNotifier that
// the original has. If a policy reads the body, next gets a copy of the request that accepts no encoding.
func (m *Middleware) Wrap(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		admitted, held := m.admit(w, r)
		if held == nil {
			if admitted {
				next.ServeHTTP(w, r)
			}
			return
		}
		res, panicked := &response{ResponseWriter: w, decoders: m.c.Decoders}, true
		defer func() {
			if panicked && res.model.ended() { // the end of the stream was sent
				if v := recover(); v != http.ErrAbortHandler {
					defer panic(v)
				}
				panicked = false
			}
			res.model.close(res, panicked)
			held.admission.Exit(res.result(panicked, r.Context().Err() != nil))
			m.recycle(held)
		}()
		next.ServeHTTP(res.wrap(r, held, m))
		panicked = false
	})
}

// A request is the state of one request in a Middleware. It is reused.
type request struct {
	attributes attributes
	admission  enforce.Admission
	items      []Item
	fields     []plainhttp.Pair // of a denial
	text       []byte
}

// admit decides r, and responds if r is not admitted. If held is not nil, r has a reservation,
// which the caller settles by the response.
func (m *Middleware) admit(w http.ResponseWriter, r *http.Request) (admitted bool, held *request) {
	in := m.pool.Get().(*request)
	decided := false
	defer func() {
		if !decided {
			in.admission.Cancel() // the ResponseWriter has panicked
		}
		if held == nil {
			m.recycle(in)
		}
	}()
	in.attributes = attributes{w: w, r: r, client: &m.c.Client, memory: m.memory, limit: &m.c.Body}
	pass := protect.FromContext(r.Context())
	start := pass.Now()
	outcome := m.enforcer.Enter(r.Context(), &in.attributes, &in.admission)
	if outcome.Passes() {
		pass.Waited(start)
	} else {
		pass.Cancel()
	}
	m.describe(w, in)
	switch {
	case outcome == enforce.Denied && in.admission.Refused() != nil:
		m.refuseCall(w, in.admission.Refused())
	case outcome == enforce.Denied:
		m.deny(w, in)
	case outcome == enforce.FailedClosed, outcome == enforce.Overloaded:
		m.refuse(w, in.admission.Err())
	case in.admission.NeedsExit():
		held = in
	}
	decided = true
	return outcome.Passes(), held
}

// recycle clears in, whose request has ended.
func (m *Middleware) recycle(in *request) {
	in.admission.Exit(enforce.Result{})
	in.attributes.body.Release()
	in.attributes = attributes{}
	m.pool.Put(in)
}
