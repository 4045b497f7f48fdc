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

// Config is the configuration of a Gateway. Only Routes are required.
type Config struct {
	// Routes map requests to upstreams. At least one is required.
	Routes []Route

	// Limit wraps every upstream, and the responses to requests without a route; nothing is
	// limited if nil.
	Limit func(http.Handler) http.Handler

	// Client selects the trusted proxies, and their header field with the client's
	// address, which is forwarded and extended. That field of other clients is replaced.
	Client httplimit.ClientAddress

	// SendTimeout bounds the time in which a client has to accept a piece of a response;
	// one minute if zero. It bounds how long a client that does not read holds a slot.
	SendTimeout time.Duration

	// RequestID adds an X-Request-Id to every request and its response. That of a trusted
	// proxy is kept.
	RequestID bool

	// AccessLog logs one of this many requests at level debug; none if zero.
	AccessLog int

	// Transport wraps the transport to every upstream; no wrapper if nil.
	Transport func(http.RoundTripper) http.RoundTripper

	// Log receives errors of upstreams; nothing is logged if nil.
	Log *slog.Logger
}

// A Route forwards requests to an upstream. Upstream is required.
type Route struct {
	// Host and Path match requests. Host is in lower case without port; "" matches every
	// host. Path matches itself and all paths below it; "" means "/". A route with a
	// matching host takes precedence over routes without host, then the longest path.
	Host string
	Path string

	// Upstream is the origin that responds: http://, https:// (HTTP/2 if offered) or
	// h2c:// (HTTP/2 without TLS), with an optional path prefix.
	Upstream string

	// PassHost forwards the client's Host header instead of the upstream's name.
	PassHost bool

	// Timeout bounds the time until the response begins, and each pause in the client's
	// body; 30 s if zero. A response that has begun has no time limit.
	Timeout time.Duration

	// DialTimeout bounds connecting to the upstream; 5 s if zero.
	DialTimeout time.Duration

	// RootCAs verify the certificate of an https upstream; those of the system if nil.
	RootCAs *x509.CertPool

	// Protect wraps the limits and the upstream, as httplimit.Protect does; nothing if nil.
	Protect func(http.Handler) http.Handler

	// MaxBody is the maximum size of a request body in bytes; unlimited if zero.
	MaxBody int64
}

// Defaults of a Route.
const (
	DefaultTimeout     = 30 * time.Second
	DefaultDialTimeout = 5 * time.Second
)

// DefaultSendTimeout is the default SendTimeout of a Config.
const DefaultSendTimeout = time.Minute

// A Gateway is a reverse proxy. It is an http.Handler, safe for concurrent use.
type Gateway struct {
	handler   http.Handler
	log       *slog.Logger
	client    httplimit.ClientAddress
	ids       bool // add X-Request-Id
	send      time.Duration
	upstreams map[string]*upstream
	wrap      func(http.RoundTripper) http.RoundTripper
}

// New returns a Gateway. An error names the route and what was expected.
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
	if c.Limit == nil {
		c.Limit = func(h http.Handler) http.Handler { return h }
	}
	routes := newRouter(c.Limit)
	for i, r := range c.Routes {
		if r.Path == "" {
			r.Path = "/"
		}
		h, err := g.route(r)
		if err == nil {
			if h = c.Limit(h); r.Protect != nil {
				h = r.Protect(h)
			}
			err = routes.add(r.Host, r.Path, h)
		}
		if err != nil {
			return nil, fmt.Errorf("gateway: route %d (%s%s): %w", i+1, r.Host, r.Path, err)
		}
	}
	g.handler = limitFirstByte(DefaultTimeout, routes)
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

// Close closes idle connections to upstreams. Connections in use close when their request
// ends.
func (g *Gateway) Close() {
	for _, u := range g.upstreams {
		u.transport.CloseIdleConnections()
	}
}

// fromTrustedProxy reports whether the peer of r is a trusted proxy.
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
