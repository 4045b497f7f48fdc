package transport

import (
	"context"
	"crypto/tls"
	"errors"
	"net"
	"net/http"
	"net/http/httptrace"
	"sync"
)

// A sending watches one request on its way. An http.Transport sends a request that may
// be repeated again by itself if a connection that it had kept breaks before the answer:
// the server may have seen both, so both are charged.
type sending struct {
	t *Transport
	r *http.Request
	q *call

	mu     sync.Mutex
	got    bool  // a connection
	wrote  bool  // headers, since the last charge
	shared bool  // those are HTTP/2's: the connection is that of other requests too
	over   bool  // RoundTrip has returned
	denied error // why it may not be sent again
}

// watched is out with the sending told of its connections.
func (s *sending) watched(out *http.Request) *http.Request {
	return out.WithContext(httptrace.WithClientTrace(out.Context(), &httptrace.ClientTrace{
		GotConn:          s.gotConn,
		WroteHeaderField: s.wroteField,
		WroteHeaders:     s.wroteHeaders,
	}))
}

// gotConn pays for every attempt but the first if one before it reached the wire. If it
// may not, the connection is closed before anything is written to it: there is no other
// way to keep an http.Transport from sending. Over HTTP/2 only requests are repeated of
// which the server said that it did not process them.
func (s *sending) gotConn(info httptrace.GotConnInfo) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.got = true
	if s.over || s.denied == nil && !s.wrote || s.shared || multiplexed(info.Conn) {
		return
	}
	if s.denied == nil {
		s.wrote = false
		if _, s.denied = s.t.admit(s.r, s.q); s.denied == nil {
			return
		}
	}
	info.Conn.Close()
}

// multiplexed reports whether a connection is one of HTTP/2, as far as TLS tells.
func multiplexed(c net.Conn) bool {
	t, ok := c.(*tls.Conn)
	return ok && t.ConnectionState().NegotiatedProtocol == "h2"
}

// wroteField tells HTTP/2 by the name that the host has in it, with TLS or without.
func (s *sending) wroteField(name string, _ []string) {
	if name == ":authority" || name == "Host" {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.shared = name == ":authority"
	}
}

func (s *sending) wroteHeaders() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.wrote = true
}

// end is called when RoundTrip has returned, and is why the request was not sent again.
func (s *sending) end() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.over = true
	return s.denied
}

// unsent reports whether err says that no connection could be made.
func (s *sending) unsent(err error) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	var op *net.OpError
	return !s.got && errors.As(err, &op) && op.Op == "dial"
}

func contextCause(r *http.Request) error { return context.Cause(r.Context()) }
