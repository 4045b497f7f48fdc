package load

import (
	"bytes"
	"context"
	"time"

	"github.com/floodweir/weir/flashsale/pass"
	"github.com/floodweir/weir/flashsale/sale"
)

// heard is what a user does with an answer: the next call, after how long, or none.
func (w *worker) observed(u *user, c call) (after time.Duration, again bool) {
	status := w.res.StatusCode()
	if status >= 400 {
		return w.refused(u, c, status)
	}
	u.refused = 0
	switch c {
	case session:
		w.startSession(u)
		return 0, true
	case join, turn:
		return w.queueStatus(u)
	case buy:
		if len(w.a.receipt) == 0 {
			w.faults["a purchase without a receipt"]++
			return w.end(u, soldOut)
		}
		u.receipt = append(u.receipt[:0], w.a.receipt...)
		u.token = nil
		w.clients.granted(time.Since(w.clients.began))
		return w.purchased(u)
	case look:
		return w.orderStatus(u)
	case pay:
		// Paid at once, or the provider calls back: then it asks how that went.
		if string(w.a.state) == "paid" {
			return w.end(u, paid)
		}
		u.next, u.wants = look, look
		return soon, true
	case cancel:
		return w.end(u, cancelled)
	}
	return w.end(u, gaveUp)
}

// begin takes the session of a user who asked for one, and says what comes first.
func (w *worker) startSession(u *user) {
	if cookie := w.res.Header.PeekCookie("fs_session"); len(cookie) > 0 {
		if _, value, ok := bytes.Cut(cookie, []byte("=")); ok {
			value, _, _ = bytes.Cut(value, []byte(";"))
			u.cookie = append(u.cookie[:0], value...)
			u.name = append(u.name[:0], w.a.user...)
			u.next = join
		}
	}
}

// stands is what a user does with a turn.
func (w *worker) queueStatus(u *user) (time.Duration, bool) {
	poll := time.Duration(w.a.poll) * time.Millisecond
	if poll <= 0 {
		poll = soon
	}
	if len(w.a.place) > 0 && !bytes.Equal(u.place, w.a.place) {
		u.place = append(u.place[:0], w.a.place...)
	}
	switch string(w.a.phase) {
	case "sold_out", "ended":
		if string(w.a.state) != "admitted" {
			w.clients.soldOut(time.Since(w.clients.began))
			return w.end(u, soldOut)
		}
	case "all_taken":
		w.clients.soldOut(time.Since(w.clients.began))
		if !w.clients.AllTaken && w.clients.Profile != Waiting && string(w.a.state) != "admitted" {
			return w.end(u, soldOut)
		}
	}
	switch string(w.a.state) {
	case "waiting":
		u.next = turn
		return poll, true
	case "admitted":
		if w.clients.Profile == Waiting {
			u.next = turn
			return max(poll, soon), true
		}
		if len(w.a.token) == 0 {
			w.faults["admitted without a token"]++
			return poll, true
		}
		u.token = append(u.token[:0], w.a.token...)
		u.next = buy
		return 0, true
	case "passed", "none":
		u.next = join
		return poll, true
	case "spent":
		return w.end(u, bought)
	}
	w.faults["a turn in no state"]++
	return w.end(u, soldOut)
}

// bought is what a user does with a receipt.
func (w *worker) purchased(u *user) (time.Duration, bool) {
	u.buys++
	u.outcome = bought
	u.wants = look
	// Which of a hundred a user is does not depend on the order in which they come.
	switch percent := (u.id*37 + 11) % 100; {
	case percent < w.clients.Pay:
		u.wants = pay
	case percent < w.clients.Pay+w.clients.Cancel:
		u.wants = cancel
	}
	if u.wants == look && w.clients.Backlog != nil {
		return w.end(u, bought)
	}
	u.next = look
	return soon, true
}

