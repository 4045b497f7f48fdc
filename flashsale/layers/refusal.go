package layers

import (
	"math/rand/v2"
	"net/http"
	"strconv"
	"time"
	"unicode/utf8"

	"github.com/floodweir/weir/flashsale/sale"
)

// A Refusal is an answer that says no: a problem (RFC 9457).
type Refusal struct {
	Layer  sale.Layer // empty if no layer refused
	Reason sale.Reason

	// Status is that of Reason if zero.
	Status int

	// Detail is for people; that of Reason if empty. Field is the JSON name of the field
	// that is not accepted.
	Detail, Field string

	// Challenge is what has to be worked on, with the Bits that are to be found; none if
	// empty.
	Challenge string
	Bits      int

	// RetryAfter is when to ask again, before jitter; if zero, one second for a Reason that
	// passes by itself, and never for any other.
	RetryAfter time.Duration
}

// A word is what goes with a reason.
type word struct {
	status int
	detail string
	again  bool // it passes by itself
}

func meaning(r sale.Reason) word {
	switch r {
	case Invalid:
		return word{http.StatusBadRequest, "the request is not accepted", false}
	case NoSession:
		return word{http.StatusUnauthorized, "no valid session", false}
	case CSRF:
		return word{http.StatusForbidden, "a change needs proof that it was asked for on a page of this site", false}
	case sale.BadToken:
		return word{http.StatusForbidden, "forged, damaged, or another user's", false}
	case sale.AdmissionExpired:
		return word{http.StatusForbidden, "the turn has passed", false}
	case sale.WorkRequired:
		return word{http.StatusForbidden, "a ticket of this sale costs work that is not done", false}
	case sale.NotAdmitted:
		return word{http.StatusForbidden, "not admitted yet", false}
	case NotFound:
		return word{http.StatusNotFound, "not found", false}
	case sale.PerUserLimit:
		return word{http.StatusConflict, "you hold as many units as one may", false}
	case Conflict:
		return word{http.StatusConflict, "it has changed meanwhile, or is in no state for this", false}
	case RefundDue:
		return word{http.StatusConflict, "the payment bought nothing and is to be refunded", false}
	case sale.IsAllTaken:
		return word{http.StatusConflict, "no unit is free now; some may return", true}
	case sale.IsSoldOut:
		return word{http.StatusGone, "sold out", false}
	case sale.HasEnded:
		return word{http.StatusGone, "the sale has ended", false}
	case sale.NotStarted:
		return word{http.StatusTooEarly, "the sale has not started", true}
	case TooMany:
		return word{http.StatusTooManyRequests, "too many requests", true}
	case sale.NoAdmission:
		return word{http.StatusTooManyRequests, "all admission tokens are out", true}
	case sale.QueueFull:
		return word{http.StatusTooManyRequests, "the line is full", true}
	case sale.Overloaded:
		return word{http.StatusTooManyRequests, "the system is busy", true}
	case sale.IsPaused:
		return word{http.StatusServiceUnavailable, "the sale is paused", true}
	}
	return word{http.StatusServiceUnavailable, "this cannot be answered now", true}
}

// The fields that are the same for all, so that they cost no allocation.
var (
	problemType = []string{"application/problem+json"}
	noStore     = []string{"no-store"}
	nosniff     = []string{"nosniff"}
	layerValues = map[sale.Layer][]string{
		sale.L0: {"L0"}, sale.L1: {"L1"}, sale.L2: {"L2"}, sale.L3: {"L3"}, sale.L4: {"L4"}, sale.LS: {"stock"},
	}
	seconds = [...][]string{1: {"1"}, 2: {"2"}, 3: {"3"}, 4: {"4"}, 5: {"5"}}
)

// Write answers with f, and notes it for the account.
func (f Refusal) Write(w http.ResponseWriter) {
	m := meaning(f.Reason)
	if f.Status != 0 {
		m.status = f.Status
	}
	if f.Detail != "" {
		m.detail = f.Detail
	}
	h := w.Header()
	h["Content-Type"] = problemType
	h["Cache-Control"] = noStore
	h["X-Content-Type-Options"] = nosniff
	if f.Layer != "" {
		if v := layerValues[f.Layer]; v != nil {
			h[LayerHeader] = v
		} else {
			h.Set(LayerHeader, string(f.Layer))
		}
	}
	wait := f.RetryAfter
	if wait <= 0 && m.again {
		wait = time.Second
	}
	if wait > 0 {
		wait += rand.N(min(wait/4, 2*time.Second) + 1)
		s := int((wait + time.Second - 1) / time.Second)
		if s < len(seconds) {
			h["Retry-After"] = seconds[s]
		} else {
			h["Retry-After"] = []string{strconv.Itoa(s)}
		}
	}
	note(w, f.Layer, f.Reason)
	w.WriteHeader(m.status)
	var room [384]byte
	_, _ = w.Write(f.body(room[:0], m, wait)) // a client that went away needs no answer
}

// body appends the problem.
func (f Refusal) body(b []byte, m word, wait time.Duration) []byte {
	b = append(b, `{"type":"about:blank","title":"`...)
	b = append(b, http.StatusText(m.status)...)
	b = append(b, `","status":`...)
	b = strconv.AppendInt(b, int64(m.status), 10)
	b = append(b, `,"detail":`...)
	b = AppendText(b, m.detail)
	if f.Layer != "" {
		b = append(b, `,"layer":`...)
		b = AppendText(b, string(f.Layer))
	}
	b = append(b, `,"reason":`...)
	b = AppendText(b, string(f.Reason))
	if f.Field != "" {
		b = append(b, `,"field":`...)
		b = AppendText(b, f.Field)
	}
	if f.Challenge != "" {
		b = append(b, `,"challenge":`...)
		b = AppendText(b, f.Challenge)
		b = append(b, `,"bits":`...)
		b = strconv.AppendInt(b, int64(f.Bits), 10)
	}
	if wait > 0 {
		b = append(b, `,"retry_after_ms":`...)
		b = strconv.AppendInt(b, int64((wait+time.Millisecond-1)/time.Millisecond), 10)
	}
	return append(b, "}\n"...)
}

// AppendText appends s as a JSON string that is safe within HTML, too.
func AppendText(b []byte, s string) []byte {
	const hex = "0123456789abcdef"
	b = append(b, '"')
	for _, c := range s {
		switch {
		case c == '"' || c == '\\':
			b = append(b, '\\', byte(c))
		case c < ' ' || c == '<' || c == '>' || c == '&' || c == 0x7f:
			b = append(b, '\\', 'u', '0', '0', hex[c>>4], hex[c&15])
		case c == 0x2028 || c == 0x2029:
			b = append(b, '\\', 'u', '2', '0', '2', hex[c&15])
		default:
			b = utf8.AppendRune(b, c)
		}
	}
	return append(b, '"')
}
