package transport

import (
	"errors"
	"fmt"
	"net"
	"net/http"
	"strings"
	"time"

	"github.com/floodweir/weir"
	"github.com/floodweir/weir/enforce"
	"github.com/floodweir/weir/internal/backoff"
	"github.com/floodweir/weir/internal/bounds"
	"github.com/floodweir/weir/internal/missing"
	"github.com/floodweir/weir/policy"
)

// A Config configures a Transport. The zero value has no limits, and pauses when the server
// asks for it.
type Config struct {
	// Base sends the requests; http.DefaultTransport if nil.
	Base http.RoundTripper

	// Store keeps the state of Limits, and is required if there are any. Transports
	// that share it, in one process or several, share their budgets.
	Store weir.Store

	// Limits are charged together, all or none; none by default. No two are equal, and
	// none is a concurrency limit: http.Transport.MaxConnsPerHost bounds the requests
	// in flight.
	Limits []weir.Limit

	// Prefix separates the keys of this budget from others in Store, as that of
	// weir.Config does; "transport" if empty.
	Prefix string

	// Key returns the budget that a request is charged to, which is also what a server's
	// response pauses; Host if nil. An empty key fails the request.
	Key func(*http.Request) string

	// Cost returns the tokens that a request takes of each limit; 1 if nil. A request
	// that costs 0 takes nothing, but waits when the server asks for it. A negative cost
	// fails the request.
	Cost func(*http.Request) int64

	// MaxWait bounds how long a request is held back, from its start, by limits, by the
	// server's pauses and for retries; DefaultMaxWait if zero, weir.NoWait or
	// weir.Unlimited. It is measured by the clock of Store.
	MaxWait time.Duration

	// MaxWaiters bounds the requests that wait at a time; one more is denied at once.
	// DefaultMaxWaiters if zero.
	MaxWaiters int

	// OnStoreError decides about a request when the store makes no decision. By default,
	// policy.Local, the same limits in the memory of this process decide; policy.Open
	// sends the request; policy.Closed fails it. Choose Closed where requests cost money.
	// An error that wraps weir.ErrOverloaded fails the request in every mode.
	OnStoreError policy.FailMode

	// IgnoreServer disables pauses that servers ask for.
	IgnoreServer bool

	// MaxPause bounds the pause that one response can cause; DefaultMaxPause if zero. A
	// longer pause is cut to it.
	MaxPause time.Duration

	// MaxPausedKeys bounds the keys whose pause is recorded; DefaultMaxPausedKeys if zero.
	// Beyond it the oldest record is dropped.
	MaxPausedKeys int

	// Retries is the number of times that a request is repeated after a response of status
	// 429 or 503 with a time to retry, up to 10; none by default. The retry is sent after that
	// time, if that is within MaxWait and MaxPause, and is charged again. Only these
	// requests are repeated: GET, HEAD, OPTIONS, PUT, DELETE, and those with an
	// Idempotency-Key; with a body only if there is a GetBody. If a retry may not be
	// sent, the server's response is returned.
	Retries int

	// ReturnUnsent gives back what a request took if no connection could be made for it
	// (an error of net.Dialer and no other). Requests to a server that is down then cost
	// nothing, so nothing limits the rate of connection attempts.
	ReturnUnsent bool

	// Observe, if not nil, is called with the decision about a request, and again for
	// each retry, before the request is sent. It must return quickly.
	Observe func(*http.Request, Event)
}

// The defaults of a Config.
const (
	DefaultPrefix        = "transport"
	DefaultMaxWait       = backoff.DefaultMaxWait
	DefaultMaxWaiters    = backoff.DefaultMaxWaiters
	DefaultMaxPause      = time.Hour
	DefaultMaxPausedKeys = 10_000
)

// maxRetries is the largest Config.Retries.
const maxRetries = 10

// An Event reports the decision about a request.
type Event struct {
	Key  string
	Cost int64

	// Outcome is enforce.Admitted, enforce.Denied, enforce.FailedOpen,
	// enforce.FailedClosed or enforce.Overloaded.
	Outcome enforce.Outcome

	// Decision is the one that counts of all limits; zero if no limit was asked.
	Decision weir.Decision

	// Server reports that the request was denied because the server asked for a pause.
	Server bool

	// Waited is the time that the request was held back.
	Waited time.Duration

	// Err is the store's error, or the cause of the end of the request's context.
	Err error
}

