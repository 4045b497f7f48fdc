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
	drain := false
	for one := range held.admission.Settles() {
		meter := one.Config().Settle.Meter
		if meter == nil || slices.ContainsFunc(w.model.meters, func(o metering) bool { return o.Meter == meter }) {
			continue
		}
		c := meter.Config()
		w.model.request, _, _ = a.ModelRequest(c.MaxBody)
		w.model.meters = append(w.model.meters, metering{meter, meter.Output(w.model.request), c.Step == 0 || !w.model.request.Stream})
		drain = drain || c.Disconnected == "drain"
		if c.IncludeUsage && (c.Format == budget.OpenAIChat || c.Format == budget.Auto && w.model.request.Chat) && w.model.request.Stream && !w.model.request.Usage {
			if text, err := a.body.Read(a.w, a.r, c.MaxBody, callTimeout, a.memory); err == nil && !w.model.hide {
				a.body.Replace(r, budget.AddUsage(text))
				w.model.hide = true
			}
		}
	}
	a.body.Forget()
	var ctx context.Context
	ctx, w.model.life = linger.New(r.Context(), drain, &m.drains)
	return r.WithContext(ctx)
}

// begin starts to follow a stream, if the response is one that can be followed.
func (m *model) begin(w *response, h http.Header) {
	encoding := h.Get("Content-Encoding")
	stepped := slices.ContainsFunc(m.meters, func(o metering) bool { return !o.done })
	if w.status >= http.StatusMultipleChoices || encoding != "" && encoding != "identity" || !stepped && !m.hide {
		return
	}
	c := stream.Config{
		Format: m.meters[0].Config().Format, Request: m.request, HideUsage: m.hide, Read: w.usage.write,
		Usage: func() budget.Usage {
			u, generated, _ := w.usage.read(m.meters[0].Meter)
			u.Output = max(u.Output, generated)
			return u
		},
	}
	if stepped {
		c.Extend = func() (ok, fail bool) { return m.extend(w) }
	}
	if m.relay = stream.New(h.Get("Content-Type"), c); m.relay != nil {
		w.Header().Del("Content-Length")
	}
}

// extend reserves further steps, each for all levels together, if the stream has used up those
// before. It reports whether the stream continues, and otherwise whether it ends with an error.
func (m *model) extend(w *response) (ok, fail bool) {
	for i := range m.meters {
		one := &m.meters[i]
		c := one.Config()
		u, generated, _ := w.usage.read(one.Meter)
		if generated = max(generated, u.Output); one.done || generated < one.output {
			continue
		}
		next := one.output + c.Step*((generated-one.output)/c.Step+1)
		if most := m.request.MaxOutput; most > 0 {
			next = min(next, most)
			one.done = one.output >= most
		}
		total := one.Bound(m.length, m.request, next)
		of := func(p *policy.Policy) int64 {
			if p.Config().Settle.Meter == one.Meter {
				return total
			}
			return 0
		}
		switch {
		case one.done:
		case m.admission.Extend(w.ctx, of):
			one.output = next
		case c.Exhausted == "allow":
			one.done = true
		default:
			return false, c.Exhausted == "error"
		}
	}
	return true, false
}

// errExhausted is the error of writes to a stream that has ended.
var errExhausted = errors.New("httplimit: the budget of the stream is exhausted")

// ended reports whether a budget ended the stream.
func (m *model) ended() bool { return m != nil && m.relay != nil && m.relay.Ended() }

// write sends the next bytes of a response.
func (m *model) write(w *response, b []byte) (int, error) {
	if m.relay == nil {
		w.usage.write(b)
		return m.life.Write(w.ResponseWriter, b)
	}
	if out := m.relay.Next(b); len(out) > 0 {
		if _, err := m.life.Write(w.ResponseWriter, out); err != nil {
			return 0, err
		}
	}
	if m.relay.Ended() {
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
