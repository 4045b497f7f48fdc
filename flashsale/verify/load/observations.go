package load

import (
	"net/http"
	"strconv"
	"time"

	"github.com/floodweir/weir/flashsale/verify/calllog"
)

// maxBuffered is the number of observations that a worker buffers. Most runs end before, so that
// writing costs nothing during the measurement.
const maxBuffered = 4096

// maxTouched bounds the observations of all workers whose memory is touched before the measurement.
const maxTouched = 150_000

// callsPerUser is the number of observations that most users make at most.
const callsPerUser = 6

// action returns the auditor's name of a call.
func (c call) action() calllog.Action {
	if c == session {
		return calllog.Browse
	}
	return calllog.Action(c.String())
}

// record buffers an observation of a call. Status 0 means no response.
func (w *worker) record(u *user, c call, sent, at time.Time, status int, token, key []byte) {
	if w.clients.log == nil {
		return
	}
	o := calllog.Call{Action: c.action(), Status: status, Sale: w.clients.Sale, Sent: sent, At: at}
	if status != 0 {
		o.Layer, o.Reason, o.State = string(w.layer()), string(w.a.reason), string(w.a.state)
	}
	if w.clients.Sampled && c != buy && (status >= 400 || c == session) {
		k := calllog.Call{Action: o.Action, Status: status, Sale: o.Sale, Layer: o.Layer, Reason: o.Reason}
		if was := w.sampled[k]; was != nil {
			was.At = at
			was.Issued++
			return
		}
		first := o // a copy: only this one needs memory of its own
		first.Issued = 1
		w.sampled[k] = &first
		return
	}
	o.User = w.userName(u)
	switch c {
	case join, pollQueue:
		if status == 0 || status >= 400 {
			break
		}
		o.Ticket, o.Ahead, o.Poll = digest(w.a.place), w.a.ahead, w.a.poll
		o.Rank = calllog.RankOf(string(w.a.place))
		if len(w.a.token) > 0 {
			o.Token, o.Epoch = digest(w.a.token), calllog.EpochOf(string(w.a.token))
			o.Until, _ = time.Parse(time.RFC3339, string(w.a.until))
		}
	case buy:
		o.Token, o.Key, o.Misuse = digest(token), string(key), w.misuseOf(u, c)
		if status == 0 {
			break
		}
		o.Body = digest(w.res.Body())
		o.Receipt = string(w.a.receipt)
		o.Granted, _ = time.Parse(time.RFC3339, string(w.a.at))
	case look, pay, cancel:
		o.Receipt = string(u.receipt)
	}
	w.buffer(o)
	if w.clients.Click && (c == join || c == pollQueue) && (status == 0 || status >= 500 || len(w.a.held) > 0) { // it bought, or may have
		b := calllog.Call{Action: calllog.Buy, Status: status, Sale: o.Sale, Sent: sent, At: at, User: o.User, Receipt: string(w.a.held)}
		b.Granted, _ = time.Parse(time.RFC3339, string(w.a.heldAt))
		w.buffer(b)
	}
}

// leave records that a user stops.
func (w *worker) leave(u *user) {
	if w.clients.log == nil {
		return
	}
	now := time.Now()
	w.buffer(calllog.Call{Action: calllog.Leave, Sale: w.clients.Sale, User: w.userName(u), Sent: now, At: now, Ticket: digest(u.place)})
}

func (w *worker) buffer(o calllog.Call) {
	w.buffered = append(w.buffered, o)
	if len(w.buffered) >= maxBuffered {
		w.write()
	}
}

// write writes the buffer to the log.
func (w *worker) write() {
	w.clients.log.Record(w.buffered...)
	w.buffered = w.buffered[:0]
}

// userName returns the name of a user.
func (w *worker) userName(u *user) string {
	if len(u.name) > 0 {
		return string(u.name)
	}
	return w.clients.Prefix + strconv.Itoa(u.id)
}

func digest(b []byte) string {
	if len(b) == 0 {
		return ""
	}
	return calllog.Digest(b)
}

func statusText(status int) string { return strconv.Itoa(status) + " " + http.StatusText(status) }