// withDefaults returns c with every default filled in, or an error about the first fault.
func (c Config) withDefaults() (Config, error) {
	fault := func(field, want string, got any) (Config, error) {
		return Config{}, fmt.Errorf("transport: %s: %w: want %s, got %v", field, weir.ErrInvalid, want, got)
	}
	for _, f := range []struct {
		name  string
		value *int
		or    int
	}{{"MaxWaiters", &c.MaxWaiters, DefaultMaxWaiters}, {"MaxPausedKeys", &c.MaxPausedKeys, DefaultMaxPausedKeys}} {
		if *f.value < 0 {
			return fault(f.name, "0 or more", *f.value)
		}
		if *f.value == 0 {
			*f.value = f.or
		}
	}
	switch {
	case c.MaxPause < 0:
		return fault("MaxPause", "0 or more", c.MaxPause)
	case c.Retries < 0 || c.Retries > maxRetries:
		return fault("Retries", fmt.Sprintf("0 to %d", maxRetries), c.Retries)
	case c.Retries > 0 && c.IgnoreServer:
		return fault("Retries", "0 with IgnoreServer: the server says when to retry", c.Retries)
	case len(c.Limits) > 0 && missing.Value(c.Store):
		return fault("Store", "a store, since there are Limits", "nil")
	case len(c.Limits) > bounds.MaxBatch:
		return fault("Limits", fmt.Sprintf("at most %d", bounds.MaxBatch), len(c.Limits))
	}
	for i, l := range c.Limits {
		field := fmt.Sprintf("Limits[%d]", i)
		if l.IsZero() {
			return fault(field, `a limit such as weir.MustLimit("10/s")`, "the zero Limit")
		}
		if l.IsConcurrency() {
			return fault(field, "a rate limit; http.Transport.MaxConnsPerHost bounds requests in flight", l)
		}
		for _, m := range c.Limits[:i] {
			if l.Equal(m) {
				return fault(field, "limits that differ: two equal limits are one that is charged twice", l)
			}
		}
	}
	switch c.OnStoreError {
	case "":
		c.OnStoreError = policy.Local
	case policy.Open, policy.Closed, policy.Local:
	default:
		return fault("OnStoreError", "open, closed or local", fmt.Sprintf("%.40q", c.OnStoreError))
	}
	if c.Base == nil {
		c.Base = http.DefaultTransport
	}
	if c.Prefix == "" {
		c.Prefix = DefaultPrefix
	}
	if c.Key == nil {
		c.Key = Host
	}
	if c.MaxPause == 0 {
		c.MaxPause = DefaultMaxPause
	}
	return c, nil
}

// Host returns the host that a request is sent to, in lower case, with its port unless that
// is the scheme's default: "api.example.com".
func Host(r *http.Request) string {
	host := strings.TrimSuffix(strings.ToLower(r.URL.Hostname()), ".")
	if port := r.URL.Port(); port != "" && !(r.URL.Scheme == "http" && port == "80") && !(r.URL.Scheme == "https" && port == "443") {
		host = net.JoinHostPort(host, port)
	}
	return host
}

var errNoURL = errors.New("transport: request: want a URL, got none")

// describe returns the key and the cost of r, and until when it may wait.
func (t *Transport) describe(r *http.Request) (call, error) {
	if r.URL == nil {
		return call{}, errNoURL
	}
	q := call{t: t, key: t.c.Key(r), cost: 1}
	if q.key == "" || len(q.key) > bounds.MaxKey/2 {
		return q, fmt.Errorf("transport: Key: %w: want 1 to %d bytes, got %d", weir.ErrInvalid, bounds.MaxKey/2, len(q.key))
	}
	if t.c.Cost != nil {
		if q.cost = t.c.Cost(r); q.cost < 0 {
			return q, fmt.Errorf("transport: Cost: %w: want 0 or more tokens, got %d", weir.ErrInvalid, q.cost)
		}
	}
	q.wait = t.pacer.Deadline(t.c.MaxWait)
	return q, nil
}
