package gateway

import (
	"crypto/x509"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/netip"
	"time"

	"github.com/floodweir/weir/httplimit"
)

// Config describes a gateway. Routes are required; the zero value of every other
// field works.
type Config struct {
	// Routes say which upstream answers what. At least one.
	Routes []Route

	// Limit wraps the whole gateway, so that what it refuses reaches no upstream;
	// nothing is limited if nil.
	Limit func(http.Handler) http.Handler

	// Client says which proxies are trusted, and which header of theirs: it is
	// passed on and added to. That of everybody else is replaced.
	Client httplimit.ClientAddress

	// SendTimeout is how long a client may take nothing of an answer that is there for
	// it; a minute if zero. It bounds how long one that does not read keeps a slot.
	SendTimeout time.Duration

	// RequestID gives every request an X-Request-Id, which the upstream and the
	// client see. That of a trusted proxy is kept.
	RequestID bool

	// AccessLog logs one of so many requests at debug level; none if zero.
	AccessLog int

	// Transport wraps the way to every upstream; nothing if nil.
	Transport func(http.RoundTripper) http.RoundTripper

	// Log is where upstreams that fail are named; nowhere if nil.
	Log *slog.Logger
}

// A Route sends requests to an upstream. Upstream is required.
type Route struct {
	// Host and Path are what the route matches: a host in lower case without port,
	// any host if empty; and a path that stands for itself and all below it, "/" if
	// empty. A route that names the host wins over one that does not, and then the
	// longest path.
	Host string
	Path string

	// Upstream is the origin that answers: http://, https:// (HTTP/2 if it offers
	// that) or h2c:// (HTTP/2 without TLS), and an optional path to put in front.
	Upstream string

	// PassHost sends the client's Host header to the upstream, instead of the
	// upstream's own name.
	PassHost bool

	// Timeout is how long the upstream may be silent before its answer begins, and
	// how long the client may stop in the middle of its body; 30 s if zero. A
	// response that has begun may take as long as it likes.
	Timeout time.Duration

	// DialTimeout is how long a connection to the upstream may take; 5 s if zero.
	DialTimeout time.Duration

	// RootCAs are those that an https upstream's certificate may come from; those of
	// the system if nil.
	RootCAs *x509.CertPool

	// MaxBody is the largest request body in bytes; no limit if zero.
	MaxBody int64
}

// Defaults of a Route.
const (
	DefaultTimeout     = 30 * time.Second
	DefaultDialTimeout = 5 * time.Second
)

// DefaultSendTimeout is that of a Config.
const DefaultSendTimeout = time.Minute

// A Gateway is a reverse proxy. It is an http.Handler, safe for concurrent use.
type Gateway struct {
	handler   http.Handler
	log       *slog.Logger
	client    httplimit.ClientAddress
	ids       bool // every request has an X-Request-Id
	send      time.Duration
	upstreams map[string]*upstream
	wrap      func(http.RoundTripper) http.RoundTripper
}

// New makes a gateway. An error names the route and what was expected.
func New(c Config) (*Gateway, error) {
	if len(c.Routes) == 0 {
		return nil, errors.New("gateway: routes: want at least one, got none")
	}
	if c.AccessLog < 0 {
		return nil, fmt.Errorf("gateway: access log: want 0 or more requests per line, got %d", c.AccessLog)
	}
	if c.SendTimeout < 0 {
		return nil, fmt.Errorf("gateway: send timeout: want 0 or more, got %v", c.SendTimeout)
	}
	if c.SendTimeout == 0 {
		c.SendTimeout = DefaultSendTimeout
	}
	if c.Log == nil {
		c.Log = slog.New(slog.DiscardHandler)
	}
	if c.Transport == nil {
		c.Transport = func(rt http.RoundTripper) http.RoundTripper { return rt }
	}
	g := &Gateway{log: c.Log, client: c.Client, ids: c.RequestID, send: c.SendTimeout, wrap: c.Transport, upstreams: map[string]*upstream{}}
	routes := new(router)
	for i, r := range c.Routes {
		if r.Path == "" {
			r.Path = "/"
		}
		h, err := g.route(r)
		if err == nil {
			err = routes.add(r.Host, r.Path, h)
		}
		if err != nil {
			return nil, fmt.Errorf("gateway: route %d (%s%s): %w", i+1, r.Host, r.Path, err)
		}
	}
	g.handler = routes
	if c.Limit != nil {
		g.handler = c.Limit(g.handler)
	}
	g.handler = limitFirstByte(DefaultTimeout, g.handler)
	if c.AccessLog > 0 {
		g.handler = g.accessLog(c.AccessLog, g.handler)
	}
	if c.RequestID {
		g.handler = g.requestID(g.handler)
	}
	return g, nil
}

// ServeHTTP implements [http.Handler].
func (g *Gateway) ServeHTTP(w http.ResponseWriter, r *http.Request) { g.handler.ServeHTTP(w, r) }

// Close closes the connections to upstreams that are idle. Those in use close
// when their request ends.
func (g *Gateway) Close() {
	for _, u := range g.upstreams {
		u.transport.CloseIdleConnections()
	}
}

// trusts reports whether the peer of r is a proxy whose headers are believed.
func (g *Gateway) fromTrustedProxy(r *http.Request) bool {
	if len(g.client.Trusted) == 0 {
		return false
	}
	peer, err := netip.ParseAddrPort(r.RemoteAddr)
	if err != nil {
		return false
	}
	addr := peer.Addr().Unmap().WithZone("")
	for _, p := range g.client.Trusted {
		if p.Contains(addr) {
			return true
		}
	}
	return false
}
