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
	"github.com/floodweir/weir/policy"
)

// A Config tunes a Transport. The zero value limits nothing, and obeys the server.
type Config struct {
	// Base sends the requests; http.DefaultTransport if nil.
	Base http.RoundTripper

	// Store keeps the state of Limits, and is required if there are any. Transports
	// that share it, in one process or several, share their budgets. For
	// policy.FailMode local, give one of package failover.
	Store weir.Store

	// Limits are charged together, all or none; none by default. They are all
	// different, and none is a concurrency limit: http.Transport.MaxConnsPerHost
	// bounds how many requests are under way.
	Limits []weir.Limit

	// Prefix sets the keys of this budget apart from others in Store, as that of
	// weir.Config does; "transport" if empty.
	Prefix string

	// Key names the budget that a request is charged to, and those whom the server's
	// answer holds back; Host if nil. An empty key fails the request.
	Key func(*http.Request) string

	// Cost is the tokens that a request takes of each limit; 1 if nil. A request that
	// costs nothing is not asked about, but waits when the server asks for it. A
	// negative cost fails the request.
	Cost func(*http.Request) int64

	// MaxWait is how long after a request was made it may still be held back, by limits,
	// by what the server asked for, and for retries. Zero does not wait; a negative one
	// waits for as long as the request's context lasts.
	MaxWait time.Duration

	// MaxWaiters is how many requests may be held back at a time; one more is denied at
	// once. DefaultMaxWaiters if zero.
	MaxWaiters int

	// OnStoreError says what becomes of a request when the store makes no decision:
	// policy.Closed, the default, or policy.Open. Closed, since calls that may not be
	// limited are worse than calls that are not made where calls cost money.
	OnStoreError policy.FailMode

	// IgnoreServer sends requests whatever the server's answers ask for.
	IgnoreServer bool

	// MaxHold is the longest that a server may hold a key back with one answer;
	// DefaultMaxHold if zero. One that asks for longer is left alone for this long.
	MaxHold time.Duration

	// MaxHeld is for how many keys it is remembered that their server asked for a
	// pause; DefaultMaxHeld if zero. Beyond it the one that was told first is forgotten.
	MaxHeld int

	// Retries is how many more times a request is sent that the server answered with
	// 429 or 503 and a time to come again, up to 10; none by default. It is then sent
	// after that time, if that is within MaxWait and MaxHold, and is charged again. Only
	// requests that may be repeated are: GET, HEAD, OPTIONS, PUT, DELETE, and those with
	// an Idempotency-Key; with a body only if there is a GetBody. If a retry may not be
	// sent, the server's answer is returned.
	Retries int

	// ReturnUnsent gives back what a request took if no connection could be made for it
	// (an error of net.Dialer and no other). A server that is down then costs nothing,
	// and is asked for connections as often as the program likes.
	ReturnUnsent bool

	// Observe, if not nil, is told what became of a request each time that it came to
	// the limits: once, and once more for each retry. It is called before the request is
	// sent and has to be quick.
	Observe func(*http.Request, Event)
}

// The defaults of a Config.
const (
	DefaultPrefix     = "transport"
	DefaultMaxWaiters = 1024
	DefaultMaxHold    = time.Hour
	DefaultMaxHeld    = 10_000
)

// maxRetries is the largest Config.Retries.
const maxRetries = 10

// An Event says what became of a request.
type Event struct {
	Key  string
	Cost int64

	// Outcome is gate.Admitted, gate.Denied, gate.FailedOpen or gate.FailedClosed.
	Outcome enforce.Outcome

	// Decision is that of the limit that counts; zero if no limit was asked.
	Decision weir.Decision

	// Server says that it was denied because the server asked for a pause.
	Server bool

	// Waited is how long it was held back.
	Waited time.Duration

	// Err is why the store made no decision, or the cause of the end of the request's
	// context.
	Err error
}

