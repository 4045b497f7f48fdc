package gateway

import (
	"context"
	"errors"
	"io"
	"maps"
	"net/http"
	"os"
	"sync"
	"time"
)

// errSilent is why a request was given up: its upstream said nothing.
var errSilent = errors.New("no answer within the timeout")

type exchangeKey struct{}

// An exchange watches one request until its answer begins. Its timer runs only
// while the upstream is to move; while the client's body is awaited a read
// deadline runs instead, so that each is blamed for its own silence.
type exchange struct {
	timeout time.Duration
	conn    *http.ResponseController
	h2      bool
	header  http.Header // of the answer
	kept    http.Header // what was in header before the upstream was asked

	mu    sync.Mutex
	timer *time.Timer
	done  bool  // the answer has begun, or never will
	body  error // why the client's body ended early
}

func newExchange(w http.ResponseWriter, r *http.Request, timeout time.Duration) *exchange {
	return &exchange{
		timeout: timeout,
		conn:    http.NewResponseController(w),
		h2:      r.ProtoMajor >= 2,
		header:  w.Header(),
		kept:    maps.Clone(w.Header()),
	}
}

func (x *exchange) start(cancel context.CancelCauseFunc) {
	x.mu.Lock()
	defer x.mu.Unlock()
	x.timer = time.AfterFunc(x.timeout, func() { cancel(errSilent) })
	if x.h2 {
		x.conn.SetReadDeadline(time.Time{}) // from here on only a Read has a deadline
	}
}

// stop ends the watch. From here on a stream may be silent as long as it likes.
func (x *exchange) stop() {
	x.mu.Lock()
	defer x.mu.Unlock()
	x.done = true
	x.timer.Stop()
	if x.h2 && x.body == nil {
		x.conn.SetReadDeadline(time.Time{})
	}
}

// awaitClient stops the clock of the upstream while the client is to move.
//
// On HTTP/1 the deadline stays on the connection until the body has ended: the
// server itself reads the rest of the body before it answers, and would wait for
// ever. A stream of HTTP/2 has no such rest, and a deadline that passes there
// breaks the stream even if nobody is reading.
func (x *exchange) awaitClient() {
	x.mu.Lock()
	defer x.mu.Unlock()
	x.timer.Stop()
	if !x.h2 || !x.done {
		x.conn.SetReadDeadline(time.Now().Add(x.timeout))
	}
}

// clientMoved starts the clock of the upstream afresh: it has something to do.
func (x *exchange) clientMoved(err error) {
	x.mu.Lock()
	defer x.mu.Unlock()
	if err != nil && err != io.EOF && x.body == nil {
		x.body = err
	}
	if err == io.EOF || x.h2 && !errors.Is(err, os.ErrDeadlineExceeded) {
		x.conn.SetReadDeadline(time.Time{}) // or the server would take it for the client's end
	}
	if !x.done {
		x.timer.Reset(x.timeout)
	}
}

func (x *exchange) bodyError() error {
	x.mu.Lock()
	defer x.mu.Unlock()
	return x.body
}

// answered is called when the head of an answer is there, be it 101. What others
// had put into the answer's header before, such as what the limits say, is put
// back if an interim answer of the upstream made ReverseProxy clear it, and stands
// in the place of what the upstream says under the same name.
func answered(r *http.Response) error {
	x := r.Request.Context().Value(exchangeKey{}).(*exchange)
	x.stop()
	for name, values := range x.kept {
		x.header[name] = values
		r.Header.Del(name)
	}
	return nil
}

// A body is a request body that may not stop for longer than the timeout.
type body struct {
	io.ReadCloser
	x *exchange
}

func (b *body) Read(p []byte) (int, error) {
	b.x.awaitClient()
	n, err := b.ReadCloser.Read(p)
	b.x.clientMoved(err)
	return n, err
}

// guardBody gives a request with a body a deadline for its first bytes, so that a
// client that is refused does not hold its connection by sending none.
func guardBody(timeout time.Duration, next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Body != nil && r.Body != http.NoBody {
			http.NewResponseController(w).SetReadDeadline(time.Now().Add(timeout))
		}
		next.ServeHTTP(w, r)
	})
}
