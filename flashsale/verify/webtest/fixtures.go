package webtest

import (
	"fmt"
	"net/http/httptest"
	"strings"
	"time"

	"github.com/floodweir/weir/flashsale/sale"
)

// Start returns the start of View's sale.
func Start() time.Time { return time.Date(2026, 11, 11, 12, 0, 0, 0, time.UTC) }

// View returns a view of a sale of 10 units that lasts an hour, at its start.
func View() sale.View {
	return sale.View{
		Sale: sale.Sale{ID: "a1", Merchant: "m", State: sale.Exposed, Epoch: 1, Draft: sale.Draft{
			SKU: "sku", Title: "Title", Price: 1999, Currency: "CNY", Stock: 10, PerUser: 1, StartsAt: Start(), EndsAt: Start().Add(time.Hour),
			Headroom: 3, Queue: sale.Fifo, PayWithin: 15 * time.Minute, TokenFor: 30 * time.Second,
		}},
		Free: 10, Poll: time.Second, Now: Start(),
	}
}

// Summary returns the status, the layer and the reason of a response.
func Summary(w *httptest.ResponseRecorder) string {
	_, reason, _ := strings.Cut(w.Body.String(), `"reason":"`)
	reason, _, _ = strings.Cut(reason, `"`)
	return strings.TrimSpace(fmt.Sprint(w.Code, " ", w.Header().Get("Flashsale-Layer"), " ", reason))
}
