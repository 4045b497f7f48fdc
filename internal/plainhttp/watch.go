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
type watch struct {
	nc      net.Conn
	after   time.Duration
	timer   *time.Timer
	running bool // between begin and end
	ctx     *requestContext

	mu      sync.Mutex // guards the fields below after the timer has fired
	changed sync.Cond
	ended   bool // the response is complete
	reading bool
	done    bool // run has returned, or will without a further effect
	byte    [1]byte
	got     bool // byte was read
}

func (w *watch) init(nc net.Conn, after time.Duration) {
	w.nc, w.after, w.changed.L = nc, after, &w.mu
	w.timer = time.AfterFunc(time.Hour, w.run)
	w.timer.Stop()
}

// begin begins to watch for a request, whose context ends when the client disconnects.
func (w *watch) begin(ctx *requestContext) {
	w.running, w.ctx, w.ended, w.done = true, ctx, false, false
	w.timer.Reset(w.after)
}

// end ends what begin began. It reports whether it has removed the read deadline.
func (w *watch) end() (changed bool) {
	if !w.running {
		return false
	}
	if w.running = false; w.timer.Stop() {
		return false
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.ended = true; w.reading {
		w.nc.SetReadDeadline(time.Unix(1, 0))
	}
	for !w.done {
		w.changed.Wait()
	}
	w.nc.SetReadDeadline(time.Time{})
	return true
}

// take copies what was read to p.
func (w *watch) take(p []byte) int {
	if !w.got {
		return 0
	}
	w.got = false
	return copy(p, w.byte[:])
}

// run reads a byte, or until end. It is called by the timer.
func (w *watch) run() {
	w.mu.Lock()
	defer w.mu.Unlock()
	if !w.ended {
		w.nc.SetReadDeadline(time.Time{})
		w.reading = true
		w.mu.Unlock()
		n, err := w.nc.Read(w.byte[:])
		w.mu.Lock()
		w.reading, w.got = false, n > 0
		if err != nil && !(w.ended && errors.Is(err, os.ErrDeadlineExceeded)) {
			w.ctx.end()
		}
	}
	w.done = true
	w.changed.Broadcast()
}
