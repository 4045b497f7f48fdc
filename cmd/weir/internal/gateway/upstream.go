package gateway

import (
	"cmp"
	"crypto/tls"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"net/http/httputil"
	"net/url"
	"strings"
	"sync"
	"time"
	"unicode"
)

// An upstream is an origin and its connections. Routes with the same origin, dial timeout
// and authorities share it.
type upstream struct {
	name      string // its origin, without a password
	origin    *url.URL
	transport roundTripper
	failures  logLimiter // limits the lines in the log
}

// A roundTripper sends requests to an upstream.
type roundTripper interface {
	http.RoundTripper
	CloseIdleConnections()
}

// buffers is the pool of all responses. 32 KiB is the size that ReverseProxy would
// allocate for each.
type buffers struct{ pool sync.Pool }

func (b *buffers) Get() []byte {
	if p, ok := b.pool.Get().(*[]byte); ok {
		return *p
	}
	return make([]byte, 32<<10)
}

func (b *buffers) Put(p []byte) { b.pool.Put(&p) }

// flushInterval delays a piece of a response with a Content-Length, so that most are one write
// to the client. ReverseProxy forwards responses without one, which may be streams, at once.
const flushInterval = time.Millisecond

// route returns the handler of one route.
func (g *Gateway) route(r Route) (http.Handler, error) {
	if r.Timeout < 0 || r.DialTimeout < 0 || r.MaxBody < 0 {
		return nil, fmt.Errorf("want a timeout, dial timeout and maximum body of 0 or more, got %v, %v, %d",
			r.Timeout, r.DialTimeout, r.MaxBody)
	}
	if r.Timeout == 0 {
		r.Timeout = DefaultTimeout
	}
	if r.DialTimeout == 0 {
		r.DialTimeout = DefaultDialTimeout
	}
	u, err := g.upstream(r)
	if err != nil {
		return nil, err
	}
	target, err := url.Parse(r.Upstream)
	if err != nil {
		return nil, err
	}
	target.Scheme = u.origin.Scheme
	p := &proxy{gateway: g, upstream: u, route: r, target: target, prefix: strings.TrimSuffix(target.EscapedPath(), "/")}
	transport := g.wrap(u.transport)
	p.plain, _ = transport.(*direct)
	p.reverse = httputil.ReverseProxy{
		Rewrite:        p.rewrite,
		Transport:      transport,
		FlushInterval:  flushInterval,
		ModifyResponse: beginResponse,
		ErrorHandler:   p.failed,
		ErrorLog:       slog.NewLogLogger(g.log.With("upstream", u.name).Handler(), slog.LevelDebug),
		BufferPool:     &buffers{},
	}
	return p, nil
}

func (g *Gateway) upstream(r Route) (*upstream, error) {
	origin, err := url.Parse(r.Upstream)
	if err != nil {
		return nil, fmt.Errorf("upstream: %w", err)
	}
	h2c := false
	switch origin.Scheme {
	case "http", "https":
	case "h2c":
		h2c, origin.Scheme = true, "http"
	default:
		return nil, fmt.Errorf("upstream %q: want http://, https:// or h2c://", r.Upstream)
	}
	switch {
	case origin.Hostname() == "":
		return nil, fmt.Errorf("upstream %q: want a host", r.Upstream)
	case origin.RawQuery != "" || origin.Fragment != "" || origin.User != nil:
		return nil, fmt.Errorf("upstream %q: want only a scheme, a host and a path", origin.Redacted())
	}
	name := fmt.Sprintf("%s://%s", origin.Scheme, origin.Host)
	id := fmt.Sprintf("%s %t %v %p", name, h2c, r.DialTimeout, r.RootCAs)
	if u, ok := g.upstreams[id]; ok {
		return u, nil
	}
	u := &upstream{name: name, origin: origin}
	if t := transport(h2c, r); canSendDirectly && origin.Scheme == "http" && !h2c && isASCII(origin.Hostname()) {
		u.transport = &direct{next: t, addr: net.JoinHostPort(origin.Hostname(), cmp.Or(origin.Port(), "80"))}
	} else {
		u.transport = t
	}
	g.upstreams[id] = u
	return u, nil
}

// isASCII reports whether a host name needs no conversion, which only http.Transport does.
func isASCII(host string) bool {
	return !strings.ContainsFunc(host, func(r rune) bool { return r > unicode.MaxASCII })
}

// transport returns the transport of one upstream. It uses no proxy of the environment,
// and does not decompress responses.
func transport(h2c bool, r Route) *http.Transport {
	p := new(http.Protocols)
	if h2c {
		p.SetUnencryptedHTTP2(true)
	} else {
		p.SetHTTP1(true)
		p.SetHTTP2(true)
	}
	return &http.Transport{
		DialContext:           (&net.Dialer{Timeout: r.DialTimeout, KeepAlive: 30 * time.Second}).DialContext,
		TLSHandshakeTimeout:   r.DialTimeout,
		TLSClientConfig:       &tls.Config{RootCAs: r.RootCAs, MinVersion: tls.VersionTLS12},
		Protocols:             p,
		DisableCompression:    true,
		MaxIdleConnsPerHost:   maxIdle,
		IdleConnTimeout:       idleTimeout,
		ExpectContinueTimeout: time.Second,
	}
}

// A logLimiter allows one line per second and counts the suppressed ones.
type logLimiter struct {
	mu         sync.Mutex
	next       time.Time
	suppressed int
}

// allow reports whether to log now, and the number of lines suppressed since the last
// one.
func (t *logLimiter) allow(now time.Time) (ok bool, muted int) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if now.Before(t.next) {
		t.suppressed++
		return false, 0
	}
	muted, t.suppressed = t.suppressed, 0
	t.next = now.Add(time.Second)
	return true, muted
}
