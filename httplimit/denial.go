package httplimit

import (
	"encoding/json"
	"errors"
	"math/rand/v2"
	"net/http"
	"os"
	"strconv"
	"strings"
	"time"

	"github.com/floodweir/weir"
	"github.com/floodweir/weir/enforce"
	"github.com/floodweir/weir/internal/plainhttp"
	"github.com/floodweir/weir/internal/replay"
	"github.com/floodweir/weir/policy"
)

const (
	problemType   = "application/problem+json"
	quotaExceeded = `{"type":"https://iana.org/assignments/http-problem-types#quota-exceeded",` +
		`"title":"Request cannot be satisfied as assigned quota has been exceeded","status":`
	reducedCapacity = `{"type":"https://iana.org/assignments/http-problem-types#temporary-reduced-capacity",` +
		`"title":"Request cannot be satisfied due to temporary server capacity constraints","status":503}` + "\n"
)

// Items appends the decisions of the enforced policies about a request to items. It also returns
// the degraded mode, if OnStoreError decided in place of the store. An overload of this process
// has neither.
func Items(items []Item, p *enforce.Admission) ([]Item, weir.FailMode) {
	switch p.Outcome() {
	case enforce.FailedOpen:
		return items, policy.Open
	case enforce.FailedClosed:
		return items, policy.Closed
	}
	var degraded weir.FailMode
	charges := p.Charges()
	for i := range charges {
		ds := p.Decisions(&charges[i])
		for j, d := range ds {
			if d.Degraded != "" && degraded != policy.Local {
				degraded = d.Degraded
			}
			if d.Limit.IsZero() {
				continue // admitted without a decision
			}
			name := charges[i].Policy.Name()
			if len(ds) > 1 {
				name += "/" + strconv.Itoa(j+1)
			}
			items = append(items, Item{Name: name, Decision: d, Unit: charges[i].Policy.Config().Settle.Quota()})
		}
	}
	return items, degraded
}

// describe sets the fields of the decisions, and in.items. For deny it leaves those of the limits in in.fields.
func (m *Middleware) describe(w http.ResponseWriter, in *request) {
	var degraded weir.FailMode
	in.items, degraded = Items(in.items[:0], &in.admission)
	in.fields, in.text = m.c.Fields.append(in.fields[:0], in.items, in.text)
	if by := in.admission.DeniedBy(); by == nil || in.admission.Refused() != nil || len(by.Config().OnDenied.Headers) > 0 { // which replace them
		plainhttp.Set(w.Header(), in.fields)
		in.fields = in.fields[:0]
	}
	m.c.Fields.SetDegraded(w.Header(), degraded)
	if text := in.admission.BudgetWarning(); text != "" && m.c.Fields != NoFields {
		w.Header().Set(WarningField, text)
	}
}

// deny responds to a denied request as the policy with the longest RetryAfter says. A redirect has no
// Retry-After, because clients would wait before they follow it.
func (m *Middleware) deny(w http.ResponseWriter, in *request) {
	h, c := w.Header(), in.admission.DeniedBy().Config().OnDenied
	if in.admission.DeniedBy().Config().Settle.Meter != nil {
		h.Set("X-Should-Retry", "false") // SDKs of language models retry 429 otherwise
	}
	for name, value := range c.Headers {
		h.Set(name, value)
	}
	switch {
	case c.Redirect != "":
		h.Set("Location", c.Redirect)
		respond(w, in.fields, c.Status, "", nil, weir.Never, m.c.RetryJitter)
	case c.IsProblem():
		violated := in.items
		if retry := in.admission.Decision().RetryAfter; len(violated) == 0 && retry == weir.Never { // blocked
			violated = []Item{{Name: in.admission.DeniedBy().Name()}}
		}
		in.text = appendProblem(in.text[:0], c.Status, violated)
		respond(w, in.fields, c.Status, problemType, in.text, in.admission.Decision().RetryAfter, m.c.RetryJitter)
	default:
		respond(w, in.fields, c.Status, c.ContentType, []byte(c.Body), in.admission.Decision().RetryAfter, m.c.RetryJitter)
	}
}

// appendProblem appends the body of a denial: see RFC 9457 and the RateLimit draft.
func appendProblem(b []byte, status int, items []Item) []byte {
	b = strconv.AppendInt(append(b, quotaExceeded...), int64(status), 10)
	b = append(b, `,"violated-policies":[`...)
	for _, it := range items {
		if it.Decision.OK {
			continue
		}
		if b[len(b)-1] != '[' {
			b = append(b, ',')
		}
		b = appendName(b, it.Name) // printable ASCII, which needs no escapes in JSON
	}
	return append(b, "]}\n"...)
}

// refuseCall responds to a request whose model has no price. SDKs of language models read the member
// error, and do not repeat a request with status 400.
func (m *Middleware) refuseCall(w http.ResponseWriter, err error) {
	type inner struct {
		Message string `json:"message"`
		Type    string `json:"type"`
		Param   string `json:"param"`
		Code    string `json:"code"`
	}
	status := http.StatusBadRequest
	switch {
	case errors.Is(err, weir.ErrOverloaded):
		m.refuse(w, err)
		return
	case errors.Is(err, replay.ErrTooLong):
		status = http.StatusRequestEntityTooLarge
	case errors.Is(err, os.ErrDeadlineExceeded):
		status = http.StatusRequestTimeout
	}
	detail := strings.TrimPrefix(err.Error(), "budget: ")
	body, _ := json.Marshal(struct { // strings always marshal
		Type   string `json:"type"`
		Title  string `json:"title"`
		Status int    `json:"status"`
		Detail string `json:"detail"`
		Error  inner  `json:"error"`
	}{"about:blank", "Model without a price", status, detail, inner{detail, "invalid_request_error", "model", "model_not_found"}})
	respond(w, nil, status, problemType, append(body, '\n'), weir.Never, m.c.RetryJitter)
}

// refuse responds to a request without a decision, or whose client disconnected.
func (m *Middleware) refuse(w http.ResponseWriter, err error) {
	respond(w, nil, http.StatusServiceUnavailable, problemType, []byte(reducedCapacity), enforce.RetryAfter(err), m.c.RetryJitter)
}

// respond sends a response with fields and those of its body and delay.
func respond(w http.ResponseWriter, fields []plainhttp.Pair, status int, contentType string, body []byte, retry, jitter time.Duration) {
	length := strconv.AppendInt(make([]byte, 0, 40), int64(len(body)), 10)
	numbers := string(strconv.AppendInt(length, retrySeconds(retry, jitter), 10)) // one allocation for both
	set := func(name, value string) { fields = append(fields, plainhttp.Pair{Name: name, Value: value}) }
	if contentType != "" {
		set("Content-Type", contentType)
	}
	set("Content-Length", numbers[:len(length)])
	set("X-Content-Type-Options", "nosniff")
	if w.Header().Get("Cache-Control") == "" {
		set("Cache-Control", "no-store")
	}
	if retry != weir.Never {
		set("Retry-After", numbers[len(length):])
	}
	plainhttp.Begin(w, status, fields)
	_, _ = w.Write(body) // an error means that the client disconnected
}

// retrySeconds returns a Retry-After: whole seconds, rounded up after adding the jitter, and at
// least one.
func retrySeconds(d, jitter time.Duration) int64 {
	if jitter > 0 && d < weir.Never-jitter {
		d += rand.N(jitter + 1)
	}
	return max(1, ceilSeconds(d))
}
