package httplimit

import (
	"bufio"
	"context"
	"io"
	"net"
	"net/http"
	"sync/atomic"

	"github.com/floodweir/weir/enforce"
	"github.com/floodweir/weir/policy"
)

// A response is the answer of a handler: its status, and what it tells of its cost.
type response struct {
	http.ResponseWriter
	ctx      context.Context // of the request
	sent     *sent           // nil if nobody asks for it
	status   int             // 0 before it is known
	unheard  bool            // the client broke off before it was answered
	encoding string          // of the answer, before there is one
	members  []member        // that may be in the body
	body     *body           // nil if nobody reads it
}

// watch is what a handler gets, so that w knows afterwards what p is settled by. If that
// is no more than a header, it gets what the server gave.
func (w *response) watch(r *http.Request, p *enforce.Admission) (http.ResponseWriter, *http.Request) {
	status := false
	for one := range p.Settles() {
		c := one.Config()
		status = status || c.Count == policy.CountFailures || c.Count == policy.CountSuccesses
		if c.Settle.JSON != "" {
			w.members = append(w.members, member{path: c.Settle.JSON})
		}
	}
	if !status && len(w.members) == 0 {
		return w.ResponseWriter, r
	}
	w.ctx = r.Context()
	r = r.WithContext(w.ctx) // a copy
	if status && r.Body != nil && r.Body != http.NoBody {
		w.sent = &sent{ReadCloser: r.Body}
		r.Body = w.sent
	}
	if len(w.members) > 0 {
		// A client does not choose that the answer cannot be read.
		r.Header = r.Header.Clone()
		r.Header.Set("Accept-Encoding", "identity")
		r.Header.Del("Range")
		r.Header.Del("If-Range")
		w.encoding = w.Header().Get("Content-Encoding")
	}
	return w, r
}

// begin notes the status of the answer, of which the first counts.
func (w *response) begin(status int) {
	if w.status != 0 || status < 200 && status != http.StatusSwitchingProtocols {
		return
	}
	w.status = status
	// An error that a client did not wait for says more about the client than about
	// what it asked for, which may have been done.
	w.unheard = status >= http.StatusBadRequest && (w.ctx.Err() != nil || w.sent.broken())
	if len(w.members) > 0 {
		w.body = newBody(w.asHere(), w.members)
	}
}

// asHere is the header of the answer as it is here: an encoding that was set before the
// handler had the request is that of a middleware outside, which encodes what passes here.
func (w *response) asHere() http.Header {
	h := w.Header()
	if w.encoding == "" || h.Get("Content-Encoding") != w.encoding {
		return h
	}
	h = h.Clone()
	h.Del("Content-Encoding")
	return h
}

// result is what became of the request.
func (w *response) result(panicked, gone bool) enforce.Result {
	status, unheard := w.end(panicked, gone)
	return enforce.Result{Status: status, ClientGone: unheard, CostFromResponse: w.tells}
}

// end is the status that counts, and whether none does. A handler that panicked has
// failed, unless its client had gone away while it answered.
func (w *response) end(panicked, gone bool) (status int, unheard bool) {
	if w.body != nil {
		w.body.end()
	}
	switch {
	case panicked && (w.status == 0 || !gone):
		return http.StatusInternalServerError, gone
	case w.status == 0:
		return http.StatusOK, false
	}
	return w.status, w.unheard
}

// tells is the number that s finds in the answer.
func (w *response) tells(s policy.Settle) (n int64, ok bool) {
	if s.Header != "" {
		return headerTells(w.Header(), s.Header)
	}
	for _, m := range w.members {
		if m.path == s.JSON {
			return m.n, m.told
		}
	}
	return 0, false
}

// WriteHeader implements [http.ResponseWriter].
func (w *response) WriteHeader(status int) {
	w.begin(status)
	w.ResponseWriter.WriteHeader(status)
}

// Write implements [http.ResponseWriter]. What a client did not wait for is read too.
func (w *response) Write(b []byte) (int, error) {
	w.begin(http.StatusOK)
	if w.body != nil {
		w.body.write(b)
	}
	return w.ResponseWriter.Write(b)
}

// ReadFrom implements [io.ReaderFrom], by that of the server if nobody reads the body.
func (w *response) ReadFrom(src io.Reader) (int64, error) {
	w.begin(http.StatusOK)
	if to, ok := w.ResponseWriter.(io.ReaderFrom); ok && w.body == nil {
		return to.ReadFrom(src)
	}
	return io.Copy(struct{ io.Writer }{w}, src)
}

// Flush implements [http.Flusher].
func (w *response) Flush() { _ = w.FlushError() }

// FlushError is Flush for an http.ResponseController.
func (w *response) FlushError() error {
	w.begin(http.StatusOK)
	return http.NewResponseController(w.ResponseWriter).Flush()
}

// Hijack implements [http.Hijacker].
func (w *response) Hijack() (net.Conn, *bufio.ReadWriter, error) {
	conn, rw, err := http.NewResponseController(w.ResponseWriter).Hijack()
	if err == nil {
		w.begin(http.StatusSwitchingProtocols)
	}
	return conn, rw, err
}

// Unwrap is the server's writer, for an http.ResponseController.
func (w *response) Unwrap() http.ResponseWriter { return w.ResponseWriter }

// A sent body is that of a request. It knows whether the client broke it off.
type sent struct {
	io.ReadCloser
	failed, closed atomic.Bool
}

// Read implements [io.Reader].
func (s *sent) Read(p []byte) (int, error) {
	n, err := s.ReadCloser.Read(p)
	if err != nil && err != io.EOF && !s.closed.Load() {
		s.failed.Store(true)
	}
	return n, err
}

// Close implements [io.Closer]. What cannot be read after it is not the client's fault.
func (s *sent) Close() error {
	s.closed.Store(true)
	return s.ReadCloser.Close()
}

func (s *sent) broken() bool { return s != nil && s.failed.Load() }
