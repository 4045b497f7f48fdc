package load

import (
	"bytes"
	"context"
	"net/http"
	"time"

	"github.com/floodweir/weir/flashsale/verify/calllog"
)

// The misuses of a Mixed user around its purchase, in this order.
const (
	damaged     = iota // a token with one changed letter
	stolen             // the token of another user
	doubleClick        // the purchase on two connections at once
	sameKey            // again, as a browser does after a lost response
	noKey              // again, with the token only
	misuses
)

// misuse makes the next misuse of an admitted user.
func (w *worker) misuse(ctx context.Context, u *user, key []byte) (time.Duration, bool) {
	token := u.token
	kind := u.misuse
	switch kind {
	case damaged:
		token = bytes.Clone(token)
		if at := len(token) / 2; token[at] == 'A' {
			token[at] = 'B'
		} else {
			token[at] = 'A'
		}
		key = append(key, "-d"...) // a separate purchase
	case stolen:
		if len(w.otherToken) == 0 || bytes.Equal(w.otherToken, token) {
			w.otherToken = append(w.otherToken[:0], u.token...)
			u.misuse++
			return 0, true
		}
		token = bytes.Clone(w.otherToken)
		w.otherToken = append(w.otherToken[:0], u.token...)
		key = append(key, "-s"...)
	case doubleClick:
		w.twin.ask <- twinCall{u, bytes.Clone(token), bytes.Clone(key)}
	case noKey:
		key = nil
	}
	status := 0
	if w.ask(ctx, u, buy, token, key, -1) {
		status = w.res.StatusCode()
	}
	if kind == doubleClick {
		twin := <-w.twin.answer
		if status == http.StatusAccepted && twin == http.StatusAccepted && !bytes.Equal(w.a.receipt, w.twin.w.a.receipt) {
			w.faults["double click bought twice"]++
		}
		// One of the two is usually refused because the other is in progress. Such a refusal
		// does not decide the purchase.
		if decides(twin) && !decides(status) || twin == http.StatusAccepted && status != http.StatusAccepted {
			w.twin.w.res.CopyTo(&w.res)
			w.a.read(w.res.Body())
			status = twin
		}
	}
	if status == 0 {
		return soon, true
	}
	if kind <= stolen {
		if status < 400 {
			w.faults["accepted a token that is "+[]string{"damaged", "another user's"}[kind]]++
		}
		if decides(status) {
			u.misuse++
		}
		return soon, true
	}
	switch {
	case status == http.StatusAccepted && len(u.receipt) == 0:
		u.receipt = append(u.receipt, w.a.receipt...)
		w.clients.granted(time.Since(w.clients.began))
		u.misuse++
	case status == http.StatusAccepted:
		if !bytes.Equal(u.receipt, w.a.receipt) {
			w.faults["repeated order returned another receipt"]++
		}
		u.misuse++
	case len(u.receipt) == 0:
		// w.a and w.res hold the refusal.
		after, again := w.refused(u, buy, status)
		if !again {
			w.leave(u)
		}
		return after, again
	case decides(status) && w.clients.Lossy:
		u.refusedRepeat = refusedAgain + string(w.a.reason) // a fault unless the order has ended: see orderStatus
		u.misuse++
	case decides(status):
		w.faults[refusedAgain+string(w.a.reason)]++
		u.misuse++
	}
	if u.misuse < misuses {
		return soon, true
	}
	after, again := w.purchased(u)
	if !again {
		w.leave(u)
	}
	return after, again
}

// refusedAgain begins a fault, before the reason.
const refusedAgain = "repeated order was refused: "

// decides reports whether a response decides a purchase.
func decides(status int) bool {
	return status != 0 && status != http.StatusTooManyRequests && status != http.StatusServiceUnavailable
}

// misuseOf returns the deliberate error of a call, for the auditor.
func (w *worker) misuseOf(u *user, c call) calllog.Misuse {
	if w.clients.Profile != Mixed || c != buy {
		return calllog.Valid
	}
	switch u.misuse {
	case damaged:
		return calllog.Forged
	case stolen:
		return calllog.Stolen
	case sameKey, noKey:
		return calllog.Replayed
	}
	return calllog.Valid
}

// A twin is the second connection of a worker, for concurrent calls. It returns the status, 0
// for none; the response is in w until the next call.
type twin struct {
	w      *worker
	ask    chan twinCall
	answer chan int
}

type twinCall struct {
	u          *user
	token, key []byte
}

func (t *twin) work(ctx context.Context) {
	defer t.w.close()
	for c := range t.ask {
		u := *c.u // a copy: the worker changes its own
		status := 0
		if t.w.ask(ctx, &u, buy, c.token, c.key, -1) {
			status = t.w.res.StatusCode()
		}
		t.answer <- status
	}
}
