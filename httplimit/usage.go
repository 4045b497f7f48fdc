package httplimit

import (
	"errors"
	"fmt"
	"net/http"

	"github.com/floodweir/weir/budget"
	"github.com/floodweir/weir/internal/decoded"
)

// A usage reads the usage of a language model from a response, in each format that a policy has.
// A nil usage reads nothing.
type usage struct {
	formats []budget.Format
	readers []*budget.Reader // of formats, from the start of the response on
}

// add returns u with a format.
func (u *usage) add(f budget.Format) *usage {
	if u == nil {
		u = new(usage)
	}
	for _, known := range u.formats {
		if known == f {
			return u
		}
	}
	u.formats = append(u.formats, f)
	return u
}

func (u *usage) begin(h http.Header, more decoded.Decoders) {
	for _, f := range u.formats {
		u.readers = append(u.readers, budget.NewReader(f, h.Get("Content-Type"), h.Get("Content-Encoding"), more))
	}
}

func (u *usage) write(b []byte) {
	if u == nil {
		return
	}
	for _, r := range u.readers {
		_, _ = r.Write(b)
	}
}

func (u *usage) end() {
	if u == nil {
		return
	}
	for _, r := range u.readers {
		_ = r.Close()
	}
}

// read returns the usage so far in the format of m, and an estimate of the output.
func (u *usage) read(m *budget.Meter) (found budget.Usage, generated int64, err error) {
	for i, r := range u.readers {
		if u.formats[i] == m.Config().Format {
			found, err = r.Usage()
			return found, r.Generated(), err
		}
	}
	return found, 0, budget.ErrNoUsage
}

// metered returns the cost of the response by m. Without complete usage it returns an estimate from
// the text so far, and the reason. An error of the upstream without generated text costs 0.
func (w *response) metered(m *budget.Meter) (int64, error) {
	u, generated, err := w.usage.read(m)
	if u.Model == "" {
		u.Model = budget.PathModel(w.path)
	}
	if err == nil {
		return m.Cost(u)
	}
	if w.model.ended() {
		return m.Bound(w.model.length, w.model.request, max(u.Output, generated)), budget.ErrExhausted
	}
	none := u == budget.Usage{Model: u.Model} && generated == 0
	if w.status >= http.StatusBadRequest && !w.canceled && none {
		return 0, nil
	}
	if w.ctx.Err() != nil && errors.Is(err, budget.ErrNoUsage) {
		err = fmt.Errorf("%w: %w", budget.ErrDisconnected, err)
	}
	u.Output = max(u.Output, generated)
	n, _ := m.Cost(u)
	return n, err
}
