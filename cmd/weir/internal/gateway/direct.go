package gateway

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptrace"
	"net/textproto"
	"sync"
	"sync/atomic"
	"time"

	"github.com/floodweir/weir/internal/socket"
)

// Bounds of the idle connections to an upstream, and of a response.
const (
	maxIdle           = 4096 // fewer than clients ask at once would mean a new connection per request
	idleTimeout       = 90 * time.Second
	maxResponseHeader = 10 << 20 // bytes, interim responses included; the default of http.Transport
)

// A direct sends requests without a body over HTTP/1.1, on the goroutine of the caller. A
// http.Transport has two further goroutines for each connection, and passes each request and
// response between them. All other requests are those of next: with a body, with an upgrade or
// with a method that must not be repeated on another connection.
type direct struct {
	next *http.Transport
	addr string // of the upstream, with port

	mu      sync.Mutex
	idle    []*directConn // the last one was used last
	sweeper *time.Timer   // closes old ones; nil while there are none
	closed  bool          // connections are not kept
}

// A directConn is a connection to the upstream, used by one request at a time.
type directConn struct {
	net.Conn
	socket *socket.Conn // of Conn
	r      *bufio.Reader
	w      *bufio.Writer
	ask    []byte // a request for the next Read to send; nil if there is none
	left   int    // bytes of headers to read; unlimited if negative
	got    bool   // a byte of the response has arrived
	reused bool
	by     time.Time // the deadline that is set; zero if none
	since  time.Time // idle

	interrupted atomic.Bool // for good
	end         func()      // interrupt
}

var errLongHeader = fmt.Errorf("response header of more than %d bytes", maxResponseHeader)

func newDirectConn(nc net.Conn) *directConn {
	c := &directConn{Conn: nc, socket: socket.New(nc)}
	c.r, c.w, c.end = bufio.NewReader(c), bufio.NewWriter(nc), c.interrupt
	return c
}

// Read implements [io.Reader] for r.
func (c *directConn) Read(p []byte) (n int, err error) {
	if c.left == 0 {
		return 0, errLongHeader
	}
	if c.left > 0 {
		p = p[:min(len(p), c.left)]
	}
	if c.ask != nil {
		n, err = c.socket.Ask(c.ask, p)
		c.ask = nil
	} else {
		n, err = c.socket.Read(p)
	}
	c.got = c.got || n > 0
	if c.left > 0 {
		c.left -= n
	}
	return n, err
}

// RoundTrip implements [http.RoundTripper].
func (d *direct) RoundTrip(r *http.Request) (*http.Response, error) {
	if s, ok := r.Context().Value(sentKey{}).(*sent); ok {
		return d.receive(s, r)
	}
	if !sendsDirectly(r) {
		return d.next.RoundTrip(r)
	}
	for {
		c, err := d.conn(r.Context())
		if err != nil {
			return nil, err
		}
		res, err := d.exchange(c, r)
		if err == nil {
			return res, nil
		}
		c.Conn.Close()
		if r.Context().Err() != nil {
			return nil, context.Cause(r.Context())
		}
		if !c.reused || c.got {
			return nil, err
		}
		// The upstream closed an idle connection while the request was on its way.
	}
}

// receive returns the response to a request that was sent.
func (d *direct) receive(s *sent, r *http.Request) (*http.Response, error) {
	err := context.Cause(r.Context())
	if s.stop.Stop() && err == nil {
		s.received = true
		var res *http.Response
		if res, err = d.finish(s.c, r, nil); err == nil {
			return res, nil
		}
		if r.Context().Err() != nil {
			err = context.Cause(r.Context())
		}
	}
	s.c.Conn.Close()
	return nil, err
}

// sendsDirectly reports whether r has no body and may be repeated.
func sendsDirectly(r *http.Request) bool {
	return isRepeatable(r) && !r.Close && r.Header["Connection"] == nil
}

// isRepeatable reports whether r has no body, asks for no upgrade, and may be sent again on another
// connection.
func isRepeatable(r *http.Request) bool {
	switch r.Method {
	case http.MethodGet, http.MethodHead, http.MethodOptions, http.MethodTrace:
	default:
		return false
	}
	return (r.Body == nil || r.Body == http.NoBody) && r.ContentLength == 0 &&
		r.TransferEncoding == nil && r.Trailer == nil && r.Header["Upgrade"] == nil && r.Header["Expect"] == nil
}

// exchange sends r and reads the header of its response, whose body releases c.
func (d *direct) exchange(c *directConn, r *http.Request) (*http.Response, error) {
	c.left, c.got = maxResponseHeader, false
	return d.finish(c, r, func() error {
		if err := r.Write(c.w); err != nil {
			return err
		}
		return c.w.Flush()
	})
}

// finish reads the header of the response to r, which send sends; if that is nil, r was sent.
func (d *direct) finish(c *directConn, r *http.Request, send func() error) (res *http.Response, err error) {
	stop := context.AfterFunc(r.Context(), c.end)
	if send != nil {
		err = send()
	}
	if err == nil {
		res, err = c.response(r)
	}
	if err != nil {
		stop()
		return nil, err
	}
	c.left = -1
	b := &directBody{body: res.Body, d: d, c: c, stop: stop, reuse: !res.Close}
	if res.Body == http.NoBody {
		b.end(true)
		return res, nil
	}
	res.Body = b
	return res, nil
}

