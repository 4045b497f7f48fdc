package plainhttp

import (
	"bufio"
	"cmp"
	"net/http"
	"strconv"
	"strings"
	"sync/atomic"
	"time"
)

// maxHeld is the number of body bytes that are held back, because a response that ends within
// them gets a Content-Length. It is that of the http.Server: sizes of chunks depend on it.
const maxHeld = 2048

// A response is an http.ResponseWriter. It belongs to a connection, and is reused for each request.
type response struct {
	c      *conn
	r      *http.Request
	ctx    *requestContext
	header http.Header

	status   int      // of the final header; 0 before WriteHeader
	lacks    bool     // header lacks the further fields of Begin, which head has
	head     head     // at that time
	length   int64    // the Content-Length, or -1
	written  int64    // bytes of the body, also those that are not sent
	trailers []string // announced

	held    *bufio.Writer // the body, to a sender
	begun   bool          // the head is in the buffer of the connection
	chunked bool
	done    bool // the handler has returned
	last    bool // the connection closes after this response

	deadline atomic.Int64 // of writes, in ns since the epoch of the Listener; 0: none
	buf      []byte
}

// A connection keeps the memory of at most so many header fields, and bytes of them.
const (
	keptFields = 64
	keptBytes  = 8 << 10
)

// reset prepares w for a request.
func (w *response) reset(r *http.Request, ctx *requestContext) {
	w.r, w.ctx, w.status, w.length, w.written, w.trailers = r, ctx, 0, -1, 0, nil
	w.begun, w.chunked, w.done, w.last, w.lacks = false, false, false, false, false
	w.deadline.Store(0)
}

// release drops what a response has set, so that an idle connection does not hold it.
func (w *response) release() {
	if len(w.header) > keptFields || cap(w.buf) > keptBytes {
		w.header, w.head.fields, w.buf = http.Header{}, nil, nil
	}
	clear(w.header)
	clear(w.head.fields)
}

// Header implements [http.ResponseWriter].
func (w *response) Header() http.Header {
	if w.lacks {
		w.lacks = false
		w.head.complete(w.header)
	}
	return w.header
}

// WriteHeader implements [http.ResponseWriter].
func (w *response) WriteHeader(status int) { w.writeHeader(status, nil) }

// writeHeader implements WriteHeader, with further fields: see [Begin].
func (w *response) writeHeader(status int, more []Pair) {
	switch {
	case w.status != 0:
		w.c.l.logf("http: superfluous response.WriteHeader call: got %d after %d", status, w.status)
		return
	case status < 100 || status > 999:
		panic("invalid WriteHeader code " + strconv.Itoa(status))
	}
	w.head.take(w.header, more)
	if status < 200 && status != http.StatusSwitchingProtocols {
		w.buf = w.head.append(appendStatus(w.buf[:0], status), lengthField|transferField)
		w.c.out.Write(append(w.buf, "\r\n"...))
		w.c.out.Flush()
		return
	}
	w.status, w.lacks = status, len(more) > 0
	if text := w.head.length; text != "" {
		if n, err := strconv.ParseInt(text, 10, 64); err == nil && n >= 0 {
			w.length = n
		} else {
			w.c.l.logf("http: invalid Content-Length of %q", text)
			delete(w.header, "Content-Length")
		}
	}
}

// Write implements [http.ResponseWriter].
func (w *response) Write(p []byte) (int, error) {
	if err := w.mayWrite(len(p)); err != nil || len(p) == 0 {
		return 0, err
	}
	return w.held.Write(p)
}

// WriteString implements [io.StringWriter].
func (w *response) WriteString(s string) (int, error) {
	if err := w.mayWrite(len(s)); err != nil || s == "" {
		return 0, err
	}
	return w.held.WriteString(s)
}

// mayWrite counts n further bytes of the body, or returns why there may be none.
func (w *response) mayWrite(n int) error {
	if w.status == 0 {
		w.WriteHeader(http.StatusOK)
	}
	switch {
	case n == 0:
		return nil
	case !hasBody(w.status):
		return http.ErrBodyNotAllowed
	}
	if w.written += int64(n); w.length >= 0 && w.written > w.length {
		return http.ErrContentLength
	}
	return nil
}

// FlushError supports [http.ResponseController].
func (w *response) FlushError() error {
	if w.status == 0 {
		w.WriteHeader(http.StatusOK)
	}
	err := w.held.Flush()
	if !w.begun {
		w.begin(nil)
	}
	return cmp.Or(err, w.c.out.Flush())
}

// Holds reports whether a response to a plain request is complete, and is sent when its handler
// returns.
func Holds(w http.ResponseWriter) bool {
	for {
		switch of := w.(type) {
		case *response:
			return !of.begun && of.status != 0 && of.length == of.written
		case interface{ Unwrap() http.ResponseWriter }:
			w = of.Unwrap()
		default:
			return false
		}
	}
}

// Flush implements [http.Flusher].
func (w *response) Flush() { _ = w.FlushError() }

// SetReadDeadline supports [http.ResponseController]. The request has arrived completely.
func (w *response) SetReadDeadline(time.Time) error { return nil }

