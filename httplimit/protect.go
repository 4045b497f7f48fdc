package httplimit

import (
	"bufio"
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"strconv"
	"time"

	"github.com/floodweir/weir/protect"
)

// ProtectConfig configures [Protect]. Only Chain is required.
type ProtectConfig struct {
	// Chain decides about requests. It may be shared by handlers of one resource.
	Chain *protect.Chain

	// Class returns the priority class of a request, for a [protect.System]; all requests have
	// the default class if nil.
	Class func(*http.Request) string

	// Exempt reports whether a request, such as a health check, is neither limited nor
	// measured; none is if nil.
	Exempt func(*http.Request) bool

	// Failed reports whether a response with this status failed; 500 and above if nil.
	Failed func(status int) bool

	// RetryJitter is the maximum random time that is added to Retry-After; 1s if zero.
	RetryJitter time.Duration
}

// errFailed is the result of a request whose response failed.
var errFailed = errors.New("httplimit: the response failed")

// Protect returns a middleware that rejects requests with 503 while a resource is overloaded: see
// package protect. [ProtectionField] and the body name the protection. It belongs in front of the rate limits, which then charge no rejected request,
// and which release what it holds for a request that they deny.
//
//	handler = httplimit.Protect(httplimit.ProtectConfig{Chain: chain})(limits.Wrap(handler))
func Protect(c ProtectConfig) func(http.Handler) http.Handler {
	if c.Class == nil {
		c.Class = func(*http.Request) string { return "" }
	}
	if c.Exempt == nil {
		c.Exempt = func(*http.Request) bool { return false }
	}
	if c.Failed == nil {
		c.Failed = func(status int) bool { return status >= http.StatusInternalServerError }
	}
	if c.RetryJitter == 0 {
		c.RetryJitter = time.Second
	}
	return func(next http.Handler) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if c.Exempt(r) {
				next.ServeHTTP(w, r)
				return
			}
			ctx, pass, err := c.Chain.Enter(r.Context(), c.Class(r))
			if err != nil {
				c.reject(w, err)
				return
			}
			res := &firstByte{ResponseWriter: w, ctx: ctx, pass: pass, failed: c.Failed}
			defer func() {
				switch { // if the handler sent nothing
				case ctx.Err() != nil:
					pass.End(context.Canceled)
				case res.returned:
					pass.End(nil)
				default:
					pass.End(errFailed) // it panicked
				}
			}()
			r = r.WithContext(ctx)
			if r.Body != nil && r.Body != http.NoBody {
				r.Body = &slowBody{r.Body, pass}
			}
			next.ServeHTTP(res, r)
			res.returned = true
		})
	}
}

// reject responds to a request that a protection refused.
func (c *ProtectConfig) reject(w http.ResponseWriter, err error) {
	body, retry := []byte(reducedCapacity), time.Second
	var rejected *protect.Rejected
	if errors.As(err, &rejected) {
		w.Header().Set(ProtectionField, rejected.Name)
		body = append(body[:len(body)-2], `,"protection":`...)
		body = strconv.AppendQuoteToASCII(body, rejected.Name)
		body = append(body, "}\n"...)
		retry = rejected.RetryAfter()
	}
	respond(w, nil, http.StatusServiceUnavailable, problemType, body, retry, c.RetryJitter)
}

// A slowBody is the body of a request. The time that it waits for the client is not latency: slow
// clients must not open a breaker.
type slowBody struct {
	io.ReadCloser
	pass *protect.Pass
}

// Read implements [io.Reader].
func (b *slowBody) Read(p []byte) (int, error) {
	defer b.pass.Waited(b.pass.Now())
	return b.ReadCloser.Read(p)
}

// A firstByte is a ResponseWriter that reports the beginning of the response.
type firstByte struct {
	http.ResponseWriter
	ctx      context.Context // of the request
	pass     *protect.Pass
	failed   func(status int) bool
	begun    bool
	returned bool // the handler has returned
}

func (w *firstByte) begin(status int) {
	if w.begun || status < 200 && status != http.StatusSwitchingProtocols {
		return
	}
	w.begun = true
	switch {
	case !w.failed(status):
		w.pass.Respond(nil)
	case w.ctx.Err() != nil:
		w.pass.Respond(context.Canceled)
	default:
		w.pass.Respond(errFailed)
	}
}

// WriteHeader implements [http.ResponseWriter].
func (w *firstByte) WriteHeader(status int) {
	w.begin(status)
	w.ResponseWriter.WriteHeader(status)
}

// Write implements [http.ResponseWriter].
func (w *firstByte) Write(b []byte) (int, error) {
	w.begin(http.StatusOK)
	return w.ResponseWriter.Write(b)
}

// ReadFrom implements [io.ReaderFrom].
func (w *firstByte) ReadFrom(src io.Reader) (int64, error) {
	w.begin(http.StatusOK)
	return io.Copy(w.ResponseWriter, src) // uses the ReadFrom of the server
}

// Flush implements [http.Flusher].
func (w *firstByte) Flush() { _ = w.FlushError() }

// FlushError implements Flush for an http.ResponseController.
func (w *firstByte) FlushError() error {
	w.begin(http.StatusOK)
	return http.NewResponseController(w.ResponseWriter).Flush()
}

// Hijack implements [http.Hijacker].
func (w *firstByte) Hijack() (net.Conn, *bufio.ReadWriter, error) {
	conn, rw, err := http.NewResponseController(w.ResponseWriter).Hijack()
	if err == nil {
		w.begin(http.StatusSwitchingProtocols)
	}
	return conn, rw, err
}

// Unwrap returns the server's writer to an http.ResponseController.
func (w *firstByte) Unwrap() http.ResponseWriter { return w.ResponseWriter }