// looked is what a user does with what became of a receipt.
func (w *worker) orderStatus(u *user) (time.Duration, bool) {
	state := string(w.a.state)
	if state == "reserved" {
		u.polls++
		return min(soon<<min(u.polls, 3), 2*time.Second), true
	}
	if state == "rejected" || state == "lost" {
		return w.lost(u, state)
	}
	if !u.order {
		u.order = true
		w.clients.placed(time.Since(w.clients.began))
	}
	if u.refusedRepeat {
		u.refusedRepeat = false
		w.faults[refusedAgain]++
	}
	switch state {
	case "pending_pay":
		if u.wants == look {
			return w.end(u, bought)
		}
		u.next = u.wants
		return 0, true
	case "paid":
		return w.end(u, paid)
	case "cancelled":
		return w.end(u, cancelled)
	case "expired":
		return w.end(u, bought)
	}
	w.faults["a receipt in no state"]++
	return w.end(u, bought)
}

// lost is what a user does who had a unit and has none: it stands in line again.
func (w *worker) lost(u *user, state string) (time.Duration, bool) {
	if !w.clients.Lossy {
		w.faults["a reservation that was "+state]++
		return w.end(u, soldOut)
	}
	w.lostUnits++
	w.clients.grants.Add(-1)
	u.outcome, u.next, u.receipt, u.token = active, join, nil, nil
	u.polls, u.refusedRepeat = 0, false
	if w.clients.Profile == Mixed {
		u.misuse = doubleClick // it has shown what it can do before
	}
	return soon, true
}

// refused is what a user does with a refusal.
func (w *worker) refused(u *user, c call, status int) (time.Duration, bool) {
	retry := time.Duration(w.a.retry) * time.Millisecond
	if s := number(w.res.Header.Peek("Retry-After")); s > 0 && retry == 0 {
		retry = time.Duration(s) * time.Second
	}
	if retry <= 0 {
		retry = soon
	}
	if len(u.receipt) > 0 && status != 429 && status != 503 {
		// It was too late to pay, or to cancel.
		return w.end(u, bought)
	}
	switch status {
	case 425, 429, 503:
		u.refused++
		if w.clients.Patience > 0 && u.refused >= w.clients.Patience {
			return w.end(u, gaveUp)
		}
		return retry, true
	case 410:
		w.clients.soldOut(time.Since(w.clients.began))
		return w.end(u, soldOut)
	case 403:
		if c == buy { // its turn has passed, or is of an epoch that is over
			u.next, u.token = join, nil
			return retry, true
		}
	case 409:
		switch string(w.a.reason) {
		case "all_taken":
			w.clients.soldOut(time.Since(w.clients.began))
			if !w.clients.AllTaken {
				return w.end(u, soldOut)
			}
			u.refused++
			if w.clients.Patience > 0 && u.refused >= w.clients.Patience {
				return w.end(u, gaveUp)
			}
			u.next = turn
			if c == join {
				u.next = join
			}
			return retry, true
		case "per_user":
			return w.end(u, soldOut)
		}
	case 404:
		if c == turn { // no ticket any more
			u.next = join
			return retry, true
		}
	}
	w.faults["refused for no reason that is known: "+c.String()+" "+statusText(status)]++
	return w.end(u, soldOut)
}

// toil does the work that a ticket costs, as the page of a browser does. It takes this machine
// what it takes, before the user asks again.
func (w *worker) solveWork(ctx context.Context, u *user) (time.Duration, bool) {
	if len(u.work) > 0 || len(w.a.challenge) == 0 || w.a.bits < 1 || w.a.bits > sale.MaxWork {
		w.faults["work that is not accepted, or cannot be done"]++
		return w.end(u, soldOut)
	}
	nonce, err := pass.Solve(ctx, string(w.a.challenge), int(w.a.bits))
	if err != nil {
		return w.end(u, gaveUp) // the run is over
	}
	u.work = append(u.work[:0], nonce...)
	return 0, true
}

// end is that of a user. Who has bought has, whatever else could not be done.
func (w *worker) end(u *user, f outcome) (time.Duration, bool) {
	if u.outcome == active || u.outcome == bought && (f == paid || f == cancelled) {
		u.outcome = f
	}
	u.next = calls
	u.token, u.cookie = nil, nil
	return 0, false
}