// SetWriteDeadline supports [http.ResponseController].
func (w *response) SetWriteDeadline(t time.Time) error {
	by := int64(0)
	if !t.IsZero() {
		by = max(1, int64(t.Sub(w.c.l.epoch)))
	}
	w.deadline.Store(by)
	return nil
}

// EnableFullDuplex supports [http.ResponseController].
func (w *response) EnableFullDuplex() error { return nil }

// finish completes the response after its handler. It reports whether another request may follow.
func (w *response) finish() bool {
	w.done = true
	if w.status == 0 {
		w.WriteHeader(http.StatusOK)
	}
	w.held.Flush()
	if !w.begun {
		w.begin(nil)
	}
	if w.chunked {
		w.c.out.WriteString("0\r\n")
		w.finalTrailers().Write(w.c.out)
		w.c.out.WriteString("\r\n")
	}
	w.c.out.Flush()
	complete := w.r.Method == http.MethodHead || w.length < 0 || !hasBody(w.status) || w.length == w.written
	return !w.last && complete && !w.c.failed
}

// A sender sends pieces of the body of a response.
type sender struct{ w *response }

// Write implements [io.Writer].
func (s sender) Write(p []byte) (n int, err error) {
	w, out := s.w, s.w.c.out
	if !w.begun {
		w.begin(p)
	}
	if w.r.Method == http.MethodHead {
		return len(p), nil
	}
	if w.chunked {
		out.Write(append(strconv.AppendInt(out.AvailableBuffer(), int64(len(p)), 16), "\r\n"...))
	}
	n, err = out.Write(p)
	if w.chunked && err == nil {
		_, err = out.WriteString("\r\n")
	}
	if err != nil {
		w.c.Conn.Close()
	}
	return n, err
}

// begin puts the head of the response into the buffer. p is the begin of the body, which is all
// of it if the handler has returned.
func (w *response) begin(p []byte) {
	w.begun = true
	h, closing := &w.head, w.c.l.closing.Load()
	isHead, body := w.r.Method == http.MethodHead, hasBody(w.status)
	for _, v := range h.trailer {
		w.announce(v)
	}
	var cut known
	var more [3]string // Content-Type, Connection and Transfer-Encoding to add
	var buf [20]byte
	var length []byte // a Content-Length to add
	if w.done && !h.trails && len(h.trailer) == 0 && h.transfer == "" && body && h.has&lengthField == 0 && (!isHead || len(p) > 0) {
		w.length = int64(len(p))
		length = strconv.AppendInt(buf[:0], w.length, 10)
	}
	w.last = h.connection == "close" || closing
	switch {
	case !body:
		cut |= lengthField | transferField
		if w.status == http.StatusNotModified {
			cut |= typeField
		}
	case !h.encoded && h.has&typeField == 0 && h.transfer == "" && len(p) > 0:
		more[0] = http.DetectContentType(p)
	}
	sized := w.length >= 0
	if sized && h.transfer != "" && h.transfer != "identity" {
		w.c.l.logf("http: WriteHeader called with both Transfer-Encoding of %q and a Content-Length of %d", h.transfer, w.length)
		cut |= lengthField
		sized = false
	}
	switch {
	case isHead || !body || sized:
		cut |= transferField
	case h.transfer == "identity":
		cut |= transferField
		w.last = true
	default:
		w.chunked, more[2] = true, "chunked"
		cut |= lengthField
		if h.transfer == "chunked" {
			cut |= transferField
		}
	}
	if w.last && (closing || !hasClose(h.connection)) && w.status != http.StatusSwitchingProtocols {
		cut |= connectionField
		more[1] = "close"
	}
	b := h.append(appendStatus(w.buf[:0], w.status), cut)
	if h.has&dateField == 0 {
		b = appendLine(b, "Date", w.c.l.date())
	}
	if length != nil {
		b = append(append(append(b, "Content-Length: "...), length...), "\r\n"...)
	}
	for i, name := range [...]string{"Content-Type", "Connection", "Transfer-Encoding"} {
		if more[i] != "" {
			b = appendLine(b, name, more[i])
		}
	}
	w.buf = append(b, "\r\n"...)
	w.c.out.Write(w.buf)
}

// announce records the trailers that a value of the field Trailer lists.
func (w *response) announce(list string) {
	for name := range strings.SplitSeq(list, ",") {
		switch name = http.CanonicalHeaderKey(strings.Trim(name, " \t")); {
		case name == "" || forbidsTrailer(name):
		default:
			w.trailers = append(w.trailers, name)
		}
	}
}

// finalTrailers returns the trailers of the response.
func (w *response) finalTrailers() http.Header {
	var all http.Header
	for name, values := range w.header {
		if name, ok := strings.CutPrefix(name, http.TrailerPrefix); ok {
			if all == nil {
				all = http.Header{}
			}
			all[name] = values
		}
	}
	for _, name := range w.trailers {
		if all == nil {
			all = http.Header{}
		}
		for _, v := range w.header[name] {
			all.Add(name, v)
		}
	}
	return all
}

// hasBody reports whether a response with this status may have a body.
func hasBody(status int) bool {
	return status >= 200 && status != http.StatusNoContent && status != http.StatusNotModified
}
