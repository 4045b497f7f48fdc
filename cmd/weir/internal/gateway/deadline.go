package gateway

import (
	"net/http"
	"time"
)

// A sender gives each piece of an answer a time in which the client has to take it.
// Between pieces there is none: a stream may be silent for as long as it likes.
type deadlineWriter struct {
	http.ResponseWriter
	conn    *http.ResponseController
	timeout time.Duration
}

// Write implements [http.ResponseWriter].
func (s *deadlineWriter) Write(p []byte) (int, error) {
	s.conn.SetWriteDeadline(time.Now().Add(s.timeout))
	defer s.conn.SetWriteDeadline(time.Time{}) // on HTTP/2 it would end a stream that is idle
	return s.ResponseWriter.Write(p)
}

// FlushError serves [http.ResponseController].
func (s *deadlineWriter) FlushError() error {
	s.conn.SetWriteDeadline(time.Now().Add(s.timeout))
	defer s.conn.SetWriteDeadline(time.Time{})
	return s.conn.Flush()
}

// Unwrap serves [http.ResponseController].
func (s *deadlineWriter) Unwrap() http.ResponseWriter { return s.ResponseWriter }