// withDefaults is c with every default filled in, or the first fault.
func (c Config) withDefaults() (Config, error) {
	fault := func(field, want string, got any) (Config, error) {
		return Config{}, fmt.Errorf("transport: %s: %w: want %s, got %v", field, weir.ErrInvalid, want, got)
	}
	for _, f := range []struct {
		name  string
		value *int
		or    int
	}{{"MaxWaiters", &c.MaxWaiters, DefaultMaxWaiters}, {"MaxHeld", &c.MaxHeld, DefaultMaxHeld}} {
		if *f.value < 0 {
			return fault(f.name, "0 or more", *f.value)
		}
		if *f.value == 0 {
			*f.value = f.or
		}
	}
	switch {
	case c.MaxHold < 0:
		return fault("MaxHold", "0 or more", c.MaxHold)
	case c.Retries < 0 || c.Retries > maxRetries:
		return fault("Retries", fmt.Sprintf("0 to %d", maxRetries), c.Retries)
	case c.Retries > 0 && c.IgnoreServer:
		return fault("Retries", "0 with IgnoreServer, since it is the server that says when", c.Retries)
	case len(c.Limits) > 0 && c.Store == nil:
		return fault("Store", "one, since there are Limits", "nil")
	case len(c.Limits) > weir.MaxBatch:
		return fault("Limits", fmt.Sprintf("at most %d", weir.MaxBatch), len(c.Limits))
	}
	for i, l := range c.Limits {
		field := fmt.Sprintf("Limits[%d]", i)
		if l.IsZero() {
			return fault(field, `a limit such as weir.MustLimit("10/s")`, "the zero Limit")
		}
		if l.Config().Algorithm == weir.Concurrency {
			return fault(field, "a limit of a rate; http.Transport.MaxConnsPerHost bounds how many are under way", l)
		}
		for _, m := range c.Limits[:i] {
			if l.Equal(m) {
				return fault(field, "limits that differ: two equal ones would be one, charged twice", l)
			}
		}
	}
	switch c.OnStoreError {
	case "":
		c.OnStoreError = policy.Closed
	case policy.Open, policy.Closed:
	case policy.Local:
		return fault("OnStoreError", "open or closed; a Store of package failover decides locally", `"local"`)
	default:
		return fault("OnStoreError", "open or closed", fmt.Sprintf("%.40q", c.OnStoreError))
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
	if c.MaxHold == 0 {
		c.MaxHold = DefaultMaxHold
	}
	return c, nil
}

// Host is the host that a request is sent to, in lower case, with its port unless that
// is the scheme's: "api.example.com".
func Host(r *http.Request) string {
	host := strings.TrimSuffix(strings.ToLower(r.URL.Hostname()), ".")
	if port := r.URL.Port(); port != "" && !(r.URL.Scheme == "http" && port == "80") && !(r.URL.Scheme == "https" && port == "443") {
		host = net.JoinHostPort(host, port)
	}
	return host
}

// A call is one request, as the limits see it.
type call struct {
	key   string
	cost  int64
	until time.Time // zero: for as long as its context lasts
}

var errNoURL = errors.New("transport: request: want a URL, got none")

// describe is the key and the cost of r, and until when it may wait.
func (t *Transport) describe(r *http.Request) (call, error) {
	if r.URL == nil {
		return call{}, errNoURL
	}
	q := call{key: t.c.Key(r), cost: 1}
	if q.key == "" || len(q.key) > weir.MaxKey/2 {
		return q, fmt.Errorf("transport: Key: %w: want 1 to %d bytes, got %d", weir.ErrInvalid, weir.MaxKey/2, len(q.key))
	}
	if t.c.Cost != nil {
		if q.cost = t.c.Cost(r); q.cost < 0 {
			return q, fmt.Errorf("transport: Cost: %w: want 0 or more tokens, got %d", weir.ErrInvalid, q.cost)
		}
	}
	if t.c.MaxWait >= 0 {
		q.until = time.Now().Add(t.c.MaxWait)
	}
	if d, ok := r.Context().Deadline(); ok && (q.until.IsZero() || d.Before(q.until)) {
		q.until = d
	}
	return q, nil
}

// allows reports whether a wait of d ends in time.
func (q *call) allows(d time.Duration) bool {
	return q.until.IsZero() || d <= time.Until(q.until)
}