// response reads the header of the final response. Interim ones are passed to the trace of r.
func (c *directConn) response(r *http.Request) (*http.Response, error) {
	for {
		res, err := http.ReadResponse(c.r, r)
		switch {
		case err != nil:
			return nil, err
		case res.StatusCode == http.StatusSwitchingProtocols:
			return nil, errors.New("upstream switches protocols, which the request did not ask for")
		case res.StatusCode >= 200:
			return res, nil
		}
		if trace := httptrace.ContextClientTrace(r.Context()); trace != nil && trace.Got1xxResponse != nil && res.StatusCode != http.StatusContinue {
			if err := trace.Got1xxResponse(res.StatusCode, textproto.MIMEHeader(res.Header)); err != nil {
				return nil, err
			}
		}
	}
}

// A directBody releases its connection at its end.
type directBody struct {
	body  io.ReadCloser
	d     *direct
	c     *directConn
	stop  func() bool // of the context
	reuse bool
	ended bool
}

// Read implements [io.Reader].
func (b *directBody) Read(p []byte) (int, error) {
	n, err := b.body.Read(p)
	if err != nil {
		b.end(err == io.EOF)
	}
	return n, err
}

// Close implements [io.Closer].
func (b *directBody) Close() error {
	b.end(false)
	return nil
}

// end releases the connection, which can be used again if the body was read completely.
func (b *directBody) end(complete bool) {
	if b.ended {
		return
	}
	b.ended = true
	if b.stop() && complete && b.reuse && b.c.r.Buffered() == 0 {
		b.d.put(b.c)
		return
	}
	b.c.Conn.Close()
}

// interrupt ends a request whose context has ended.
func (c *directConn) interrupt() {
	c.interrupted.Store(true)
	c.SetDeadline(time.Unix(1, 0))
}

// deadlineSlack is the time by which a deadline may be late, so that it does not change with every
// request.
const deadlineSlack = time.Second

// setDeadline sets a deadline, which may be late by slack, or none if t is zero.
func (c *directConn) setDeadline(t time.Time, slack time.Duration) {
	switch by := c.by.Sub(t); {
	case t.IsZero() && !c.by.IsZero():
		c.by = t
		c.SetDeadline(t)
	case !t.IsZero() && (by < 0 || by > slack):
		c.by = t.Add(slack)
		c.SetDeadline(c.by)
	}
	if c.interrupted.Load() { // perhaps before the change
		c.SetDeadline(time.Unix(1, 0))
	}
}

// conn returns an idle connection, or a new one.
func (d *direct) conn(ctx context.Context) (*directConn, error) {
	for {
		c := d.take(time.Time{})
		if c == nil {
			return d.dial(ctx)
		}
		if isQuiet(c.Conn) {
			return c, nil
		}
		c.Conn.Close()
	}
}

// take returns a connection that was idle, with a deadline, or nil if there is none. The upstream
// has perhaps closed it.
func (d *direct) take(deadline time.Time) *directConn {
	d.mu.Lock()
	n := len(d.idle)
	if n == 0 {
		d.mu.Unlock()
		return nil
	}
	c := d.idle[n-1]
	d.idle[n-1], d.idle = nil, d.idle[:n-1]
	d.mu.Unlock()
	c.setDeadline(deadline, deadlineSlack)
	c.reused = true
	return c
}

// dial returns a new connection.
func (d *direct) dial(ctx context.Context) (*directConn, error) {
	nc, err := d.next.DialContext(ctx, "tcp", d.addr)
	if err != nil {
		return nil, err
	}
	return newDirectConn(nc), nil
}

// put keeps an idle connection.
func (d *direct) put(c *directConn) {
	c.since = time.Now()
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.closed || len(d.idle) >= maxIdle {
		c.Conn.Close()
		return
	}
	d.idle = append(d.idle, c)
	if d.sweeper == nil {
		d.sweeper = time.AfterFunc(idleTimeout, d.sweep)
	}
}

// sweep closes connections that were idle for too long.
func (d *direct) sweep() {
	d.mu.Lock()
	defer d.mu.Unlock()
	old, now := 0, time.Now()
	for old < len(d.idle) && now.Sub(d.idle[old].since) >= idleTimeout {
		d.idle[old].Conn.Close()
		old++
	}
	d.idle = append(d.idle[:0], d.idle[old:]...)
	clear(d.idle[len(d.idle):cap(d.idle)])
	d.sweeper = nil
	if len(d.idle) > 0 {
		d.sweeper = time.AfterFunc(idleTimeout-now.Sub(d.idle[0].since), d.sweep)
	}
}

// CloseIdleConnections closes idle connections, and those in use at the end of their request.
func (d *direct) CloseIdleConnections() {
	d.next.CloseIdleConnections()
	d.mu.Lock()
	defer d.mu.Unlock()
	d.closed = true
	for _, c := range d.idle {
		c.Conn.Close()
	}
	d.idle = nil
	if d.sweeper != nil {
		d.sweeper.Stop()
	}
}
