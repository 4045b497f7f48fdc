package load

import (
	"context"
	"errors"
	"io"
	"net"
	"os"
	"strconv"
	"syscall"
	"time"

	"github.com/floodweir/weir/flashsale/sale"
	"github.com/floodweir/weir/flashsale/verify/calllog"
)

// A worker is a connection with its users.
type worker struct {
	clients  *clients
	users    []user
	arrivals []event   // users without a request yet, the earliest first
	due      eventHeap // users with a response before
	wire
	a          response
	key        []byte
	otherToken []byte // Mixed: the last token of another user of this worker
	twin       *twin

	lostUnits int64

	status   [600]int64
	reasons  map[string]int64
	layers   map[string]int64
	errors   map[string]int64
	faults   map[string]int64
	buffered []calllog.Call
	sampled  map[calllog.Call]*calllog.Call // refusals that are equal
}

// run makes the calls of all users when they are due, until none is left or ctx is done.
func (w *worker) run(ctx context.Context) {
	defer w.close()
	alarm := time.NewTimer(0)
	defer alarm.Stop()
	for len(w.arrivals)+len(w.due) > 0 && w.running(ctx) {
		e := w.next(int64(time.Since(w.clients.began)))
		if wait := time.Duration(e.due) - time.Since(w.clients.began); wait > 0 {
			alarm.Reset(wait)
			select {
			case <-alarm.C:
			case <-ctx.Done():
				return
			case <-w.clients.end:
				return
			}
		}
		u := &w.users[e.user]
		if after, again := w.step(ctx, u, time.Duration(e.due)); again {
			w.due.push(event{int64(time.Since(w.clients.began) + after), e.user})
		}
	}
}

// next returns the next due user. A user with an earlier response goes before a user without
// one, as a client with an open connection would.
func (w *worker) next(now int64) event {
	if len(w.due) > 0 && (len(w.arrivals) == 0 || w.due[0].due <= max(now, w.arrivals[0].due)) {
		return w.due.pop()
	}
	first := w.arrivals[0]
	w.arrivals = w.arrivals[1:]
	return first
}

func (w *worker) running(ctx context.Context) bool {
	return ctx.Err() == nil && w.clients.left.Load() >= 0
}

// flood requests tickets without a pause.
func (w *worker) flood(ctx context.Context) {
	defer w.close()
	for w.running(ctx) {
		for i := range w.users {
			if !w.running(ctx) {
				return
			}
			u := &w.users[i]
			w.ask(ctx, u, u.next, nil, nil, -1)
			if u.next == session {
				w.startSession(u)
			}
		}
	}
}

// ask makes one call, and reads and counts its response. It reports whether there is one.
func (w *worker) ask(ctx context.Context, u *user, c call, token, key []byte, due time.Duration) bool {
	switch left := w.clients.left.Add(-1); {
	case left == -1:
		close(w.clients.end)
		return false
	case left < 0:
		return false
	}
	sent, err := w.wire.ask(ctx, func(b []byte) []byte { return w.render(b, c, u, token, key) })
	at := time.Now()
	if err != nil {
		if ctx.Err() == nil { // otherwise the end of the run cut it off
			w.errors[kindOf(err)]++
		}
		w.a = response{}
		w.record(u, c, sent, at, 0, token, key)
		return false
	}
	r := w.clients
	r.requests.Add(1)
	r.all.Add(at.Sub(sent))
	r.calls[c].Add(at.Sub(sent))
	if due >= 0 {
		r.due.Add(at.Sub(r.began) - due)
	}
	if !u.answered {
		u.answered = true
		if r.unanswered.Add(-1) == 0 {
			r.busy.Store(int64(at.Sub(r.began)))
			r.inBusy.Store(r.requests.Load())
		}
	}
	status := w.res.StatusCode()
	if status < 100 || status > 599 {
		w.faults["invalid status"]++
		status = 599
	}
	w.status[status]++
	w.a.read(w.res.Body())
	if status >= 400 {
		w.refusal(status)
	} else if !w.a.complete {
		w.faults["response is not a JSON object"]++
	} else if len(w.a.reason) > 0 {
		w.faults["refusal with a success status"]++
	}
	w.record(u, c, sent, at, status, token, key)
	return true
}

// refusal counts a refusal.
func (w *worker) refusal(status int) {
	if len(w.a.reason) > 0 {
		w.reasons[string(w.a.reason)]++
	}
	if layer := w.layer(); len(layer) > 0 {
		w.layers[string(layer)]++
	} else if status == 429 {
		w.faults["429 without a layer"]++
	}
	if status == 429 && len(w.res.Header.Peek("Retry-After")) == 0 {
		w.faults["429 without Retry-After"]++
	}
}

// layer returns the layer that refused, if any.
func (w *worker) layer() []byte {
	if layer := w.res.Header.Peek("Flashsale-Layer"); len(layer) > 0 {
		return layer
	}
	return w.a.layer
}

// kindOf returns a short text for an error, without addresses.
func kindOf(err error) string {
	var op *net.OpError
	switch {
	case errors.Is(err, os.ErrDeadlineExceeded) || errors.Is(err, context.DeadlineExceeded):
		return "timeout"
	case errors.Is(err, syscall.ECONNREFUSED):
		return "connection refused"
	case errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) || errors.Is(err, syscall.ECONNRESET) || errors.Is(err, syscall.EPIPE):
		return "connection closed"
	case errors.As(err, &op):
		return op.Op
	}
	return "invalid HTTP response"
}

// step makes the next call of a user. It returns the delay before the following one, and whether
// there is one.
func (w *worker) step(ctx context.Context, u *user, due time.Duration) (after time.Duration, again bool) {
	key := w.keyOf(u)
	if u.next == buy {
		if w.clients.Profile == Mixed && u.misuse < misuses {
			after, again = w.misuse(ctx, u, key)
			return w.capPoll(after), again
		}
	}
	c := u.next
	var token []byte
	if c == buy {
		token = u.token
	}
	if !w.ask(ctx, u, c, token, key, due) {
		return soon, true
	}
	if string(w.a.reason) == string(sale.WorkRequired) {
		after, again = w.solveWork(ctx, u)
	} else {
		after, again = w.observed(u, c)
	}
	if !again {
		w.leave(u)
	}
	return w.capPoll(after), again
}

// keyOf returns the Idempotency-Key of a user's next call, or nil. A call that is repeated because
// its result is unknown has the same key, as in the page.
func (w *worker) keyOf(u *user) []byte {
	n := u.buys
	switch {
	case u.next == join && w.clients.Click:
		n = u.tickets
	case u.next != buy:
		return nil
	}
	w.key = append(strconv.AppendInt(append(append(w.key[:0], w.clients.Prefix...), '-'), int64(u.id), 10), '-')
	w.key = strconv.AppendInt(w.key, int64(n), 10)
	return w.key
}

// capPoll limits the delay before a user's next call to MaxPoll.
func (w *worker) capPoll(after time.Duration) time.Duration {
	if w.clients.MaxPoll > 0 {
		return min(after, w.clients.MaxPoll)
	}
	return after
}
