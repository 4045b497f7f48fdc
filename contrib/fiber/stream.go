package weirfiber

import (
	"io"
	"runtime"
	"sync"

	"github.com/valyala/fasthttp"
)

// A stream is the body of a response that is sent after the handlers have returned. It
// reports the sent bytes to the exchange, and ends it.
type stream struct {
	x      *exchange
	status int
	resp   *fasthttp.Response // that has the stream
	from   *fasthttp.Response // that had the body
	once   sync.Once
}

// follow puts a stream around the body of the response.
func (x *exchange) follow(status int) {
	x.setStatus(status)
	resp, from := x.response, new(fasthttp.Response)
	// The stream of a response moves only with the whole response: setting another one
	// closes the first.
	move(from, resp)
	move(&resp.Header, &from.Header)
	resp.ImmediateHeaderFlush, resp.SkipBody, resp.StreamBody = from.ImmediateHeaderFlush, from.SkipBody, from.StreamBody
	s := &stream{x: x, status: status, resp: resp, from: from}
	resp.SetBodyStream(s, resp.Header.ContentLength())
	// If a request times out as its handlers return, its response is dropped without
	// closing the stream. So the stream must not reference x.
	x.response = nil
	runtime.AddCleanup(s, (*exchange).leave, x)
}

// move moves the response of from to to.
func move[T any](to, from *T) {
	var zero T
	*to, *from = *from, zero
}

// Read implements [io.Reader].
func (s *stream) Read(p []byte) (int, error) {
	n, err := s.from.BodyStream().Read(p)
	s.x.body(p[:n])
	return n, err
}

// WriteTo implements [io.WriterTo], by that of the body if it is not counted.
func (s *stream) WriteTo(w io.Writer) (int64, error) {
	if to, ok := s.from.BodyStream().(io.WriterTo); ok && !s.x.counts() {
		return to.WriteTo(w)
	}
	return io.Copy(w, struct{ io.Reader }{s})
}

// Close implements [io.Closer].
func (s *stream) Close() error {
	var err error
	s.once.Do(func() {
		defer s.x.end(s.status)
		s.x.response = s.resp
		err = s.from.CloseBodyStream()
	})
	return err
}
