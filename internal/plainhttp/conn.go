package plainhttp

import (
	"bufio"
	"bytes"
	"context"
	"io"
	"net"
	"net/http"
	"runtime/debug"
	"sync/atomic"
	"time"

	"github.com/floodweir/weir/internal/socket"
)

const (
	minRequest = 4 << 10  // bytes of a request that every connection can hold
	maxRequest = 16 << 10 // the largest plain request
	maxPieces  = 8        // in which a plain request may arrive, because each is parsed from its begin
)

// slack is the time by which an idle connection may close too late, so that its deadline does not
// change with every request.
const slack = time.Second

// The states of a conn.
const (
	idle int32 = iota // it waits for a request
	active
	closed
)

// A conn serves the requests of one connection.
type conn struct {
	net.Conn
	socket *socket.Conn // of Conn
	l      *Listener
	addr   string // of the client
	opened time.Time
	fresh  atomic.Bool // no request has arrived
	state  atomic.Int32
	ctx    atomic.Pointer[requestContext] // of the request in progress

	buf     []byte // buf[:n] has arrived
	n       int
	skips   int           // line ends to ignore in front of the next request
	readBy  time.Time     // the read deadline that is set; zero if none
	writeBy time.Duration // the write deadline that is set, since the epoch of l; 0 if none
	failed  bool          // a write has failed
	out     *bufio.Writer
	res     response
	watch   watch
}

func newConn(l *Listener, nc net.Conn) *conn {
	c := &conn{Conn: nc, socket: socket.New(nc), l: l, addr: nc.RemoteAddr().String(), opened: time.Now(), buf: make([]byte, minRequest)}
	c.fresh.Store(true)
	c.out = bufio.NewWriterSize(writer{c}, minRequest)
	c.res.c, c.res.header = c, http.Header{}
	c.res.held = bufio.NewWriterSize(sender{&c.res}, maxHeld)
	c.watch.init(nc, l.watchAfter, l.epoch)
	return c
}

// serve serves requests until the connection ends, or has a request that is not plain.
func (c *conn) serve() {
	pass := false
	defer func() {
		if v := recover(); v != nil && v != http.ErrAbortHandler {
			c.l.logf("http: panic serving %v: %v\n%s", c.addr, v, debug.Stack())
		}
		c.watch.close()
		c.l.forget(c)
		if pass {
			c.l.pass(c)
		} else {
			c.Conn.Close()
		}
	}()
	ctx, cancel := context.WithCancel(context.WithValue(c.l.ctx, http.LocalAddrContextKey, c.LocalAddr()))
	defer cancel()
	defer context.AfterFunc(ctx, func() {
		if r := c.ctx.Load(); r != nil {
			r.connEnded()
		}
	})()
	for {
		m, v := c.next()
		if v != plain {
			// A preface of HTTP/2 is only one at the begin of a connection.
			pass = v == other && (c.fresh.Load() || !bytes.HasPrefix(c.buf[:c.n], []byte("PRI ")))
			return
		}
		if !c.state.CompareAndSwap(idle, active) || c.l.closing.Load() {
			return
		}
		c.fresh.Store(false)
		again := c.answer(ctx, m)
		c.state.Store(idle)
		if !again || c.l.closing.Load() {
			return
		}
	}
}

// next reads the next request.
func (c *conn) next() (*message, verdict) {
	limited := c.fresh.Load() // the deadline for a header runs
	switch {
	case limited:
		c.setReadDeadline(c.opened.Add(c.l.headerTimeout), 0)
	case c.n == 0:
		c.setReadDeadline(c.l.clock().Add(c.l.idleTimeout), slack)
	}
	for pieces := 0; ; pieces++ {
		c.skipLineEnds()
		if c.n > 0 {
			if m, v := parse(c.buf[:c.n]); v != incomplete {
				return m, v
			}
			if !limited {
				limited = true
				c.setReadDeadline(c.l.clock().Add(c.l.headerTimeout), 0)
			}
		}
		if pieces == maxPieces && c.n > 0 {
			return nil, other
		}
		if c.n == len(c.buf) {
			c.buf = append(make([]byte, 0, maxRequest), c.buf...)[:maxRequest]
		}
		n, err := c.socket.Read(c.buf[c.n:])
		c.n += n
		switch {
		case err == io.EOF && (c.fresh.Load() && c.n > 0 || c.n >= 4):
			return nil, other // the http.Server answers an incomplete request
		case err != nil:
			return nil, incomplete
		}
	}
}

// skipLineEnds removes the line ends that some clients send after the body of a POST.
func (c *conn) skipLineEnds() {
	n := 0
	for n < c.n && n < c.skips && (c.buf[n] == '\r' || c.buf[n] == '\n') {
		n++
	}
	if c.skips -= n; n < c.n {
		c.skips = 0
	}
	if n > 0 {
		c.drop(n)
	}
}

// drop removes the first n bytes that have arrived.
func (c *conn) drop(n int) {
	c.n = copy(c.buf, c.buf[n:c.n])
	if len(c.buf) > minRequest && c.n < minRequest {
		c.buf = append(make([]byte, 0, minRequest), c.buf[:c.n]...)[:minRequest]
	}
}

// answer serves a request. It reports whether another one may follow.
func (c *conn) answer(ctx context.Context, m *message) bool {
	m.ctx.Context = ctx
	c.ctx.Store(&m.ctx)
	defer c.ctx.Store(nil)
	defer m.ctx.end()
	r, isPost := &m.r, m.r.Method == http.MethodPost
	r.RemoteAddr = c.addr
	c.res.reset(r, &m.ctx)
	if t := c.l.writeTimeout; t > 0 {
		c.res.deadline.Store(int64(time.Since(c.l.epoch) + t))
	}
	c.watch.begin(&m.ctx)
	c.l.server.Handler.ServeHTTP(&c.res, r)
	m.ctx.end()
	again := c.res.finish()
	c.res.release()
	if c.watch.end() {
		c.readBy = time.Time{}
	}
	m.body.Close()
	c.drop(m.size)
	c.n += c.watch.take(c.buf[c.n:])
	if c.skips = 0; isPost {
		c.skips = 4 // as the http.Server
	}
	return again
}

// setReadDeadline sets a deadline, which may be late.
func (c *conn) setReadDeadline(t time.Time, late time.Duration) {
	if by := c.readBy.Sub(t); by < 0 || by > late {
		c.readBy = t.Add(late)
		c.SetReadDeadline(c.readBy)
	}
}

// A writer writes to the client by the deadline of the response.
type writer struct{ c *conn }

// Write implements [io.Writer].
func (w writer) Write(p []byte) (int, error) {
	c := w.c
	c.setWriteDeadline(time.Duration(c.res.deadline.Load()))
	n, err := c.socket.Write(p)
	if err != nil {
		c.failed = true
		c.res.ctx.end()
	}
	return n, err
}

// setWriteDeadline sets a deadline in the time since the epoch of l, or none if it is 0. It may be
// late by slack.
func (c *conn) setWriteDeadline(by time.Duration) {
	switch {
	case by == 0 && c.writeBy == 0:
	case by == 0:
		c.writeBy = 0
		c.SetWriteDeadline(time.Time{})
	case c.writeBy < by || c.writeBy > by+slack:
		c.writeBy = by + slack
		c.SetWriteDeadline(c.l.epoch.Add(c.writeBy))
	}
}
