package load

import (
	"bytes"
	"context"
	"net/http"
	"time"

	"github.com/floodweir/weir/flashsale/verify/auditor"
)

// What a user of Mixed does around its one purchase, in this order.
const (
	damaged     = iota // a token with a letter changed
	stolen             // another user's
	doubleClick        // the purchase, on two connections at once
	sameKey            // again, as a browser does that lost the answer
	noKey              // again, by its token alone
	misuses
)

// mischief is the next trick of a user who is admitted.
func (w *worker) misuse(ctx context.Context, u *user, key []byte) (time.Duration, bool) {
	token := u.token
	trick := u.misuse
	switch trick {
	case damaged:
		token = bytes.Clone(token)
		if at := len(token) / 2; token[at] == 'A' {
			token[at] = 'B'
		} else {
			token[at] = 'A'
		}
		key = append(key, "-d"...) // what is tried with it is another purchase
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
	ok := w.ask(ctx, u, buy, token, key, -1)
	status := 0
	if ok {
		status = w.res.StatusCode()
	}
	if trick == doubleClick {
		twin := <-w.twin.answer
		if status == http.StatusAccepted && twin == http.StatusAccepted && !bytes.Equal(w.a.receipt, w.twin.w.a.receipt) {
			w.faults["a double click bought twice"]++
		}
		// One of two is refused because the other is under way, mostly. What it is told
		// then says nothing of the purchase.
		if decides(twin) && !decides(status) || twin == http.StatusAccepted && status != http.StatusAccepted {
			w.twin.w.res.CopyTo(&w.res)
			w.a.read(w.res.Body())
			status = twin
		}
	}
	if status == 0 {
		return soon, true
	}
	if trick <= stolen {
		if status < 400 {
			w.faults["a token was believed that is "+[]string{"damaged", "another user's"}[trick]]++
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
			w.faults["asked again, the answer was another receipt"]++
		}
		u.misuse++
	case len(u.receipt) == 0:
		// w.a and w.res are of the refusal.
		after, again := w.refused(u, buy, status)
		if !again {
			w.leave(u)
		}
		return after, again
	case decides(status) && w.clients.Lossy:
		u.refusedRepeat = true // unless it is lost, that is a fault: see looked
		u.misuse++
	case decides(status):
		w.faults[refusedAgain]++
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

// refusedAgain is a fault.
const refusedAgain = "asked again, the answer was a refusal"

// decides reports whether an answer says what becomes of a purchase.
func decides(status int) bool {
	return status != 0 && status != http.StatusTooManyRequests && status != http.StatusServiceUnavailable
}

// trickOf names what a call does wrong, for the one who audits.
func (w *worker) misuseOf(u *user, c call) auditor.Misuse {
	if w.clients.Profile != Mixed || c != buy {
		return auditor.Valid
	}
	switch u.misuse {
	case damaged:
		return auditor.Forged
	case stolen:
		return auditor.Stolen
	case sameKey, noKey:
		return auditor.Replayed
	}
	return auditor.Valid
}

// A twin is the second connection of a worker, for what is done at once with the first. Its
// answers are the statuses, 0 for none; the rest stands in w until the next question.
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
		u := *c.u // the worker changes its own
		status := 0
		if t.w.ask(ctx, &u, buy, c.token, c.key, -1) {
			status = t.w.res.StatusCode()
		}
		t.answer <- status
	}
}
