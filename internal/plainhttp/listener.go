package plainhttp

import (
	"cmp"
	"context"
	"log"
	"net"
	"net/http"
	"sync"
	"sync/atomic"
	"time"
)

// The timeouts of a server that has none.
const (
	defaultHeaderTimeout = time.Minute
	defaultIdleTimeout   = time.Hour
)

// A Listener serves plain requests on the connections that it accepts. Accept returns the other
// connections, for an http.Server.
type Listener struct {
	net.Listener
	server        *http.Server
	ctx           context.Context
	headerTimeout time.Duration
	idleTimeout   time.Duration
	writeTimeout  time.Duration // 0 for none
	watchAfter    time.Duration
	epoch         time.Time

	passed  chan accepted
	done    chan struct{} // closed by Close
	once    sync.Once
	closing atomic.Bool
	err     error // of Close
	now     atomic.Pointer[stamp]

	mu    sync.Mutex
	conns map[*conn]struct{}
}

// An accepted is a result of Accept.
type accepted struct {
	net.Conn
	err error
}

// A stamp is the text of a second.
type stamp struct {
	second int64
	text   string
}

// Listen returns a Listener for s, whose Handler, ReadHeaderTimeout, IdleTimeout, BaseContext and
// ErrorLog it uses. ReadTimeout bounds no plain request, which has arrived. ConnState and ConnContext do
// not apply to them. The caller passes the Listener to the Serve of s, and calls Shutdown after the
// Shutdown of s.
//
// watchAfter is the time from which a disconnect of the client ends the context of a request.
func Listen(s *http.Server, nl net.Listener, watchAfter time.Duration) *Listener {
	l := &Listener{
		Listener: nl, server: s, ctx: context.Background(), epoch: time.Now(),
		headerTimeout: cmp.Or(s.ReadHeaderTimeout, s.ReadTimeout, defaultHeaderTimeout),
		idleTimeout:   cmp.Or(s.IdleTimeout, s.ReadTimeout, defaultIdleTimeout),
		writeTimeout:  max(0, s.WriteTimeout),
		watchAfter:    watchAfter,
		passed:        make(chan accepted), done: make(chan struct{}), conns: map[*conn]struct{}{},
	}
	if s.BaseContext != nil {
		l.ctx = s.BaseContext(l)
	}
	l.ctx = context.WithValue(l.ctx, http.ServerContextKey, s)
	go l.accept()
	return l
}

// accept serves the connections of the inner listener until Close.
func (l *Listener) accept() {
	for {
		nc, err := l.Listener.Accept()
		if err != nil {
			if !l.send(accepted{err: err}) {
				return
			}
			continue // the http.Server has waited, or closes l
		}
		c := newConn(l, nc)
		l.mu.Lock()
		l.conns[c] = struct{}{}
		l.mu.Unlock()
		go c.serve()
	}
}

// send passes a result to Accept. It returns false if l is closed.
func (l *Listener) send(a accepted) bool {
	select {
	case l.passed <- a:
		return true
	case <-l.done:
		return false
	}
}

// Accept returns the next connection that has a request which is not plain.
func (l *Listener) Accept() (net.Conn, error) {
	select {
	case a := <-l.passed:
		return a.Conn, a.err
	case <-l.done:
		return nil, net.ErrClosed
	}
}

// Close stops accepting connections and closes those that wait for a request.
func (l *Listener) Close() error {
	l.once.Do(func() {
		close(l.done)
		l.err = l.Listener.Close()
		l.closing.Store(true) // later, so that no client that sees its connection end can open another
		l.closeIdle(false)
	})
	return l.err
}

// Shutdown calls Close and waits for the plain requests in flight. When ctx ends, it closes their
// connections and returns its error.
func (l *Listener) Shutdown(ctx context.Context) error {
	l.Close()
	for pause := time.Millisecond; !l.closeIdle(false); pause = min(2*pause, 500*time.Millisecond) {
		select {
		case <-ctx.Done():
			l.closeIdle(true)
			return ctx.Err()
		case <-time.After(pause):
		}
	}
	return nil
}

// freshTimeout is the time that a connection without a request has when the Listener shuts down.
const freshTimeout = 5 * time.Second

// closeIdle closes the connections that wait for a request, or all. It reports whether none is left.
func (l *Listener) closeIdle(all bool) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	for c := range l.conns {
		switch {
		case all:
			c.Conn.Close()
		case c.fresh.Load() && time.Since(c.opened) < freshTimeout:
		case c.state.CompareAndSwap(idle, closed):
			c.Conn.Close()
		}
	}
	return len(l.conns) == 0
}

// forget removes a connection that has ended.
func (l *Listener) forget(c *conn) {
	l.mu.Lock()
	defer l.mu.Unlock()
	delete(l.conns, c)
}

// pass passes a connection to Accept, or closes it if l is closed.
func (l *Listener) pass(c *conn) {
	if c.writeBy != 0 {
		c.SetWriteDeadline(time.Time{})
	}
	nc := prefixed{Conn: c.Conn, prefix: append([]byte(nil), c.buf[:c.n]...)}
	if !l.send(accepted{Conn: nc.withMethods()}) {
		c.Conn.Close()
	}
}

// clock returns the time for deadlines, from one clock of the kernel: time.Now reads two.
func (l *Listener) clock() time.Time { return l.epoch.Add(time.Since(l.epoch)) }

// date returns the value of a field Date.
func (l *Listener) date() string {
	now := time.Now()
	s := l.now.Load()
	if s == nil || s.second != now.Unix() {
		s = &stamp{now.Unix(), now.UTC().Format(http.TimeFormat)}
		l.now.Store(s)
	}
	return s.text
}

func (l *Listener) logf(format string, args ...any) {
	if to := l.server.ErrorLog; to != nil {
		to.Printf(format, args...)
	} else {
		log.Printf(format, args...)
	}
}
