package httplimit

import (
	"net/http"
	"time"

	"github.com/floodweir/weir"
	"github.com/floodweir/weir/policy"
)

// A Config tunes a Middleware. Its zero value trusts no proxy and sends the
// current draft's fields and X-RateLimit-*.
type Config struct {
	// Client says how the client's address is found.
	Client ClientAddress

	// Fields are the response fields to send; DefaultFields if zero.
	Fields Fields

	// RetryJitter is the most that is added to Retry-After, at random, so that
	// clients do not all return at once; none if zero.
	RetryJitter time.Duration

	// Observe, if not nil, is told what became of a request, once for each policy
	// that it fell under. It is called before the handler and has to be quick.
	Observe func(*http.Request, Event)
}

// A Middleware limits requests. It is safe for concurrent use.
type Middleware struct {
	store weir.Store
	set   *policy.Set
	c     Config
}

// New makes a middleware that asks store about the policies of set.
func New(store weir.Store, set *policy.Set, c Config) (*Middleware, error) {
	return &Middleware{store, set, c}, nil
}

// Wrap is next behind the limits. The ResponseWriter reaches next as it is.
func (m *Middleware) Wrap(next http.Handler) http.Handler { return next }

// An Event says what became of a request under one policy.
type Event struct {
	Policy  *policy.Policy
	Outcome Outcome

	// Key is the key that was asked about. It holds what the client sent: quote it
	// in logs, and do not make it a label of metrics.
	Key string

	// Decision is that of the policy's limit which decided; zero if Err is set.
	Decision weir.Decision

	// Err is why the store made no decision.
	Err error
}

// An Outcome is what became of a request under one policy. Under a Shadow policy it
// is what would have.
type Outcome string

// The outcomes.
const (
	// Admitted is a request that went through.
	Admitted Outcome = "admitted"
	// Denied is a request that this policy denied.
	Denied Outcome = "denied"
	// Held is a request that this policy would have admitted and another denied. It
	// took nothing.
	Held Outcome = "held"
	// FailedOpen is a request that went through undecided.
	FailedOpen Outcome = "failed_open"
	// FailedClosed is a request that was refused undecided.
	FailedClosed Outcome = "failed_closed"
)
