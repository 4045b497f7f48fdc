package httplimit

import (
	"errors"
	"fmt"
	"net/http"

	"github.com/floodweir/weir/budget"
)

// metered returns the cost of the response by m. Without complete usage it returns an estimate from
// the text so far, and the reason. An error of the upstream without generated text costs 0.
func (w *response) metered(m *budget.Meter) (int64, error) {
	u, generated, err := w.usage.Read(m)
	if u.Model == "" {
		u.Model = budget.PathModel(w.path)
	}
	if err == nil {
		return m.Cost(u)
	}
	if w.model.ended() {
		output := max(u.Output, generated)
		if w.model.refused { // the upstream may have generated all that is reserved
			output = m.Output(w.model.request)
		}
		return m.Bound(w.model.length, w.model.request, output), budget.ErrExhausted
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
