package weirfiber

import (
	"io"
	"runtime"
	"sync"

	"github.com/valyala/fasthttp"
)

// A stream is the body of a response that is sent after the handlers have returned. It
// tells the exchange what passes, and ends it.
type stream struct {
	x      *exchange
	status int
	resp   *fasthttp.Response // that has the stream
	from   *fasthttp.Response // that had the body
	once   sync.Once
}

// follow puts a stream around the body of the response.
func (x *exchange) follow(status int) {
	x.tell(status)
	resp, from := x.response, new(fasthttp.Response)
	// A response gives its stream away only with all that it is: to set another one
	// closes the first.
	move(from, resp)
	move(&resp.Header, &from.Header)
	resp.ImmediateHeaderFlush, resp.SkipBody, resp.StreamBody = from.ImmediateHeaderFlush, from.SkipBody, from.StreamBody
	s := &stream{x: x, status: status, resp: resp, from: from}
	resp.SetBodyStream(s, resp.Header.ContentLength())
	// A request that runs out of time as its handlers return has its response thrown
	// away, and nobody closes the stream. So x may not reach it.
	x.response = nil
	runtime.AddCleanup(s, (*exchange).leave, x)
}

// move makes to what from was, and from the zero value.
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

// WriteTo implements [io.WriterTo], by that of the body if nobody counts it.
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
