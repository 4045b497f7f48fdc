package httplimit

import (
	"context"
	"errors"
	"net/http"
	"slices"

	"github.com/floodweir/weir/budget"
	"github.com/floodweir/weir/budget/stream"
	"github.com/floodweir/weir/enforce"
	"github.com/floodweir/weir/internal/linger"
	"github.com/floodweir/weir/policy"
)

// A model is the request to a language model whose response is charged by budgets.
type model struct {
	request   budget.ModelRequest
	length    int64 // of its body
	admission *enforce.Admission
	meters    []metering
	hide      bool // remove the event with the usage
	relay     *stream.Relay
	refused   bool // a response that cannot be followed exceeds the budget
	life      *linger.Life
}

// A metering is the reservation of one meter for a stream.
type metering struct {
	*budget.Meter
	output int64 // reserved tokens
	done   bool  // no further step is reserved
}

// follow prepares r, a copy of the request, for the meters of its policies. The handler's context is
// that of r.
func (w *response) follow(r *http.Request, held *request, m *Middleware) *http.Request {
	a := &held.attributes
	w.model = &model{admission: &held.admission, length: policy.BodyLength(a)}
	drain, body := false, []byte(nil) // body if it changes
	change := func(c budget.MeterConfig, to func([]byte) []byte) {
		if body == nil {
			body, _ = a.body.Read(a.w, a.r, c.MaxBody, callTimeout, a.memory)
		}
		body = to(body)
	}
	for one := range held.admission.Settles() {
		meter := one.Config().Settle.Meter
		if meter == nil || slices.ContainsFunc(w.model.meters, func(o metering) bool { return o.Meter == meter }) {
			continue
		}
		c := meter.Config()
		asked, read, err := a.ModelRequest(c.MaxBody)
		if most := w.model.request.MaxOutput; most > 0 && (asked.MaxOutput == 0 || asked.MaxOutput > most) {
			asked.MaxOutput = most // of another policy
		}
		if c.IncludeMax != "" && read && err == nil && one.Config().Mode != policy.Shadow {
			if asked.MaxOutput == 0 || asked.MaxOutput > c.MaxOutput {
				asked.MaxOutput = c.MaxOutput
			}
			change(c, func(text []byte) []byte { return meter.LimitOutput(r.URL.Path, text) })
		}
		w.model.request = asked
		w.model.meters = append(w.model.meters, metering{meter, meter.Output(asked), c.Step == 0 || !asked.Stream})
		drain = drain || c.Disconnected == "drain"
		if c.IncludeUsage && !w.model.hide && (c.Format == budget.OpenAIChat || c.Format == budget.Auto && asked.Chat) && asked.Stream && !asked.Usage && read && err == nil {
			change(c, budget.AddUsage)
			w.model.hide = true
		}
	}
	if body != nil {
		a.body.Replace(r, body)
	}
	a.body.Forget()
	var ctx context.Context
	ctx, w.model.life = linger.New(r.Context(), drain, &m.drains)
	return r.WithContext(ctx)
}

// begin starts to follow a stream. If it cannot be followed, as when it is compressed, begin reserves
// its whole bound, or responds in its place.
func (m *model) begin(w *response, h http.Header) {
	stepped := slices.ContainsFunc(m.meters, func(o metering) bool { return !o.done })
	if w.status >= http.StatusMultipleChoices || !stepped && !m.hide {
		return
	}
	c := stream.Config{
		Format: m.meters[0].Config().Format, Request: m.request, HideUsage: m.hide, Read: w.usage.Write,
		Usage: func() budget.Usage {
			u, generated, _ := w.usage.Read(m.meters[0].Meter)
			u.Output = max(u.Output, generated)
			return u
		},
	}
	if stepped {
		c.Extend = func() (ok, fail bool) { return m.extend(w) }
	}
	if encoding := h.Get("Content-Encoding"); encoding == "" || encoding == "identity" {
		m.relay = stream.New(h.Get("Content-Type"), c)
	}
	switch {
	case m.relay != nil:
		w.Header().Del("Content-Length")
	case !m.whole(w):
		m.refused = true
		stream.Refuse(w.ResponseWriter)
	}
}

// whole reserves what is reserved for a request without steps.
func (m *model) whole(w *response) bool {
	for i := range m.meters {
		one := &m.meters[i]
		if one.done {
			continue
		}
		if one.done = true; !m.reserve(w, one, one.Output(budget.ModelRequest{MaxOutput: m.request.MaxOutput})) && one.Config().Exhausted != "allow" {
			return false
		}
	}
	return true
}

// extend reserves further steps, each for all levels together, if the stream has used up those
// before. It reports whether the stream continues, and otherwise whether it ends with an error.
func (m *model) extend(w *response) (ok, fail bool) {
	for i := range m.meters {
		one := &m.meters[i]
		c := one.Config()
		u, generated, _ := w.usage.Read(one.Meter)
		if generated = max(generated, u.Output); one.done || generated < one.output {
			continue
		}
		next := one.output + c.Step*((generated-one.output)/c.Step+1)
		if most := m.request.MaxOutput; most > 0 {
			next = min(next, most)
			one.done = one.output >= most
		}
		switch {
		case one.done:
		case m.reserve(w, one, next):
		case c.Exhausted == "allow":
			one.done = true
		default:
			return false, c.Exhausted == "error"
		}
	}
	return true, false
}

// reserve reserves a number of output tokens, with those that are reserved already.
func (m *model) reserve(w *response, one *metering, output int64) bool {
	total := one.Bound(m.length, m.request, output)
	ok := m.admission.Extend(w.ctx, func(p *policy.Policy) int64 {
		if p.Config().Settle.Meter == one.Meter {
			return total
		}
		return 0
	})
	if ok {
		one.output = output
	}
	return ok
}

// errExhausted is the error of writes to a stream that has ended.
var errExhausted = errors.New("httplimit: the budget of the stream is exhausted")

// ended reports whether a budget ended the response.
func (m *model) ended() bool {
	return m != nil && (m.refused || m.relay != nil && m.relay.Ended())
}

// write sends the next bytes of a response.
func (m *model) write(w *response, b []byte) (int, error) {
	switch {
	case m.refused:
	case m.relay == nil:
		w.usage.Write(b)
		return m.life.Write(w.ResponseWriter, b)
	default:
		if out := m.relay.Next(b); len(out) > 0 {
			if _, err := m.life.Write(w.ResponseWriter, out); err != nil {
				return 0, err
			}
		}
	}
	if m.ended() {
		m.life.Cancel(errExhausted)
		return 0, errExhausted
	}
	return len(b), nil
}

// close ends the response.
func (m *model) close(w *response, panicked bool) {
	if m == nil {
		return
	}
	if m.relay != nil && !panicked {
		if rest := m.relay.Close(); len(rest) > 0 {
			_, _ = m.life.Write(w.ResponseWriter, rest)
		}
	}
	m.life.Close()
}
