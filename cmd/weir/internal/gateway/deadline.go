package gateway

import (
	"net/http"
	"time"
)

// A deadlineWriter gives the client a deadline to accept each piece of a response.
// Between pieces there is none, so a stream may be silent for any time.
type deadlineWriter struct {
	http.ResponseWriter
	conn    *http.ResponseController
	timeout time.Duration
}

// Write implements [http.ResponseWriter].
func (s *deadlineWriter) Write(p []byte) (int, error) {
	s.conn.SetWriteDeadline(time.Now().Add(s.timeout))
	defer s.conn.SetWriteDeadline(time.Time{}) // on HTTP/2 it would end an idle stream
	return s.ResponseWriter.Write(p)
}

// FlushError supports [http.ResponseController].
func (s *deadlineWriter) FlushError() error {
	s.conn.SetWriteDeadline(time.Now().Add(s.timeout))
	defer s.conn.SetWriteDeadline(time.Time{})
	return s.conn.Flush()
}

// keepDeadline gives the client a deadline that lasts until the next write or flush.
func (s *deadlineWriter) keepDeadline() { s.conn.SetWriteDeadline(time.Now().Add(s.timeout)) }

// Unwrap supports [http.ResponseController].
func (s *deadlineWriter) Unwrap() http.ResponseWriter { return s.ResponseWriter }
