package httplimit

import (
	"bufio"
	"io"
	"net"
	"net/http"

	"github.com/floodweir/weir/policy"
)

// A response is the answer of a handler: its status, and what it tells of its cost.
type response struct {
	http.ResponseWriter
	status  int      // 0 before it is known
	members []member // that may be in the body
	body    *body    // nil if nobody reads it
}

// watch is what a handler gets, so that w knows afterwards what tokens are settled by.
// If that is no more than a header, it gets what the server gave.
func (w *response) watch(r *http.Request, tokens []hold) (http.ResponseWriter, *http.Request) {
	watched := false
	for i := range tokens {
		c := tokens[i].policy.Config()
		watched = watched || byStatus(&c) || c.Settle.JSON != ""
		if c.Settle.JSON != "" {
			w.members = append(w.members, member{path: c.Settle.JSON})
		}
	}
	if !watched {
		return w.ResponseWriter, r
	}
	if len(w.members) > 0 {
		// A client does not choose that the answer cannot be read.
		r = r.WithContext(r.Context()) // a copy
		r.Header = r.Header.Clone()
		r.Header.Set("Accept-Encoding", "identity")
	}
	return w, r
}

// begin notes the status of the answer, of which the first counts.
func (w *response) begin(status int) {
	if w.status != 0 || status < 200 && status != http.StatusSwitchingProtocols {
		return
	}
	w.status = status
	if len(w.members) > 0 {
		w.body = newBody(w.Header(), w.members)
	}
}

// end is the status that counts. A handler that panicked has failed, unless its client
// had gone away while it answered.
func (w *response) end(panicked, gone bool) int {
	if w.body != nil {
		w.body.end()
	}
	switch {
	case panicked && (w.status == 0 || !gone):
		return http.StatusInternalServerError
	case w.status == 0:
		return http.StatusOK
	}
	return w.status
}

// tells is the number that s finds in the answer.
func (w *response) tells(s *policy.Settle) (n int64, ok bool) {
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
