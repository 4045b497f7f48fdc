package transport

import (
	"crypto/tls"
	"errors"
	"net"
	"net/http"
	"net/http/httptrace"
	"sync"
)

// An attempt traces one request. An http.Transport repeats an idempotent request by itself if
// a connection that it kept breaks before the response: the server may have received both, so
// both are charged.
type attempt struct {
	t *Transport
	r *http.Request
	q *call

	mu     sync.Mutex
	got    bool  // a connection
	wrote  bool  // headers, since the last charge
	shared bool  // the connection is of HTTP/2, and carries other requests too
	done   bool  // RoundTrip has returned
	denied error // why it may not be sent again
}

// trace returns out with a client trace that calls s.
func (s *attempt) trace(out *http.Request) *http.Request {
	return out.WithContext(httptrace.WithClientTrace(out.Context(), &httptrace.ClientTrace{
		GotConn:          s.gotConn,
		WroteHeaderField: s.wroteField,
		WroteHeaders:     s.wroteHeaders,
	}))
}

// gotConn charges a repetition if an earlier transmission reached the wire. If it is denied,
// the connection is closed before anything is written to it: there is no other way to keep an
// http.Transport from sending. Over HTTP/2 only requests that the server reported as not
// processed are repeated, so they are not charged again.
func (s *attempt) gotConn(info httptrace.GotConnInfo) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.got = true
	if s.done || s.denied == nil && !s.wrote || s.shared || multiplexed(info.Conn) {
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

// multiplexed reports whether TLS negotiated HTTP/2 for a connection.
func multiplexed(c net.Conn) bool {
	t, ok := c.(*tls.Conn)
	return ok && t.ConnectionState().NegotiatedProtocol == "h2"
}

// wroteField recognizes HTTP/2, with TLS or without, by the name of its host field.
func (s *attempt) wroteField(name string, _ []string) {
	if name == ":authority" || name == "Host" {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.shared = name == ":authority"
	}
}

func (s *attempt) wroteHeaders() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.wrote = true
}

// end is called when RoundTrip has returned. It returns why the request was not sent again.
func (s *attempt) end() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.done = true
	return s.denied
}

// unsent reports whether err means that no connection could be made.
func (s *attempt) unsent(err error) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	var op *net.OpError
	return !s.got && errors.As(err, &op) && op.Op == "dial"
}
