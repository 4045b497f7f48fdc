package plainhttp

import (
	"errors"
	"net"
	"os"
	"sync"
	"time"
)

// A watch reads from a connection while a request takes long, to find out that the client
// disconnects. A byte that it reads is that of a further request.
//
// Its timer does not stop at the end of each request: it runs once per after, and only while there are
// requests.
type watch struct {
	nc    net.Conn
	after time.Duration
	epoch time.Time
	timer *time.Timer

	mu      sync.Mutex // guards the fields below
	changed sync.Cond
	ctx     *requestContext // of the request in progress, or nil
	began   time.Duration   // of the request, since epoch
	set     bool            // the timer will call run, or run has not returned
	reading bool
	moved   bool // the read deadline was changed
	byte    [1]byte
	got     bool // byte was read
}

func (w *watch) init(nc net.Conn, after time.Duration, epoch time.Time) {
	w.nc, w.after, w.epoch, w.changed.L = nc, after, epoch, &w.mu
	w.timer = time.AfterFunc(time.Hour, w.run)
	w.timer.Stop()
}

// begin begins to watch for a request, whose context ends when the client disconnects.
func (w *watch) begin(ctx *requestContext) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.ctx, w.began = ctx, time.Since(w.epoch)
	if !w.set {
		w.set = true
		w.timer.Reset(w.after)
	}
}

// end ends what begin began. It reports whether it has removed the read deadline.
func (w *watch) end() (changed bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.ctx = nil
	if w.reading {
		w.nc.SetReadDeadline(time.Unix(1, 0))
		for w.reading {
			w.changed.Wait()
		}
		w.nc.SetReadDeadline(time.Time{})
	}
	changed, w.moved = w.moved, false
	return changed
}

// close ends w for good.
func (w *watch) close() {
	w.end()
	w.timer.Stop()
}

// take copies what was read to p. It is called between requests.
func (w *watch) take(p []byte) int {
	if !w.got {
		return 0
	}
	w.got = false
	return copy(p, w.byte[:])
}

// run reads a byte, or until end, if the request in progress takes long. It is called by the timer.
func (w *watch) run() {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.ctx != nil {
		if left := w.after - (time.Since(w.epoch) - w.began); left > 0 {
			w.timer.Reset(left)
			return
		}
		ctx := w.ctx
		w.nc.SetReadDeadline(time.Time{})
		w.reading, w.moved = true, true
		w.mu.Unlock()
		n, err := w.nc.Read(w.byte[:])
		w.mu.Lock()
		w.reading, w.got = false, n > 0
		if err != nil && !(w.ctx == nil && errors.Is(err, os.ErrDeadlineExceeded)) {
			ctx.end()
		}
		w.changed.Broadcast()
	}
	w.set = false
}
