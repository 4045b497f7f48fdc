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
var errTimeout = errors.New("no answer within the timeout")

type exchangeKey struct{}

// An exchange watches one request until its answer begins. Its timer runs only
// while the upstream is to move; while the client's body is awaited a read
// deadline runs instead, so that each is blamed for its own silence.
type exchange struct {
	timeout       time.Duration
	conn          *http.ResponseController
	h2            bool
	header        http.Header // of the answer
	initialHeader http.Header // what was in header before the upstream was asked

	mu         sync.Mutex
	timer      *time.Timer
	done       bool  // the answer has begun, or never will
	body       error // why the client's body ended early
	bodyUnread bool  // some of the body is still to come
}

func newExchange(w http.ResponseWriter, r *http.Request, timeout time.Duration) *exchange {
	return &exchange{
		timeout:       timeout,
		conn:          http.NewResponseController(w),
		h2:            r.ProtoMajor >= 2,
		header:        w.Header(),
		initialHeader: maps.Clone(w.Header()),
	}
}

func (x *exchange) start(cancel context.CancelCauseFunc) {
	x.mu.Lock()
	defer x.mu.Unlock()
	x.timer = time.AfterFunc(x.timeout, func() { cancel(errTimeout) })
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

// watch is the body of the request, of which size bytes are announced, or -1.
func (x *exchange) watch(b io.ReadCloser, size int64) io.ReadCloser {
	x.bodyUnread = true
	return &body{ReadCloser: b, x: x, left: size}
}

// closeEarly ends a connection of HTTP/1 with an answer that begins before the end of
// the body: what is left of the body must not be taken for the next request. On a
// connection that goes on, the server would also take the rest for itself: the
// upstream would get a part for the whole, or the transport, finding the body gone,
// would cut the answer off.
func (x *exchange) closeEarly() {
	x.mu.Lock()
	defer x.mu.Unlock()
	if x.bodyUnread && !x.h2 {
		x.header.Set("Connection", "close")
	}
}

// awaitClient stops the clock of the upstream while the client is to move.
//
// On HTTP/1 the deadline stays on the connection until the body has ended: nobody
// may wait for its rest for ever. A stream of HTTP/2 has no such rest, and a deadline
// that passes there breaks the stream even if nobody is reading.
func (x *exchange) awaitClient() {
	x.mu.Lock()
	defer x.mu.Unlock()
	x.timer.Stop()
	if !x.h2 || !x.done {
		x.conn.SetReadDeadline(time.Now().Add(x.timeout))
	}
}

// clientMoved starts the clock of the upstream afresh: it has something to do.
// Whole says that the client has sent its body.
func (x *exchange) clientMoved(err error, whole bool) {
	x.mu.Lock()
	defer x.mu.Unlock()
	if whole {
		x.bodyUnread = false
	}
	if err != nil && err != io.EOF && x.body == nil {
		x.body = err
	}
	if whole || x.h2 && !errors.Is(err, os.ErrDeadlineExceeded) {
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
func beginResponse(r *http.Response) error {
	x := r.Request.Context().Value(exchangeKey{}).(*exchange)
	x.stop()
	x.closeEarly()
	for name, values := range x.initialHeader {
		x.header[name] = values
		r.Header.Del(name)
	}
	return nil
}

// A body is a request body that may not stop for longer than the timeout.
type body struct {
	io.ReadCloser
	x    *exchange
	left int64 // of what was announced; negative if nothing was
}

func (b *body) Read(p []byte) (int, error) {
	if b.left == 0 {
		return 0, io.EOF // the server may have closed a body that is whole
	}
	b.x.awaitClient()
	n, err := b.ReadCloser.Read(p)
	b.left -= int64(n)
	b.x.clientMoved(err, err == io.EOF || b.left == 0)
	return n, err
}

// lingerBody is how long the rest of a body is read that nobody wants: a client that
// reads no answer before it has sent everything may still get there.
const lingerBody = time.Second

// Close ends a Read that waits: on HTTP/1 it would keep the answer from its end.
func (b *body) Close() error {
	b.x.mu.Lock()
	if b.x.bodyUnread && !b.x.h2 {
		b.x.conn.SetReadDeadline(time.Now().Add(lingerBody))
	}
	b.x.mu.Unlock()
	return b.ReadCloser.Close()
}

// guardBody gives a request with a body a deadline for its first bytes, so that a
// client that is refused does not hold its connection by sending none. A refused
// stream of HTTP/2 ends without its body, and one that waits in a queue would be
// broken by a deadline.
func limitFirstByte(timeout time.Duration, next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.ProtoMajor < 2 && r.Body != nil && r.Body != http.NoBody {
			http.NewResponseController(w).SetReadDeadline(time.Now().Add(timeout))
		}
		next.ServeHTTP(w, r)
	})
}
