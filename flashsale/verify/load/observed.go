package load

import (
	"bytes"
	"context"
	"time"

	"github.com/floodweir/weir/flashsale/pass"
	"github.com/floodweir/weir/flashsale/sale"
	"github.com/floodweir/weir/flashsale/verify/load/scan"
)

// observed handles a response: it returns the delay before the user's next call, if any.
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
	case join:
		u.tickets++
		return w.queueStatus(u)
	case pollQueue:
		return w.queueStatus(u)
	case buy:
		if len(w.a.receipt) == 0 {
			w.faults["purchase without a receipt"]++
			return w.end(u, soldOut)
		}
		u.receipt = append(u.receipt[:0], w.a.receipt...)
		u.token = nil
		w.clients.granted(time.Since(w.clients.began))
		return w.purchased(u)
	case look:
		return w.orderStatus(u)
	case pay:
		// Paid at once; or the provider calls back, and the user polls the order.
		if string(w.a.state) == "paid" {
			w.ordered(u)
			return w.end(u, paid)
		}
		u.next, u.wants = look, look
		return soon, true
	case cancel:
		return w.end(u, cancelled)
	}
	return w.end(u, gaveUp)
}

// startSession stores the session of a user who requested one.
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

// queueStatus handles a queue status.
func (w *worker) queueStatus(u *user) (time.Duration, bool) {
	poll := time.Duration(w.a.poll) * time.Millisecond
	if poll <= 0 {
		poll = soon
	}
	if len(w.a.place) > 0 && !bytes.Equal(u.place, w.a.place) {
		u.place = append(u.place[:0], w.a.place...)
	}
	with := string(w.a.state) == "admitted" || string(w.a.state) == "spent" // it may hold the last unit
	switch string(w.a.phase) {
	case "sold_out", "ended":
		if !with {
			w.clients.soldOut(time.Since(w.clients.began))
			return w.end(u, soldOut)
		}
	case "all_taken":
		w.clients.soldOut(time.Since(w.clients.began))
		if !w.clients.AllTaken && w.clients.Profile != Waiting && !with {
			return w.end(u, soldOut)
		}
	}
	switch string(w.a.state) {
	case "waiting":
		u.next = pollQueue
		return poll, true
	case "admitted":
		if w.clients.Profile == Waiting {
			u.next = pollQueue
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
		if !w.clients.Click || len(w.a.held) == 0 {
			return w.end(u, bought)
		}
		u.receipt = append(u.receipt[:0], w.a.held...)
		w.clients.granted(time.Since(w.clients.began))
		return w.purchased(u)
	}
	w.faults["unknown queue state"]++
	return w.end(u, soldOut)
}

// purchased handles a receipt.
func (w *worker) purchased(u *user) (time.Duration, bool) {
	u.buys++
	u.outcome = bought
	u.wants = look
	// The percentage of a user does not depend on the order of arrival.
	switch percent := (u.id*37 + 11) % 100; {
	case percent < w.clients.Pay:
		u.wants = pay
	case percent < w.clients.Pay+w.clients.Cancel:
		u.wants = cancel
	}
	if u.wants == look && w.clients.Backlog != nil {
		return w.end(u, bought)
	}
	if u.next = look; u.wants == pay && w.clients.Click {
		u.next = pay
	}
	return soon, true
}

// ordered counts a reservation that is known to be an order.
func (w *worker) ordered(u *user) {
	if !u.order {
		u.order = true
		w.clients.placed(time.Since(w.clients.began))
	}
}

// orderStatus handles the state of an order.
func (w *worker) orderStatus(u *user) (time.Duration, bool) {
	state := string(w.a.state)
	if state == "reserved" {
		u.polls++
		return min(soon<<min(u.polls, 3), 2*time.Second), true
	}
	if state == "rejected" || state == "lost" {
		return w.lost(u, state)
	}
	w.ordered(u)
	if u.refusedRepeat != "" && state != "expired" && state != "cancelled" { // a rebuilt inventory knows pending and paid orders
		w.faults[u.refusedRepeat]++
	}
	u.refusedRepeat = ""
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
	w.faults["unknown order state"]++
	return w.end(u, bought)
}

// lost handles a lost reservation: the user queues again.
func (w *worker) lost(u *user, state string) (time.Duration, bool) {
	if !w.clients.Lossy {
		w.faults["reservation "+state]++
		return w.end(u, soldOut)
	}
	w.lostUnits++
	w.clients.grants.Add(-1)
	u.outcome, u.next, u.receipt, u.token = active, join, nil, nil
	u.polls, u.refusedRepeat = 0, ""
	if w.clients.Profile == Mixed {
		u.misuse = doubleClick // it has passed the earlier misuses
	}
	return soon, true
}

// refused handles a refusal.
func (w *worker) refused(u *user, c call, status int) (time.Duration, bool) {
	retry := time.Duration(w.a.retry) * time.Millisecond
	if s := scan.Number(w.res.Header.Peek("Retry-After")); s > 0 && retry == 0 {
		retry = time.Duration(s) * time.Second
	}
	if retry <= 0 {
		retry = soon
	}
	if c == pay && !u.order && status == 409 { // the order has ended, or the reservation is lost
		u.next, u.wants = look, look
		return soon, true
	}
	if len(u.receipt) > 0 && status != 429 && status != 503 {
		// Too late to pay or to cancel.
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
		if c == buy { // its admission has expired, or belongs to an old epoch
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
			u.next = pollQueue
			if c == join {
				u.next = join
			}
			return retry, true
		case "few_left":
			if w.a.left < 1 || w.a.left >= int64(w.units(u)) {
				break
			}
			u.left = int(w.a.left)
			if u.next = join; c == buy && len(u.token) > 0 {
				u.next = buy
			}
			return 0, true
		case "per_user":
			return w.end(u, soldOut)
		}
	case 404:
		if c == pollQueue { // its ticket has expired
			u.next = join
			return retry, true
		}
	}
	w.faults["unknown refusal: "+c.String()+" "+statusText(status)]++
	return w.end(u, soldOut)
}

// solveWork solves the proof of work of a ticket or a session, as a browser does, before the next
// call of the user.
func (w *worker) solveWork(ctx context.Context, u *user) (time.Duration, bool) {
	if len(u.work) > 0 || len(w.a.challenge) == 0 || w.a.bits < 1 || w.a.bits > sale.MaxWork {
		w.faults["proof of work not accepted or not solvable"]++
		return w.end(u, soldOut)
	}
	nonce, err := pass.Solve(ctx, string(w.a.challenge), int(w.a.bits))
	if err != nil {
		return w.end(u, gaveUp) // the run is over
	}
	u.work = append(u.work[:0], nonce...)
	return 0, true
}

// end ends a user. An outcome of a purchase is never overwritten by a later failure.
func (w *worker) end(u *user, f outcome) (time.Duration, bool) {
	if u.outcome == active || u.outcome == bought && (f == paid || f == cancelled) {
		u.outcome = f
	}
	u.next = calls
	u.token, u.cookie = nil, nil
	return 0, false
}
