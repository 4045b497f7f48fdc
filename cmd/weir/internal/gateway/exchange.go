package gateway

import (
	"context"
	"errors"
	"io"
	"maps"
	"net/http"
	"os"
	"sync"
	"sync/atomic"
	"time"
)

// errTimeout is the cause of a canceled request whose upstream sent no response in time.
var errTimeout = errors.New("no response within the timeout")

type exchangeKey struct{}

// An exchange holds the timeouts of one request until its response begins. The timer runs
// only while the upstream has to act. While the client's body is awaited, a read deadline
// runs instead. So each timeout is reported for the side that caused it.
type exchange struct {
	timeout       time.Duration
	conn          *http.ResponseController
	h2            bool
	header        http.Header // of the response
	initialHeader http.Header // header before the request was forwarded
	sized         bool        // the response has a Content-Length

	mu         sync.Mutex
	timer      *time.Timer
	done       bool  // the response has begun, or never will
	body       error // the error of reading the client's body
	bodyUnread bool  // the body has not ended
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
		x.conn.SetReadDeadline(time.Time{}) // from here on only reads have a deadline
	}
}

// stop ends the timeouts. From here on a stream may be silent for any time.
func (x *exchange) stop() {
	x.mu.Lock()
	defer x.mu.Unlock()
	x.done = true
	x.timer.Stop()
	if x.h2 && x.body == nil {
		x.conn.SetReadDeadline(time.Time{})
	}
}

// watch wraps the body of the request. size is its announced length, or -1.
func (x *exchange) watch(b io.ReadCloser, size int64) io.ReadCloser {
	x.bodyUnread = true
	return &body{ReadCloser: b, x: x, left: size}
}

// closeEarly closes a connection of HTTP/1 whose response begins before the end of the
// body. The rest of the body must not be parsed as the next request. If the connection
// stayed open, the server would also read the rest for itself: the upstream would receive
// an incomplete body, or the transport would abort the response.
func (x *exchange) closeEarly() {
	x.mu.Lock()
	defer x.mu.Unlock()
	if x.bodyUnread && !x.h2 {
		x.header.Set("Connection", "close")
	}
}

// awaitClient stops the timer while the client has to act.
//
// On HTTP/1 the deadline stays until the body has ended, so that reading the rest of it
// is bounded. A stream of HTTP/2 has no such rest, and an expired deadline breaks the
// stream even without a reader.
func (x *exchange) awaitClient() {
	x.mu.Lock()
	defer x.mu.Unlock()
	x.timer.Stop()
	if !x.h2 || !x.done {
		x.conn.SetReadDeadline(time.Now().Add(x.timeout))
	}
}

// clientMoved restarts the timer, because the upstream has data to process. whole means
// that the body has ended.
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
		x.conn.SetReadDeadline(time.Time{}) // or the server would treat it as the end of the client
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

// beginResponse handles the header of a response, 101 included. It restores the fields
// that were set before the request was forwarded, such as those of the limits:
// ReverseProxy clears them after an interim response. They replace fields of the upstream
// with the same name.
func beginResponse(r *http.Response) error {
	x := r.Request.Context().Value(exchangeKey{}).(*exchange)
	x.stop()
	x.closeEarly()
	for name, values := range x.initialHeader {
		x.header[name] = values
		r.Header.Del(name)
	}
	x.sized = r.ContentLength >= 0 && r.StatusCode != http.StatusSwitchingProtocols
	return nil
}

// A body is a request body that may not pause for longer than the timeout.
type body struct {
	io.ReadCloser
	x    *exchange
	left int64 // announced bytes to read; negative if the length is unknown
}

func (b *body) Read(p []byte) (int, error) {
	if b.left == 0 {
		return 0, io.EOF // the server may have closed the body after its end
	}
	b.x.awaitClient()
	n, err := b.ReadCloser.Read(p)
	b.left -= int64(n)
	b.x.clientMoved(err, err == io.EOF || b.left == 0)
	return n, err
}

// lingerBody bounds the time in which the rest of an unwanted body is read: a client that
// sends everything before it reads can then finish.
const lingerBody = time.Second

// Close interrupts a waiting Read, which on HTTP/1 would delay the end of the response.
func (b *body) Close() error {
	b.x.mu.Lock()
	if b.x.bodyUnread && !b.x.h2 {
		b.x.conn.SetReadDeadline(time.Now().Add(lingerBody))
	}
	b.x.mu.Unlock()
	return b.ReadCloser.Close()
}

// limitFirstByte gives a request with a body a deadline for its first bytes, so that a
// refused client cannot hold its connection by sending none. A refused stream of HTTP/2
// ends without its body, and a deadline would break one that waits in a queue. A body that the
// limits have read to its end has no deadline: it would cancel a request that waits.
func limitFirstByte(timeout time.Duration, next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.ProtoMajor < 2 && r.Body != nil && r.Body != http.NoBody {
			conn := http.NewResponseController(w)
			conn.SetReadDeadline(time.Now().Add(timeout))
			body := &firstByteBody{ReadCloser: r.Body, conn: conn}
			r.Body = body
			defer func() {
				if !body.done.Load() { // a refused client, whose body was perhaps read in part
					conn.SetReadDeadline(time.Now().Add(timeout))
				}
			}()
		}
		next.ServeHTTP(w, r)
	})
}

// A firstByteBody removes the deadline of its first bytes at its end.
type firstByteBody struct {
	io.ReadCloser
	conn *http.ResponseController
	done atomic.Bool // it ended, failed or was closed
}

// Read implements [io.Reader].
func (b *firstByteBody) Read(p []byte) (int, error) {
	n, err := b.ReadCloser.Read(p)
	if err != nil {
		b.done.Store(true)
	}
	if err == io.EOF {
		b.conn.SetReadDeadline(time.Time{})
	}
	return n, err
}

// Close implements [io.Closer].
func (b *firstByteBody) Close() error {
	b.done.Store(true)
	return b.ReadCloser.Close()
}
