package httplimit

import (
	"context"
	"encoding/json"
	"io"
	"net/http"
	"slices"
	"sync/atomic"

	"github.com/floodweir/weir/enforce"
	"github.com/floodweir/weir/internal/bodycost"
	"github.com/floodweir/weir/internal/decoded"
	"github.com/floodweir/weir/internal/optional"
	"github.com/floodweir/weir/internal/usage"
	"github.com/floodweir/weir/policy"
)

// A response wraps the ResponseWriter of a handler to record its status and its cost.
type response struct {
	http.ResponseWriter
	ctx        context.Context   // of the request
	path       string            // of the request
	sent       *requestBody      // nil if no policy needs it
	status     int               // 0 before it is known
	canceled   bool              // the client disconnected before the response began
	encoding   string            // set before the handler ran
	decoders   decoded.Decoders  // of further encodings
	members    []bodycost.Member // to find in the body
	body       *bodycost.Body    // nil if no policy reads it
	usage      *usage.Usage      // nil if no policy has a budget
	attributes *attributes       // of the request; nil if no policy needs it
	model      *model            // nil if no policy has a budget
}

// wrap returns the writer and the request for the handler: the originals, unless a policy of p
// needs the status or the body of the response.
func (w *response) wrap(r *http.Request, held *request, m *Middleware) (http.ResponseWriter, *http.Request) {
	status := false
	for one := range held.admission.Settles() {
		c := one.Config()
		status = status || c.Count == policy.CountFailures || c.Count == policy.CountSuccesses
		if c.Settle.Expr != nil {
			status, w.attributes = true, &held.attributes
		}
		if meter := c.Settle.Meter; meter != nil {
			w.usage = w.usage.Add(meter.Config().Format)
		}
		for _, path := range c.Settle.Paths() {
			if !slices.ContainsFunc(w.members, func(m bodycost.Member) bool { return m.Path == path }) {
				w.members = append(w.members, bodycost.Member{Path: path})
			}
		}
	}
	reads := len(w.members) > 0 || w.usage != nil
	if !status && !reads {
		return w.ResponseWriter, r
	}
	w.ctx, w.path = r.Context(), r.URL.Path
	r = r.WithContext(w.ctx) // a copy
	if status && r.Body != nil && r.Body != http.NoBody {
		w.sent = &requestBody{ReadCloser: r.Body}
		r.Body = w.sent
	}
	if reads {
		// The client must not make the response unreadable.
		r.Header = r.Header.Clone()
		r.Header.Set("Accept-Encoding", "identity")
		r.Header.Del("Range")
		r.Header.Del("If-Range")
		w.encoding = w.Header().Get("Content-Encoding")
	}
	if w.usage != nil {
		r = w.follow(r, held, m)
	}
	return optional.Wrap(w.ResponseWriter, w, flusher{w}, hijacker{w}), r
}

// begin records the status of the response; the first final one counts.
func (w *response) begin(status int) {
	if w.status != 0 || status < 200 && status != http.StatusSwitchingProtocols {
		return
	}
	w.status = status
	// An error after the client disconnected may be due to the disconnect: the work may
	// have been done.
	w.canceled = status >= http.StatusBadRequest && (w.ctx.Err() != nil || w.sent.broken())
	if len(w.members) > 0 {
		w.body = bodycost.NewBody(w.innerHeader(), w.members, w.decoders)
	}
	if w.usage != nil {
		w.usage.Begin(w.innerHeader(), w.decoders)
		w.model.begin(w, w.innerHeader())
	}
}

// innerHeader returns the header without an encoding that was set before the handler ran. That is
// the encoding of a middleware in front, which encodes after this one.
func (w *response) innerHeader() http.Header {
	h := w.Header()
	if w.encoding == "" || h.Get("Content-Encoding") != w.encoding {
		return h
	}
	h = h.Clone()
	h.Del("Content-Encoding")
	return h
}

// result returns the outcome of the request.
func (w *response) result(panicked, gone bool) enforce.Result {
	status, canceled := w.end(panicked, gone)
	return enforce.Result{Status: status, ClientGone: canceled, CostFromResponse: w.cost}
}

// end returns the status that counts, and whether the client disconnected first. A handler that
// panicked has failed, unless its client disconnected during the response.
func (w *response) end(panicked, gone bool) (status int, canceled bool) {
	if w.body != nil {
		w.body.End()
	}
	w.usage.End()
	switch {
	case panicked && (w.status == 0 || !gone):
		return http.StatusInternalServerError, gone
	case w.status == 0:
		return http.StatusOK, false
	}
	return w.status, w.canceled
}

// cost returns the number that s finds in the response.
func (w *response) cost(s policy.Settle) (n int64, err error) {
	if s.Header != "" {
		return bodycost.FromHeader(w.Header(), s.Header)
	}
	if s.Meter != nil {
		return w.metered(s.Meter)
	}
	if s.Expr != nil {
		return s.Expr.Cost(policy.Normalize(w.attributes), result{w})
	}
	return bodycost.Sum(w.members, s.Paths())
}

// A result implements policy.ResponseValues.
type result struct{ *response }

func (r result) Status() int                              { return r.status }
func (r result) Header(name string) []string              { return r.response.Header()[name] }
func (r result) Body(path string) (json.RawMessage, bool) { return bodycost.Value(r.members, path) }

// WriteHeader implements [http.ResponseWriter].
func (w *response) WriteHeader(status int) {
	w.begin(status)
	if w.model == nil || !w.model.refused {
		w.ResponseWriter.WriteHeader(status)
	}
}

// Write implements [http.ResponseWriter]. The body is parsed also if the client disconnected.
func (w *response) Write(b []byte) (int, error) {
	w.begin(http.StatusOK)
	if w.body != nil {
		w.body.Write(b)
	}
	if w.model != nil {
		return w.model.write(w, b)
	}
	return w.ResponseWriter.Write(b)
}

// ReadFrom implements [io.ReaderFrom]. It uses that of the server if no policy reads the body.
func (w *response) ReadFrom(src io.Reader) (int64, error) {
	w.begin(http.StatusOK)
	if to, ok := w.ResponseWriter.(io.ReaderFrom); ok && w.body == nil && w.usage == nil {
		return to.ReadFrom(src)
	}
	return io.Copy(struct{ io.Writer }{w}, src)
}

// WriteString implements [io.StringWriter].
func (w *response) WriteString(s string) (int, error) { return w.Write([]byte(s)) }

// FlushError flushes for an http.ResponseController.
func (w *response) FlushError() error {
	w.begin(http.StatusOK)
	err := http.NewResponseController(w.ResponseWriter).Flush()
	if w.model != nil && w.model.life.Gone() {
		return nil
	}
	return err
}

// Unwrap returns the server's writer to an http.ResponseController.
func (w *response) Unwrap() http.ResponseWriter { return w.ResponseWriter }

// A requestBody records whether the client broke off the body of its request.
type requestBody struct {
	io.ReadCloser
	failed, closed atomic.Bool
}

// Read implements [io.Reader].
func (b *requestBody) Read(p []byte) (int, error) {
	n, err := b.ReadCloser.Read(p)
	if err != nil && err != io.EOF && !b.closed.Load() {
		b.failed.Store(true)
	}
	return n, err
}

// Close implements [io.Closer]. Errors of reads after it are not the client's.
func (b *requestBody) Close() error {
	b.closed.Store(true)
	return b.ReadCloser.Close()
}

func (b *requestBody) broken() bool { return b != nil && b.failed.Load() }
