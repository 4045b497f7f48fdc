package layers

import (
	"cmp"
	"math/rand/v2"
	"net/http"
	"strconv"
	"time"
	"unicode/utf8"

	"github.com/floodweir/weir/flashsale/sale"
)

// Refusal is a response that refuses a request: a problem (RFC 9457).
type Refusal struct {
	Layer  sale.Layer // empty if no layer refused
	Reason sale.Reason

	// Status defaults to that of Reason.
	Status int

	// Detail is for people and defaults to that of Reason. Field is the JSON name of the field
	// that is not accepted.
	Detail, Field string

	// Errors lists every field that is not accepted, if several fields are validated at once.
	Errors []FieldError

	// Challenge is the challenge of a required proof of work of Bits bits; empty for none.
	Challenge string
	Bits      int

	// Left is the number of free units, for sale.FewLeft.
	Left int64

	// RetryAfter is when to retry, before jitter. If zero, it is one second for a temporary
	// Reason, and never for any other.
	RetryAfter time.Duration
}

// FieldError describes one field that is not accepted.
type FieldError struct {
	Field, Detail string
	Code          sale.FieldCode
	Min, Max      int64 // of the codes OutOfRange and WrongLength
}

// word holds the defaults of a reason.
type word struct {
	status int
	detail string
	again  bool // the reason is temporary
}

func meaning(r sale.Reason) word {
	switch r {
	case Invalid:
		return word{http.StatusBadRequest, "the request is not accepted", false}
	case NoSession:
		return word{http.StatusUnauthorized, "no valid session", false}
	case CSRF:
		return word{http.StatusForbidden, "a change must come from a page of this site", false}
	case NeedsService, NeedsManage, NeedsOwner:
		return word{http.StatusForbidden, "this account's role does not allow this", false}
	case sale.BadToken:
		return word{http.StatusForbidden, "the token is forged, damaged, or another user's", false}
	case sale.AdmissionExpired:
		return word{http.StatusForbidden, "the admission has expired", false}
	case sale.WorkRequired:
		return word{http.StatusForbidden, "a ticket of this sale requires a proof of work", false}
	case sale.SignInRequired:
		return word{http.StatusUnauthorized, "this sale is for members only: sign in", false}
	case sale.CaptchaRequired:
		return word{http.StatusForbidden, "a ticket of this sale requires a solved captcha", false}
	case sale.NotAdmitted:
		return word{http.StatusForbidden, "not admitted yet", false}
	case NotFound:
		return word{http.StatusNotFound, "not found", false}
	case sale.PerUserLimit:
		return word{http.StatusConflict, "you hold the maximum number of units", false}
	case Conflict:
		return word{http.StatusConflict, "it has changed meanwhile, or its state does not allow this", false}
	case RefundDue:
		return word{http.StatusConflict, "the payment was not accepted and will be refunded", false}
	case sale.IsAllTaken:
		return word{http.StatusConflict, "no unit is free now; some may return", true}
	case sale.FewLeft:
		return word{http.StatusConflict, "fewer units are free than wanted", true}
	case sale.IsSoldOut:
		return word{http.StatusGone, "sold out", false}
	case sale.HasEnded:
		return word{http.StatusGone, "the sale has ended", false}
	case sale.NotStarted:
		return word{http.StatusTooEarly, "the sale has not started", true}
	case TooMany:
		return word{http.StatusTooManyRequests, "too many requests", true}
	case sale.NoAdmission:
		return word{http.StatusTooManyRequests, "all admission tokens are in use", true}
	case sale.QueueFull:
		return word{http.StatusTooManyRequests, "the queue is full", true}
	case sale.Overloaded:
		return word{http.StatusTooManyRequests, "the system is busy", true}
	case sale.IsPaused:
		return word{http.StatusServiceUnavailable, "the sale is paused", true}
	}
	return word{http.StatusServiceUnavailable, "temporarily unavailable", true}
}

// Header values that all responses share, so that they need no allocation.
var (
	problemType = []string{"application/problem+json"}
	noStore     = []string{"no-store"}
	nosniff     = []string{"nosniff"}
	layerValues = map[sale.Layer][]string{
		sale.L0: {"L0"}, sale.L1: {"L1"}, sale.L2: {"L2"}, sale.L3: {"L3"}, sale.L4: {"L4"}, sale.LS: {"stock"},
	}
	seconds = [...][]string{1: {"1"}, 2: {"2"}, 3: {"3"}, 4: {"4"}, 5: {"5"}}
)

// Write writes f as a response and records it for the counters.
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
	_, _ = w.Write(f.body(room[:0], m, wait)) // the client may have disconnected
}

// body appends the JSON of the problem.
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
	for i, e := range f.Errors {
		if i == 0 {
			b = append(b, `,"errors":[`...)
		} else {
			b = append(b, ',')
		}
		b = AppendText(append(b, `{"field":`...), e.Field)
		b = AppendText(append(b, `,"detail":`...), e.Detail)
		b = AppendText(append(b, `,"code":`...), string(cmp.Or(e.Code, sale.WrongForm)))
		if e.Code == sale.OutOfRange || e.Code == sale.WrongLength {
			b = strconv.AppendInt(append(b, `,"min":`...), e.Min, 10)
			b = strconv.AppendInt(append(b, `,"max":`...), e.Max, 10)
		}
		if b = append(b, '}'); i == len(f.Errors)-1 {
			b = append(b, ']')
		}
	}
	if f.Challenge != "" {
		b = append(b, `,"challenge":`...)
		b = AppendText(b, f.Challenge)
		b = append(b, `,"bits":`...)
		b = strconv.AppendInt(b, int64(f.Bits), 10)
	}
	if f.Left > 0 {
		b = strconv.AppendInt(append(b, `,"left":`...), f.Left, 10)
	}
	if wait > 0 {
		b = append(b, `,"retry_after_ms":`...)
		b = strconv.AppendInt(b, int64((wait+time.Millisecond-1)/time.Millisecond), 10)
	}
	return append(b, "}\n"...)
}

// AppendText appends s as a JSON string that is also safe in HTML.
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
