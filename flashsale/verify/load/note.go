package load

import (
	"net/http"
	"strconv"
	"time"

	"github.com/floodweir/weir/flashsale/verify/auditor"
)

// keep is how many observations a worker keeps before it writes them: most runs end before,
// so that writing them costs nothing while it is measured.
const keep = 4096

// action is what the auditor calls it.
func (c call) action() auditor.Action {
	if c == session {
		return auditor.See
	}
	return auditor.Action(c.String())
}

// note keeps what a call and its answer looked like. Status 0 is no answer.
func (w *worker) note(u *user, c call, sent, at time.Time, status int, token, key []byte) {
	if w.run.log == nil {
		return
	}
	o := auditor.Observation{Action: c.action(), Status: status, Sale: w.run.Sale, Sent: sent, At: at}
	if status != 0 {
		o.Layer, o.Reason, o.State = string(w.layer()), string(w.a.reason), string(w.a.state)
	}
	if w.run.Sampled && c != buy && (status >= 400 || c == session) {
		k := auditor.Observation{Action: o.Action, Status: status, Sale: o.Sale, Layer: o.Layer, Reason: o.Reason}
		if was := w.equal[k]; was != nil {
			was.At = at
			was.Issued++
			return
		}
		o.Issued = 1
		w.equal[k] = &o
		return
	}
	o.User = w.name(u)
	switch c {
	case join, turn:
		if status == 0 || status >= 400 {
			break
		}
		o.Place, o.Ahead, o.Poll = digest(w.a.place), w.a.ahead, w.a.poll
		o.Rank = auditor.RankOf(string(w.a.place))
		if len(w.a.token) > 0 {
			o.Token, o.Epoch = digest(w.a.token), auditor.EpochOf(string(w.a.token))
			o.Until, _ = time.Parse(time.RFC3339, string(w.a.until))
		}
	case buy:
		o.Token, o.Key, o.Trick = digest(token), string(key), w.trickOf(u, c)
		if status == 0 {
			break
		}
		o.Body = digest(w.res.Body())
		o.Receipt = string(w.a.receipt)
		o.Granted, _ = time.Parse(time.RFC3339, string(w.a.at))
	case look, pay, cancel:
		o.Receipt = string(u.receipt)
	}
	w.keep(o)
}

// leave notes that a user asks no more.
func (w *worker) leave(u *user) {
	if w.run.log == nil {
		return
	}
	now := time.Now()
	w.keep(auditor.Observation{Action: auditor.Leave, Sale: w.run.Sale, User: w.name(u), Sent: now, At: now, Place: digest(u.place)})
}

func (w *worker) keep(o auditor.Observation) {
	w.notes = append(w.notes, o)
	if len(w.notes) >= keep {
		w.write()
	}
}

// write gives the log what is kept.
func (w *worker) write() {
	w.run.log.Note(w.notes...)
	w.notes = w.notes[:0]
}

// name is that of a user.
func (w *worker) name(u *user) string {
	if len(u.named) > 0 {
		return string(u.named)
	}
	return w.run.Prefix + strconv.Itoa(u.id)
}

func digest(b []byte) string {
	if len(b) == 0 {
		return ""
	}
	return auditor.Digest(b)
}

func statusText(status int) string { return strconv.Itoa(status) + " " + http.StatusText(status) }
